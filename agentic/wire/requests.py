"""Requests to agents: an instruction out, its result back, over a pub/sub without memory.

A message without a subscriber is lost, and so is one sent while Redis is away. So the same id is sent again after each
resubscription and every `REPUBLISH_EVERY` seconds; an agent that is working on it ignores that, one that is done
answers with the kept result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from agentic.wire.link import RedisAway
from agentic.wire.messages import Instruction, Result

REPUBLISH_EVERY = 10.0
ABSENT_GRACE = 10.0  # after Redis came back the agents need a moment to subscribe again
RETRY_EVERY = 0.5  # while nobody subscribes yet

log = logging.getLogger(__name__)


class NoAnswer(Exception):
    """The agent gave no result.

    NoAnswer
    ├── AgentAbsent     nobody subscribes to its instructions
    └── AgentTimedOut   the deadline passed
    """


class AgentAbsent(NoAnswer):
    """Nobody subscribes to this agent's instructions."""


class AgentTimedOut(NoAnswer):
    """The deadline of the instruction passed without a result."""


class PendingRequest:
    """An instruction that waits for its result. Setting `wake` ends its pause."""

    def __init__(self, agent: str, instruction: Instruction, grace: float) -> None:
        self.agent = agent
        self.instruction = instruction
        self.grace = grace
        self.delivered = False
        self.result: Result | None = None
        self.wake = asyncio.Event()

    async def pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.wake.wait()
        except TimeoutError:
            pass
        self.wake.clear()


# Publishes the instruction once. Returns the seconds until the next attempt; raises AgentAbsent, RedisAway.
Send = Callable[[PendingRequest], Awaitable[float]]


class PendingRequests:
    """The open requests, by agent and instruction id."""

    def __init__(self, send: Send, clock: Callable[[], float], retry_every: float = RETRY_EVERY) -> None:
        self._send = send
        self._clock = clock
        self._retry_every = retry_every
        self._open: dict[tuple[str, str], PendingRequest] = {}

    async def ask(self, question: PendingRequest, deadline: float) -> Result:
        """Send until there is a result. `deadline` in unix seconds. Raises AgentAbsent, AgentTimedOut, and ValueError
        for an instruction that is open already."""
        key = (question.agent, question.instruction.instruction_id)
        if key in self._open:
            raise ValueError(f"instruction {key[1]} is being asked already")
        self._open[key] = question
        try:
            return await self._wait(question, deadline)
        finally:
            del self._open[key]

    async def _wait(self, question: PendingRequest, deadline: float) -> Result:
        loop = asyncio.get_running_loop()
        latest = loop.time() + deadline - self._clock()  # a clock that is set back must not prolong a turn
        while question.result is None:
            left = min(deadline - self._clock(), latest - loop.time())
            if left <= 0:
                raise AgentTimedOut(f"{question.agent} did not answer in time")
            try:
                pause = await self._send(question)
            except RedisAway as error:
                log.debug("instruction for %s waits: %s", question.agent, error)
                pause = self._retry_every
            await question.pause(min(pause, left))
        return question.result

    def answer(self, agent: str, result: Result) -> None:
        question = self._open.get((agent, result.instruction_id))
        if question is None:
            log.debug("late or unrequested result of %s dropped", agent)
            return
        if question.result is None:
            question.result = result
            question.wake.set()

    def nudge(self, *, resubscribed: bool) -> None:
        """The bus is ready: send what was not delivered yet, and everything again on a new connection."""
        for question in self._open.values():
            if resubscribed or not question.delivered:
                question.wake.set()
