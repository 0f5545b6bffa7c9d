"""The bus between processes: publish, subscribe, ask with a deadline, command the coordinator, follow Redis.

Pub/sub has no memory: a message is lost if nobody subscribes, or while Redis is unavailable. Handlers may be registered
at any time and survive a lost connection; the program's only reconnect loop is here. A connection has two tasks: one
reads, the other sends changed subscriptions, and a PING now and then to notice a peer that vanished. A channel's
handlers get its messages in order; a slow handler delays only its own channel.

An instruction that waits for its result is sent again, with the same id, after each resubscription and every
`REPUBLISH_EVERY` seconds. An agent that is working on it ignores the repetition; an agent that is done answers with the
stored result.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import secrets
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from redis.asyncio.connection import ConnectionPool
from redis.exceptions import RedisError

from agentic.process.tasks import run_until_one_ends, wait_at_most
from agentic.wire import keys
from agentic.wire.connection import CONNECT_TIMEOUT, RedisConnection, StateUnavailable, cause, or_default
from agentic.wire.messages import (
    DEFAULT_DEADLINE_SECONDS,
    Command,
    CommandOutcome,
    Instruction,
    MentionNotice,
    Result,
    WireMessage,
    read,
    read_result,
)
from agentic.wire.pipe import RedisSocket, pack

RETRY_EVERY = 0.5  # seconds
REPUBLISH_EVERY = 10.0
ABSENT_GRACE = 10.0  # after an outage, agents need a moment to subscribe again
LATE_SECONDS = 5.0  # after its deadline, a room's turn may still report a post that was in time
HEARTBEAT = 5.0
MAX_PAUSE = 2.0  # between two attempts to connect
ANSWER_SECONDS = 5.0  # for the coordinator to answer a command
COMMAND_RETRY_SECONDS = 0.1
NOBODY = "nobody"  # the outcome of a command if no coordinator answers

Callback = Callable[[], Awaitable[None] | None]
Handler = Callable[[str], Awaitable[None] | None]
OnNotice = Callable[[MentionNotice], Awaitable[None] | None]

log = logging.getLogger(__name__)


class NoAnswer(Exception):
    """The agent gave no result: AgentAbsent or AgentTimedOut."""


class AgentAbsent(NoAnswer):
    """Nobody subscribes to this agent's instructions."""


class AgentTimedOut(NoAnswer):
    """The deadline of the instruction passed without a result."""


class Bus:
    """Publish and subscribe over Redis. Call `run()` in a task. Times in seconds.

    `ready` is set while every subscription is confirmed. `connected_since`: unix seconds, None while disconnected.
    """

    def __init__(
        self,
        link: RedisConnection,
        *,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        republish_every: float = REPUBLISH_EVERY,
        absent_grace: float = ABSENT_GRACE,
        retry_every: float = RETRY_EVERY,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self.ready = asyncio.Event()
        self.connected_since: float | None = None
        self.orders = CoordinatorCommands(self)
        self._link, self._clock, self._rng = link, clock, rng or random.Random()
        self._republish_every, self._retry_every = republish_every, retry_every
        self._absent_grace, self._heartbeat = absent_grace, heartbeat
        self._handlers: dict[str, list[Handler]] = defaultdict(list)
        self._lanes: dict[str, HandlerQueue] = {}
        self._callbacks = HandlerQueue("the bus's own events")
        self._on_resubscribed: list[Callback] = []
        self._on_notice: list[OnNotice] = []
        self._requests: dict[tuple[str, str], PendingRequest] = {}  # by agent and instruction id
        self._heard_agents: set[str] = set()
        self._grace_from = 0.0  # unix seconds
        self._asked: set[str] = set()  # channels subscribed to on this connection
        self._confirmed: set[str] = set()
        self._heard = asyncio.Event()
        self._changed = asyncio.Event()
        self._workers: asyncio.TaskGroup | None = None
        self._loss_said = False

    def subscribe(self, channel: str, handler: Handler) -> None:
        """Pass every message of `channel` to `handler`, in order. Exceptions of handlers are logged."""
        self._handlers[channel].append(handler)
        if channel not in self._lanes:
            self._lanes[channel] = HandlerQueue(channel)
            self._start(self._lanes[channel])
        if channel not in self._confirmed:
            self.ready.clear()
        self._changed.set()

    def unsubscribe(self, channel: str) -> None:
        """Remove all handlers of `channel`, and drop the messages that wait for them."""
        self._handlers.pop(channel, None)
        if (lane := self._lanes.pop(channel, None)) is not None:
            lane.close()
        self._changed.set()

    def on_resubscribed(self, callback: Callback) -> None:
        """Call `callback` after each new connection, including the first, once all subscriptions are confirmed."""
        self._on_resubscribed.append(callback)

    async def publish(self, channel: str, message: WireMessage) -> int:
        """Send a message once. Returns the number of subscribers. Raises StateUnavailable."""
        wire = message.to_wire()
        return int(await self._link.redis.publish(channel, wire))

    @or_default(0, "messages are not sent")
    async def announce(self, channel: str, message: WireMessage) -> int:
        """Send a message once, if Redis answers. Returns the number of subscribers."""
        return await self.publish(channel, message)

    def listen_to(self, agent: str) -> None:
        """Subscribe to this agent's results and notices, as `ask` does."""
        if agent not in self._heard_agents:
            self._heard_agents.add(agent)
            self.subscribe(keys.results(agent), partial(self._take_result, agent))

    def on_notice(self, callback: OnNotice) -> None:
        """Call `callback` for each MentionNotice of the agents passed to `listen_to`."""
        self._on_notice.append(callback)

    # Ask

    async def ask(self, agent: str, instruction: Instruction, *, absent_grace: float | None = None) -> Result:
        """Ask for a turn and wait for its result, through outages of Redis.

        Raises AgentTimedOut after `instruction.deadline` (unix seconds; by default 90 s from now), AgentAbsent if
        nobody subscribes to the agent's instructions, and ValueError if the instruction is being asked already.
        AgentAbsent is raised no sooner than `absent_grace` seconds (by default 10) after the bus connected or
        `grant_grace` was called.

        In a room, the next post would get the number of a post that isn't reported. So an agent that received the
        instruction and has vanished is waited for, and so is a result that was sent just before the deadline.
        """
        self.listen_to(agent)
        deadline = instruction.deadline
        if deadline is None:
            deadline = self._clock() + DEFAULT_DEADLINE_SECONDS
            instruction = instruction.model_copy(update={"deadline": deadline})
        deadline += 0.0 if instruction.room is None else LATE_SECONDS
        key = (agent, instruction.instruction_id)
        if key in self._requests:
            raise ValueError(f"instruction {key[1]} is being asked already")
        grace = self._absent_grace if absent_grace is None else absent_grace
        request = self._requests[key] = PendingRequest(agent, instruction, grace)
        loop = asyncio.get_running_loop()
        latest = loop.time() + deadline - self._clock()  # setting the clock back must not prolong a turn
        try:
            while request.result is None:
                left = min(deadline - self._clock(), latest - loop.time())
                if left <= 0:
                    raise AgentTimedOut(f"{agent} did not answer in time")
                try:
                    pause = await self._send(request)
                except StateUnavailable as error:
                    log.debug("the instruction for %s waits: %s", agent, error)
                    pause = self._retry_every
                await wait_at_most(request.wake, min(pause, left))
                request.wake.clear()
            return request.result
        finally:
            del self._requests[key]

    def grant_grace(self) -> None:
        """Give each agent the grace period again: it may be moving to another process."""
        self._grace_from = self._clock()

    async def _send(self, request: PendingRequest) -> float:
        """Publish the instruction once. Returns the seconds until the next attempt. Raises AgentAbsent,
        StateUnavailable."""
        if not self.ready.is_set() or self.connected_since is None:
            return self._republish_every  # a result would be lost; the pause ends once the bus is ready
        channel, wire = keys.instructions(request.agent), request.instruction.to_wire()
        # How many received it, and how many subscribe by name: a subscriber by pattern is a monitor, not an agent.
        received, counts = await self._link.batch(
            lambda pipe: (pipe.publish(channel, wire), pipe.pubsub_numsub(channel))
        )
        listeners = sum(int(count) for _, count in counts)
        if received and listeners:
            request.delivered = True
            return self._republish_every
        vanished = request.delivered and request.instruction.room is not None
        since = self.connected_since
        connected_for = 0.0 if since is None else self._clock() - max(since, self._grace_from)
        if not listeners and not vanished and connected_for >= request.grace:
            raise AgentAbsent(f"nobody listens for {request.agent}")
        return self._retry_every

    def _take_result(self, agent: str, raw: str) -> None:
        match read_result(raw):
            case Result() as result:
                request = self._requests.get((agent, result.instruction_id))
                if request is None:
                    log.debug("late or unrequested result of %s dropped", agent)
                elif request.result is None:
                    request.result = result
                    request.wake.set()
            case MentionNotice() as notice:
                for callback in self._on_notice:
                    self._callbacks.put(partial(callback, notice))

    # Stay connected

    async def run(self) -> None:
        """Stay connected until canceled."""
        try:
            async with asyncio.TaskGroup() as self._workers:
                for lane in (self._callbacks, *self._lanes.values()):
                    self._start(lane)
                failures = 0
                while True:
                    error = await self._hold_connection()
                    failures = 0 if self.connected_since is not None else failures + 1
                    self._disconnected()
                    if not self._loss_said:
                        log.warning("Redis is unavailable: %s", cause(error))
                    self._loss_said = True
                    pause = min(MAX_PAUSE, 0.1 * 2 ** min(failures, 10))
                    await asyncio.sleep(pause * self._rng.uniform(0.5, 1.0))
        finally:
            self._workers = None
            self._disconnected()

    async def _hold_connection(self) -> Exception:
        """Use one connection as long as it lasts. Returns the error that ended it."""
        connection = Subscriber(self._link.pool, self._take)
        try:
            # redis-py's PubSub would reconnect by itself, in the reading and the writing task at the same time.
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await connection.open()
            await run_until_one_ends(connection.wait_for_end(), self._keep_up(connection))
        except (RedisError, OSError) as error:
            return error
        except Exception as error:  # the edge of the loop: a bug must not end all subscriptions
            log.exception("the connection to Redis failed unexpectedly; reconnecting")
            return error
        finally:
            connection.end(ConnectionError("closed"))
        return ConnectionError("closed")

    def _take(self, reply: Any) -> None:
        self._heard.set()
        match reply:
            case ["message", str() as channel, str() as text]:
                if (lane := self._lanes.get(channel)) is not None:
                    for handler in self._handlers[channel]:
                        lane.put(partial(handler, text))
            case ["subscribe", str() as channel, _]:
                self._confirmed.add(channel)
                self._check_ready()

    async def _keep_up(self, connection: Subscriber) -> None:
        """Send changed subscriptions, and a PING if there are none for a while."""
        while True:
            self._changed.clear()
            wanted = set(self._handlers)
            new, gone, self._asked = wanted - self._asked, self._asked - wanted, wanted
            if gone:
                self._confirmed -= gone
                connection.write(pack("UNSUBSCRIBE", *sorted(gone)))
            if new:
                connection.write(pack("SUBSCRIBE", *sorted(new)))
            self._check_ready()
            try:
                async with asyncio.timeout(self._heartbeat):
                    await self._changed.wait()
            except TimeoutError:
                self._heard.clear()
                connection.write(pack("PING"))
                async with asyncio.timeout(self._heartbeat):
                    await self._heard.wait()

    def _start(self, lane: HandlerQueue) -> None:
        if self._workers is not None:
            self._workers.create_task(lane.run(), name=f"lane {lane.name}")

    def _check_ready(self) -> None:
        if self.ready.is_set() or not set(self._handlers) <= self._confirmed:
            return
        self.ready.set()
        resubscribed = self.connected_since is None
        if resubscribed:
            self.connected_since = self._clock()
            if self._loss_said:
                log.warning("Redis is back")
            self._loss_said = False
            for callback in self._on_resubscribed:
                self._callbacks.put(callback)
        # Send undelivered instructions, and on a new connection all of them again.
        for request in self._requests.values():
            if resubscribed or not request.delivered:
                request.wake.set()

    def _disconnected(self) -> None:
        self.ready.clear()
        self.connected_since = None
        self._asked = set()
        self._confirmed.clear()


class Subscriber(RedisSocket):
    """A connection for subscriptions, which hands on each reply."""

    def __init__(self, pool: ConnectionPool, on_reply: Callable[[Any], None]) -> None:
        super().__init__(pool)
        self._on_reply = on_reply
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take(self, reply: Any) -> None:
        self._on_reply(reply)

    async def wait_for_end(self) -> None:
        """Raise the error that ended the connection."""
        await self._ended

    def end(self, error: Exception) -> None:
        super().end(error)
        if not self._ended.done():
            self._ended.set_exception(error)
            self._ended.exception()  # the end may be our own, which nobody waits for


@dataclass(eq=False)
class PendingRequest:
    """An instruction that waits for its result. Setting `wake` ends its pause."""

    agent: str
    instruction: Instruction
    grace: float
    delivered: bool = False
    result: Result | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class HandlerQueue:
    """First in, first out, at most `limit` waiting; more are dropped with one warning until there is room again."""

    def __init__(self, name: str, limit: int = 10_000) -> None:
        self.name = name
        self._queue: asyncio.Queue[Callback | None] = asyncio.Queue(limit)
        self._closed = False
        self._dropping = False

    def put(self, call: Callback) -> None:
        try:
            self._queue.put_nowait(call)
            self._dropping = False
        except asyncio.QueueFull:
            if not self._dropping:
                log.warning("%s: more than %d messages wait; dropping new ones", self.name, self._queue.maxsize)
            self._dropping = True

    def close(self) -> None:
        """End `run` after the current call, and drop the rest."""
        self._closed = True
        if self._queue.empty():
            self._queue.put_nowait(None)

    async def run(self) -> None:
        while not self._closed:
            call = await self._queue.get()
            if call is None or self._closed:
                return
            try:
                outcome = call()
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception:
                # the outermost edge: a handler's failure must not affect the next
                log.exception("a handler of %s failed", self.name)


class CoordinatorCommands:
    """Send Commands to the coordinator and wait for their CommandOutcome. Call `start()` before the bus runs.

    Only an acting coordinator listens. If nobody receives a command, it is sent again, since a coordinator may be about
    to act, as right after a start. If none answers, the outcome is NOBODY.
    """

    def __init__(self, bus: Bus, patience: float = ANSWER_SECONDS) -> None:
        self._bus, self._patience = bus, patience
        self._waiting: dict[str, asyncio.Future[str]] = {}

    def start(self) -> None:
        self._bus.subscribe(keys.COORDINATOR_OUTCOMES, self._on_outcome)

    async def give(self, command: Command) -> str:
        """Send a command. Returns its outcome, as listed in docs/dev/protocol.md, or NOBODY. Raises
        StateUnavailable."""
        command_id = secrets.token_hex(8)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[command_id] = answer
        sent = command.model_copy(update={"command_id": command_id})
        try:
            async with asyncio.timeout(self._patience):
                while not await self._bus.publish(keys.COORDINATOR_COMMANDS, sent):  # noqa: ASYNC110 - Redis knows
                    await asyncio.sleep(COMMAND_RETRY_SECONDS)
                return await answer
        except TimeoutError:
            return NOBODY
        finally:
            del self._waiting[command_id]

    def _on_outcome(self, raw: str) -> None:
        outcome = read(CommandOutcome, raw)
        waiting = self._waiting.get(outcome.command_id) if outcome is not None else None
        if outcome is not None and waiting is not None and not waiting.done():
            waiting.set_result(outcome.outcome)


class Mirror:
    """Base of Redis values that every process mirrors in memory, so that a check is cheap. Subclasses `read` the value
    and say whether it `is_lost` in Redis; both may raise StateUnavailable. Run `run()` in a task."""

    def __init__(self, link: RedisConnection, bus: Bus, check_every: float) -> None:
        self._link, self._bus, self._check_every = link, bus, check_every
        self._behind = asyncio.Event()  # Redis and this process may differ

    async def run(self) -> None:
        """Until canceled, call `read` after each notice or new connection, and if Redis lost the value."""
        while True:
            await wait_at_most(self._behind, self._check_every)
            await self._link.present.wait()
            try:
                if self._behind.is_set() or await self.is_lost():
                    self._behind.clear()
                    await self.read()
            except StateUnavailable as away:
                log.debug("%s can't be read; retrying: %s", type(self).__name__, away)
                self._behind.set()
                await asyncio.sleep(RETRY_EVERY)

    @or_default(None, "settings in Redis will be read when it is back")
    async def try_read(self) -> None:
        """Call `read` if Redis answers; otherwise `run` does it later."""
        await self.read()

    async def read(self) -> None:
        raise NotImplementedError

    async def is_lost(self) -> bool:
        raise NotImplementedError
