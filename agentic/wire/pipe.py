"""A connection to Redis without a pool: commands are sent immediately, and their replies come back in order.

redis-py opens the connection (address, login, TLS, Sentinels) and provides the commands. Its pool, retries, and metrics
would cost ten times as many calls as a command needs, so writing and reading is done here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.client import NEVER_DECODE
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

_NOTHING = object()  # hiredis has no complete reply


def pack(*words: Any) -> bytes:
    """Encode a command for Redis. Half an emoji becomes a question mark. Raises TypeError."""
    try:
        packed: bytes = hiredis.pack_command(words)
    except UnicodeEncodeError:
        words = tuple(each.encode(errors="replace") if isinstance(each, str) else each for each in words)
        packed = hiredis.pack_command(words)
    return packed


class RedisSocket(asyncio.Protocol):
    """One connection, from its opening to its end. Subclasses `take` the replies."""

    def __init__(self, pool: ConnectionPool) -> None:
        self.is_over = False
        self.reads_text = True  # the next reply is decoded
        self._pool = pool
        self._writer: asyncio.StreamWriter | None = None
        self._reader: Any = None

    async def open(self) -> None:
        """Connect and log in. Raises RedisConnectionError, InvalidResponse, RedisTimeoutError, OSError."""
        connection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.connect()
        except ResponseError as error:  # such as a database that the server doesn't have
            await connection.disconnect(nowait=True)
            raise RedisConnectionError(str(error)) from error
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        # redis-py has no other way to hand over its socket.
        self._writer, connection._writer, connection._reader = connection._writer, None, None
        encoder = connection.encoder
        self._reader = hiredis.Reader(
            protocolError=InvalidResponse,
            replyError=connection._parser.parse_error,
            encoding=encoder.encoding if encoder.decode_responses else None,
            errors=encoder.encoding_errors,
            notEnoughData=_NOTHING,
        )
        assert self._writer is not None
        self._writer.transport.set_protocol(self)

    def write(self, packed: bytes) -> None:
        assert self._writer is not None
        self._writer.transport.write(packed)

    def take(self, reply: Any) -> None:
        raise NotImplementedError

    def end(self, error: Exception) -> None:
        """Close the connection because of this error."""
        self.is_over = True
        if self._writer is not None:
            self._writer.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets(self.reads_text)) is not _NOTHING:
            self.take(reply)

    def connection_lost(self, error: Exception | None) -> None:
        self.end(error or ConnectionError("Redis closed the connection"))


class CommandPipe(RedisSocket):
    """Send commands, and match their replies. If nothing is received for `seconds` while a command waits, the
    connection ends and all waiting commands fail, so no command needs a timer of its own."""

    def __init__(self, pool: ConnectionPool, seconds: float) -> None:
        super().__init__(pool)
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._unsent: list[bytes] = []
        # per `send`: number of replies, whether they are text, replies received
        self._waiting: deque[tuple[asyncio.Future[list[Any]], int, bool, list[Any]]] = deque()
        self._alive_at = 0.0  # event loop time
        self._watch: asyncio.TimerHandle | None = None
        self._opening = self._loop.create_task(self._open(), name="redis-open")

    def send(self, packed: bytes, count: int = 1, *, as_text: bool = True) -> asyncio.Future[list[Any]]:
        """Send `count` commands. Returns their replies, which may be errors. Raises redis-py's ConnectionError,
        TimeoutError."""
        replies: asyncio.Future[list[Any]] = self._loop.create_future()
        if not self._waiting:
            self._alive_at = self._loop.time()
            self.reads_text = as_text
        self._waiting.append((replies, count, as_text, []))
        if self._watch is None:
            self._watch = self._loop.call_later(self._seconds, self._check)
        if self._reader is None:
            self._unsent.append(packed)
        else:
            self.write(packed)
        return replies

    def take(self, reply: Any) -> None:
        if type(reply) is hiredis.PushNotification:
            return
        replies, count, _, taken = self._waiting[0]
        taken.append(reply)
        if len(taken) == count:
            self._waiting.popleft()
            self.reads_text = self._waiting[0][2] if self._waiting else True
            if not replies.done():  # the waiting task may be canceled
                replies.set_result(taken)
        self._alive_at = self._loop.time()
        if type(reply) is ReadOnlyError and isinstance(self._pool, SentinelConnectionPool):
            self.end(RedisConnectionError("the former master accepts no writes"))  # the Sentinels know the new master

    def end(self, error: Exception) -> None:
        super().end(error)
        self._opening.cancel()
        if self._watch is not None:
            self._watch.cancel()
        waiting, self._waiting = self._waiting, deque()
        for replies, *_ in waiting:
            if not replies.done():
                replies.set_exception(error if isinstance(error, RedisError) else RedisConnectionError(str(error)))

    async def _open(self) -> None:
        try:
            await self.open()
        except (RedisError, OSError) as error:
            self.end(error)
        else:
            self.write(b"".join(self._unsent))

    def _check(self) -> None:
        self._watch = None
        if not self._waiting:
            return
        if (left := self._alive_at + self._seconds - self._loop.time()) > 0:
            self._watch = self._loop.call_later(left, self._check)
        else:
            self.end(RedisTimeoutError("no answer in time"))


class CommandClient(Redis):
    """redis-py's commands over one CommandPipe, which is reopened after it ends."""

    def __init__(self, pool: ConnectionPool, seconds: float) -> None:
        super().__init__(connection_pool=pool)
        self._seconds = seconds
        self._pipe: CommandPipe | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, or one is being opened."""
        return self._pipe is not None and not self._pipe.is_over

    def send(self, packed: bytes, count: int = 1, *, as_text: bool = True) -> asyncio.Future[list[Any]]:
        """Send commands, as CommandPipe.send does."""
        if self._pipe is None or self._pipe.is_over:
            self._pipe = CommandPipe(self.connection_pool, self._seconds)
        return self._pipe.send(packed, count, as_text=as_text)

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        reply = await self.run(*args[0].split(), *args[1:], as_text=NEVER_DECODE not in options)
        return self.read_reply(reply, args[0], options)

    async def run(self, *words: Any, as_text: bool = True) -> Any:
        """Send a command and return its raw reply. Raises it if it is an error."""
        (reply,) = await self.send(pack(*words), as_text=as_text)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> CommandBatch:
        return CommandBatch(self, transaction)

    def read_reply(self, reply: Any, name: str, options: Mapping[str, Any]) -> Any:
        """Convert a command's reply to what redis-py returns."""
        callback = self.response_callbacks.get(name)
        if callback is None:
            return reply
        return callback(reply, **{key: value for key, value in options.items() if key not in ("keys", NEVER_DECODE)})

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        if self._pipe is not None:
            self._pipe.end(RedisConnectionError("closed"))
        await super().aclose(close_connection_pool)


class CommandBatch(Pipeline):
    """Commands that are sent together."""

    def __init__(self, client: CommandClient, transaction: bool) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction, None)
        self._client = client

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send the commands and return their replies. With `raise_on_error`, raises the first error after all commands
        were tried; otherwise errors are returned, but the error of a whole transaction is raised. With redis-py's
        option NEVER_DECODE, replies are bytes."""
        commands = self.command_stack
        if not commands:
            return []
        packed = [pack(*args[0].split(), *args[1:]) for args, _ in commands]
        if self.is_transaction:
            packed = [pack("MULTI"), *packed, pack("EXEC")]
        as_text = not any(NEVER_DECODE in options for _, options in commands)
        replies = await self._client.send(b"".join(packed), len(packed), as_text=as_text)
        if self.is_transaction:
            _raise_first(replies)
            replies = replies[-1]
        results = [
            reply if isinstance(reply, Exception) else self._client.read_reply(reply, str(args[0]), options)
            for (args, options), reply in zip(commands, replies, strict=True)
        ]
        if raise_on_error:
            _raise_first(results)
        return results


def _raise_first(replies: Sequence[Any]) -> None:
    """Raise the first error among the replies."""
    for each in replies:
        if isinstance(each, Exception):
            raise each
