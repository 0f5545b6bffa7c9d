"""Open what rooms need besides bots and coordinator.

every process                 the roster, which follows the folders of personas
the coordinator's process     the personas without a bot, by one lease
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress

from agent_cogs.channels import AgentChannels
from agent_cogs.webhook_agents.hosts import PersonaHosts
from agent_protocol.connection.link import RedisAway
from agent_protocol.coordination.leases import Lease
from agent_protocol.wire import keys
from agent_runtime.process import Runtime


async def serve_rooms(runtime: Runtime, stack: AsyncExitStack) -> None:
    """Start it after the bots, whose connections it uses; the stack closes it before them."""
    runtime.start(runtime.services.roster.run(), "roster")
    if runtime.setup.coordinator and runtime.setup.personas:
        _host_personas(runtime, stack)


def _host_personas(runtime: Runtime, stack: AsyncExitStack) -> None:
    lease = runtime.lease(keys.PERSONAS_OWNER)
    stack.push_async_callback(lease.release)
    hosts = PersonaHosts(
        runtime.services,
        runtime.setup.make_model,
        lambda: bots_to_see_by(runtime),
        arriving=lambda: any(not bot.settled.is_set() for bot in runtime.bots.values()),
        may_act=lambda: lease.held,
        prepare=runtime.prepare,
    )
    runtime.personas = hosts
    stack.push_async_callback(hosts.aclose)
    runtime.start(_hold(lease), "lease of the personas")
    runtime.start(hosts.run(), "personas")


async def _hold(lease: Lease) -> None:
    with suppress(RedisAway):  # it is taken when Redis is back
        await lease.acquire()
    await lease.run()


def bots_to_see_by(runtime: Runtime) -> Sequence[AgentChannels]:
    """The channels of the bots of this process that were online, in the table's order, those first that are now."""
    known = [bot for bot in runtime.bots.values() if bot.cog.host.ready.is_set() and bot.lease.held]
    return [bot.cog.channels for bot in sorted(known, key=lambda bot: not bot.online)]
