"""Lines for a newcomer who would wait for something that will not come: what is missing, and what to type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent_coordinator.coordinator import Coordinator
from agent_coordinator.events import ConversationEnded, Event
from agent_local.discord.server import DiscordStandIn
from agent_local.discord.world.world import User


def last_said(server: DiscordStandIn, channel_id: int) -> str | None:
    """The id of the newest message of a bot."""
    bots = {app.user.id for app in server.world.apps.values()}
    said = (message for message in reversed(server.messages(channel_id)) if int(message["author"]["id"]) in bots)
    return next((str(message["id"]) for message in said), None)


def give_hints(note: Callable[[str], None], server: DiscordStandIn, coordinator: Coordinator, person: User) -> None:
    """From now on, for what this person does."""

    def when_over(event: Event) -> None:
        if isinstance(event, ConversationEnded):
            name = server.world.channel(event.report.channel_id).name
            note(f"the conversation in #{name} is over; /fire starts another")

    def when_nobody_is_called(event: str, data: Mapping[str, Any]) -> None:
        if event != "MESSAGE_CREATE" or int(data["author"]["id"]) != person.id:
            return
        words, channel_id = str(data["content"]), int(data["channel_id"])
        if data["mentions"] or data["mention_roles"] or words.startswith("."):
            return
        if words.startswith("m "):  # a command in a message
            if last_said(server, channel_id) is None:
                note("no bot has said anything here yet: @claude m continue names one")
        elif channel_id not in coordinator.engine.holds.busy:
            note("no conversation runs here: @claude calls a bot, /fire starts one")

    coordinator.engine.observers.append(when_over)
    server.subscribe(when_nobody_is_called)
