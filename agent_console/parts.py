"""The parts that the console shows and acts on. agent_runtime builds them; protocols stand for what lies above."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agent_config import Settings
from agent_console.record_file import RecordFile
from agent_protocol.ledger import Ledger
from agent_protocol.moderation.stops import Stops
from agent_protocol.record.entries import Entry
from agent_protocol.wire.bus import Bus
from agent_protocol.wire.coordinator_commands import CoordinatorCommands


class LiveChannels(Protocol):
    """The channels as the bots of this process see them."""

    def names(self) -> Mapping[int, str]:
        """Channel id → name, of the channels that are known by now."""
        ...


class People(Protocol):
    """Local mode only: a person who writes and reacts from the console."""


class Replayer(Protocol):
    """Makes recorded calls again, with one thing changed."""


class Notes(Protocol):
    """Takes notes for the record; the caller never waits."""

    def note(self, note: Entry) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ConsoleParts:
    """`store` reads the record: `await parts.store.open()`. `people` is None outside local mode. `names` and `colours`
    (0xRRGGBB) are by agent. `clock` gives unix seconds."""

    settings: Settings
    names: Mapping[str, str]
    colours: Mapping[str, int]
    ledger: Ledger
    bus: Bus
    orders: CoordinatorCommands
    stops: Stops
    live: LiveChannels
    store: RecordFile
    notes: Notes | None = None
    people: People | None = None
    replayer: Replayer | None = None
    version: str = ""
    clock: Callable[[], float] = time.time

    @property
    def is_local(self) -> bool:
        return self.people is not None
