"""Run an installation's MCP servers, and offer their tools.

    servers, problems = read_servers(Path("config/mcp.yaml"), settings)
    async with McpServers(servers, environment=settings) as mcp:
        mcp.tools_for("claude")

Entering starts all servers concurrently, without waiting. The tools of a server that isn't running are still offered,
because they are in the cached part of a prompt; calls of them fail. If a server certainly didn't run a call
(CallNotRun), the call is repeated once on the next connection.

The first restart is immediate. The pauses before later restarts grow, until the server has run for a minute. A program
that fails to start `MAX_STARTS` times in a row isn't started again. An HTTP server is retried forever, and every second
while a call waits for it. If it rejects our key, calls fail immediately, and each of them starts another attempt.

This module doesn't import the SDK, which takes most of a second: `Connect` opens a connection (connection.py), which
reports through `Watch`.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Protocol, cast

from agentic.llm.types import Tool
from agentic.process.tasks import cancel_and_wait, wait_at_most
from agentic.tools.mcp.config import ServerConfig
from agentic.tools.tool import ToolContext, ToolOutput, is_allowed, tool_spec

STOP_SECONDS = 10.0
READY_SECONDS = 10.0
PAUSES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)  # seconds before restarts in a row
LAST_PAUSE = 300.0
WAITING_PAUSE = 1.0  # seconds between attempts to reach an HTTP server that a call waits for
SETTLED = 60.0  # seconds after which the next restart is immediate again
MAX_STARTS = 8
RELIST_PAUSE = 1.0  # seconds between two listings of tools, however often the server asks
MAX_NAME = 64
_REASON_CHARACTERS = 400
_MARK_CHARACTERS = 6
_ODD = re.compile(r"[^a-zA-Z0-9_-]")

log = logging.getLogger(__name__)


class McpFailure(Exception):
    """A server couldn't answer a request. The text is one line, for the model."""


class CallNotRun(McpFailure):
    """The request didn't reach the server's tools and the connection has ended, so the call can be repeated."""


class Watch:
    """Receives the reports of a connection: that it ended and why, and that the offer has changed."""

    def __init__(self) -> None:
        self.ended: str | None = None
        self.is_refused = False  # the server rejected our key, so waiting doesn't help
        self.changed = False
        self._news = asyncio.Event()

    def end(self, reason: str) -> None:
        """Report the end. Only the first reason is stored."""
        if self.ended is None:
            self.ended = reason
        self._news.set()

    def change(self) -> None:
        self.changed = True
        self._news.set()

    async def wait(self) -> None:
        await self._news.wait()
        self._news.clear()


@dataclass(frozen=True, slots=True)
class Offer:
    """A server's tools, with the server's own names for them, and whether it has resources to read."""

    tools: tuple[Tool, ...] = ()
    resources: bool = False


class McpConnection(Protocol):
    """An open connection. Its methods raise only McpFailure. Before CallNotRun it ends the watch."""

    async def offer(self) -> Offer: ...
    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput: ...
    async def list_resources(self) -> ToolOutput: ...
    async def read_resource(self, uri: str) -> ToolOutput: ...


Connect = Callable[[ServerConfig, Watch], AbstractAsyncContextManager[McpConnection]]
"""Opens a connection, which reports to the watch until it's closed. May raise anything."""


class McpServer:
    """An MCP server. Call `run` once, in a task of its own; `stop` ends it. `clock` is in unix seconds.

    `run` opens one connection at a time, in its own task. Other tasks make calls through `use`, which waits for a
    connection within the time limit of the call.
    """

    def __init__(self, config: ServerConfig, *, clock: Callable[[], float], pauses: Sequence[float] = PAUSES) -> None:
        self.config = config
        self.offer = Offer()
        self.reason = ""  # why it last ended, in one line
        self._clock, self._pauses = clock, pauses
        self._connection: McpConnection | None = None
        self._watch = Watch()
        self._stopping = asyncio.Event()
        self._waiting = 0  # calls that wait for a connection
        self._wake = asyncio.Event()  # ends the pause before the next attempt
        self._decided = asyncio.Event()  # there is a connection, or calls that wait must fail
        self._first = asyncio.Event()  # the first start has succeeded or failed
        self.is_over = False  # given up or stopped for good
        self._in_row = 0  # ends within SETTLED in a row
        self._starts_in_row = 0  # failed starts in a row

    @property
    def is_up(self) -> bool:
        return self._connection is not None and self._watch.ended is None

    async def tried(self) -> None:
        """Wait until the first start has succeeded or failed."""
        await self._first.wait()

    async def use(
        self, operation: Callable[[McpConnection], Awaitable[ToolOutput]], context: ToolContext
    ) -> ToolOutput:
        """Run the operation on the server, waiting for its connection. Return failures as output."""
        seconds = min(self.config.call_seconds, context.deadline - self._clock())
        if seconds <= 0:
            return ToolOutput.failed("this turn has no time left")
        try:
            async with asyncio.timeout(seconds):
                try:
                    return await operation(await self._connected())
                except CallNotRun as failure:
                    log.info("MCP server %s: repeating a call: %s", self.config.name, self._line(str(failure)))
                    return await operation(await self._connected())
        except TimeoutError:
            state = "took too long" if self.is_up else "is not running; it is being restarted"
            return ToolOutput.failed(f"the server {self.config.name} {state}")
        except McpFailure as failure:
            return ToolOutput.failed(self._line(str(failure)))

    async def _connected(self) -> McpConnection:
        while True:
            if self.is_over:
                raise McpFailure(f"the server {self.config.name} is not running")
            if self._connection is not None and self._watch.ended is None:
                return self._connection
            if self._watch.is_refused:
                self._wake.set()  # retry for the next call: the owner may have changed the server meanwhile
                raise McpFailure(f"the server {self.config.name} rejected the connection: {self._watch.ended}")
            self._decided.clear()  # the connection has ended, though `run` may not have noticed yet
            self._waiting += 1
            if self.config.url is not None:  # not for a program, which would use up its MAX_STARTS
                self._wake.set()
            try:
                await self._decided.wait()
            finally:
                self._waiting -= 1

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._watch.end("it was stopped")

    def give_up(self) -> None:
        """Never start it again, and let waiting calls fail. Its tools stay in the prompts."""
        self.is_over = True
        self._first.set()
        self._decided.set()

    async def run(self, connect: Connect) -> None:
        """Keep the server running until it's stopped or given up. Raises only CancelledError."""
        try:
            while not self._stopping.is_set() and not self.is_over:
                began = self._clock()
                was_up, reason = await self._once(connect)
                if not self._stopping.is_set():
                    self._note_end(was_up, self._clock() - began >= SETTLED, reason)
                    self._first.set()
                    await self._pause()
        finally:
            self.give_up()

    async def _once(self, connect: Connect) -> tuple[bool, str]:
        """Run a connection until it ends. Return whether it was ever up, and why it ended."""
        watch = self._watch = Watch()
        if self._stopping.is_set():
            watch.end("it was stopped")
        was_up = False
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.config.start_seconds):
                    connection = await stack.enter_async_context(connect(self.config, watch))
                    self.offer = await connection.offer()
                was_up = True
                self._connection = connection
                self._starts_in_row = 0
                names = ", ".join(tool.name for tool in self.offer.tools) or "no tools"
                log.info("MCP server %s is running: %s", self.config.name, self._line(names))
                self._first.set()
                self._decided.set()
                await self._stay(connection, watch)
        except Exception as error:
            # The outermost edge of another program, and of the SDK's task groups.
            watch.end(_reason(error, self.config))
        finally:
            self._connection = None
            self._decided.clear()
            if watch.is_refused:
                self._decided.set()  # waiting calls fail
        return was_up, watch.ended or "the connection was lost"

    async def _stay(self, connection: McpConnection, watch: Watch) -> None:
        """Wait for the end of the connection. List the tools again whenever they have changed."""
        while watch.ended is None:
            await watch.wait()
            if not watch.changed or watch.ended is not None:
                continue
            watch.changed = False
            try:
                async with asyncio.timeout(self.config.call_seconds):
                    self.offer = await connection.offer()
            except (McpFailure, TimeoutError) as error:
                reason = self._line(str(error) or "no answer in time")
                log.warning("MCP server %s: listing its changed tools failed: %s", self.config.name, reason)
            with suppress(TimeoutError):  # a pause before the next listing
                async with asyncio.timeout(RELIST_PAUSE):
                    while watch.ended is None:
                        await watch.wait()
            if watch.changed:
                watch.change()

    def _note_end(self, was_up: bool, settled: bool, reason: str) -> None:
        """Count an end and log it. Repeated failures to start are only logged at level debug."""
        name, self.reason = self.config.name, self._line(reason)
        self._in_row = 0 if was_up and settled else self._in_row + 1
        if was_up:
            action = "restarting it" if self.config.command is not None else "reconnecting"
            log.warning("MCP server %s ended: %s; %s", name, self.reason, action)
            return
        self._starts_in_row += 1
        if self.config.command is not None and self._starts_in_row >= MAX_STARTS:
            self.give_up()
            text = "MCP server %s failed to start %d times: %s; it won't be started again"
            log.error(text, name, self._starts_in_row, self.reason)
            return
        level = logging.WARNING if self._starts_in_row == 1 else logging.DEBUG
        log.log(level, "MCP server %s failed to start: %s; retrying", name, self.reason)

    async def _pause(self) -> None:
        if self.is_over or not self._in_row:
            return
        seconds = (*self._pauses, LAST_PAUSE)[min(self._in_row - 1, len(self._pauses))]
        if self._waiting and self.config.url is not None:
            seconds = min(seconds, WAITING_PAUSE)
        self._wake.clear()
        if not self._stopping.is_set():
            await wait_at_most(self._wake, seconds)

    def _line(self, text: str) -> str:
        """Return the text on one line, shortened, without secrets."""
        return " ".join(self.config.redacted(text).split())[:_REASON_CHARACTERS]


def _reason(error: BaseException, config: ServerConfig) -> str:
    """Describe the innermost error of an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"it wasn't ready within {config.start_seconds:g} s"
    if isinstance(error, FileNotFoundError) and config.command is not None:
        return f"program {config.command} not found" + (f", or folder {config.cwd}" if config.cwd else "")
    return str(error) or "it gave no reason"


Operation = Callable[[McpConnection, Mapping[str, Any]], Awaitable[ToolOutput]]


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of a server, or a tool that lists or reads its resources."""

    spec: Tool
    server: McpServer
    operation: Operation

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await self.server.use(lambda connection: self.operation(connection, arguments), context)


def tools_of(server: McpServer) -> tuple[McpTool, ...]:
    """Return the tools that the server offers and its entry allows, sorted by name."""

    def call_of(name: str) -> Operation:
        return lambda connection, arguments: connection.call(name, arguments)

    offered: list[tuple[Tool, Operation]] = [(tool, call_of(tool.name)) for tool in server.offer.tools]
    if server.offer.resources:
        name = server.config.name
        uri = {"uri": {"type": "string", "description": "an address from the list"}}
        listing = tool_spec("list_resources", f"Lists the resources of {name}, one a line, with their addresses.", {})
        reading = tool_spec("read_resource", f"Reads one resource of {name} by its address.", uri, ("uri",))
        offered += [
            (listing, lambda connection, _: connection.list_resources()),
            (reading, lambda connection, arguments: connection.read_resource(str(arguments.get("uri", "")))),
        ]
    allowed = [(tool, operation) for tool, operation in offered if is_allowed(tool.name, server.config.tools)]
    names = provider_names(server.config.name, [tool.name for tool, _ in allowed])
    tools = (
        McpTool(Tool(name, tool.description, tool.parameters), server, operation)
        for name, (tool, operation) in zip(names, allowed, strict=True)
    )
    return tuple(sorted(tools, key=lambda tool: tool.spec.name))


def provider_names(server: str, tools: Sequence[str]) -> list[str]:
    """Return a unique name for each tool of a server, in order: `server__tool`, without characters that providers
    reject.

    A name that is too long or not unique gets a short hash of the full name. Names don't depend on the order, and two
    servers never have equal names.
    """
    plain = [f"{server}__{_ODD.sub('_', tool)}" for tool in tools]
    counted = Counter(plain)
    seen: Counter[str] = Counter()
    names = []
    for name, tool in zip(plain, tools, strict=True):
        if counted[name] > 1 or len(name) > MAX_NAME:
            seen[tool] += 1
            mark = hashlib.sha256(f"{server}\0{tool}\0{seen[tool]}".encode("utf-8", "replace")).hexdigest()
            name = f"{name[: MAX_NAME - _MARK_CHARACTERS - 1]}_{mark[:_MARK_CHARACTERS]}"
        names.append(name)
    return names


class McpServers:
    """All MCP servers. `environment`: programs get only the variables in `process.INHERITED`.

    `clock`: in unix seconds. `connect` opens a connection (by default with the SDK). `pauses`: in seconds.
    """

    def __init__(
        self,
        servers: Sequence[ServerConfig],
        *,
        environment: Mapping[str, str],
        clock: Callable[[], float] = time.time,
        connect: Connect | None = None,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._servers = [McpServer(server, clock=clock, pauses=pauses) for server in servers]
        self._environment, self._connect = environment, connect
        self._running: asyncio.Task[None] | None = None
        self._ready_until = 0.0  # on the loop's clock

    async def __aenter__(self) -> McpServers:
        if self._servers:
            self._ready_until = asyncio.get_running_loop().time() + READY_SECONDS
            self._running = asyncio.create_task(self._run(), name="mcp servers")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._running is None:
            return
        for server in self._servers:
            server.stop()
        try:
            await asyncio.wait({self._running}, timeout=STOP_SECONDS)
        finally:
            await cancel_and_wait(self._running)  # no effect if it has ended; otherwise this kills its processes

    def tools_for(self, agent: str) -> tuple[McpTool, ...]:
        """Return the agent's tools, even of an ended server: a changed list would break every prompt's cached part."""
        allowed = (server for server in self._servers if server.config.may_be_used_by(agent))
        return tuple(tool for server in allowed for tool in tools_of(server))

    async def tried(self) -> None:
        """Wait until every server has started or failed once."""
        await asyncio.gather(*(server.tried() for server in self._servers))

    async def ready(self, agent: str) -> None:
        """Wait until every server of this agent has started or failed once, but only until READY_SECONDS after all were
        started. Without their tools, a prompt would begin differently from all later prompts."""
        waits = [server.tried() for server in self._servers if server.config.may_be_used_by(agent)]
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._ready_until):
                await asyncio.gather(*waits)

    def status(self) -> dict[str, str]:
        """Return server name → running, starting, or stopped."""
        states = {server: "running" if server.is_up else "starting" for server in self._servers}
        return {server.config.name: "stopped" if server.is_over else state for server, state in states.items()}

    def reasons(self) -> dict[str, str]:
        """Return server name → why its last start or connection ended, "" if none has ended."""
        return {server.config.name: server.reason for server in self._servers}

    async def _run(self) -> None:
        try:
            opened = self._connect
            if opened is None:
                module = await asyncio.to_thread(importlib.import_module, "agentic.tools.mcp.connection")
                opened = cast(Connect, module.connector(self._environment))
        except ImportError as error:
            log.error("importing the package mcp failed: %s; no MCP server can be used", error)
            for server in self._servers:
                server.give_up()
            return
        async with asyncio.TaskGroup() as group:
            for server in self._servers:
                group.create_task(server.run(opened), name=f"mcp {server.config.name}")
