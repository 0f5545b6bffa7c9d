"""The surroundings of the coordinator in a simulation: channels and their newest messages, agents behind a bus, people.

Bus and state are doubles of the coordinator's tests. An agent takes its model's time for each answer. A person who
calls an agent is answered by it directly, as in the program; the coordinator gets a notice of that answer, and one of
each message of a person.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from agent_coordinator.events import ConversationEnded, ConversationStarted, Event
from agentic.wire import keys
from agentic.wire.messages import Instruction, MentionNotice, PersonNotice, Result
from tests.benchmarks.scripted_agents import AGENTS, IDLE_SILENCE, SUBJECTS, Line, Words, model_seconds, worded
from tests.benchmarks.simulate.counted import Counted
from tests.benchmarks.simulate.people import Habit, Visit
from tests.benchmarks.texts import Chat
from tests.support.coordinator_doubles import MemoryBus, MemorySchedule, MemoryState

WINDOW = 40  # messages that a model sees; a channel has had at least as many, before its first conversation too
TO_A_CONVERSATION = 0.6  # share of the visits to a channel where agents converse at the time, if there is one
FAVOURITES = 5  # channels of a person


class SimulatedState(MemoryState):
    """The coordinator's state, in which the cooldown of reactive rounds passes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.coordination.schedule = self.coordination.conversations.schedule = _Schedule(clock)


class _Schedule(MemorySchedule):
    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock, self._free_at = clock, dict[int, float]()

    async def take_reactive(self, channel_id: int, cooldown: float) -> bool:
        free = self._clock() >= self._free_at.get(channel_id, 0.0)
        if free:
            self._free_at[channel_id] = self._clock() + cooldown
        return free


@dataclass
class _Waiting:
    """A person's message in a conversation, unanswered. `asked`: the agents that were asked since then."""

    at: float
    asked: int = 0


class Scene(MemoryBus):
    """The bus, with the channels behind it. `clock` in unix seconds; `silence`: the share of the turns without a reason
    that agents skip."""

    def __init__(
        self, channels: Sequence[int], clock: Callable[[], float], rng: random.Random, silence: float = IDLE_SILENCE
    ) -> None:
        super().__init__()
        self.counted = Counted()
        self._channels, self._clock, self._rng = channels, clock, rng
        self._agents, self._silence = {agent.name: agent for agent in AGENTS}, silence
        self._lines: dict[int, deque[Line]] = defaultdict(lambda: deque(maxlen=WINDOW))
        self._waiting: dict[int, list[_Waiting]] = {}  # by channel with a conversation, in the order of their beginning
        self._numbers, self._chat = count(1), Chat(rng.randrange(2**32))
        self._visits = asyncio.TaskGroup()

    # the agents

    async def ask(self, agent: str, instruction: Instruction, *, absent_grace: float | None = None) -> Result:
        channel, scripted = instruction.channel_id, self._agents[agent]
        for waiting in self._waiting.get(channel, ()):
            waiting.asked += 1
        self.counted.joined += instruction.trigger_message_id is not None
        seen = tuple(self._lines[channel])
        await asyncio.sleep(model_seconds(self._rng))
        speaks = scripted.speaks(instruction, seen, self._rng, self._silence)
        usage = scripted.usage(WINDOW, speaks)
        self.counted.calls += 1
        self.counted.cost += usage.cost_usd
        answer = self._post(instruction, agent) if speaks else {"skipped": True, "reason": "skipped"}
        return Result(instruction_id=instruction.instruction_id, agent_name=agent, usage=usage, **answer)

    def _post(self, instruction: Instruction, agent: str) -> dict[str, Any]:
        """The agent's message, which answers what people wrote before it."""
        channel, talk = instruction.channel_id, instruction.conversation_id
        before = self._newest(channel)
        self.counted.posts[agent] += 1
        self.counted.in_a_row += before is not None and (before.agent, before.talk) == (agent, talk)
        line = self._said(channel, agent, self._words(channel, agent), talk=talk)
        if channel in self._waiting:
            self._settle(channel)
        return {"text": line.text, "message_id": line.number}

    def _settle(self, channel: int) -> None:
        """People's messages that the agent had read are answered; the others, which came while it thought, are not."""
        for waiting in (each for each in self._waiting[channel] if each.asked):
            self.counted.waits.append(self._clock() - waiting.at)
            self.counted.turns_waited.append(waiting.asked)
        self._waiting[channel] = [each for each in self._waiting[channel] if not each.asked]

    def _words(self, channel: int, agent: str) -> Words:
        others = [name for name in self._agents if name != agent]
        return self._agents[agent].words(self._newest(channel), others, self._chat, self._rng)

    # the channels

    def _newest(self, channel: int) -> Line | None:
        lines = self._lines[channel]
        return lines[-1] if lines else None

    def _said(self, channel: int, agent: str | None, words: Words, talk: str = "") -> Line:
        place = (next(self._numbers), self._clock())
        line = Line(*place, words.text, words.subject, agent, words.names, words.asks, words.back_to, talk)
        self._lines[channel].append(line)
        return line

    # the people

    async def live(self, visits: Sequence[Visit], start: float) -> None:
        """Let each visit happen at its time, `start` being the clock's at 0."""
        async with self._visits:
            for visit in visits:
                await asyncio.sleep(max(0.0, start + visit.at - self._clock()))
                self._visits.create_task(self._visit(visit))

    async def _visit(self, visit: Visit) -> None:
        channel = self._place(visit.person)
        for number in range(visit.habit.lines):
            if number:
                await asyncio.sleep(visit.habit.apart)
            self._write(channel, visit.habit)

    def _place(self, person: int) -> int:
        running = list(self._waiting)
        if running and self._rng.random() < TO_A_CONVERSATION:
            return self._rng.choice(running)
        return self._channels[(person * 31 + self._rng.randrange(FAVOURITES) * 7) % len(self._channels)]

    def _write(self, channel: int, habit: Habit) -> None:
        self.counted.written[habit.name] += 1
        calls = self._rng.random() < habit.asks
        agent = self._rng.choice(tuple(self._agents))
        names = (agent,) if calls or self._rng.random() < habit.names else ()
        subject = self._rng.choice(tuple(SUBJECTS))
        asks = self._rng.random() < habit.questions
        line = self._said(channel, None, worded(subject, self._chat, self._rng, names=names, asks=asks))
        if calls:
            self.counted.called += 1
            self._visits.create_task(self._answer(channel, agent, line.number))
        elif channel in self._waiting:
            self._waiting[channel].append(_Waiting(line.at))
        self._notice_of(line, channel, calls)

    def _notice_of(self, line: Line, channel: int, calls: bool) -> None:
        notice = PersonNotice(
            channel_id=channel, message_id=line.number, text=line.text, names=line.names, calls=calls, at=line.at
        )
        for handler in self.handlers[keys.COORDINATOR_ACTIVITY]:
            handler(notice.to_wire())

    async def _answer(self, channel: int, agent: str, number: int) -> None:
        """The agent that was called answers by itself; no turn of the coordinator."""
        await asyncio.sleep(model_seconds(self._rng))
        line = self._said(channel, agent, self._words(channel, agent))
        self.notify(
            MentionNotice(agent_name=agent, channel_id=channel, message_id=line.number, trigger_message_id=number)
        )

    # the coordinator's events

    def observe(self, event: Event) -> None:
        match event:
            case ConversationStarted(state):
                channel = state.channel_id
                self.counted.conversations[channel] += 1
                self._waiting[channel] = []
            case ConversationEnded(state):
                assert state.ended_because is not None
                self.counted.endings[state.ended_because] += 1
                self.counted.left_waiting += len(self._waiting.pop(state.channel_id, ()))
            case _:
                pass
