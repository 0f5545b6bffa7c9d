"""Which models continue a prefilled answer, and a memory of those that turned out not to.

The table is in `profiles.py`: Claude up to 4.5, and other makers' models by a documented prefix mode or by plain
completions. Claude from 4.6 on and OpenAI's, Google's and xAI's own models do not. A model that the table does not know
is tried; if its server refuses, that is remembered for the life of the process.

    if options.mode == "prefill" and memory.takes(model.name):
        try:
            return await model.complete(prefilled, history)
        except PrefillRefused as error:
            memory.refused(error)
    return await model.complete(prompt, chat_history)
"""

from __future__ import annotations

import logging

from agentic.llm.errors import PrefillRefused
from agentic.llm.profiles import PROVIDERS, profile_of

log = logging.getLogger(__name__)


def takes_prefill(name: str) -> bool:
    """Look `provider/model` up in the table. An unknown provider counts as an OpenAI-compatible address."""
    provider, _, model = name.partition("/")
    return profile_of(provider if provider in PROVIDERS else "compatible", model).prefill


class PrefillMemory:
    """The table, corrected by experience. One for the process."""

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def takes(self, name: str) -> bool:
        """Whether it is worth asking `provider/model` to continue a prefilled answer."""
        if name not in self._refused and not takes_prefill(name):
            self._note(name)
        return name not in self._refused

    def refused(self, error: PrefillRefused) -> None:
        """Remember the model that refused."""
        self._note(f"{error.provider}/{error.model}")

    def _note(self, name: str) -> None:
        if name not in self._refused:
            self._refused.add(name)
            log.warning("%s does not continue a prefilled answer: its turns use chat mode", name)
