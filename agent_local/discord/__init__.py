"""A Discord stand-in on loopback: REST v10 and gateway v10, enough that unmodified py-cord logs in and lives there.

    world = small_world(bots={"claude": ("Claude", "token-claude")})
    async with DiscordStandIn(world) as server:
        with routed_to(server):
            ...start bots with their tokens...
            await server.say("you", "debate", "hello <@...>")

Read world.py for what exists, backend.py for what can happen to it, gateway.py and rest.py for how bots see it.
"""

from agent_local.discord.faults import Fault, Faults, RequestInfo
from agent_local.discord.limits import RateLimits
from agent_local.discord.server import DiscordStandIn, routed_to
from agent_local.discord.world.world import (
    BotApplication,
    Channel,
    Guild,
    Member,
    Message,
    Overwrite,
    Role,
    User,
    World,
)
from agent_local.discord.world.worlds import small_world

__all__ = [
    "BotApplication",
    "Channel",
    "DiscordStandIn",
    "Fault",
    "Faults",
    "Guild",
    "Member",
    "Message",
    "Overwrite",
    "RateLimits",
    "RequestInfo",
    "Role",
    "User",
    "World",
    "routed_to",
    "small_world",
]
