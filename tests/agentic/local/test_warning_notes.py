"""Warnings in the terminal: what is shown of them, and how often."""

from __future__ import annotations

import logging

import pytest

from agentic.llm.errors import BadKey, ConnectionFailed, ModelError, Refused
from agentic.local.session import LogFile, WarningNotes


class Notes:
    """The notes that warnings become, over a clock that the test sets."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.now = 0.0
        names = {"claude": "Claude", "grok": "Grok"}
        self._handler = WarningNotes(self.shown.append, str, names, "data/local/the.log", lambda: self.now)

    def warn(self, text: str, *arguments: object, logger: str = "agentic.turn.turn", level: int = 30) -> None:
        self._handler.emit(logging.LogRecord(logger, level, "", 0, text, arguments, None))


@pytest.mark.promise(122)
def test_a_failing_model_is_one_line_a_minute_that_says_what_to_do() -> None:
    notes, failed = Notes(), ConnectionFailed("gone", provider="anthropic", model="claude-x")
    for second in (0, 10, 59, 60):
        notes.now = second
        notes.warn("model call: attempt %d failed: %s", 1, failed, logger="agentic.llm.model")
        notes.warn("%s: %s", "claude", failed)
    notes.warn("%s: drawing failed: %s", "grok", Refused(provider="xai", model="grok-x"))
    claude = (
        "Claude could not answer: no connection to the provider (claude-x); check the network, or start the model's"
        " server. Details: data/local/the.log"
    )
    grok = "Grok could not answer: the model declined to answer (grok-x). Details: data/local/the.log"
    assert notes.shown == [claude, claude, grok]


@pytest.mark.parametrize(
    ("provider", "advice"), [("xai", "check XAI_API_KEY in .env"), ("compatible", "check its API key in .env")]
)
def test_a_refused_key_is_named_by_its_setting(provider: str, advice: str) -> None:
    notes = Notes()
    notes.warn("%s: %s", "grok", BadKey(provider=provider, model="m"))
    assert advice in notes.shown[0]


def test_any_warning_is_shown_once_a_minute_and_an_error_of_a_provider_whole() -> None:
    notes, failed = Notes(), ModelError(provider="p", model="m")
    for _ in range(3):
        notes.warn("%s lacks a file", "grok")
        notes.warn("%s: no calls for 15 minutes: %s", "grok", failed, level=logging.ERROR)
    assert notes.shown == ["warning: grok lacks a file", f"error: grok: no calls for 15 minutes: {failed}"]


@pytest.mark.promise(131)
def test_a_log_that_the_disk_has_no_space_for_shows_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    file = LogFile("/dev/full")
    file.handle(logging.makeLogRecord({"msg": "a line"}))
    file.close()
    assert capsys.readouterr().err == ""
