"""A coordinator with rooms, among doubles of Redis, of the agents and of time."""

from __future__ import annotations

import asyncio
import random
from itertools import count
from typing import Any

from agent_coordinator.context import CoordinatorContext
from agent_coordinator.coordinator import Coordinator
from agentic.actions.texts import TEXTS
from agentic.state.rooms import Room, RoomMember
from agentic.wire import keys
from agentic.wire.messages import Command, CommandOutcome, Instruction, PersonNotice, Result, RoomOrder
from tests.support.agent_scene import KeptNotes
from tests.support.coordinator_doubles import (
    CHANNEL,
    Ids,
    Luck,
    MemoryBus,
    MemoryState,
    Time,
    Voice,
    config,
    talker,
    until,
)
from tests.support.doubles import lone_silence

THREAD = 5000
NAMES = ("claude", "grok", "historian")
WORDS = [f"{first}{last}" for first in "bdfgklmnprst" for last in ("ane", "olo", "urid", "esk", "ibbon", "awl", "ymp")]


def member(name: str) -> RoomMember:
    return RoomMember(name=name, shown=name.title())


def wanted(**changes: Any) -> Room:
    fields = {"thread_id": THREAD, "channel_id": CHANNEL, "conversation_id": "c", "topic": "tea", "turns": 4}
    return Room(**{**fields, "members": tuple(map(member, NAMES)), **changes})


class RoomTime(Time):
    """A clock that moves when somebody sleeps; while it is `held`, sleepers wait until the test lets them go."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.waiting, self._go = False, 0, asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if self.held:
            self.waiting += 1
            try:
                await self._go.wait()
            finally:
                self.waiting -= 1
        await super().sleep(seconds)

    def let_go(self) -> None:
        self.held = False
        self._go.set()


def converser(name: str, ids: Ids) -> Voice:
    """Always says something, and something else each time."""

    def voice(instruction: Instruction) -> Result:
        words = random.Random(ids.last).choices(WORDS, k=12)
        answer = talker(name, ids, text=" ".join(words))(instruction)
        assert isinstance(answer, Result)
        return answer

    return voice


class RoomScene:
    """A coordinator whose agents speak when the test lets them."""

    def __init__(self, **voices: Voice) -> None:
        ids = Ids()
        plain = {name: converser(name, ids) for name in (*NAMES, "poet")}
        self.bus, self.state, self.time = MemoryBus(**{**plain, **voices}), MemoryState(), RoomTime()
        self.silence, self.record, self._ids = lone_silence(self.time.clock), KeptNotes(), count()
        self._may_speak, self.free = asyncio.Semaphore(0), False
        self.bus.voices = {name: self._held(voice) for name, voice in self.bus.voices.items()}
        self._runs: list[asyncio.Task[None]] = []

    def _held(self, voice: Voice) -> Voice:
        async def hold(instruction: Instruction) -> Any:
            if not self.free:
                await self._may_speak.acquire()
            outcome = voice(instruction)
            return await outcome if asyncio.iscoroutine(outcome) else outcome

        return hold

    async def __aenter__(self) -> RoomScene:
        await self.lead()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.die()

    async def lead(self, **changes: Any) -> None:
        self.coordinator = Coordinator(
            CoordinatorContext(
                config(schedule_min=0, schedule_max=0, **changes),
                self.bus,
                self.state,
                clock=self.time.clock,
                rng=Luck(),
                sleep=self.time.sleep,
                silence=self.silence,
                record=self.record,
            )
        )
        self.coordinator.scheduler.run = _forever  # type: ignore[method-assign]  # its sleep would move the clock
        self._runs.append(asyncio.create_task(self.coordinator.run()))
        await until(lambda: self.coordinator.acting)

    async def die(self) -> None:
        """As by SIGKILL: what is in Redis stays as it is."""
        for run in self._runs:
            run.cancel()
        await asyncio.gather(*self._runs, return_exceptions=True)
        self._runs.clear()
        self.bus.handlers.clear()

    async def give(self, command: str, *, agent: str | None = None, thread: int | None = THREAD, **order: Any) -> str:
        number = f"{next(self._ids)}"
        room = RoomOrder(**order) if order else None
        self.bus.command(Command(command=command, command_id=number, channel_id=thread, agent_name=agent, room=room))
        await until(lambda: self._outcome(number))
        outcome = self._outcome(number)
        assert {outcome, f"opening_{outcome}"} & TEXTS.keys(), "there are words for it"
        return self._outcome(number)

    async def open(self, **changes: Any) -> str:
        return await self.give("room-open", room=wanted(**changes).model_dump_json())

    def _outcome(self, number: str) -> str:
        told = [each for _, each in self.bus.published if isinstance(each, CommandOutcome)]
        return next((each.outcome for each in told if each.command_id == number), "")

    async def speak(self, turns: int = 1) -> None:
        """So many more turns, and what follows from them is stored."""
        asked = len(self.bus.asked)
        for _ in range(turns):
            self._may_speak.release()
        await until(lambda: len(self.bus.asked) >= asked + turns or self.room.status != "active")

    async def talk(self) -> None:
        """Until the room pauses or closes."""
        self.free = True
        self._may_speak.release()
        await until(lambda: self.room.status != "active" and THREAD not in self.coordinator.engine.locks.busy)
        self.free = False

    def let_one_speak(self) -> None:
        self._may_speak.release()

    def hear(self, notice: PersonNotice) -> None:
        for handler in self.bus.handlers[keys.COORDINATOR_ACTIVITY]:
            handler(notice.to_wire())

    def person_writes(self, message_id: int, text: str = "", **fields: Any) -> None:
        self.hear(PersonNotice(channel_id=THREAD, message_id=message_id, text=text, **fields))

    @property
    def room(self) -> Room:
        return self.state.coordination.rooms.kept[THREAD]

    @property
    def numbers(self) -> list[int]:
        """Of the posts that were asked for, in order."""
        return [asked.room.turn_number for _, asked in self.bus.asked if asked.room is not None]

    def notes(self, kind: type[Any]) -> list[Any]:
        return [note for note in self.record if isinstance(note, kind)]


async def _forever(fire: object) -> None:
    del fire
    await asyncio.Event().wait()
