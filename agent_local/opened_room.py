"""The room of `--room TOPIC`: personas of the program debate, the terminal follows their thread."""

from __future__ import annotations

from collections.abc import Iterable

from agent_local.discord.world.world import World
from agent_local.terminal.bot_commands import Use

DEBATERS = ("historian", "optimist", "engineer", "sceptic", "economist", "ethicist")  # the first four debate
SEATS = 4
SHORT_TURNS = 10  # with --once
LEAST = 2


def members_for(personas: Iterable[str], bots: Iterable[str]) -> tuple[str, ...]:
    """Choose at most four: the program's own debaters, then other personas, then bots."""
    there = list(personas)
    known = [name for name in DEBATERS if name in there]
    others = [name for name in there if name not in known]
    return tuple([*known, *others, *bots][:SEATS])


def room_command(topic: str, members: Iterable[str], *, short: bool) -> Use:
    """The command that a person would type."""
    values: dict[str, str | int] = {"topic": topic, "personas": ", ".join(members)}
    return Use("room create", {**values, "turns": SHORT_TURNS} if short else values)


def newest_thread(world: World) -> int | None:
    """The thread that was made last; None for none."""
    return max((channel.id for channel in world.channels() if channel.is_thread), default=None)
