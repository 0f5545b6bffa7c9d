"""The bus between coordinator and agents: publish, subscribe, and ask with a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from functools import partial

from redis.asyncio import Redis

from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink
from agentic.wire.messages import DEFAULT_DEADLINE_SECONDS, Instruction, MentionNotice, Result, WireMessage
from agentic.wire.reading import read_result
from agentic.wire.requests import (
    ABSENT_GRACE,
    REPUBLISH_EVERY,
    RETRY_EVERY,
    AgentAbsent,
    AgentTimedOut,
    NoAnswer,
    PendingRequest,
    PendingRequests,
)
from agentic.wire.subscriptions import HEARTBEAT, Subscriber

__all__ = ["AgentAbsent", "AgentTimedOut", "Bus", "NoAnswer", "RedisAway"]

LATE_SECONDS = 5.0  # after its deadline a room's turn may still report what it posted in time

OnNotice = Callable[[MentionNotice], Awaitable[None] | None]


class Bus(Subscriber):
    """Publish and subscribe over Redis. Call `run()` in a task. Times in seconds."""

    def __init__(
        self,
        link: RedisLink,
        *,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        republish_every: float = REPUBLISH_EVERY,
        absent_grace: float = ABSENT_GRACE,
        retry_every: float = RETRY_EVERY,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        super().__init__(link, clock=clock, rng=rng, heartbeat=heartbeat)
        self._republish_every = republish_every
        self._absent_grace = absent_grace
        self._retry_every = retry_every
        self._questions = PendingRequests(self._send, clock, retry_every)
        self._on_notice: list[OnNotice] = []
        self._heard_agents: set[str] = set()
        self._grace_from = 0.0  # unix seconds

    async def publish(self, channel: str, message: WireMessage) -> int:
        """Send once to the present subscribers; returns their number. Raises RedisAway."""
        wire = message.to_wire()
        return int(await self._link.call(lambda redis: redis.publish(channel, wire)))

    def listen_to(self, agent: str) -> None:
        """Subscribe to this agent's results and notices. `ask` does so by itself."""
        if agent not in self._heard_agents:
            self._heard_agents.add(agent)
            self.subscribe(keys.results(agent), partial(self._take_result, agent))

    def on_notice(self, callback: OnNotice) -> None:
        """Call `callback` for each MentionNotice of the agents that are listened to."""
        self._on_notice.append(callback)

    async def ask(self, agent: str, instruction: Instruction, *, absent_grace: float | None = None) -> Result:
        """Ask for a turn and wait for its result, through losses of Redis.

        Raises AgentTimedOut after `instruction.deadline` (unix seconds; 90 s from now where there is none), and
        AgentAbsent if nobody subscribes to the agent's instructions; the latter no sooner than `absent_grace` seconds
        after the bus was connected or `grant_grace` called (10; 0 decides immediately).

        In a room a post that is not known of would leave its number to the next one: an agent that received the
        instruction and is gone since is waited for, and a result that was sent just before the deadline is too.
        """
        self.listen_to(agent)
        deadline = instruction.deadline
        if deadline is None:
            deadline = self._clock() + DEFAULT_DEADLINE_SECONDS
            instruction = instruction.model_copy(update={"deadline": deadline})
        grace = self._absent_grace if absent_grace is None else absent_grace
        late = 0.0 if instruction.room is None else LATE_SECONDS
        return await self._questions.ask(PendingRequest(agent, instruction, grace), deadline + late)

    async def _send(self, question: PendingRequest) -> float:
        if not self.ready.is_set() or self.connected_since is None:
            return self._republish_every  # a result would be lost; becoming ready ends this pause
        send = partial(_publish_and_count, keys.instructions(question.agent), question.instruction.to_wire())
        received, listeners = await self._link.call(send)
        if received and listeners:
            question.delivered = True
            return self._republish_every
        vanished = question.delivered and question.instruction.room is not None
        if not listeners and not vanished and self._connected_for() >= question.grace:
            raise AgentAbsent(f"nobody listens for {question.agent}")
        return self._retry_every

    def grant_grace(self) -> None:
        """Give each agent the grace again, from now: it may be moving to another process."""
        self._grace_from = self._clock()

    def _connected_for(self) -> float:
        if self.connected_since is None:
            return 0.0
        return self._clock() - max(self.connected_since, self._grace_from)

    def _take_result(self, agent: str, raw: str) -> None:
        match read_result(raw):
            case Result() as result:
                self._questions.answer(agent, result)
            case MentionNotice() as notice:
                for callback in self._on_notice:
                    self._callbacks.put(partial(callback, notice))

    def became_ready(self, *, resubscribed: bool) -> None:
        self._questions.nudge(resubscribed=resubscribed)


async def _publish_and_count(channel: str, wire: str, redis: Redis) -> tuple[int, int]:
    """How many received it, and how many subscribe by name (a pattern is a monitor's, not an agent's)."""
    pipe = redis.pipeline(transaction=False)
    pipe.publish(channel, wire)
    pipe.pubsub_numsub(channel)
    received, numsub = await pipe.execute()
    return int(received), sum(int(count) for _, count in numsub)
