"""Which models go on with an answer that was begun for them, and the memory of those that turned out not to.

The table is in `profiles.py`: Claude up to 4.5, and other makers' models by a documented prefix mode or by plain
completions; never Claude from 4.6 on, OpenAI's, Google's and xAI's own. A name that the table does not know is tried:
a server that refuses says so, once, and is remembered for as long as the process lives.

    if options.mode == "prefill" and memory.takes(model.name):
        try:
            return await model.complete(begun, history)
        except PrefillRefused as error:
            memory.refused(error)
    return await model.complete(prompt, chat_history)
"""

from __future__ import annotations

import logging

from agent_llm.errors import PrefillRefused
from agent_llm.profiles import PROVIDERS, profile_of

log = logging.getLogger(__name__)


def takes_prefill(name: str) -> bool:
    """What the table says of `provider/model`; a provider of another name is an OpenAI-compatible address."""
    provider, _, model = name.partition("/")
    return profile_of(provider if provider in PROVIDERS else "compatible", model).prefill


class PrefillMemory:
    """The table, corrected by what happened. One for the process."""

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def takes(self, name: str) -> bool:
        """Whether it is worth asking `provider/model` to go on with a begun answer."""
        if name not in self._refused and not takes_prefill(name):
            self._note(name)
        return name not in self._refused

    def refused(self, error: PrefillRefused) -> None:
        """Remember the model that refused; `error` carries its provider and its name."""
        self._note(f"{error.provider}/{error.model}")

    def _note(self, name: str) -> None:
        if name not in self._refused:
            self._refused.add(name)
            log.warning("%s does not go on with a begun answer: its turns are in chat mode", name)
