"""What the coordinator's tests put in place of Redis and of time: the same methods, in memory."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

from agent_coordinator.config import CoordinatorConfig
from agent_coordinator.policies.policy import ConversationPolicy
from agentic.state.conversation_state import ConversationState
from agentic.state.conversations import SpeakerChoice, read_state, read_states
from agentic.state.idle import IdleState
from agentic.state.rooms import Room, RoomStatus
from agentic.state.schedule import Slot, hold_of
from agentic.wire import keys
from agentic.wire.bus import AgentAbsent
from agentic.wire.connection import StateUnavailable, or_default
from agentic.wire.messages import Command, Instruction, MentionNotice, Result, TurnUsage, WireMessage

AGENTS = ("chatgpt", "claude", "gemini", "grok")
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 6, 10, 12, 0, tzinfo=BERLIN).timestamp()
CHANNEL = 100
OTHER_CHANNEL = 200

Voice = Callable[[Instruction], Result | Exception | Awaitable[Result | Exception | None] | None]


def config(**changes: Any) -> CoordinatorConfig:
    """Four agents, two channels, no delays, no chance encounters."""
    plain = CoordinatorConfig(
        agents=AGENTS,
        channels={CHANNEL: "debate", OTHER_CHANNEL: "memes"},
        timezone=BERLIN,
        turn_delay_min=0.0,
        turn_delay_max=0.0,
        max_rounds=3,
    )
    return replace(plain, **changes)


def changed(state: ConversationState, **values: Any) -> ConversationState:
    """The state with these values, of itself and of its parts."""
    for name in ("queue", "talk", "counts"):
        part: Any = getattr(state, name)
        own = {field: values.pop(field) for field in part.__slots__ if field in values}
        values[name] = replace(part, **own)
    return replace(state, **values)


def conversation(channel_id: int = 1, **values: Any) -> ConversationState:
    """A debate that begins at 0.0, with these values, of itself and of its parts."""
    return changed(ConversationState("c", channel_id, "debate", started_at=0.0), **values)


class OnePolicy:
    """The policy of every conversation."""

    def __init__(self, policy: ConversationPolicy) -> None:
        self._policy = policy

    def name_for(self, channel_id: int, theme: str) -> str:
        return "rounds"

    def of(self, state: ConversationState) -> ConversationPolicy:
        return self._policy


class Luck(random.Random):
    """Shuffles like any other; `random()` gives what the test wants, so that chance never ends a conversation."""

    def __init__(self, value: float = 0.0, seed: int = 1) -> None:
        super().__init__(seed)
        self.value = value

    def random(self) -> float:
        return self.value

    def getrandbits(self, k: int) -> int:  # a subclass with its own random() would otherwise shuffle by it
        return super().getrandbits(k)


class Time:
    """A clock that moves only when somebody sleeps."""

    def __init__(self, now: float = NOON) -> None:
        self.now = now
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class MemorySchedule:
    """`away` counts how many of the next calls find no Redis."""

    def __init__(self) -> None:
        self.away = 0
        self.schedules: dict[str, list[Slot]] = {}
        self.channel_queues: dict[str, list[int]] = {}
        self.starters: dict[int, list[str]] = defaultdict(list)
        self.holders: dict[int, str] = {}
        self.epoch = 0  # of whoever leads now
        self.reactive_until: set[int] = set()
        self.reactive_asked = 0

    def _here(self) -> None:
        if self.away > 0:
            self.away -= 1
            raise StateUnavailable("the double is away")

    async def load_schedule(self, date: str) -> list[Slot] | None:
        self._here()
        plan = self.schedules.get(date)
        return None if plan is None else list(plan)

    async def save_schedule(self, date: str, slots: Sequence[Slot]) -> None:
        self._here()
        self.schedules[date] = list(slots)

    async def claim_slot(self, date: str, index: int, at: float) -> bool:
        self._here()
        slot = self.schedules[date][index]
        if slot.at != at:
            return False
        self.schedules[date][index] = replace(slot, done=True)
        return not slot.done

    async def change_schedule(self, date: str, change: Callable[[list[Slot]], list[Slot] | None]) -> bool:
        self._here()
        changed = change(list(self.schedules.get(date, [])))
        if changed is not None:
            self.schedules[date] = changed
        return changed is not None

    async def next_channel(self, date: str, fresh: Sequence[int]) -> int | None:
        self._here()
        queue = self.channel_queues.setdefault(date, list(fresh))
        return queue.pop(0) if queue else None

    async def next_starter(self, channel_id: int, fresh: Sequence[str]) -> str:
        self._here()
        if not self.starters[channel_id]:
            self.starters[channel_id] = list(fresh)
        return self.starters[channel_id].pop(0)

    @or_default(False, "no round")
    async def take_reactive(self, channel_id: int, cooldown: float) -> bool:
        self._here()
        self.reactive_asked += 1
        if channel_id in self.reactive_until:
            return False
        self.reactive_until.add(channel_id)
        return True

    async def hold_channel(self, channel_id: int, holder: str, ttl: float, epoch: int = 0) -> bool:
        self._here()
        if self.overtaken(epoch):
            return False
        return self.holders.setdefault(channel_id, hold_of(holder, epoch)) == hold_of(holder, epoch)

    @or_default(None, "no release")
    async def release_channel(self, channel_id: int, holder: str, epoch: int = 0) -> None:
        self._here()
        if self.holders.get(channel_id) == hold_of(holder, epoch):
            del self.holders[channel_id]

    def overtaken(self, epoch: int) -> bool:
        return 0 < epoch < self.epoch

    async def release_all_channels(self) -> None:
        self._here()
        self.holders.clear()


class MemoryConversations:
    """By channel: the conversation's id and its state. `holders` as in Redis: only who holds the channel is kept."""

    def __init__(self, schedule: MemorySchedule, rooms: MemoryRooms) -> None:
        self.schedule, self.rooms = schedule, rooms
        self.states: dict[int, tuple[str, str]] = {}

    async def keep(
        self,
        channel_id: int,
        conversation_id: str,
        state: str | None,
        epoch: int = 0,
        room: Room | None = None,
        hold: float = 0.0,
    ) -> bool:
        if hold:
            await self.schedule.hold_channel(channel_id, conversation_id, hold, epoch)
        ours = self.schedule.holders.get(channel_id) == hold_of(conversation_id, epoch)
        ours = ours and not self.schedule.overtaken(epoch)
        if ours:
            self.states.pop(channel_id, None)
            if state is not None:
                self.states[channel_id] = (conversation_id, state)
            if room is not None:
                self.rooms.write(room)
        return ours

    async def drop(self, channel_id: int, conversation_id: str, epoch: int = 0) -> None:
        if not self.schedule.overtaken(epoch) and self.states.get(channel_id, ("",))[0] == conversation_id:
            del self.states[channel_id]

    async def read(self, channel_id: int, *, at_rest: bool = False) -> ConversationState | None:
        state = read_state(self.states[channel_id][1]) if channel_id in self.states else None
        return None if state is None or (state.is_at_rest and not at_rest) else state

    async def kept(self) -> list[ConversationState]:
        return read_states([state for _, state in self.states.values()])


class MemoryRooms:
    """By thread. `changes` are all that a room has been, one after another."""

    def __init__(self) -> None:
        self.kept: dict[int, Room] = {}
        self.changes: list[Room] = []

    def write(self, room: Room) -> None:
        if self.kept.get(room.thread_id) != room:
            self.kept[room.thread_id] = room
            self.changes.append(room)

    async def read(self, thread_id: int) -> Room | None:
        return self.kept.get(thread_id)

    async def list(self, status: RoomStatus | None = None, limit: int | None = None) -> list[Room]:
        found = sorted(self.kept.values(), key=lambda room: -room.changed_at)
        return [room for room in found if status in (None, room.status)][:limit]


class MemoryPresence:
    """Everybody of `arriving` is online once `polls` polls were made."""

    def __init__(self, arriving: Collection[str] = AGENTS, polls: int = 0) -> None:
        self.arriving = set(arriving)
        self.polls = polls
        self.polled = 0
        self.in_servers: dict[int, int] = {}

    async def servers(self, _: Collection[str]) -> dict[int, int]:
        return self.in_servers

    async def online(self, agents: Collection[str]) -> set[str]:
        self.polled += 1
        return self.arriving & set(agents) if self.polled > self.polls else set()


class MemoryRests:
    """Until when agents rest."""

    def __init__(self) -> None:
        self.ends: dict[str, float] = {}

    async def until(self, agent: str) -> float | None:
        return self.ends.get(agent)


class MemoryChoices:
    def __init__(self) -> None:
        self.kept: list[SpeakerChoice] = []

    async def keep(self, pulls: SpeakerChoice) -> None:
        self.kept.append(pulls)


class UsedUp:
    """Which of the day's budgets are used up."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    async def used_up(self, agent: str, channel_id: int, date: str, *, idle: bool = False) -> list[str]:
        return [kind for kind in self.kinds if idle or kind != "idle"]


class MemoryIdleStates:
    """The state of idle tasks. `epoch` is that of whoever leads now; `away` counts the next calls that find no Redis;
    `results` by instruction."""

    def __init__(self) -> None:
        self.state: IdleState | None = None
        self.epoch, self.away, self.written = 0, 0, 0
        self.results: dict[str, Result] = {}

    def _here(self) -> None:
        if self.away > 0:
            self.away -= 1
            raise StateUnavailable("the double is away")

    async def read(self) -> IdleState | None:
        self._here()
        return self.state

    async def write(self, state: IdleState, epoch: int) -> bool:
        self._here()
        if 0 < epoch < self.epoch:
            return False
        self.state, self.written = state, self.written + 1
        return True

    async def result(self, agent: str, instruction_id: str) -> Result | None:
        self._here()
        return self.results.get(instruction_id)


class MemoryState:
    def __init__(self) -> None:
        schedule, rooms = MemorySchedule(), MemoryRooms()
        self.coordination = SimpleNamespace(
            scores=MemoryChoices(),
            backoffs=MemoryRests(),
            schedule=schedule,
            rooms=rooms,
            conversations=MemoryConversations(schedule, rooms),
            presence=MemoryPresence(),
            idle=MemoryIdleStates(),
        )
        self.limits = SimpleNamespace(budgets=UsedUp())


class MemoryBus:
    """Agents are functions from an instruction to a result; None or a missing one is an absent agent."""

    def __init__(self, **voices: Voice) -> None:
        self.ready = asyncio.Event()
        self.ready.set()
        self.voices: dict[str, Voice] = dict(voices)
        self.asked: list[tuple[str, Instruction]] = []
        self.published: list[tuple[str, WireMessage]] = []
        self.listened_to: set[str] = set()
        self.graces = 0
        self.notices: list[Callable[[MentionNotice], Any]] = []
        self.handlers: dict[str, list[Callable[[str], Any]]] = defaultdict(list)

    async def ask(self, agent: str, instruction: Instruction, *, absent_grace: float | None = None) -> Result:
        self.asked.append((agent, instruction))
        await asyncio.sleep(0)
        voice = self.voices.get(agent)
        outcome = voice(instruction) if voice else None
        if isinstance(outcome, Awaitable):
            outcome = await outcome
        if outcome is None:
            raise AgentAbsent(f"nobody listens for {agent}")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def publish(self, channel: str, message: WireMessage) -> int:
        self.published.append((channel, message))
        return 1

    @or_default(0, "nothing is sent")
    async def announce(self, channel: str, message: WireMessage) -> int:
        return await self.publish(channel, message)

    def on_notice(self, callback: Callable[[MentionNotice], Any]) -> None:
        self.notices.append(callback)

    def subscribe(self, channel: str, handler: Callable[[str], Any]) -> None:
        self.handlers[channel].append(handler)

    def unsubscribe(self, channel: str) -> None:
        self.handlers.pop(channel, None)

    def listen_to(self, agent: str) -> None:
        self.listened_to.add(agent)

    def grant_grace(self) -> None:
        self.graces += 1

    # the test's side

    def speakers(self) -> list[str]:
        return [agent for agent, _ in self.asked]

    def notify(self, notice: MentionNotice) -> None:
        for callback in self.notices:
            callback(notice)

    def command(self, command: Command) -> None:
        self.say(command.to_wire())

    def say(self, raw: str) -> None:
        for handler in self.handlers[keys.COORDINATOR_COMMANDS]:
            handler(raw)


class Ids:
    """Message ids in order."""

    def __init__(self) -> None:
        self.last = 1000

    def __call__(self) -> int:
        self.last += 1
        return self.last


def talker(agent: str, ids: Ids | None = None, **fields: Any) -> Voice:
    """Always says something."""
    ids = ids or Ids()

    def voice(instruction: Instruction) -> Result:
        usage = TurnUsage(calls=1, input_tokens=100, output_tokens=10, cost_usd=0.01)
        answer = {"text": f"{agent} speaks", "message_id": ids(), "usage": usage, **fields}
        return Result(instruction_id=instruction.instruction_id, agent_name=agent, **answer)

    return voice


def skipper(agent: str, reason: str = "skipped") -> Voice:
    def voice(instruction: Instruction) -> Result:
        return Result(instruction_id=instruction.instruction_id, agent_name=agent, skipped=True, reason=reason)

    return voice


def room(*talking: str, skipping: Collection[str] = (), ids: Ids | None = None, **fields: Any) -> MemoryBus:
    """A bus with these agents there; all others are absent."""
    ids = ids or Ids()
    voices: dict[str, Voice] = {agent: talker(agent, ids, **fields) for agent in talking}
    voices.update({agent: skipper(agent) for agent in skipping})
    return MemoryBus(**voices)


class MemoryLease:
    """Handed over by the test: `give` and `take_away`; `lapsed`: it ran out, and nobody here knows yet whether another
    one took it."""

    def __init__(self, *, free: bool = True) -> None:
        self.free = free
        self.taken = asyncio.Event()
        self.lost = asyncio.Event()
        self.tried = 0
        self.epoch, self.lapsed = 0, False

    @property
    def is_held(self) -> bool:
        return self.taken.is_set() and not self.lapsed

    def give(self) -> None:
        self.lapsed = False
        self.epoch += not self.taken.is_set()
        self.lost.clear()
        self.taken.set()

    def take_away(self) -> None:
        self.taken.clear()
        self.lost.set()

    async def acquire(self, wait: float = 0.0) -> bool:
        self.tried += 1
        await asyncio.sleep(0)
        if self.free:
            self.give()
        return self.free

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def release(self) -> None:
        self.taken.clear()


async def until(condition: Callable[[], object], turns: int = 2000) -> None:
    """Lets the event loop run until the condition holds; fails when it does not within so many rounds."""
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never came true")
