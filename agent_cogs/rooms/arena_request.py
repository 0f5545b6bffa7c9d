"""`/arena`: opens the arena of a channel, for the process that runs arenas to carry out."""

from __future__ import annotations

from agent_cogs.services import AgentServices
from agent_discord.slash.cog import CommandInvocation
from agent_discord.slash.definitions import LONGEST_ARENA
from agent_protocol.coordination.arenas import Arena

USUAL_MINUTES = 5
EMPTY = "The question is empty."
NO_HOST = "Arenas need a running `run_all.py`, and there is none. The owner can start it."
HAS_ONE = "An arena runs in this channel already. The next one can begin when its names are shown."
OPENED = "Two agents answer, without their names. Vote by 🅰️ or 🅱️; the names are shown when the time is over."


async def open_arena(services: AgentServices, command: CommandInvocation) -> str:
    """Ask for an arena; a line for the person who used the command. Raises RedisAway."""
    question, arenas = str(command.values.get("prompt", "")).strip(), services.ledger.arenas
    if not question:
        return EMPTY
    if not await arenas.has_host():
        return NO_HOST
    arena = Arena(
        id=command.id,
        channel_id=command.channel_id,
        guild_id=command.guild_id,
        parent_id=command.parent_id,
        question=question,
        asked_by=command.who.user_id,
        minutes=min(max(int(command.values.get("minutes", USUAL_MINUTES)), 1), LONGEST_ARENA),
        at=services.clock(),
    )
    return OPENED if await arenas.open(arena) else HAS_ONE
