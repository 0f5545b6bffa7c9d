"""Start the parts of rooms besides the bots and the coordinator.

every process                the roster, which follows the folders of personas; agents with an account but no bot
the coordinator's process    under one lease: the personas without a bot, the threads of rooms, the arenas,
                             the debates that members propose
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial

from agent_config import AgentSettings
from agentic.agent.agent import Agent
from agentic.inbox.host import HostedChannels, PersonaHosts
from agentic.rooms.arena import ArenaKeeper, ask_contender
from agentic.rooms.closing import close_room
from agentic.rooms.opening import RoomOpener
from agentic.rooms.proposals import ProposalKeeper
from agentic.rooms.threads import RoomThreadManager, ThreadBots
from agentic.runtime.bot import BotSupervisor
from agentic.runtime.process import Runtime
from agentic.services.discord.avatars import AvatarKeeper
from agentic.services.discord.channels import Audience
from agentic.services.discord.room_threads import DiscordRoomBot
from agentic.services.discord.service import DiscordChannels, DiscordService, PersonaChannels
from agentic.state.leases import ConditionalLease, Lease
from agentic.wire import keys


async def serve_rooms(runtime: Runtime, stack: AsyncExitStack) -> None:
    """Start the rooms after the bots, whose connections they use; the stack closes them before the bots."""
    setup = runtime.setup
    runtime.watch(runtime.services.agents.roster.run, "roster")
    lease = _held_lease(runtime, stack, keys.PERSONAS_OWNER, "personas") if setup.coordinator else None
    if setup.personas and (lease is not None or set(setup.accounts) - set(setup.agents)):
        _host_personas(runtime, stack, lease)
    if lease is not None:
        _look_after_rooms(runtime, lease)


def _held_lease(runtime: Runtime, stack: AsyncExitStack, key: str, whose: str) -> Lease:
    """Return a lease that is renewed until the stack releases it."""
    lease = runtime.lease(key)

    async def hold() -> None:
        await lease.try_acquire()
        await lease.run()

    stack.push_async_callback(lease.release)
    runtime.watch(hold, f"lease of the {whose}")
    return lease


def _host_personas(runtime: Runtime, stack: AsyncExitStack, lease: Lease | None) -> None:
    """Host the personas of rooms under `lease` (None if another process has the rooms), and personas with an account
    under their own leases, because another process may host one of them alone."""

    async def prepare(persona: str) -> None:
        await runtime.services.state.coordination.recorded_agents.add(persona)
        await runtime.prepare(persona)

    def bots() -> Sequence[DiscordChannels]:
        return bots_to_see_by(runtime.bots.values())

    def arriving() -> bool:
        return any(not bot.settled.is_set() for bot in runtime.bots.values())

    seeing = ConditionalLease(lambda: lease is not None and bool(bots()), lease)

    own = {
        name: _held_lease(runtime, stack, keys.owner(name), name)
        for name in runtime.accounts
        if name not in runtime.setup.agents
    }

    def channels_of(persona: AgentSettings) -> HostedChannels | None:
        held, services = own.get(persona.name), runtime.services
        if held is None and (lease is None or not bots()):  # a persona sees channels through a bot
            return None
        rooms = PersonaChannels(persona, services, bots, arriving=arriving, lease=held or seeing)
        audience = Audience(rooms.channel_of)
        if held is None:
            return HostedChannels(rooms, audience, seeing)
        if services.settings.on_discord:
            services.chats.get(DiscordService).channels[persona.name] = rooms
        channels = services.chats.channels_for(persona.name) or rooms
        return HostedChannels(channels, audience, held, is_heard=True)

    hosts = PersonaHosts(runtime.services, runtime.setup.models.make, channels_of, prepare=prepare)
    runtime.personas = hosts
    stack.push_async_callback(hosts.aclose)
    runtime.watch(hosts.run, "personas")


def _look_after_rooms(runtime: Runtime, lease: Lease) -> None:
    """Look after the threads of rooms and the arenas with this process's connected bots."""
    services = runtime.services

    def online() -> Sequence[DiscordRoomBot]:
        return [bot.room_bot for bot in runtime.bots.values() if bot.online]

    def openers() -> Sequence[RoomOpener]:
        return [bot.place.opener for bot in runtime.bots.values() if bot.online]

    def has_bot(agent: str) -> bool:
        entry = services.agents.roster.of(agent)
        return entry is not None and entry.is_bot

    def agents() -> Sequence[Agent]:
        personas = runtime.personas.agents if runtime.personas is not None else ()
        return [*(bot.cog.host.agent for bot in runtime.bots.values() if bot.online), *personas]

    manager = RoomThreadManager(services, ThreadBots(online, has_bot), partial(close_room, services), lease=lease)
    manager.start(services.bus)
    runtime.watch(manager.run, "steward")
    runtime.watch(ArenaKeeper(services, online, agents, ask_contender, lease=lease).run, "arenas")
    if services.settings.on_discord:
        runtime.watch(AvatarKeeper(services, online, lease=lease).run, "pictures of personas")
    runtime.watch(ProposalKeeper(services, openers, lease=lease).run, "proposed debates")


def bots_to_see_by(bots: Iterable[BotSupervisor]) -> Sequence[DiscordChannels]:
    """Return the channels of the bots that were online and haven't failed since, starting with the online bots."""
    known = [bot for bot in bots if bot.cog.host.ready.is_set() and bot.lease.is_held and bot.failure is None]
    return [bot.cog.channels for bot in sorted(known, key=lambda bot: not bot.online)]
