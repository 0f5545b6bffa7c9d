"""Protocols of the bus and the stores, as far as the coordinator uses them; agentic.state implements them.

Each call may raise `RedisAway` (agentic/wire/connection.py): `until_back` tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from agent_coordinator.config import REDIS_RETRY_SECONDS
from agentic.state.conversations import Pulls
from agentic.state.idle import Candidate, IdleState, Sent
from agentic.state.rooms import Room, RoomStatus
from agentic.state.schedule import Slot
from agentic.wire.connection import RedisAway
from agentic.wire.messages import Instruction, MentionNotice, Result, WireMessage

Start = Callable[[Coroutine[Any, Any, None], str], object]  # runs a task of that name
Clock = Callable[[], float]  # unix seconds
Sleep = Callable[[float], Awaitable[object]]

T = TypeVar("T")


class Bus(Protocol):
    ready: asyncio.Event  # set while Redis is there and every subscription confirmed

    async def ask(self, agent: str, instruction: Instruction, *, absent_grace: float | None) -> Result: ...

    async def publish(self, channel: str, message: WireMessage, /) -> int: ...

    def on_notice(self, callback: Callable[[MentionNotice], None], /) -> object: ...

    def subscribe(self, channel: str, handler: Callable[[str], Awaitable[None] | None], /) -> object: ...

    def unsubscribe(self, channel: str, /) -> object: ...

    def listen_to(self, agent: str) -> object: ...

    def grant_grace(self) -> object: ...


class ScheduleStore(Protocol):
    """Day plans, queues and channel holds. Dates are local, YYYY-MM-DD."""

    async def load_schedule(self, date: str) -> list[Slot] | None: ...

    async def save_schedule(self, date: str, slots: Sequence[Slot]) -> None: ...

    async def claim_slot(self, date: str, index: int, at: float) -> bool: ...

    async def change_schedule(self, date: str, change: Callable[[list[Slot]], list[Slot] | None]) -> bool: ...

    async def next_channel(self, date: str, fresh: Sequence[int]) -> int | None: ...

    async def next_starter(self, channel_id: int, fresh: Sequence[str]) -> str: ...

    async def take_reactive(self, channel_id: int, cooldown: float) -> bool: ...

    async def hold_channel(self, channel_id: int, holder: str, ttl: float, epoch: int) -> bool: ...

    async def release_channel(self, channel_id: int, holder: str, epoch: int) -> None: ...

    async def release_all_channels(self) -> None: ...


class ConversationStore(Protocol):
    """Running conversations, for the next leader; rooms with theirs."""

    async def keep(
        self, channel_id: int, conversation_id: str, state: str | None, epoch: int, room: Room | None
    ) -> bool: ...

    async def drop(self, channel_id: int, conversation_id: str, epoch: int) -> None: ...

    async def read(self, channel_id: int) -> str | None: ...

    async def kept(self) -> list[str]: ...


class RoomStore(Protocol):
    async def read(self, thread_id: int) -> Room | None: ...

    async def list(self, status: RoomStatus | None, limit: int | None) -> Sequence[Room]: ...


class PullStore(Protocol):
    """The pulls of a channel's last choice, for people who ask."""

    async def keep(self, pulls: Pulls, /) -> None: ...


class Presence(Protocol):
    async def online(self, agents: Collection[str]) -> set[str]: ...


class BackoffStore(Protocol):
    """Until when agents are in back-off, since their provider refuses them."""

    async def until(self, agent: str) -> float | None: ...


class IdleStore(Protocol):
    """The record, as idle tasks read it; agentic/record/idle_queries.py implements it.

    An agent takes part in a channel where the log has a message of its own. Times are unix seconds. Unlike the stores
    of Redis it raises nothing: a record that cannot be read has nothing.
    """

    async def newest(self, agent: str, task: str) -> int:
        """The newest thing that a task may be about, as an id: the newest logged message where the agent takes part, or
        for `discover` a profile that changed after it. 0 without a message."""
        ...

    async def to_summarise(self, agent: str, before: float, skip: Collection[int] = ()) -> Candidate | None:
        """A reply chain of three or more messages whose newest, older than `before`, is in no summary, and none of
        `skip`."""
        ...

    async def to_profile(self, agent: str, skip: Collection[int] = ()) -> Candidate | None:
        """A person with messages that are newer than what their profile knows, the newest none of `skip`; the material
        is those messages."""
        ...

    async def hanging(self, agent: str, before: float, count: int) -> tuple[Candidate, ...]:
        """The newest conversations of a person with the agent that ended before then, with no follow-up since."""
        ...

    async def people(self, agent: str, count: int) -> tuple[Candidate, ...]:
        """People with a profile, and the channel where they last talked with the agent; the newest first."""
        ...

    async def sent(self, since: float) -> tuple[Sent, ...]:
        """Messages that agents posted unasked since then, the oldest first."""
        ...

    async def consents(self) -> Mapping[int, bool]:
        """People who said whether they want messages that nobody asked for."""
        ...


class IdleStates(Protocol):
    """The state of idle tasks, for the next leader."""

    async def read(self) -> IdleState | None: ...

    async def write(self, state: IdleState, epoch: int) -> bool: ...

    async def result(self, agent: str, instruction_id: str) -> Result | None: ...


class Budgets(Protocol):
    async def used_up(self, agent: str, channel_id: int, date: str, *, idle: bool) -> Collection[str]: ...


class Mutes(Protocol):
    async def read(self, agents: Collection[str]) -> Mapping[str, float]: ...


class Ledger(Protocol):
    @property
    def schedule(self) -> ScheduleStore: ...

    @property
    def conversations(self) -> ConversationStore: ...

    @property
    def rooms(self) -> RoomStore: ...

    @property
    def presence(self) -> Presence: ...

    @property
    def pulls(self) -> PullStore: ...

    @property
    def backoffs(self) -> BackoffStore: ...

    @property
    def mutes(self) -> Mutes: ...

    @property
    def budgets(self) -> Budgets: ...

    @property
    def idle(self) -> IdleStates: ...


class Stops(Protocol):
    """The channels that people stopped; in memory, so that `holds` is cheap. `paused`: in all channels."""

    @property
    def paused(self) -> bool: ...

    def holds(self, channel_id: int) -> bool: ...

    def on_stop(self, callback: Callable[[int], Awaitable[None] | None], /) -> object: ...


class Lease(Protocol):
    """The right to act as the coordinator. `run` renews it, or takes it when it is free."""

    taken: asyncio.Event
    lost: asyncio.Event
    epoch: int  # of the last acquisition

    @property
    def held(self) -> bool: ...

    async def acquire(self, wait: float = 0.0) -> bool: ...

    async def run(self) -> None: ...

    async def release(self) -> None: ...


async def until_back(call: Callable[[], Awaitable[T]], sleep: Sleep) -> T:
    """Repeat the call until Redis is there. The bus logs that it is away."""
    while True:
        try:
            return await call()
        except RedisAway:
            await sleep(REDIS_RETRY_SECONDS)


async def sleep_unless(woken: asyncio.Event, seconds: float, sleep: Sleep) -> None:
    """Sleep for so many seconds, or until the event is set."""
    sleeping, waking = asyncio.ensure_future(_awaited(sleep(seconds))), asyncio.ensure_future(woken.wait())
    try:
        await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeping.cancel()
        waking.cancel()
        await asyncio.gather(sleeping, waking, return_exceptions=True)


async def _awaited(awaitable: Awaitable[object]) -> None:
    await awaitable
