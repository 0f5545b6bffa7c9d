"""Hints for a person who waits for an answer that will not come: what to type instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent_coordinator.coordinator import Coordinator
from agent_coordinator.events import ConversationEnded, ConversationReport, Event
from agentic.local.discord.server import DiscordStandIn
from agentic.local.discord.world import User
from agentic.local.local_conversations import LocalConversations
from agentic.wire.endings import ENDINGS

NO_CONVERSATION = "no conversation is running here; mention a bot (@claude) or start one with /fire"
NO_ROOM = "the room isn't running; use /room resume to continue"


def last_bot_message(server: DiscordStandIn, channel_id: int) -> str | None:
    """The id of the newest message of a bot, None without one."""
    bots = {app.user.id for app in server.world.apps.values()}
    said = (message for message in reversed(server.messages(channel_id)) if int(message["author"]["id"]) in bots)
    return next((str(message["id"]) for message in said), None)


def ended_line(report: ConversationReport, channel: str) -> str | None:
    """Say why a conversation in the channel of this name has ended, and what to type next. None for one that an earlier
    start left: this terminal has shown nothing of it."""
    if report.ended_because == "too_old":
        return None
    what = f"the conversation in #{channel} has ended" if report.messages else f"no bot spoke in #{channel}"
    next_step = "/resume lets the bots speak again" if report.ended_because == "stopped" else "/fire starts another"
    return f"{what}: {ENDINGS[report.ended_because]}; {next_step}"


def give_hints(
    note: Callable[[str], None],
    server: DiscordStandIn,
    coordinator: Coordinator,
    conversations: LocalConversations,
    person: User,
) -> None:
    """Pass hints to `note` from now on, about what this person does."""

    def on_ended(event: Event) -> None:
        if isinstance(event, ConversationEnded) and not _is_room(event.report.channel_id):
            line = ended_line(event.report, server.world.channel(event.report.channel_id).name)
            if line is not None:
                note(line)

    def _is_room(channel_id: int) -> bool:
        """Its end is said in its thread, which may be gone."""
        channel = server.world.find_channel(channel_id)
        return channel is None or channel.is_thread

    def on_message(event: str, data: Mapping[str, Any]) -> None:
        if event != "MESSAGE_CREATE" or int(data["author"]["id"]) != person.id:
            return
        words, channel_id = str(data["content"]), int(data["channel_id"])
        if not words:  # the report of a pin
            return
        if words.startswith(".config"):
            note("it takes effect once it is pinned: /pin")
        elif words.startswith(".") and not words.startswith((".history", "..")):
            note("the bots do not see a message that begins with a period")
        elif data["mentions"] or data["mention_roles"] or words.startswith("."):
            return
        elif words.startswith("m "):  # a command in a message
            if last_bot_message(server, channel_id) is None:
                note("no bot has written here yet; name one: @claude m continue")
        elif channel_id not in coordinator.engine.holds.busy:
            silent = NO_ROOM if _is_room(channel_id) else NO_CONVERSATION
            note(conversations.stopped(channel_id) or silent)

    coordinator.engine.observers.append(on_ended)
    server.subscribe(on_message)
