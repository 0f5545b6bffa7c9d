"""One bot of a process: its client, its cog, its models and its lease, from the login to the goodbye.

A bot's failure is its own and is told in one line; the others run on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import aiohttp
import discord

from agent_cogs.base import BaseAgentCog
from agent_cogs.bench import share_rest
from agent_cogs.commands import CommandsKeeper, place_of
from agent_cogs.desk import Desk
from agent_cogs.file_rights import FileRights
from agent_cogs.house import House
from agent_cogs.presence import keep_present
from agent_cogs.reach import access, is_free
from agent_cogs.sessions import AgentSessions
from agent_config import (
    AgentSettings,
    CodingSettings,
    ModelSettings,
    Settings,
    doubled_tokens,
    missing_key_message,
)
from agent_discord.audience import Audience
from agent_discord.command_list import command_list
from agent_discord.command_sync import CommandSync
from agent_discord.gateway_connection import GatewayConnection
from agent_discord.listening import parent_of
from agent_discord.login import log_in
from agent_discord.odd_events import tolerate_odd_events
from agent_discord.owners import ApplicationOwners
from agent_discord.refusals import count_refusals
from agent_discord.retries import retry_requests
from agent_discord.slash import Slash
from agent_discord.standing import show_rests
from agent_llm.agent_query import QueryConfig
from agent_llm.agent_sdk import AgentSdkModel
from agent_llm.lazy import LazyModel
from agent_llm.model import Model
from agent_llm.registry import build_model, in_order
from agent_llm.retry import RetryPolicy
from agent_personas.files import PERSONA_FILES
from agent_protocol.leases import Lease
from agent_themes import THEMES

GUILD_READY_SECONDS = (
    0.3  # py-cord waits this long after the last guild; guilds that come later are taken in all the same
)
TOKEN_REFUSED = 4004  # the gateway's close code when a token is revoked while the bot is online
CLOSE_SECONDS = 5.0  # for each bot's goodbye
CANCEL_AGAIN_SECONDS = 1.0

log = logging.getLogger(__name__)


def provider_model(agent: AgentSettings, *, free_at_home: bool = True) -> Model:
    """The agent's real models, as one that falls back on the next; SDKs are imported when they are needed.

    On an own machine calls cost nothing. Raises ValueError for an agent without any model that can be asked.
    """
    usable = {model.name: model for model in agent.usable}
    if agent.coding is not None and agent.models[0].name in usable:
        free = free_at_home and is_free(agent.models[0])
        return AgentSdkModel(coding_config(agent, agent.coding), free=free)
    draws = next((name for name, model in usable.items() if model.provider == agent.image_provider), None)

    def make(provider: str, model: str) -> Model:
        name = f"{provider}/{model}"
        image_model = agent.image_model if agent.image_model and name == draws else ""
        return _lazy(usable[name], image_model, agent.retries, free_at_home=free_at_home)

    return in_order(usable, make, own={model.provider for model in agent.models})


def _lazy(model: ModelSettings, image_model: str, retries: int, *, free_at_home: bool) -> Model:
    free = free_at_home and is_free(model)
    retry = RetryPolicy(attempts=retries + 1)

    def build() -> Model:
        return build_model(**access(model), image_model=image_model, free=free, retry=retry)

    return LazyModel(model.name, build, can_draw=bool(image_model), free=free)


def models_elsewhere(agent: AgentSettings, make: Callable[[AgentSettings], Model]) -> dict[int, Model]:
    """Server → the model that is set for it alone. Servers with the same list share one."""
    made: dict[tuple[str, ...], Model] = {}
    found: dict[int, Model] = {}
    for server, there in agent.elsewhere.items():
        names = tuple(model.name for model in there.usable)
        if names not in made:
            made[names] = make(there)
        found[server] = made[names]
        log.info("%s speaks in server %d with %s", agent.name, server, ", ".join(names))
    return found


def runnable(settings: Settings, only: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[str, ...]:
    """The agents to run here: those with a token of their own and a key among the chosen ones; the others are named,
    in the log or among the settings' warnings."""
    doubled = {name for names in doubled_tokens(settings) for name in names}
    wanted = [name for name in settings.agents if (not only or name in only) and name not in without]
    chosen = [agent for agent in (settings.agents[name] for name in wanted if name not in doubled) if agent.token]
    for agent in chosen:
        if not agent.usable:
            log.warning("%s", missing_key_message(agent))
    return tuple(agent.name for agent in chosen if agent.usable)


def coding_config(agent: AgentSettings, coding: CodingSettings) -> QueryConfig:
    """For an agent whose turns the Claude Agent SDK runs."""
    return QueryConfig(
        model=agent.model,
        workspace=coding.workspace,
        home=coding.home,
        api_key=agent.api_key.get_secret_value() if agent.api_key else "",
        base_url=agent.base_url,
        allowed_tools=coding.allowed_tools,
        permission_mode=coding.permission_mode,
        max_turns=coding.max_steps,
        max_usd=coding.max_usd,
        hidden=coding.hidden,
    )


def intents(*, direct: bool = False) -> discord.Intents:
    """What the bots need to hear. `message_content` must be switched on in the developer portal. `direct`: direct
    messages too."""
    return discord.Intents(
        guilds=True,
        guild_messages=True,
        guild_reactions=True,
        message_content=True,
        dm_messages=direct,
        dm_reactions=direct,
    )


def cog_class(path: str) -> type[BaseAgentCog]:
    """The class that a row of the table of agents names as "module:Class"."""
    module, _, name = path.partition(":")
    found = getattr(import_module(module), name)
    if not (isinstance(found, type) and issubclass(found, BaseAgentCog)):
        raise TypeError(f"{path} is no BaseAgentCog")
    return found


class BotProcess:
    """One bot: its client, its cog, its lease, and how its login ended. `elsewhere`: the models of single servers."""

    def __init__(
        self, agent: AgentSettings, house: House, lease: Lease, model: Model, elsewhere: Mapping[int, Model]
    ) -> None:
        self.agent, self.lease, self.model = agent, lease, model
        self.models = tuple(dict.fromkeys((model, *elsewhere.values())))
        for each in self.models:
            if isinstance(each, AgentSdkModel):
                each.conversations = AgentSessions(agent.spec.name, house.ledger.sessions)
        self.client: discord.Bot = discord.Bot(  # type: ignore[no-untyped-call]
            intents=intents(direct=house.settings.allow_dms),
            max_messages=None,  # the transcript is the memory
            guild_ready_timeout=GUILD_READY_SECONDS,
            auto_sync_commands=False,
            cache_default_sounds=False,
            member_cache_flags=discord.MemberCacheFlags.none(),
            allowed_mentions=discord.AllowedMentions.none(),
        )
        tolerate_odd_events(self.client, agent.spec.name)
        self._connection = GatewayConnection(self.client, agent.spec.name, house.rng)
        self.cog = cog_class(agent.cog)(self.client, agent, house, model, elsewhere, may_act=lambda: lease.held)
        self.client.add_cog(self.cog)
        readers = Audience(self.client.get_channel)
        owners = ApplicationOwners(self.client, self.cog.gate)
        rights = FileRights(house.settings, readers.guild_of, owners.ids)
        desk = Desk(house, rights, lambda channel_id: parent_of(self.client.get_channel(channel_id)), readers.may_see)
        self.client.add_cog(Slash(self.client, self.cog.gate, desk.answer, lambda: lease.held))
        retry_requests(self.client, house.settings.discord_retries, house.rng)
        self._unauthorized = asyncio.Event()
        count_refusals(self.client, house.way_out.refused, self._unauthorized.set)
        self.failure: str | None = None
        self.delayed = asyncio.Event()  # Discord was not there for its login: nobody waits for it
        self._house = house

    @property
    def online(self) -> bool:
        """Connected at this moment: py-cord's is_ready() stays true while it is not."""
        return self.client.is_ready() and self._connection.open and self.lease.held

    async def run(self) -> None:
        """Logs in and stays online until cancelled; a refused token or intent ends this bot alone, in one line."""
        assert self.agent.token is not None
        work = (
            self.lease.run(),
            self._stay_present(),
            self.cog.attend(),
            self.cog.run_errands(),
            share_rest(self.agent.spec.name, self.cog.agent.voice.bench, self._house.ledger.rests),
            self._show_rests(),
            self._keep_commands(),
        )
        side = [asyncio.create_task(each) for each in work]
        try:
            await self.lease.taken.wait()  # a stand-by logs in when it takes over
            await self._boot_persona()
            await self._stay_online(self.agent.token.get_secret_value())
        except discord.LoginFailure:
            self.failure = self._refused_token
        except discord.ConnectionClosed as closed:
            revoked = closed.code == TOKEN_REFUSED
            self.failure = self._refused_token if revoked else f"Discord closed its connection (code {closed.code})"
        except discord.PrivilegedIntentsRequired:
            self.failure = "its Message Content Intent is off: switch it on in the Discord developer portal, under Bot"
        except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
            self.failure = f"it could not stay online ({type(error).__name__})"
        finally:
            await cancel(side)
        if self.failure:
            log.error("%s is offline: %s", self.agent.spec.name, self.failure)
            await self.cog.aclose()  # who subscribes is waited for
            await self.lease.release()

    async def _boot_persona(self) -> None:
        """Makes what is missing of the agent's own files: a matter of whoever acts for it."""
        if self._house.personas is not None:
            persona = self._house.personas.of(self.agent.name)
            await asyncio.to_thread(persona.boot, self.agent.spec)

    async def _log_in_and_connect(self, token: str) -> None:
        await log_in(self.client, token, self.agent.spec.name, self._house.rng, self.delayed)
        await self._connection.run()

    async def _stay_online(self, token: str) -> None:
        """Until it is cancelled; LoginFailure also when a later request is answered that the token is none any more."""
        online = asyncio.create_task(self._log_in_and_connect(token))
        unauthorized = asyncio.create_task(self._unauthorized.wait())
        try:
            await asyncio.wait((online, unauthorized), return_when=asyncio.FIRST_COMPLETED)
            if self._unauthorized.is_set():
                await self.client.close()
                raise discord.LoginFailure("a request was answered 401")
            await online
        finally:
            await cancel((online, unauthorized))

    @property
    def _refused_token(self) -> str:
        return f"Discord refuses its token: check {self.agent.spec.token_setting}"

    async def _keep_commands(self) -> None:
        await self.cog.ready.wait()
        house, name = self._house, self.agent.spec.name
        sync = CommandSync(self.client, self.cog.gate, command_list(house.names, tuple(THEMES), PERSONA_FILES))
        if house.settings.allow_dms:
            await sync.register_direct()
        keeper = CommandsKeeper(
            name,
            place_of(name, house.settings),
            house.ledger.commands_bot,
            sync,
            guilds=lambda: {channel.guild.id for channel in self.cog.channels()},
            may_act=lambda: self.lease.held,
        )
        await keeper.run()

    async def _stay_present(self) -> None:
        await self.cog.ready.wait()
        house = self._house
        await keep_present(
            self.agent.spec.name, house.ledger.presence, house.directory, house.names, lambda: self.online
        )

    async def _show_rests(self) -> None:
        await self.cog.ready.wait()  # a rest may have begun in an earlier run of the program
        await show_rests(self.client, self.cog.agent.voice.bench)

    async def aclose(self, task: asyncio.Task[None]) -> None:
        """Ends the turns, then `task` (the one that runs this bot), then the connection."""
        await self.cog.aclose()
        await cancel([task])
        try:
            await asyncio.wait_for(self.client.close(), CLOSE_SECONDS)
        except TimeoutError:
            log.warning("%s did not leave Discord within %.0f s", self.agent.spec.name, CLOSE_SECONDS)
        for model in self.models:
            await model.aclose()
        await self.lease.release()


async def cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Ends tasks and waits for their ends."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        # Python 3.11's wait_for, in py-cord too, may swallow a cancellation that comes with the awaited outcome.
        _, pending = await asyncio.wait(pending, timeout=CANCEL_AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)  # what they raised was reported when they ended
