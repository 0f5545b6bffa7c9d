"""Supervise one bot: its models, its lease, and its runs, each from login to the error that ends it.

A failure stays with its bot and is logged in one line. The bot starts again after a pause, unless its owner has to act.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import aiohttp
import discord

from agent_cogs.base import BaseAgentCog
from agent_config import AgentSettings, Settings, missing_key_message, shared_tokens
from agentic.actions.room_create import RoomCreation
from agentic.agent.services import AgentServices
from agentic.llm.providers.agent_sdk import AgentSdkModel
from agentic.llm.types import Model
from agentic.runtime.bot_run import LEASE, BotRun, SideTaskFailed, cancel
from agentic.services.discord.gateway_connection import SessionLimit
from agentic.services.discord.retries import STEADY_SECONDS, backoff
from agentic.state.leases import Lease
from agentic.turn.conversation import AgentSessions

TOKEN_REFUSED = 4004  # the gateway's close code when a token is revoked while the bot is online
NEEDS_SHARDS = 4011  # in more than 2,500 servers


log = logging.getLogger(__name__)


def runnable(settings: Settings, only: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[str, ...]:
    """The chosen agents that have a token of their own and a key. The others are reported, in the log or as a warning
    of the settings."""
    doubled = {name for names in shared_tokens(settings) for name in names}
    wanted = [name for name in settings.agents if (not only or name in only) and name not in without]
    chosen = [agent for agent in (settings.agents[name] for name in wanted if name not in doubled) if agent.token]
    for agent in chosen:
        if not agent.usable:
            log.warning("%s", missing_key_message(agent))
    return tuple(agent.name for agent in chosen if agent.usable)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The reason why a run ended, for people. `final`: it would end again in the same way until the owner acts."""

    reason: str
    error: Exception
    final: bool = False

    @property
    def unexpected(self) -> bool:
        """Not an error of Discord or the network: the log gets the traceback."""
        return not isinstance(self.error, (discord.DiscordException, aiohttp.ClientError, OSError))


def end_of(error: Exception, token_setting: str) -> RunEnd:
    """Translate the error that ended a run."""
    refused = f"Discord refuses its token: check {token_setting}"
    match error:
        case discord.LoginFailure():
            return RunEnd(refused, error, final=True)
        case discord.ConnectionClosed(code=code) if code == TOKEN_REFUSED:
            return RunEnd(refused, error, final=True)
        case discord.ConnectionClosed(code=code) if code == NEEDS_SHARDS:
            crowded = (
                "it is in more servers than one connection may have (2,500), and has no shards: remove it from some"
            )
            return RunEnd(crowded, error, final=True)
        case discord.PrivilegedIntentsRequired():
            intent = "its Message Content Intent is off; switch it on in the Discord developer portal, under Bot"
            return RunEnd(intent, error, final=True)
        case discord.ConnectionClosed(code=code):
            return RunEnd(f"Discord closed the connection (code {code})", error)
        case SideTaskFailed(name=name):
            return RunEnd(f"its {name} failed ({type(error.__cause__).__name__})", error)
        case _:
            return RunEnd(f"it could not stay online ({type(error).__name__})", error)


class BotSupervisor:
    """Run one bot until cancelled, starting it again after failures. `guild_models`: by guild, where another is set."""

    def __init__(
        self,
        agent: AgentSettings,
        services: AgentServices,
        lease: Lease,
        model: Model,
        guild_models: Mapping[int, Model],
        *,
        on_signal: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.agent, self.lease, self.model = agent, lease, model
        self.models = tuple(dict.fromkeys((model, *guild_models.values())))
        for each in self.models:
            if isinstance(each, AgentSdkModel):
                each.sessions = AgentSessions(agent.spec.name, services.ledger.sessions)
        self.was_online = False
        self.settled = asyncio.Event()  # online, failed, or Discord unreachable: startup waits no longer
        self._services, self._guild_models, self._clock, self._sleep = services, guild_models, clock, sleep
        self._on_signal = on_signal
        self._failure: str | None = None
        self._sessions = SessionLimit(clock)
        self._run = self._new_run()

    def _new_run(self) -> BotRun:
        return BotRun(self.agent, self._services, self.lease, self.model, self._guild_models, self._sessions)

    @property
    def client(self) -> discord.Bot:
        return self._run.client

    @property
    def cog(self) -> BaseAgentCog:
        return self._run.cog

    @property
    def room_creation(self) -> RoomCreation:
        return self._run.room_creation

    @property
    def online(self) -> bool:
        """Whether it is connected now."""
        return self._run.online

    @property
    def failure(self) -> str | None:
        """The reason why it is offline; None before a failure, and once it is online again."""
        run = self._run
        return self._failure if run.closed or run.without_discord or not run.cog.host.ready.is_set() else None

    async def run(self) -> None:
        """Log in and stay online until cancelled. Returns after a rejected token or intent; after any other error it
        starts again, with growing pauses. An agent that is on Signal too goes on there meanwhile, or for good."""
        pauses = backoff(self._services.rng)
        while True:
            began = self._clock()
            end = await self._run_once()
            name, offline = self.agent.spec.name, "offline in Discord" if self._on_signal else "offline"
            if end.final and not self._on_signal:
                log.error("%s is offline: %s", name, end.reason)
                await self._release()
                return
            if end.final:
                log.error("%s is %s: %s. On Signal it goes on", name, offline, end.reason)
                await self._go_on_on_signal(None)
            if self._clock() - began >= STEADY_SECONDS:
                pauses = backoff(self._services.rng)
            pause = next(pauses)
            fault = end.error if end.unexpected else None
            log.error("%s is %s: %s; it starts again in %.0f s", name, offline, end.reason, pause, exc_info=fault)
            await (self._go_on_on_signal(pause) if self._on_signal else self._sleep(pause))
            self._run = self._new_run()

    async def _go_on_on_signal(self, seconds: float | None) -> None:
        """Run on Signal alone for so long, None for ever. Running turns end before it returns."""
        pauses = backoff(self._services.rng)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._run = self._new_run()
                    try:
                        await self._run.run_on_signal()
                    except SideTaskFailed as failed:
                        log.exception("%s: its %s failed on Signal, it starts again", self.agent.spec.name, failed.name)
                    await self._run.aclose()
                    await self._sleep(next(pauses))
        except TimeoutError:
            await self._run.cog.host.drain()
        finally:
            await self._run.aclose()

    async def _run_once(self) -> RunEnd:
        """Run until an error ends it, then close what it held."""
        watching = asyncio.create_task(self._watch(self._run))
        try:
            await self._run.run()
        except Exception as error:
            end = end_of(error, self.agent.spec.token_setting)
            self._failure = end.reason
            await self._run.aclose()
            if isinstance(error, SideTaskFailed) and error.name == LEASE:
                await self._release()  # a lease that is not renewed must not look held
            self.settled.set()
            return end
        finally:
            await cancel([watching])
        raise AssertionError("a run ends by an error, or is cancelled")

    async def _watch(self, run: BotRun) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (run.cog.host.ready, run.delayed)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            self.settled.set()
            await waits[0]
            self.was_online = True
        finally:
            await cancel(waits)

    async def aclose(self, task: asyncio.Task[None]) -> None:
        """End the turns, then `task` (which runs this bot), then the connection."""
        await self.cog.aclose()
        await cancel([task])
        await self._run.aclose()
        for model in self.models:
            await model.aclose()
        await self._release()

    async def _release(self) -> None:
        """Release the lease, so that another process can take the agent over."""
        try:
            await self.lease.release()
        except Exception as error:  # perhaps the error that ended the run
            log.warning("%s: lease not released (%s); it expires by itself", self.agent.spec.name, type(error).__name__)
