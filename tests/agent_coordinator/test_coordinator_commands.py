"""What comes of an owner's command, told to whoever gave it an id."""

from __future__ import annotations

import asyncio

from agent_coordinator.context import CoordinatorContext
from agent_coordinator.coordinator import Coordinator
from agentic.state.silence import Scope
from agentic.wire import keys
from agentic.wire.connection import StateUnavailable
from agentic.wire.messages import Command, CommandOutcome
from tests.support.coordinator_doubles import CHANNEL, Luck, MemoryBus, MemoryState, Time, config, room, skipper, until
from tests.support.doubles import lone_silence


class Led:
    """A coordinator at work. `release` lets the talking go on."""

    def __init__(self, bus: MemoryBus, **changes: object) -> None:
        self.bus, self.time = bus, Time()
        self.silence = lone_silence(self.time.clock)

        async def sleep(seconds: float) -> None:
            await (self.time.sleep(seconds) if seconds < 3600 else asyncio.Event().wait())

        plain = {"schedule_min": 0, "schedule_max": 0, "max_rounds": 1, **changes}
        self.coordinator = Coordinator(
            CoordinatorContext(
                config(**plain),
                bus,
                MemoryState(),
                clock=self.time.clock,
                rng=Luck(),
                sleep=sleep,
                silence=self.silence,
            )
        )

    async def __aenter__(self) -> Led:
        self._task = asyncio.create_task(self.coordinator.run())
        await until(lambda: self.coordinator.acting)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def outcomes(self) -> list[tuple[str, str, int | None]]:
        told = [message for channel, message in self.bus.published if channel == keys.COORDINATOR_OUTCOMES]
        return [(m.command_id, m.outcome, m.channel_id) for m in told if isinstance(m, CommandOutcome)]

    async def give(self, **fields: object) -> str:
        before = len(self.outcomes())
        self.bus.command(Command(command_id=f"c{before}", **{"command": "start", **fields}))
        await until(lambda: len(self.outcomes()) > before)
        return self.outcomes()[before][1]


async def test_a_start_is_told_when_the_conversation_begins_and_once():
    bus = room("claude", "grok")
    go_on = asyncio.Event()
    voice = bus.voices["claude"]

    async def slow(instruction):
        await go_on.wait()
        return voice(instruction)

    bus.voices = dict.fromkeys(bus.voices, slow)
    async with Led(bus) as led:
        assert await led.give(channel_id=CHANNEL) == "started", "nobody has said a word yet"
        assert await led.give(channel_id=CHANNEL) == "busy"
        go_on.set()
        await until(lambda: not led.coordinator.engine.locks.busy)
        assert [outcome for _, outcome, _ in led.outcomes()] == ["started", "busy"]
        assert {channel for _, _, channel in led.outcomes()} == {CHANNEL}


async def test_a_start_without_a_channel_is_told_where_it_is():
    async with Led(room("claude", "grok")) as led:
        assert await led.give() == "started"
        assert led.outcomes()[0][2] in led.coordinator._context.config.channels


async def test_what_stands_against_a_start_is_told():
    async with Led(room("claude", "grok")) as led:
        assert await led.give(channel_id=424242) == "unknown_channel"
        await led.silence.stop(Scope.channel(CHANNEL), source="m1")
        assert await led.give(channel_id=CHANNEL) == "stopped"
        assert await led.give(command="dance") == "unknown_command"
        assert led.bus.asked == []


async def test_without_agents_there_is_nobody_to_start():
    async with Led(MemoryBus(), agents=()) as led:
        assert await led.give(channel_id=CHANNEL) == "no_agents"


async def test_who_gives_no_id_is_told_nothing():
    async with Led(room("claude", "grok")) as led:
        led.bus.command(Command(command="start", channel_id=CHANNEL))
        await until(lambda: led.bus.asked)
        assert led.outcomes() == []


async def test_an_outcome_that_cannot_be_told_ends_nothing():
    bus = room("claude", "grok")

    async def away(channel: str, message: object) -> int:
        raise StateUnavailable("gone")

    bus.publish = away  # type: ignore[method-assign]
    async with Led(bus) as led:
        bus.command(Command(command="start", command_id="c", channel_id=CHANNEL))
        await until(lambda: len(bus.asked) >= 2)
        assert led.coordinator.acting


async def test_a_muted_agent_is_passed_over_as_if_it_were_not_there():
    bus = room("claude", "grok")
    bus.voices["grok"] = skipper("grok", "muted")
    async with Led(bus, agents=("claude", "grok")) as led:
        report = await led.coordinator.start_conversation(CHANNEL)
    assert report is not None
    assert (report.counts.total.absences, report.skips) == (1, 0)


async def test_a_conversation_that_starts_by_itself_is_not_the_owners():
    async with Led(room("claude", "grok")) as led:
        engine, other = led.coordinator.engine, max(led.coordinator._context.config.channels)

        async def start_while_another_starts(*_, **__) -> None:
            await engine.converse(other, "debate")

        led.coordinator._commands._start = start_while_another_starts
        assert await led.give() == "none_free"
