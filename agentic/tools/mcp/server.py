"""The life of one MCP server: connect, list its tools, list again when they change, reconnect when it is gone.

`McpServer.run` is a loop with one connection at a time; everything of a connection happens in its task. Calls come from
other tasks, through `use`: they wait for a connection within their own time limit. A connection that breaks during a
call is an error for that call and restarted for the next. A call that the server certainly did not run (CallNotRun) is
made once more on the next connection. While a server is away, or given up, its tools are still offered, because they
are in the cached part of a prompt; their calls fail.

The first restart is immediate, later ones follow growing pauses, until the server has run well for a minute. A program
that fails to start `MAX_STARTS` times in a row is given up. An address is retried forever, and at least every second
while a call waits for it; if it refuses our key, calls fail immediately, and each starts one more attempt. This module
does not know the SDK: `Connect` opens a connection (connection.py), which reports through `Watch`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from agentic.llm.types import Tool
from agentic.tools.mcp.config import ServerConfig
from agentic.tools.tool import ToolContext, ToolOutput

PAUSES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)  # seconds before the restarts in a row
LAST_PAUSE = 300.0
WAITING_PAUSE = 1.0  # seconds between attempts to reach an address that a call waits for
SETTLED = 60.0  # seconds after which an end is no longer one in a row
MAX_STARTS = 8
RELIST_PAUSE = 1.0  # seconds from one listing to the next, however often the server asks
_REASON_CHARACTERS = 400

log = logging.getLogger(__name__)


class McpFailure(Exception):
    """A server could not do a request. The text is one line, for the model."""


class CallNotRun(McpFailure):
    """The request did not reach the server's tools, and the connection is over: it may be made again on the next."""


class Watch:
    """Reports from one connection: that it ended and why, and that the offer has changed."""

    def __init__(self) -> None:
        self.ended: str | None = None
        self.is_refused = False  # the server does not let us in; waiting does not help
        self.changed = False
        self._news = asyncio.Event()

    def end(self, reason: str) -> None:
        """Report the end. The first reason counts."""
        if self.ended is None:
            self.ended = reason
        self._news.set()

    def refuse(self, reason: str) -> None:
        """Report that the server accepts no connection with our key."""
        self.is_refused = True
        self.end(reason)

    def change(self) -> None:
        self.changed = True
        self._news.set()

    async def wait(self) -> None:
        """Wait for the next report."""
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
    """Call `run` once, in a task of its own; `stop` ends it. `clock` is in unix seconds."""

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
        self._over: str | None = None
        self._in_row = 0  # ends that came too early
        self._starts_in_row = 0  # starts that failed

    @property
    def is_over(self) -> bool:
        """Whether it was given up or stopped and will not come back."""
        return self._over is not None

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
            if self._over is not None:
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
        self._over = self._over or "given up"
        self._first.set()
        self._turned.set()

    async def run(self, connect: Connect) -> None:
        """Keep the server running until it is stopped or given up. Raises nothing but CancelledError."""
        try:
            while not self._stopping.is_set() and not self.is_over:
                began = self._clock()
                was_up, reason = await self._once(connect)
                if not self._stopping.is_set():
                    self._count(was_up, self._clock() - began >= SETTLED, reason)
                    self._first.set()
                    await self._pause()
        finally:
            self._over = self._over or "stopped"
            self._first.set()
            self._turned.set()

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
                self._up(connection)
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

    def _up(self, connection: McpConnection) -> None:
        self._connection = connection
        self._starts_in_row = 0
        names = ", ".join(tool.name for tool in self.offer.tools) or "no tools"
        log.info("MCP server %s is running: %s", self.config.name, self._line(names))
        self._first.set()
        self._turned.set()

    async def _stay(self, connection: McpConnection, watch: Watch) -> None:
        """Wait for the end of the connection, listing again whenever the offer has changed."""
        while watch.ended is None:
            await watch.wait()
            if watch.changed and watch.ended is None:
                watch.changed = False
                await self._relist(connection)
                await self._rest(watch)

    async def _relist(self, connection: McpConnection) -> None:
        try:
            async with asyncio.timeout(self.config.call_seconds):
                self.offer = await connection.offer()
        except (McpFailure, TimeoutError) as error:
            reason = self._line(str(error) or "no answer in time")
            log.warning("MCP server %s: listing its changed tools failed: %s", self.config.name, reason)

    async def _rest(self, watch: Watch) -> None:
        """Pause between listings, or until the connection is over."""
        changed = watch.changed
        try:
            async with asyncio.timeout(RELIST_PAUSE):
                while watch.ended is None:
                    await watch.wait()
                    changed = changed or watch.changed
        except TimeoutError:
            if changed:
                watch.change()

    def _count(self, was_up: bool, settled: bool, reason: str) -> None:
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
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

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
