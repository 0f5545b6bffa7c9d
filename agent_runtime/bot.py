"""One bot of a process: its models, its lease, and its runs, each from a login to whatever ends it.

A bot's failure is its own and is told in one line; the others run on. It starts again after it, unless its owner has to
act first.
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
from agent_cogs.prompt.conversation import AgentSessions
from agent_cogs.services import AgentServices
from agent_config import AgentSettings, Settings, missing_key_message, shared_tokens
from agent_discord.reading.gateway_connection import SessionLimit
from agent_discord.rest.retries import STEADY_SECONDS, backoff
from agent_llm.providers.agent_sdk import AgentSdkModel
from agent_llm.types import Model
from agent_protocol.coordination.leases import Lease
from agent_runtime.bot_run import LEASE, BotRun, SideTaskFailed, cancel

TOKEN_REFUSED = 4004  # the gateway's close code when a token is revoked while the bot is online


log = logging.getLogger(__name__)


def runnable(settings: Settings, only: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[str, ...]:
    """The agents to run here: those with a token of their own and a key among the chosen ones; the others are named,
    in the log or among the settings' warnings."""
    doubled = {name for names in shared_tokens(settings) for name in names}
    wanted = [name for name in settings.agents if (not only or name in only) and name not in without]
    chosen = [agent for agent in (settings.agents[name] for name in wanted if name not in doubled) if agent.token]
    for agent in chosen:
        if not agent.usable:
            log.warning("%s", missing_key_message(agent))
    return tuple(agent.name for agent in chosen if agent.usable)


@dataclass(frozen=True, slots=True)
class End:
    """Why a run of a bot ended, for people; `final`: another one would end in the same way, until its owner acts."""

    why: str
    error: Exception
    final: bool = False

    @property
    def unexpected(self) -> bool:
        """A fault of the program, or of what it works with: the log gets the traceback."""
        return not isinstance(self.error, (discord.DiscordException, aiohttp.ClientError, OSError))


def end_of(error: Exception, token_setting: str) -> End:
    """What an error that ended a run means."""
    refused = f"Discord refuses its token: check {token_setting}"
    match error:
        case discord.LoginFailure():
            return End(refused, error, final=True)
        case discord.ConnectionClosed(code=code) if code == TOKEN_REFUSED:
            return End(refused, error, final=True)
        case discord.PrivilegedIntentsRequired():
            intent = "its Message Content Intent is off: switch it on in the Discord developer portal, under Bot"
            return End(intent, error, final=True)
        case discord.ConnectionClosed(code=code):
            return End(f"Discord closed its connection (code {code})", error)
        case SideTaskFailed(name=name):
            return End(f"its {name} failed ({type(error.__cause__).__name__})", error)
        case _:
            return End(f"it could not stay online ({type(error).__name__})", error)


class BotSupervisor:
    """One bot: its models, its lease, and its present run. `guild_models`: those of guilds where another is set."""

    def __init__(
        self,
        agent: AgentSettings,
        services: AgentServices,
        lease: Lease,
        model: Model,
        guild_models: Mapping[int, Model],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.agent, self.lease, self.model = agent, lease, model
        self.models = tuple(dict.fromkeys((model, *guild_models.values())))
        for each in self.models:
            if isinstance(each, AgentSdkModel):
                each.sessions = AgentSessions(agent.spec.name, services.ledger.sessions)
        self.was_online = False
        self.settled = asyncio.Event()  # online, or nobody waits for it: it failed, or Discord was not there
        self._services, self._guild_models, self._clock, self._sleep = services, guild_models, clock, sleep
        self._failure: str | None = None
        self._sessions = SessionLimit(clock)
        self._run = self._another()

    def _another(self) -> BotRun:
        return BotRun(self.agent, self._services, self.lease, self.model, self._guild_models, self._sessions)

    @property
    def client(self) -> discord.Bot:
        return self._run.client

    @property
    def cog(self) -> BaseAgentCog:
        return self._run.cog

    @property
    def online(self) -> bool:
        """Connected at this moment."""
        return self._run.online

    @property
    def failure(self) -> str | None:
        """Why it is offline; None until it fails, and once it is online again."""
        return self._failure if self._run.closed or not self.cog.host.ready.is_set() else None

    async def run(self) -> None:
        """Logs in and stays online until cancelled. A refused token or intent ends this bot alone, in one line; after
        anything else it starts again, with a pause."""
        pauses = backoff(self._services.rng)
        while True:
            began = self._clock()
            end = await self._ended()
            if end.final:
                log.error("%s is offline: %s", self.agent.spec.name, end.why)
                await self._leave()
                return
            if self._clock() - began >= STEADY_SECONDS:
                pauses = backoff(self._services.rng)
            pause = next(pauses)
            fault = end.error if end.unexpected else None
            log.error(
                "%s is offline: %s. It starts again in %.0f s", self.agent.spec.name, end.why, pause, exc_info=fault
            )
            await self._sleep(pause)
            self._run = self._another()

    async def _ended(self) -> End:
        """One run, until something ends it; what it held is closed then."""
        watching = asyncio.create_task(self._watch(self._run))
        try:
            await self._run.run()
        except Exception as error:
            end = end_of(error, self.agent.spec.token_setting)
            self._failure = end.why
            await self._run.aclose()
            if isinstance(error, SideTaskFailed) and error.name == LEASE:
                await self._leave()  # what is not renewed is not held, and no reason to log in
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
        """Ends the turns, then `task` (the one that runs this bot), then the connection."""
        await self.cog.aclose()
        await cancel([task])
        await self._run.aclose()
        for model in self.models:
            await model.aclose()
        await self._leave()

    async def _leave(self) -> None:
        """Lets another process take the agent over."""
        try:
            await self.lease.release()
        except Exception as error:  # it was what failed, say; it runs out by itself
            log.warning("%s: its lease could not be given up (%s)", self.agent.spec.name, type(error).__name__)
