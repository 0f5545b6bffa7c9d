"""The room of `--room TOPIC`: personas of the program debate, the terminal follows their thread."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from agent_coordinator.events import ConversationEnded, ConversationReport, Event
from agentic.local.discord.server import DiscordStandIn
from agentic.local.discord.world import World
from agentic.local.terminal.bot_commands import Use
from agentic.local.terminal.terminal import Terminal
from agentic.runtime.process import Runtime

DEBATERS = ("historian", "optimist", "engineer", "sceptic", "economist", "ethicist")  # the first four debate
SEATS = 4
SHORT_TURNS = 10  # with --once
LONGEST_ROOM = 3600.0  # seconds that --once waits for the end of a room
CARD_SECONDS = 20.0  # and then for its closing card


async def one_room(
    topic: str, terminal: Terminal, server: DiscordStandIn, runtime: Runtime
) -> ConversationReport | None:
    """Open a short room and wait for its end, and for the card that closes it; None where it was not opened."""
    assert runtime.coordinator is not None
    world, ended = server.world, dict[int, ConversationReport]()

    def on_ended(event: Event) -> None:
        if isinstance(event, ConversationEnded):
            ended[event.report.channel_id] = event.report

    runtime.coordinator.engine.observers.append(on_ended)
    thread_id = await open_room(topic, world, terminal, runtime, short=True)
    if thread_id is None:
        return None
    report = await server.wait_for(lambda: ended.get(thread_id), LONGEST_ROOM)
    with suppress(TimeoutError):  # the debate itself was shown
        await server.wait_for(lambda: world.channel(thread_id).archived, CARD_SECONDS)
    return report


async def open_room(
    topic: str, world: World, terminal: Terminal, runtime: Runtime, *, short: bool = False
) -> int | None:
    """Open the room as the person, and go there; None where the terminal says why there is none."""
    personas = [entry.key for entry in runtime.services.roster.personas if entry.why_not is None]
    before = newest_thread(world)
    members = members_for(personas, runtime.services.settings.agents)
    await terminal.use(room_command(topic, members, short=short))
    thread_id = newest_thread(world)
    if thread_id is None or thread_id == before:
        return None
    terminal.go_to(thread_id)
    return thread_id


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
