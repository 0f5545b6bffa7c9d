"""Orders to stop, mute, ignore, and resume, in any order of arrival, with outages, restarts, and an emptied Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic.state.silence import ChannelRef, Scope, Silence, SilenceOrder
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection, StateUnavailable
from agentic.wire.messages import SilenceNotice
from tests.support.redis_server import PATIENT, empty_redis

T = TypeVar("T")

PROCESSES = 3
GUILDS = [None, 70, 71]
SCOPES = [
    Scope.channel(1),
    Scope.channel(2),
    *(Scope("all", guild=guild) for guild in GUILDS),
    *(Scope.agent("claude", guild) for guild in GUILDS),
    *(Scope.person(5, guild) for guild in GUILDS),
]
PLACES = [ChannelRef(1, guild_id=70), ChannelRef(3, 1, 70), ChannelRef(2, guild_id=71), ChannelRef(4)]

PROCESS, SCOPE = st.integers(0, PROCESSES - 1), st.sampled_from(SCOPES)
AGO = st.floats(0, 3000)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("stop"), PROCESS, SCOPE, st.floats(1, 2000), st.booleans()),
        st.tuples(st.just("resume"), PROCESS, SCOPE),
        st.tuples(st.just("find stop"), PROCESS, SCOPE, st.floats(1, 5000), AGO),
        st.tuples(st.just("find resume"), PROCESS, SCOPE, AGO),
        st.tuples(st.just("deliver"), PROCESS, st.integers(0, 1000)),
        st.tuples(st.sampled_from(["lose Redis", "find Redis", "read", "restart"]), PROCESS),
        st.tuples(st.just("empty Redis")),
        st.tuples(st.just("wait"), st.floats(0, 1500)),
    ),
    max_size=40,
)


class UnsteadyLink(RedisConnection):
    """A connection that the test breaks and mends."""

    is_broken = False

    async def call(self, command: Callable[..., Awaitable[T]]) -> T:
        if self.is_broken:
            raise StateUnavailable("by the test")
        return await super().call(command)


class Processes:
    """Several processes at one Redis, and what was ordered so far."""

    def __init__(self, links: list[UnsteadyLink]) -> None:
        self.now, self.links = 1_800_000_000.0, links
        self.processes = [self._start(link) for link in links]
        self.notices: list[str] = []
        self.ordered: dict[Scope, list[SilenceOrder]] = {scope: [] for scope in SCOPES}

    def clock(self) -> float:
        return self.now

    def _start(self, link: RedisConnection) -> Silence:
        return Silence(link, Bus(link), self.clock)

    async def step(self, what: str, *given: Any) -> None:
        self.now = round(self.now + 1, 3)
        await getattr(self, what.replace(" ", "_").lower())(*given)
        fields = await self.links[-1].commands.hgetall(keys.SILENCE)
        notices = (_notice(field, text) for field, text in fields.items() if field != "-")
        self.notices += [notice for notice in notices if notice not in self.notices]

    def _is_silent(self, process: Silence, scope: Scope) -> bool:
        return any(order.scope == scope for order in process.active())

    def _note(self, scope: Scope, until: float, at: float, source: str = "") -> None:
        self.ordered[scope].append(SilenceOrder(scope, round(until, 3), round(at, 3), source))

    async def stop(self, number: int, scope: Scope, seconds: float, has_source: bool) -> None:
        process, source = self.processes[number], f"m{self.now}" if has_source else ""
        outcome = await process.stop(scope, seconds, source=source)
        assert outcome == "first" or (outcome == "known" and not has_source)
        assert self._is_silent(process, scope), "a stop is never refused"
        if outcome == "first":
            self._note(scope, self.now + seconds, self.now, source)

    async def resume(self, number: int, scope: Scope) -> None:
        process = self.processes[number]
        await process.resume(scope)
        assert not self._is_silent(process, scope)
        self._note(scope, 0.0, self.now)

    async def find_stop(self, number: int, scope: Scope, seconds: float, ago: float) -> None:
        said = self.now - ago
        source = f"m{said}"
        await self.processes[number].stop(scope, seconds, source=source, at=said, late=True)
        self._note(scope, said + seconds, said, source)

    async def find_resume(self, number: int, scope: Scope, ago: float) -> None:
        said = self.now - ago
        await self.processes[number].resume(scope, at=said, late=True)
        self._note(scope, 0.0, said)

    async def deliver(self, number: int, which: int) -> None:
        """Notices come late, twice, in another order, or never."""
        if self.notices:
            await self.processes[number]._on_notice(self.notices[which % len(self.notices)])

    async def lose_redis(self, number: int) -> None:
        self.links[number].is_broken = True

    async def find_redis(self, number: int) -> None:
        self.links[number].is_broken = False

    async def read(self, number: int) -> None:
        if not self.links[number].is_broken:
            await self.processes[number].read()

    async def restart(self, number: int) -> None:
        """What Redis does not know would be lost with the process, so it writes that before."""
        if not self.links[number].is_broken:
            if self.processes[number].is_out_of_sync or await self.processes[number].is_lost():
                await self.read(number)
            self.processes[number] = self._start(self.links[number])
            await self.processes[number].read()

    async def empty_redis(self) -> None:
        await self.links[-1].commands.flushall()

    async def wait(self, seconds: float) -> None:
        self.now = round(self.now + seconds, 3)

    async def settle(self) -> None:
        for link in self.links:
            link.is_broken = False
        for _ in range(2):
            for process in self.processes:
                await process.read()
        self.processes.append(self._start(self.links[-1]))
        await self.processes[-1].read()


def _notice(field: str, text: str) -> str:
    """The notice that was published with this field of the hash."""
    return SilenceNotice(scope=field, **json.loads(text)).to_wire()


def answers(process: Silence) -> list[object]:
    return [
        {order.scope for order in process.active()},
        [process.check(place, "claude") for place in PLACES],
        [process.muted_agents(guild) for guild in GUILDS],
        [process.ignored_people(guild) for guild in GUILDS],
        [process.is_ignored(5, guild) for guild in GUILDS],
        [process.answered_until(place) for place in PLACES],
    ]


def assert_guilds_apart(process: Silence) -> None:
    """What is silent in a guild is silent by the orders for it, and by those for everywhere, alone."""
    scopes = {order.scope for order in process.active()}
    for place in PLACES:
        silenced = process.check(place, "claude")
        guilds = {None, place.guild_id}
        expected = {scope for scope in scopes if scope.kind in ("all", "agent") and scope.guild in guilds}
        expected |= {scope for scope in scopes if scope.kind == "channel" and scope.covers(place)}
        assert (silenced.scope in expected) if silenced is not None else not expected
    for guild in GUILDS:
        assert process.is_ignored(5, guild) == (not scopes.isdisjoint({Scope.person(5), Scope.person(5, guild)}))


async def play(steps: list[tuple[Any, ...]]) -> None:
    url = empty_redis()
    async with AsyncExitStack() as stack:
        links = [await stack.enter_async_context(UnsteadyLink(url, command_timeout=PATIENT)) for _ in range(PROCESSES)]
        scene = Processes(links)
        for process in scene.processes:
            await process.read()
        for step in steps:
            await scene.step(*step)
        await scene.settle()
        for process in scene.processes:
            assert answers(process) == answers(scene.processes[0])
            assert_guilds_apart(process)
        for scope, orders in scene.ordered.items():
            newest = max(orders, key=lambda order: order.rank, default=None)
            wanted = newest is not None and newest.until > scene.now
            assert scene._is_silent(scene.processes[0], scope) == wanted, (scope, orders)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_every_process_gives_the_same_answer_and_no_stop_is_refused_or_revived(steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(play(steps))
