"""Keeps a bot connected to Discord's gateway, and shows the bot's status.

py-cord's own loop retries without a pause if the gateway closes immediately, lets its pauses grow to many minutes over
a day of short outages, logs each failure with a traceback, and leaves sockets open. Here a retry follows after 1 to
30 s, with one log line, and its predecessor's sockets are closed first. A session is resumed if Discord still has it.
If the gateway only cuts connections that resume a session, a new session begins after a few attempts.
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

import aiohttp
import discord
from discord.gateway import DiscordWebSocket, ReconnectWebSocket

from agentic.agent.limits import ProviderBackoff
from agentic.services.discord.odd_payloads import UnreadableReady
from agentic.services.discord.rate_limit import STEADY_SECONDS, backoff

log = logging.getLogger(__name__)
CONNECT_SECONDS = 60.0
CLOSE_SECONDS = 2.0  # to wait for the gateway's answer to a close; a dead connection sends none
CLEAN_CLOSE = 1000  # Discord sends it without a reason
DISALLOWED_INTENTS = 4014
MAX_SESSIONS, DAY = 900, 86_400.0
MAX_RESUMES = 5  # in a row that the gateway didn't answer
BACKOFF_TEXT = "Paused: my AI provider is rejecting requests"


class SessionLimit:
    """Limits the sessions that a bot begins in a day. `clock` is monotonic, in seconds.

    Discord resets a bot's token after 1,000 sessions in a day (discord.com/developers/docs/events/gateway). A bot that
    fails at the start of each session would reach that within hours.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: deque[float] = deque(maxlen=MAX_SESSIONS)

    def note(self) -> None:
        self._begun.append(self._clock())

    def pause(self) -> float:
        """Return the seconds until another session may begin."""
        full = len(self._begun) == MAX_SESSIONS
        return max(0.0, self._begun[0] + DAY - self._clock()) if full else 0.0


class GatewayConnection:
    """Connects one bot after its login. `clock` is monotonic, in seconds."""

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
        self._opened: list[_Socket] = []
        self._unanswered = 0  # resumes in a row
        self._resume: dict[str, Any] = {}  # py-cord's arguments for resuming the session
        self._welcome = False
        self._tries = 0  # since the last session
        self._socket = _collect_sockets(self._opened)
        client.add_listener(self._on_welcome, "on_connect")
        client.add_listener(self._on_welcome, "on_resumed")

    @property
    def open(self) -> bool:
        """Whether it is connected with a new or resumed session."""
        return self._welcome and bool(self._opened) and self._opened[-1].open

    async def run(self) -> None:
        """Stay connected until canceled. Raises discord.ConnectionClosed if a retry is pointless (a wrong token), and
        discord.PrivilegedIntentsRequired."""
        pauses = backoff(self._rng)
        while True:
            began = self._clock()
            why = await self._connect_once()
            if self._clock() - began >= STEADY_SECONDS:
                pauses = backoff(self._rng)
            pause = max(next(pauses), self._sessions.pause() if self._begins_session else 0.0)
            self._tries += 1
            log.warning("%s lost its connection to Discord: %s; trying again in %.0f s", self._name, why, pause)
            await self._sleep(pause)

    async def _connect_once(self) -> str:
        """Connect and listen until the connection ends. Return the reason."""
        self._welcome = False
        try:
            if self._begins_session:
                if (pause := self._sessions.pause()) > 0:  # of an earlier run
                    text = "%s has begun %d sessions in a day; the next one begins in %.0f s"
                    log.error(text, self._name, MAX_SESSIONS, pause)
                    await self._sleep(pause)
                self._sessions.note()
            connecting = self._socket.from_client(self._client, initial=not self._resume, **self._resume)
            socket = self._client.ws = await asyncio.wait_for(connecting, CONNECT_SECONDS)
            # py-cord's heartbeat thread also closes a silent connection, so no event needs a timer of its own.
            socket._max_heartbeat_timeout = None  # type: ignore[assignment]
            while True:
                await socket.poll_event()
        except ReconnectWebSocket as asked:
            self._keep_session(resumes=asked.resume)
            if not asked.resume:
                return "its session is over"
            code = self._opened[-1].socket.close_code if self._opened else None
            asks = code is None or self._opened[-1]._close_code
            return "Discord asked for a new connection" if asks else f"closed with code {code}"
        except discord.ConnectionClosed as closed:
            if closed.code == DISALLOWED_INTENTS:
                raise discord.PrivilegedIntentsRequired(closed.shard_id) from closed
            if closed.code != CLEAN_CLOSE:
                raise
            self._keep_session()
            return "closed"
        except UnreadableReady as odd:
            self._keep_session(resumes=False)
            return f"the first event of its session is unreadable ({odd})"
        except Exception as error:  # a broken connection, an outage of Discord, an invalid frame
            self._keep_session()
            return type(error.__cause__ or error).__name__
        finally:
            self._client.dispatch("disconnect")
            while self._opened:  # closed in a way that the session can still be resumed
                socket = self._opened.pop()
                with suppress(TimeoutError, OSError, RuntimeError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await socket.close()

    @property
    def _begins_session(self) -> bool:
        return not self._resume.get("resume")

    def _keep_session(self, *, resumes: bool = True) -> None:
        """Decide whether the next try resumes the session or begins a new one."""
        if self._opened and self._opened[-1].has_asked_to_resume and not self._welcome:
            self._unanswered += 1
        if not resumes or self._unanswered >= MAX_RESUMES:
            self._resume, self._unanswered = {"resume": False}, 0
        elif self._opened and self._opened[-1].session_id is not None:
            session, sequence = self._opened[-1].session_id, self._opened[-1].sequence
            self._resume = {"resume": True, "session": session, "sequence": sequence}

    async def _on_welcome(self) -> None:
        self._welcome = True
        if self._tries:
            log.info("%s is connected to Discord again", self._name)
        self._tries = self._unanswered = 0


class _Socket(DiscordWebSocket):
    """A socket that knows whether it asked Discord to resume a session."""

    has_asked_to_resume = False

    async def resume(self) -> None:
        self.has_asked_to_resume = True
        await super().resume()


def _collect_sockets(opened: list[_Socket]) -> type[_Socket]:
    """Return a socket class that adds each instance to `opened`: every socket must be closed, but py-cord returns it
    only after the gateway's first message."""

    class Socket(_Socket):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            opened.append(self)

    return Socket


async def show_backoff(bot: discord.Client, backoff: ProviderBackoff) -> None:
    """Show each backoff in the bot's status from its beginning to its end, until canceled."""
    while True:
        await backoff.taken.wait()
        backoff.taken.clear()
        await _set_status(bot, discord.Status.do_not_disturb, discord.CustomActivity(name=BACKOFF_TEXT))
        await asyncio.sleep(backoff.seconds_left)
        await _set_status(bot, discord.Status.online, None)


async def _set_status(bot: discord.Client, status: discord.Status, activity: discord.CustomActivity | None) -> None:
    if bot.ws is None or not bot.ws.open:  # py-cord would raise AttributeError
        return
    try:
        await bot.change_presence(status=status, activity=activity)
    except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
        log.info("setting the bot's status failed: %s", type(error).__name__)
