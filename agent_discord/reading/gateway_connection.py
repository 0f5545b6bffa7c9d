"""A bot's connection to Discord's gateway, made again as often as it ends.

py-cord's own loop asks a gateway that closes at once again without a pause, lets its pauses grow to many minutes over a
day of short outages, logs each failure with its traceback and leaves sockets open. Here each try is at least 1 s after
the one before and at most 30 s, one line of the log each, and what a try has opened is closed before the next one.
A session is resumed where Discord still has it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import discord
from discord.gateway import DiscordWebSocket, ReconnectWebSocket

from agent_discord.reading.unreadable_events import UnreadableReady
from agent_discord.rest.retries import STEADY_SECONDS, backoff

CONNECT_SECONDS = 60.0
CLOSE_SECONDS = 2.0  # for the gateway's own goodbye; a line that is dead brings none
CLEAN_CLOSE = 1000  # Discord sends it for no reason that it tells
DISALLOWED_INTENTS = 4014
MOST_SESSIONS, DAY = 900, 86_400.0

log = logging.getLogger(__name__)


class SessionLimit:
    """How many sessions a bot has begun in a day, over all its runs. `clock` gives seconds that only grow.

    Discord resets the token of a bot that begins more than 1,000 (discord.com/developers/docs/events/gateway); one that
    fails at each beginning would come to that within hours.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: deque[float] = deque(maxlen=MOST_SESSIONS)

    def note(self) -> None:
        self._begun.append(self._clock())

    def pause(self) -> float:
        """Seconds until another one may begin."""
        full = len(self._begun) == MOST_SESSIONS
        return max(0.0, self._begun[0] + DAY - self._clock()) if full else 0.0


class GatewayConnection:
    """One bot's, from its login on. `clock` gives seconds that only grow."""

    def __init__(
        self,
        client: discord.Bot,
        name: str,
        rng: random.Random,
        sessions: SessionLimit | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._client, self._name, self._rng, self._clock, self._sleep = client, name, rng, clock, sleep
        self._sessions = sessions or SessionLimit(clock)
        self._opened: list[DiscordWebSocket] = []
        self._resume: dict[str, Any] = {}  # what py-cord is to be told of the session
        self._welcome = False
        self._tries = 0  # since it was last welcome
        client.add_listener(self._welcomed, "on_connect")
        client.add_listener(self._welcomed, "on_resumed")

        self._socket = _noting(self._opened)

    @property
    def open(self) -> bool:
        """Connected, and welcome: a session has begun or goes on."""
        return self._welcome and bool(self._opened) and self._opened[-1].open

    async def run(self) -> None:
        """Stays connected until cancelled. Raises discord.ConnectionClosed for a close that another try cannot change
        (a wrong token), discord.PrivilegedIntentsRequired."""
        pauses = backoff(self._rng)
        while True:
            began = self._clock()
            why = await self._ended()
            if self._clock() - began >= STEADY_SECONDS:
                pauses = backoff(self._rng)
            pause = max(next(pauses), self._sessions.pause() if self._begins_anew else 0.0)
            self._tries += 1
            log.warning("%s lost its connection to Discord (%s): next try in %.0f s", self._name, why, pause)
            await self._sleep(pause)

    async def _ended(self) -> str:
        """Connects and listens until the connection ends; why it did."""
        self._welcome = False
        try:
            await self._listen()
        except ReconnectWebSocket as asked:
            self._keep_session(anew=not asked.resume)
            return self._asked() if asked.resume else "its session is over"
        except discord.ConnectionClosed as closed:
            if closed.code == DISALLOWED_INTENTS:
                raise discord.PrivilegedIntentsRequired(closed.shard_id) from closed
            if closed.code != CLEAN_CLOSE:
                raise
            self._keep_session()
            return "closed"
        except UnreadableReady as odd:
            self._keep_session(anew=True)
            return f"the beginning of its session cannot be read, {odd}"
        except Exception as error:  # a line that breaks, a Discord that is away, a frame that is none
            self._keep_session()
            return type(error.__cause__ or error).__name__
        finally:
            self._client.dispatch("disconnect")
            await self._close()
        raise AssertionError("it listens until something ends it")

    @property
    def _begins_anew(self) -> bool:
        return not self._resume.get("resume")

    async def _listen(self) -> None:
        if self._begins_anew:
            if (pause := self._sessions.pause()) > 0:  # of an earlier run
                log.error("%s has begun %d sessions in a day: the next one in %.0f s", self._name, MOST_SESSIONS, pause)
                await self._sleep(pause)
            self._sessions.note()
        connecting = self._socket.from_client(self._client, initial=not self._resume, **self._resume)
        socket = self._client.ws = await asyncio.wait_for(connecting, CONNECT_SECONDS)
        while True:
            await socket.poll_event()

    def _keep_session(self, *, anew: bool = False) -> None:
        """What the next try tells of the session: to go on with it, or to begin another one."""
        if anew:
            self._resume = {"resume": False}
        elif self._opened and self._opened[-1].session_id is not None:
            session, sequence = self._opened[-1].session_id, self._opened[-1].sequence
            self._resume = {"resume": True, "session": session, "sequence": sequence}

    async def _close(self) -> None:
        """Closes what this try has opened, so that the session can still be resumed."""
        while self._opened:
            socket = self._opened.pop()
            with suppress(TimeoutError, OSError, RuntimeError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await socket.close()

    def _asked(self) -> str:
        """Why py-cord wants another connection, of which it says no more than that."""
        code = self._opened[-1].socket.close_code if self._opened else None
        return "asked to connect again" if code is None or self._opened[-1]._close_code else f"closed with code {code}"

    async def _welcomed(self) -> None:
        self._welcome = True
        if self._tries:
            log.info("%s is connected to Discord again", self._name)
        self._tries = 0


def _noting(opened: list[DiscordWebSocket]) -> type[DiscordWebSocket]:
    """py-cord gives its socket away only when it was greeted, and it is to be closed in any case."""

    class Socket(DiscordWebSocket):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            opened.append(self)

    return Socket
