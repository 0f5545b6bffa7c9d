"""The MCP servers of an installation: their lives, and their tools as a source of tools.

    servers, problems = read_servers(Path("config/mcp.yaml"), settings)
    async with McpServers(servers, environment=settings) as mcp:
        mcp.tools_for("claude")

Entering starts the servers concurrently and waits for none. The tools of a server that is away, or given up, are still
offered, because they are in the cached part of a prompt; their calls fail. A call that the server certainly did not run
(CallNotRun) is made once more on the next connection. The first restart is immediate, later ones follow growing pauses,
until the server has run well for a minute. A program that fails to start `MAX_STARTS` times in a row is given up. An
address is retried forever, and at least every second while a call waits for it; if it refuses our key, calls fail
immediately, and each starts one more attempt. This module does not know the SDK, which takes most of a second to
import: `Connect` opens a connection (connection.py), which reports through `Watch`.
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
from agentic.process.tasks import wait_at_most
from agentic.tools.mcp.config import ServerConfig
from agentic.tools.tool import ToolContext, ToolOutput, is_allowed, tool_spec

STOP_SECONDS = 10.0
READY_SECONDS = 10.0
PAUSES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)  # seconds before the restarts in a row
LAST_PAUSE = 300.0
WAITING_PAUSE = 1.0  # seconds between attempts to reach an address that a call waits for
SETTLED = 60.0  # seconds after which an end is no longer one in a row
MAX_STARTS = 8
RELIST_PAUSE = 1.0  # seconds from one listing to the next, however often the server asks
MAX_NAME = 64
LIST, READ = "list_resources", "read_resource"
_REASON_CHARACTERS = 400
_MARK_CHARACTERS = 6
_ODD = re.compile(r"[^a-zA-Z0-9_-]")

log = logging.getLogger(__name__)


class McpFailure(Exception):
    """A server could not do a request. The text is one line, for the model."""


class CallNotRun(McpFailure):
    """The request did not reach the server's tools, and the connection is over: it may be made again on the next."""


class Watch:
    """Reports from one connection: that it ended and why, and that the offer has changed."""

    def __init__(self) -> None:
        self.ended: str | None = None
        self.is_refused = False  # the server does not let us in with our key; waiting does not help
        self.changed = False
        self._news = asyncio.Event()

    def end(self, reason: str) -> None:
        """Report the end. The first reason counts."""
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
    """A server's tools, by its own names, and whether it has resources to read."""

    tools: tuple[Tool, ...] = ()
    resources: bool = False


class McpConnection(Protocol):
    """An open connection. Each method raises McpFailure and nothing else. With CallNotRun it has ended the watch."""

    async def offer(self) -> Offer: ...
    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput: ...
    async def list_resources(self) -> ToolOutput: ...
    async def read_resource(self, uri: str) -> ToolOutput: ...


Connect = Callable[[ServerConfig, Watch], AbstractAsyncContextManager[McpConnection]]
"""Opens a connection; may raise anything. It keeps the watch informed until it is closed."""


class McpServer:
    """Call `run` once, in a task of its own; `stop` ends it. `clock` is in unix seconds.

    `run` is a loop with one connection at a time; everything of a connection happens in its task. Calls come from other
    tasks, through `use`: they wait for a connection within their own time limit.
    """

    def __init__(self, config: ServerConfig, *, clock: Callable[[], float], pauses: Sequence[float] = PAUSES) -> None:
        self.config = config
        self.offer = Offer()
        self.reason = ""  # of its last end, in one line
        self._clock, self._pauses = clock, pauses
        self._connection: McpConnection | None = None
        self._watch = Watch()
        self._stopping = asyncio.Event()
        self._waiting = 0  # calls that wait for a connection
        self._wake = asyncio.Event()  # ends the pause before the next attempt
        self._turned = asyncio.Event()  # there is a connection, or there will never be one again
        self._first = asyncio.Event()
        self.is_over = False  # given up or stopped, and will not come back
        self._in_row = 0  # ends that came too early
        self._starts_in_row = 0  # starts that failed

    @property
    def is_up(self) -> bool:
        return self._connection is not None and self._watch.ended is None

    async def tried(self) -> None:
        """Wait until the first start has succeeded or failed."""
        await self._first.wait()

    async def use(
        self, operation: Callable[[McpConnection], Awaitable[ToolOutput]], context: ToolContext
    ) -> ToolOutput:
        """Run the operation on the server, waiting for its connection. Failures become the output."""
        seconds = min(self.config.call_seconds, context.deadline - self._clock())
        if seconds <= 0:
            return ToolOutput.failed("there is no time left in this turn")
        try:
            async with asyncio.timeout(seconds):
                try:
                    return await operation(await self._connected())
                except CallNotRun as failure:
                    log.info("MCP server %s: a call is made again: %s", self.config.name, self._line(str(failure)))
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
                self._wake.set()  # for the next call: the owner may have changed the server meanwhile
                raise McpFailure(f"the server {self.config.name} refused the connection: {self._watch.ended}")
            self._turned.clear()  # the connection is over, though `run` may not have noticed yet
            self._waiting += 1
            if self.config.url is not None:  # a program would use up its MAX_STARTS
                self._wake.set()
            try:
                await self._turned.wait()
            finally:
                self._waiting -= 1

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._watch.end("it was stopped")

    def give_up(self) -> None:
        """Start it no more, and wake up the calls that wait. Its tools stay in the prompts."""
        self.is_over = True
        self._first.set()
        self._turned.set()

    async def run(self, connect: Connect) -> None:
        """Keep the server running until it is stopped or given up. Raises nothing but CancelledError."""
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
        """Run one connection. Returns whether it was ever up, and why it ended."""
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
                self._turned.set()
                await self._stay(connection, watch)
        except Exception as error:
            # The outermost edge of a foreign program, and of the SDK's task groups.
            watch.end(_reason(error, self.config))
        finally:
            self._connection = None
            self._turned.clear()
            if watch.is_refused:
                self._turned.set()  # the calls that wait fail
        return was_up, watch.ended or "the connection is gone"

    async def _stay(self, connection: McpConnection, watch: Watch) -> None:
        """Wait for the end of the connection, listing again whenever the offer has changed."""
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
        """Count an end and log it; repeated ones only once."""
        name, self.reason = self.config.name, self._line(reason)
        self._in_row = 0 if was_up and settled else self._in_row + 1
        if was_up:
            what = "ended and is restarted" if self.config.command is not None else "is gone, connecting again"
            log.warning("MCP server %s %s: %s", name, what, self.reason)
            return
        self._starts_in_row += 1
        if self.config.command is not None and self._starts_in_row >= MAX_STARTS:
            self.give_up()
            log.error("MCP server %s is given up after %d failed starts: %s", name, self._starts_in_row, self.reason)
            return
        level = logging.WARNING if self._starts_in_row == 1 else logging.DEBUG
        log.log(level, "MCP server %s failed to start, will retry: %s", name, self.reason)

    async def _pause(self) -> None:
        if self.is_over or not self._in_row:
            return
        place = self._in_row - 1
        seconds = self._pauses[place] if place < len(self._pauses) else LAST_PAUSE
        if self._waiting and self.config.url is not None:
            seconds = min(seconds, WAITING_PAUSE)
        self._wake.clear()
        if self._stopping.is_set():
            return
        await wait_at_most(self._wake, seconds)

    def _line(self, text: str) -> str:
        """Return the text on one line, shortened, without secrets."""
        return " ".join(self.config.redacted(text).split())[:_REASON_CHARACTERS]


def _reason(error: BaseException, config: ServerConfig) -> str:
    """Describe the innermost error of an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"it was not ready within {config.start_seconds:g} s"
    if isinstance(error, FileNotFoundError) and config.command is not None:
        return f"there is no program {config.command}" + (f", or no folder {config.cwd}" if config.cwd else "")
    return str(error) or "it gave no reason"


Operation = Callable[[McpConnection, Mapping[str, Any]], Awaitable[ToolOutput]]


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of a server, or one of the two that read its resources."""

    spec: Tool
    server: McpServer
    operation: Operation

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await self.server.use(lambda connection: self.operation(connection, arguments), context)


def tools_of(server: McpServer) -> tuple[McpTool, ...]:
    """Return the tools that the server offers and its entry allows, by name."""
    offered: list[tuple[Tool, Operation]] = [(tool, _call_of(tool.name)) for tool in server.offer.tools]
    if server.offer.resources:
        name = server.config.name
        uri = {"uri": {"type": "string", "description": "an address from the list"}}
        listing = tool_spec(LIST, f"Lists the resources of {name}, one a line, with their addresses.", {})
        reading = tool_spec(READ, f"Reads one resource of {name} by its address.", uri, ("uri",))
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


def _call_of(name: str) -> Operation:
    return lambda connection, arguments: connection.call(name, arguments)


def provider_names(server: str, tools: Sequence[str]) -> list[str]:
    """Return a unique name for each tool of a server, in order: `server__tool`, with the characters replaced that
    providers do not accept.

    A name that is too long or not unique ends in a short hash of the full one. Names do not depend on the order, and
    those of two servers are never equal.
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
    """`environment`: programs get only those of its variables that `process.INHERITED` names.

    `clock` is in unix seconds; `connect` opens a connection (by default with the SDK); `pauses` are in seconds.
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
            self._running.cancel()  # no effect if it has ended; otherwise its processes are killed
            await asyncio.gather(self._running, return_exceptions=True)

    def tools_for(self, agent: str) -> tuple[McpTool, ...]:
        """Return the tools that this agent may use, including those of a server that was running and is not now: a
        list that comes and goes would break the cached part of every prompt."""
        allowed = (server for server in self._servers if server.config.may_be_used_by(agent))
        return tuple(tool for server in allowed for tool in tools_of(server))

    async def tried(self) -> None:
        """Wait until every server has started or failed once, which takes as long as the slowest."""
        await asyncio.gather(*(server.tried() for server in self._servers))

    async def ready(self, agent: str) -> None:
        """Wait until every server of this agent has started or failed once, at most until READY_SECONDS after the
        start of all: without their tools a prompt would begin differently from all later ones."""
        waits = [server.tried() for server in self._servers if server.config.may_be_used_by(agent)]
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._ready_until):
                await asyncio.gather(*waits)

    def status(self) -> dict[str, str]:
        """Return each server's name → running, starting or stopped."""
        states = {server: "running" if server.is_up else "starting" for server in self._servers}
        return {server.config.name: "stopped" if server.is_over else state for server, state in states.items()}

    def reasons(self) -> dict[str, str]:
        """Return each server's name → why its last start or connection ended, "" if none did."""
        return {server.config.name: server.reason for server in self._servers}

    async def _run(self) -> None:
        try:
            opened = self._connect
            if opened is None:
                module = await asyncio.to_thread(importlib.import_module, "agentic.tools.mcp.connection")
                opened = cast(Connect, module.connector(self._environment))
        except ImportError as error:
            log.error("MCP servers: none can be used, the package mcp cannot be imported: %s", error)
            for server in self._servers:
                server.give_up()
            return
        async with asyncio.TaskGroup() as group:
            for server in self._servers:
                group.create_task(server.run(opened), name=f"mcp {server.config.name}")
