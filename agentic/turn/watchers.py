"""Watchers of turns: the record's writer, notices for the console, telemetry. No turn waits for any of them."""

from __future__ import annotations

import logging
from typing import Protocol

from agentic.state.record_stream import TurnWords
from agentic.state.turn_records import TurnRecord
from agentic.wire.messages import TurnNotice

log = logging.getLogger(__name__)


class TurnWatcher(Protocol):
    """Hears of turns that begin, once no limit forbids them, and of all that end. Neither method waits for anything.

    The methods of `words` take their time and belong into a thread.
    """

    def began(self, notice: TurnNotice) -> None: ...
    def ended(self, record: TurnRecord, words: TurnWords) -> None: ...


class Nobody:
    """No watcher."""

    def began(self, notice: TurnNotice) -> None:
        del notice

    def ended(self, record: TurnRecord, words: TurnWords) -> None:
        del record, words


class TurnWatchers:
    """Several watchers as one. One that fails is logged; it affects neither the turn nor the others."""

    def __init__(self, *watchers: TurnWatcher) -> None:
        self._watchers = list(watchers)

    def add(self, watcher: TurnWatcher) -> None:
        self._watchers.append(watcher)

    def began(self, notice: TurnNotice) -> None:
        for watcher in self._watchers:
            try:
                watcher.began(notice)
            except Exception:
                log.exception("%s failed at the beginning of a turn", type(watcher).__name__)

    def ended(self, record: TurnRecord, words: TurnWords) -> None:
        for watcher in self._watchers:
            try:
                watcher.ended(record, words)
            except Exception:
                log.exception("%s failed at the end of a turn", type(watcher).__name__)
