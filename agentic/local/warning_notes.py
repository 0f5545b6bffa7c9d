"""Warnings of the log as notes in the terminal: none twice a minute, and a failing model in one line a minute."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from agentic.llm.errors import (
    BadAnswer,
    BadKey,
    BadRequest,
    ConnectionFailed,
    ModelError,
    NotInstalled,
    PromptTooLong,
    QuotaUsedUp,
    RateLimited,
    ServerFailed,
    TimedOut,
)
from agentic.settings.models import KEY_SETTINGS

EVERY_SECONDS = 60.0
MODEL_CALLS = "agentic.llm."  # each attempt is logged there; the failure of the turn is what a person wants to know
ADVICE: Mapping[type[ModelError], str] = {
    BadKey: "check its API key in .env",
    QuotaUsedUp: "add money or quota at the provider",
    ConnectionFailed: "check the network, or start the model's server",
    RateLimited: "wait a minute",
    ServerFailed: "try again later",
    TimedOut: "ask for less, or give it a faster model",
    PromptTooLong: "load it with a longer context, or lower CONTEXT_WINDOW_SIZE",
    BadRequest: "check the model's name in .env",
    BadAnswer: "ask again, or give it another model",
    NotInstalled: "install the package that the log names",
}


class WarningNotes(logging.Handler):
    """Passes warnings to `note`. `names` maps agents to shown names, `log_file` has the details."""

    def __init__(
        self,
        note: Callable[[str], None],
        redact: Callable[[str], str],
        names: Mapping[str, str],
        log_file: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(logging.WARNING)
        self._note, self._redact, self._names, self._log_file, self._clock = note, redact, names, log_file, clock
        self._noted: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        arguments = record.args if isinstance(record.args, tuple) else ()
        failed = next((one for one in arguments if isinstance(one, ModelError)), None)
        if failed is None or record.levelno > logging.WARNING:
            text = f"{record.levelname.lower()}: {self._redact(record.getMessage())}"
            self._note_rarely(text, text)
        elif not record.name.startswith(MODEL_CALLS):
            self._note_rarely(str(arguments[0]), self._of_model(str(arguments[0]), failed))

    def _of_model(self, agent: str, failed: ModelError) -> str:
        """A line about the failure of an agent's model: what happened, and what to do."""
        advice = next((text for kind, text in ADVICE.items() if isinstance(failed, kind)), "")
        if isinstance(failed, BadKey) and (setting := KEY_SETTINGS.get(failed.provider)):
            advice = f"check {setting} in .env"
        done = f"{self._names.get(agent, agent)} could not answer, {failed.kind} ({failed.model})"
        return f"{done}{f'; {advice}' if advice else ''}. More is in {self._log_file}"

    def _note_rarely(self, subject: str, text: str) -> None:
        """Pass the text on, unless there was a note on the subject within the last minute."""
        now = self._clock()
        self._noted = {noted: at for noted, at in self._noted.items() if now - at < EVERY_SECONDS}
        if subject not in self._noted:
            self._noted[subject] = now
            self._note(text)
