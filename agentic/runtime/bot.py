"""Supervise a bot: its models, its lease, and its runs, each from login to the error that ends it.

A py-cord client can't be used twice, so each start is a new run: a client, its cog, and side tasks. A failure affects
only its bot and is logged in one line. The bot starts again after a pause, unless its owner has to act.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import discord

from agent_cogs.base import BaseAgentCog, parse_messages_once
from agent_cogs.slash import Slash
from agent_cogs.slash_definitions import command_list
from agent_cogs.slash_sync import CommandOwnership, CommandSync, priority_of
from agent_cogs.thread_events import ThreadEvents
from agent_config import AgentSettings, Settings, load_class, missing_key_message, shared_tokens
from agentic.actions.base import ActionContext
from agentic.actions.registry import Actions
from agentic.agent.services import Services
from agentic.llm.providers.agent_sdk import AgentSdkModel
from agentic.llm.types import Model
from agentic.rooms.opening import RoomOpener
from agentic.rooms.thread_watch import ThreadWatch
from agentic.runtime.services import keep_present
from agentic.services.discord.gateway import GatewayConnection, SessionLimit, show_backoff
from agentic.services.discord.odd_payloads import tolerate_unreadable_events
from agentic.services.discord.place import DiscordPlace
from agentic.services.discord.rate_limit import STEADY_SECONDS, backoff, count_refusals, log_in, retry_requests
from agentic.services.discord.room_threads import DiscordRoomBot
from agentic.services.discord.service import DiscordService
from agentic.state.leases import ConditionalLease, Lease
from agentic.text import listed
from agentic.turn.history import AgentSessions

log = logging.getLogger(__name__)

GUILD_READY_SECONDS = 0.3  # py-cord's wait after the last guild; later guilds are still added
CLOSE_SECONDS = 5.0  # for closing a connection
CANCEL_AGAIN_SECONDS = 1.0
POLL_SECONDS = 0.25
LEASE = "lease"


class SideTaskFailed(Exception):
    """A task that the bot needs has failed. `__cause__` is the error."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def intents(*, direct: bool = False) -> discord.Intents:
    """Return the gateway intents. `message_content` must be on in the developer portal; `direct` adds DMs."""
    return discord.Intents(
        guilds=True,
        guild_messages=True,
        guild_reactions=True,
        message_content=True,
        dm_messages=direct,
        dm_reactions=direct,
    )


def cog_class(path: str) -> type[BaseAgentCog]:
    """Import the cog class of an agent, given as "module:Class"."""
    found = load_class(path)
    if not (isinstance(found, type) and issubclass(found, BaseAgentCog)):
        raise TypeError(f"{path} is not a BaseAgentCog")
    return found


class BotRun:
    """A bot's client, cog and side tasks. It logs in once this process holds the lease."""

    def __init__(self, bot: BotSupervisor) -> None:
        self.agent, self._services, self._lease = bot.agent, bot.services, bot.lease
        agent, services, lease = bot.agent, bot.services, bot.lease
        self.client: discord.Bot = discord.Bot(  # type: ignore[no-untyped-call]
            intents=intents(direct=services.settings.allow_dms),
            max_messages=None,  # the transcript replaces py-cord's message cache
            guild_ready_timeout=GUILD_READY_SECONDS,
            auto_sync_commands=False,
            cache_default_sounds=False,
            member_cache_flags=discord.MemberCacheFlags.none(),
            allowed_mentions=discord.AllowedMentions.none(),
        )
        self._connection = GatewayConnection(self.client, agent.spec.name, services.rng, bot.sessions)
        self.cog = cog_class(agent.cog)(self.client, agent, services, bot.model, bot.guild_models, lease=lease)
        self.client.add_cog(self.cog)
        parse_messages_once(self.cog)
        tolerate_unreadable_events(self.client, agent.spec.name)
        self.place = self._add_rooms()
        self.client.add_cog(Slash(self.client, self.cog.gate, Actions(ActionContext(services, self.place)), lease))
        retry_requests(self.client, services.settings.discord_retries, services.rng)
        self._unauthorized = asyncio.Event()
        count_refusals(self.client, services.chats.get(DiscordService).outbound.refused, self._unauthorized.set)
        self.delayed = asyncio.Event()  # Discord was unreachable at login, so startup doesn't wait
        self.closed = False
        self.without_discord = False

    def _add_rooms(self) -> DiscordPlace:
        services, name = self._services, self.agent.spec.name
        posts = self.cog.discord.webhooks.posts
        self.room_bot = DiscordRoomBot(name, self.client, self.cog.gate, services.chats.directory, posts, self._lease)
        online = ConditionalLease(lambda: self.online)
        self._room_opener = RoomOpener(name, services, self.room_bot, lease=online)
        self.client.add_cog(ThreadEvents(self.client, ThreadWatch(services, self.room_bot, lease=online)))
        return DiscordPlace(self.client, self.cog.gate, self.room_bot, self._room_opener, services.chats.directory)

    @property
    def online(self) -> bool:
        """Whether the bot is connected now (py-cord's is_ready() stays true during an outage)."""
        return self.client.is_ready() and self._connection.open and self._lease.is_held

    async def run(self) -> None:
        """Run until canceled. Raises SideTaskFailed, discord.LoginFailure (even if a later request gets a 401), and
        other errors of py-cord and aiohttp."""
        await self._until_one_fails(self._work())

    async def run_elsewhere(self) -> None:
        """Run on other services only, until canceled, while the bot can't be on Discord. Raises SideTaskFailed."""
        self.without_discord = True
        self.cog.host.catch_up.missed_message()  # a message may have come while the last run ended
        self.cog.host.start()
        await self._until_one_fails({LEASE: self._hold_lease(), **self.cog.host.background_work()})

    async def _until_one_fails(self, work: Mapping[str, Coroutine[Any, Any, None]]) -> None:
        tasks = [asyncio.create_task(each, name=name) for name, each in work.items()]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    if task.get_name() in ("token", "connection"):
                        raise error
                    raise SideTaskFailed(task.get_name()) from error
        finally:
            await cancel(tasks)

    def _work(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return the concurrent tasks by the names in error messages."""
        services, name = self._services, self.agent.spec.name
        presence, directory = services.state.coordination.presence, services.chats.directory
        return {
            "token": self._until_refused(),
            "connection": self._stay_online(),
            LEASE: self._hold_lease(),
            "presence": self._once_ready(
                lambda: keep_present(
                    name, presence, directory, services.agents.names, lambda: self.online, self.cog.channels.known
                )
            ),
            # the break may be from an earlier run of the program
            "status": self._once_ready(lambda: show_backoff(self.client, self.cog.host.agent.models.main.backoff)),
            "commands": self._once_ready(self._keep_commands),
            "rooms": self._once_ready(self._room_opener.run),
            **self.cog.host.background_work(),
        }

    async def _until_refused(self) -> None:
        await self._unauthorized.wait()
        raise discord.LoginFailure("a request got a 401")

    async def _hold_lease(self) -> None:
        if not self._lease.taken.is_set():  # released after a failed run
            await self._lease.try_acquire()
        await self._lease.run()

    async def _stay_online(self) -> None:
        assert self.agent.token is not None
        await self._lease.taken.wait()  # a standby logs in only when it takes over
        while not self._lease.is_held:  # noqa: ASYNC110 - an earlier run took it and stopped renewing
            await asyncio.sleep(POLL_SECONDS)
        if self._services.agents.personas is not None:  # only the process that holds the lease may create persona files
            await asyncio.to_thread(self._services.agents.personas.of(self.agent.name).boot, self.agent.spec)
        token = self.agent.token.get_secret_value()
        await log_in(self.client, token, self.agent.spec.name, self._services.rng, self.delayed)
        # Messages get their rights when they are read, so the owner must be known first.
        await asyncio.gather(self.place.owners(), self._connection.run())

    async def _keep_commands(self) -> None:
        services, name = self._services, self.agent.spec.name
        sync = CommandSync(self.client, self.cog.gate, command_list(services.agents.names))
        if services.settings.allow_dms:
            await sync.register_direct()
        keeper = CommandOwnership(
            name,
            priority_of(name, services.settings),
            services.state.coordination.command_owner,
            sync,
            guilds=lambda: {channel.guild.id for channel in self.cog.channels.visible()},
            lease=self._lease,
        )
        await keeper.run()

    async def _once_ready(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await self.cog.host.ready.wait()
        await work()

    async def aclose(self) -> None:
        """End the turns, then the connection."""
        self.closed = True
        await self.cog.aclose()
        try:
            await asyncio.wait_for(self.client.close(), CLOSE_SECONDS)
        except TimeoutError:
            log.warning(
                "%s: closing the connection to Discord took over %.0f s; abandoned", self.agent.spec.name, CLOSE_SECONDS
            )


async def cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        # Python 3.11's wait_for, which py-cord uses, may swallow a cancellation that coincides with the result.
        _, pending = await asyncio.wait(pending, timeout=CANCEL_AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)  # their errors are already reported


def runnable(settings: Settings, only: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the chosen agents with their own token and a key. The log or a warning names the others."""
    doubled = {name for names in shared_tokens(settings) for name in names}
    wanted = [name for name in settings.agents if (not only or name in only) and name not in without]
    chosen = [agent for agent in (settings.agents[name] for name in wanted if name not in doubled) if agent.token]
    for agent in chosen:
        if not agent.usable:
            log.warning("%s", missing_key_message(agent))
    return tuple(agent.name for agent in chosen if agent.usable)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """Why a run ended, for people. `final`: it would end again in the same way until the owner acts."""

    reason: str
    error: Exception
    final: bool = False


def end_of(error: Exception, token_setting: str) -> RunEnd:
    match error:
        case (
            discord.LoginFailure() | discord.ConnectionClosed(code=4004)
        ):  # 4004: token revoked while the bot was online
            return RunEnd(f"Discord rejects its token: check {token_setting}", error, final=True)
        case discord.ConnectionClosed(code=4011):
            many = "it is in more servers than one connection may have (2,500); remove it from some servers"
            return RunEnd(many, error, final=True)
        case discord.PrivilegedIntentsRequired():
            intent = "its Message Content Intent is off; turn it on in the Discord developer portal, under Bot"
            return RunEnd(intent, error, final=True)
        case discord.ConnectionClosed(code=code):
            return RunEnd(f"Discord closed the connection (code {code})", error)
        case SideTaskFailed(name=name):
            return RunEnd(f"its {name} failed ({type(error.__cause__).__name__})", error)
        case _:
            return RunEnd(f"it could not stay online ({type(error).__name__})", error)


class BotSupervisor:
    """Runs a bot until canceled, and starts it again after failures. `guild_models`: the models of guilds that have
    their own. `others`: the other chat services that the agent is on in this process."""

    def __init__(
        self,
        agent: AgentSettings,
        services: Services,
        lease: Lease,
        model: Model,
        guild_models: Mapping[int, Model],
        *,
        others: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.agent, self.lease, self.model = agent, lease, model
        self.models = tuple(dict.fromkeys((model, *guild_models.values())))
        for each in self.models:
            if isinstance(each, AgentSdkModel):
                each.sessions = AgentSessions(agent.spec.name, services.state.context.sessions)
        self.was_online = False
        self.settled = asyncio.Event()  # online, failed, or Discord unreachable, so startup doesn't wait
        self.services, self.guild_models, self._clock, self._sleep = services, guild_models, clock, sleep
        self._others = listed(others, "")
        self._failure: str | None = None
        self.sessions = SessionLimit(clock)
        self._run = self._new_run()

    def _new_run(self) -> BotRun:
        return BotRun(self)

    @property
    def client(self) -> discord.Bot:
        return self._run.client

    @property
    def cog(self) -> BaseAgentCog:
        return self._run.cog

    @property
    def room_bot(self) -> DiscordRoomBot:
        return self._run.room_bot

    @property
    def place(self) -> DiscordPlace:
        return self._run.place

    @property
    def online(self) -> bool:
        return self._run.online

    @property
    def failure(self) -> str | None:
        """The reason why the bot is offline, or None before a failure and once it is online again."""
        run = self._run
        return self._failure if run.closed or run.without_discord or not run.cog.host.ready.is_set() else None

    async def run(self) -> None:
        """Log in and stay online until canceled. Returns after a rejected token or intent; after other errors, starts
        again with growing pauses. An agent that is also on another service keeps running there."""
        pauses = backoff(self.services.rng)
        while True:
            began = self._clock()
            end = await self._run_once()
            name, offline = self.agent.spec.name, "offline in Discord" if self._others else "offline"
            if end.final and not self._others:
                log.error("%s is offline: %s", name, end.reason)
                await self._release()
                return
            if end.final:
                log.error("%s is %s: %s. It keeps running on %s", name, offline, end.reason, self._others)
                await self._stay_elsewhere(None)
            if self._clock() - began >= STEADY_SECONDS:
                pauses = backoff(self.services.rng)
            pause = next(pauses)
            is_known = isinstance(end.error, (discord.DiscordException, aiohttp.ClientError, OSError))
            fault = None if is_known else end.error  # with its traceback
            log.error("%s is %s: %s; it starts again in %.0f s", name, offline, end.reason, pause, exc_info=fault)
            await (self._stay_elsewhere(pause) if self._others else self._sleep(pause))
            self._run = self._new_run()

    async def _stay_elsewhere(self, seconds: float | None) -> None:
        """Run on the other services only, for this many seconds (None: forever). Waits for running turns."""
        pauses = backoff(self.services.rng)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._run = self._new_run()
                    try:
                        await self._run.run_elsewhere()
                    except SideTaskFailed as failed:
                        log.exception("%s: %s failed; the bot starts again", self.agent.spec.name, failed.name)
                    await self._run.aclose()
                    await self._sleep(next(pauses))
        except TimeoutError:
            await self._run.cog.host.drain()
        finally:
            await self._run.aclose()

    async def _run_once(self) -> RunEnd:
        """Run until an error ends the run, then close it."""
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
        raise AssertionError("a run ends with an error or is canceled")

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
        """End the turns, then `task` (which runs this bot), and then the connection."""
        await self.cog.aclose()
        await cancel([task])
        await self._run.aclose()
        for model in self.models:
            await model.aclose()
        await self._release()

    async def _release(self) -> None:
        try:
            await self.lease.release()
        except Exception as error:  # perhaps the same error that ended the run
            name, kind = self.agent.spec.name, type(error).__name__
            log.warning("%s: releasing the lease failed: %s; it expires on its own", name, kind)
