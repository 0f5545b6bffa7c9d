"""The parts that the console shows and acts on. agentic.runtime builds them; protocols stand for what lies above."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiohttp import web

from agent_config import Settings
from agentic.actions.console_rooms import NoRoomSide, RoomSide
from agentic.console.channels import LiveChannels, People
from agentic.console.record_file import RecordFile
from agentic.record.queries.turns import WholeTurn
from agentic.record.recording import OFF, ReadState
from agentic.state.shared_state import Ledger
from agentic.state.stops import Stops
from agentic.state.writer import NoRecord, Notes
from agentic.wire.bus import Bus
from agentic.wire.coordinator_commands import CoordinatorCommands
from agentic.wire.entries import ActionNote

CONSOLE = "console"  # who acts, in the record


@dataclass(frozen=True, slots=True)
class Change:
    """The one thing that a replay changes: the model (provider/model), or the persona, by its name."""

    model: str | None = None
    persona: str | None = None


class Replayer(Protocol):
    """Makes recorded turns again, with one thing changed; posts nothing. What is awaited raises Refused."""

    def personas(self) -> Sequence[str]:
        """The names of the personas that a replay may take."""
        ...

    def models(self) -> Sequence[str]:
        """The models that are set up, as provider/model."""
        ...

    async def estimate(self, turn: WholeTurn, change: Change) -> Mapping[str, Any]:
        """`most_usd`, `model` and `pictures_missing`, as JSON has them. Calls no model."""
        ...

    async def replay(self, turn: WholeTurn, change: Change) -> Mapping[str, Any]:
        """`old` and `new` answer, as JSON has them."""
        ...


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """A model of an agent with its prices: US dollars per million tokens, or for a picture.

    `known` is false for a model that no price table has: it counts as its provider's most expensive one. `usable` is
    false where its key is missing.
    """

    model: str  # provider/model
    input: float = 0.0
    cached: float = 0.0
    output: float = 0.0
    picture: float | None = None
    known: bool = True
    usable: bool = True


@dataclass(frozen=True, slots=True)
class BotState:
    """A bot of this process: the seconds to Discord's gateway and back, why the bot failed, in one line, and whether
    its account on Signal is connected; None for what is not known here."""

    latency: float | None = None
    failure: str | None = None
    signal: bool | None = None


def not_here(_: str) -> BotState:
    return BotState()


def no_prices(_: str) -> Sequence[ModelPrice]:
    return ()


@dataclass(frozen=True, kw_only=True)
class ConsoleParts:
    """`store` reads the record: `await parts.store.open()`. `people` is None outside local mode. `names` and `colours`
    (0xRRGGBB) are by agent, `reasons` and `endings` say in words why a turn did nothing and why a conversation ended.
    `prices` gives an agent's models, the preferred one first, `bot` the state of its bot, `recorder` that of this
    process's recorder; `routes` are served beside those of the console. `clock` gives unix seconds, `monotonic` seconds
    of a clock that is never set.
    """

    settings: Settings
    names: Mapping[str, str]
    colours: Mapping[str, int]
    ledger: Ledger
    bus: Bus
    orders: CoordinatorCommands
    stops: Stops
    live: LiveChannels
    store: RecordFile
    reasons: Mapping[str, str] = field(default_factory=dict)
    endings: Mapping[str, str] = field(default_factory=dict)
    prices: Callable[[str], Sequence[ModelPrice]] = no_prices
    bot: Callable[[str], BotState] = not_here
    recorder: ReadState = lambda: OFF
    notes: Notes = field(default_factory=NoRecord)
    people: People | None = None
    rooms: RoomSide = field(default_factory=NoRoomSide)
    replayer: Replayer | None = None
    routes: Sequence[web.RouteDef] = ()
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic

    @property
    def is_local(self) -> bool:
        return self.people is not None

    def note_action(self, action: str, *, channel_id: int | None, agent: str | None, detail: str, outcome: str) -> None:
        """Note what the owner did from the console."""
        note = ActionNote(
            id=secrets.token_hex(16),
            at=self.clock(),
            by=CONSOLE,
            action=action,
            channel_id=channel_id,
            agent=agent,
            detail=detail,
            outcome=outcome,
        )
        self.notes.note(note)
