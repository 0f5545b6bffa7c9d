"""Run an MCP server as a program on this machine, with one JSON message per line on its standard input and output.

This replaces the SDK's transport, because it handles failures better:

- The program gets only the given environment, so none of our tokens.
- The size of a line is limited, and the number of lines that aren't messages. Standard error goes to the log. Its last
  lines are in the reason for the end of the server.
- The end of the program is reported immediately, with a reason.
- The program runs in a session of its own. To stop it, its input is closed, then its process group gets SIGTERM, then
  SIGKILL (even if we are canceled), so no process is left.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Mapping

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from agentic.process.tasks import cancel_and_wait
from agentic.tools.mcp.config import ServerConfig

MAX_LINE = 8 * 1024 * 1024  # bytes: a picture of 6 MB in base64
MAX_GARBAGE = 1000  # lines that aren't messages; some programs print a greeting
GRACE = 2.0  # seconds for each step of stopping
POLL = 0.02
ALIVE_POLL = 1.0
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TERM")
_SAID_LINES, _SAID_CHARACTERS = 5, 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Read = MemoryObjectReceiveStream[SessionMessage | Exception]
Write = MemoryObjectSendStream[SessionMessage]

log = logging.getLogger(__name__)


def child_environment(settings: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return a server's environment: the variables in INHERITED and in its entry."""
    return {name: settings[name] for name in INHERITED if name in settings} | dict(own)


class ServerProcess(Transport):
    """A transport for the SDK: the program of `config`, for the duration of the context.

    `ended` is called with the reason for its end. `grace`: seconds for each step of stopping. Raises OSError if it
    can't be started.
    """

    def __init__(
        self,
        config: ServerConfig,
        environment: Mapping[str, str],
        ended: Callable[[str], None],
        *,
        grace: float = GRACE,
    ) -> None:
        self._config, self._environment, self._ended, self._grace = config, environment, ended, grace
        self._process: Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._said: deque[str] = deque(maxlen=_SAID_LINES)

    async def __aenter__(self) -> tuple[Read, Write]:
        config = self._config
        assert config.command is not None
        process = self._process = await asyncio.create_subprocess_exec(
            config.command,
            *config.args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=child_environment(self._environment, config.env),
            cwd=config.cwd,
            start_new_session=True,
            limit=MAX_LINE,
        )
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (incoming, read, write, outgoing)
        hearing = asyncio.create_task(self._hear(process), name=f"mcp {config.name} stderr")
        self._tasks = [
            hearing,
            asyncio.create_task(self._read(process, incoming, hearing), name=f"mcp {config.name} stdout"),
            asyncio.create_task(self._write(process, outgoing), name=f"mcp {config.name} stdin"),
            asyncio.create_task(self._watch(process, incoming), name=f"mcp {config.name} alive"),
        ]
        return read, write

    async def __aexit__(self, *_: object) -> None:
        process = self._process
        assert process is not None
        try:
            for stream in self._streams:
                stream.close()
            await self._end(process)
        finally:
            _signal_group(process, signal.SIGKILL)
            await cancel_and_wait(*self._tasks)
            # A process outside of the group may keep the pipes open; asyncio has no public way to close them.
            if (transport := getattr(process, "_transport", None)) is not None:
                transport.close()

    async def _end(self, process: Process) -> None:
        if process.stdin is not None:
            process.stdin.close()
        if await _within(self._grace, lambda: process.returncode is not None) and not _signal_group(process, 0):
            return
        _signal_group(process, signal.SIGTERM)
        if not await _within(self._grace, lambda: process.returncode is not None and not _signal_group(process, 0)):
            log.debug("MCP server %s didn't stop; killing it", self._config.name)
            _signal_group(process, signal.SIGKILL)
            await _within(self._grace, lambda: process.returncode is not None)

    async def _read(self, process: Process, incoming: Incoming, hearing: asyncio.Task[None]) -> None:
        assert process.stdout is not None
        try:
            problem = await self._pass_on(process.stdout, incoming)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            problem = "it was stopped"
        if problem is None:
            if await _within(self._grace, lambda: process.returncode is not None):
                await asyncio.wait({hearing}, timeout=self._grace)
            problem = self._end_of(process)
        self._ended(problem)
        incoming.close()
        while await process.stdout.read(65536):
            """Discard the rest: a server that can't write its output wouldn't end."""

    async def _pass_on(self, output: asyncio.StreamReader, incoming: Incoming) -> str | None:
        """Pass messages on until the output ends. Return the problem with the output, if there is one."""
        garbage = 0
        while True:
            try:
                line = await output.readline()
            except ValueError:
                return f"it sent a line of more than {MAX_LINE // 1024 // 1024} MiB"
            if not line:
                return None
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                garbage += bool(line.strip())
            else:
                await incoming.send(SessionMessage(message))
                continue
            if garbage > MAX_GARBAGE:
                return "it prints other text than MCP messages on its standard output"
            log.debug("MCP server %s printed a line that isn't a message: %s", self._config.name, self._line(line))
            await asyncio.sleep(0)  # reading lines that have already arrived doesn't yield

    async def _write(self, process: Process, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        assert process.stdin is not None
        try:
            async for message in outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            log.debug("MCP server %s has stopped reading: %r", self._config.name, error)
            outgoing.close()  # makes further sends fail; the end of the program's output says why

    async def _hear(self, process: Process) -> None:
        """Note the lines of standard error."""
        assert process.stderr is not None
        rest = b""
        while chunk := await process.stderr.read(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._note(line)
            rest = rest[-65536:]
        self._note(rest)

    def _note(self, line: bytes) -> None:
        if text := self._line(line):
            self._said.append(text)
            log.debug("MCP server %s: %s", self._config.name, text)

    def _line(self, line: bytes) -> str:
        text = self._config.redacted(line.decode("utf-8", "replace"))
        return _CONTROL.sub(" ", text).strip()[:_SAID_CHARACTERS]

    async def _watch(self, process: Process, incoming: Incoming) -> None:
        """Wait for the program's end. Its output doesn't show the end if a child process keeps it open."""
        while process.returncode is None:  # noqa: ASYNC110  (asyncio's own wait includes the pipes)
            await asyncio.sleep(ALIVE_POLL)
        await asyncio.sleep(ALIVE_POLL)  # time for its last messages and the end of its output
        self._ended(self._end_of(process))
        incoming.close()

    def _end_of(self, process: Process) -> str:
        code = process.returncode
        if code is None:
            how = "it closed its output"
        else:
            how = f"it ended with exit code {code}" if code >= 0 else f"it was ended by signal {-code}"
        return f"{how}; it said: {' | '.join(self._said)}" if self._said else how


async def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait until the condition is true, or return False. It polls, because Process.wait() also waits for the pipes."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + seconds
    while not condition():
        if loop.time() > give_up:
            return False
        await asyncio.sleep(POLL)
    return True


def _signal_group(process: Process, number: int) -> bool:
    """Send a signal to the process group (0: only check it); return False if it has ended. Its leader may have, too."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS, for a group whose last process isn't reaped yet
        return process.returncode is None
    return True
