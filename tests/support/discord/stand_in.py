"""The Discord stand-in with all that can happen on a server: what people, other bots and the gateway do.

Authors and channels are given by name or id, messages by id or by the dict that an earlier call returned. No permission
is checked here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentic.local.discord import channels, messages, payloads, server
from agentic.local.discord.backend import Interaction, RequestInfo, TypingEvent
from agentic.local.discord.gateway import INVALID_SESSION, RECONNECT, Session
from agentic.local.discord.interactions import COMPLETION, MESSAGE, TEXT, Json, find_command, slash_data
from agentic.local.discord.messages import Draft
from agentic.local.discord.rest_guilds import make_webhook, webhook_author
from agentic.local.discord.server import File, MessageRef, draft_of_text
from agentic.local.discord.world import BotApplication, Channel, Member, Message, User, World


class DiscordStandIn(server.DiscordStandIn):
    """Methods that post return the message as a dict, as REST shows it."""

    @property
    def requests(self) -> list[RequestInfo]:
        """The newest requests, oldest first."""
        return list(self.rest.requests)

    @property
    def unknown_requests(self) -> list[tuple[str, str]]:
        """(method, path) of requests that the stand-in does not know."""
        return self.rest.unknown_requests

    @property
    def typing_events(self) -> list[TypingEvent]:
        return list(self.backend.typing_events)

    async def say_as_webhook(
        self, name: str, channel: int | str, text: str, *, attachments: Sequence[File] = ()
    ) -> dict[str, Any]:
        """Post through a webhook that none of our bots created, under any name."""
        place = self.world.channel(channel)
        parent = self.world.channel(place.parent_id) if place.parent_id else place
        foreign = (w for w in self.world.webhooks.values() if w.channel_id == parent.id and w.application_id is None)
        webhook = next(foreign, None) or make_webhook(self.backend, parent, "Captain Hook", None, None)
        draft = draft_of_text(text, attachments)
        draft.webhook_id = webhook.id
        return self._payload(messages.post(self.backend, place, webhook_author(webhook, name), draft))

    async def say_as_foreign_bot(
        self, name: str, channel: int | str, text: str, *, reply_to: MessageRef | None = None
    ) -> dict[str, Any]:
        """Post as a foreign bot, under any name, also that of one of ours."""
        ours = {app.user.id for app in self.world.apps.values()}
        found = next((u for u in self.world.users.values() if u.bot and u.username == name and u.id not in ours), None)
        return await self.say((found or self._foreign_bot(name)).id, channel, text, reply_to=reply_to)

    def _foreign_bot(self, name: str) -> User:
        user = User(self.world.new_id(), name, bot=True)
        self.world.users[user.id] = user
        self._join(user)
        return user

    async def add_person(self, name: str) -> dict[str, Any]:
        """A new member of the first guild."""
        user = channels.add_person(self.world, name)
        self._join(user)
        return payloads.user(user)

    def _join(self, user: User) -> None:
        guild = self.world.guild
        member = guild.members[user.id] = Member(user, joined_at=self.backend.clock())
        body = {**payloads.member(member), "guild_id": str(guild.id)}
        self.backend.emit("GUILD_MEMBER_ADD", body, guild_id=guild.id)

    async def send(self, author: int | str, channel: int | str, draft: Draft, *, kind: int = 0) -> dict[str, Any]:
        """Post any draft as a person, or Discord's own notice about one of them (`kind` is the message's type)."""
        place, who = self.world.channel(channel), self.world.user(author)
        return self._payload(messages.post(self.backend, place, who, replace(draft, type=kind)))

    async def forward(
        self, author: int | str, channel: int | str, source: int | str, message: MessageRef
    ) -> dict[str, Any]:
        """Forward a message of the channel `source`."""
        place = self.world.channel(source)
        original = self._message(place, message)
        taken = ("content", "embeds", "attachments", "components", "sticker_items", "mentions", "mention_roles")
        taken += ("type", "flags", "timestamp", "edited_timestamp")
        shown = self._payload(original)
        snapshot = {"message": {key: shown[key] for key in taken if key in shown}}
        reference = {**messages.reference(place, original), "type": 1}
        target, who = self.world.channel(channel), self.world.user(author)
        draft = Draft(reference=reference, more={"message_snapshots": [snapshot]})
        built = messages.build(self.backend, target, who, draft)
        built.type, built.mentions = 0, []
        self.backend.remember(target, built)
        body = payloads.gateway_message(self.world, built, target)
        self.backend.emit("MESSAGE_CREATE", body, target)
        return self._payload(built)

    async def unfurl(self, channel: int | str, message: MessageRef, *embeds: Json) -> None:
        """Add previews of a message's links, which Discord does a moment after the message."""
        place = self.world.channel(channel)
        target = self._message(place, message)
        target.embeds = list(embeds)
        body = payloads.gateway_message(self.world, target, place)
        self.backend.emit("MESSAGE_UPDATE", body, place)

    async def edit(self, channel: int | str, message: MessageRef, text: str) -> dict[str, Any]:
        place = self.world.channel(channel)
        target = self._message(place, message)
        messages.edit(self.backend, place, target, {"content": text})
        return self._payload(target)

    async def delete(self, channel: int | str, *which: MessageRef) -> None:
        """Delete one message, or several in one bulk event."""
        place = self.world.channel(channel)
        ids = [self._message(place, m).id for m in which]
        messages.delete(self.backend, place, ids, bulk=len(ids) > 1)

    async def clear_reactions(self, channel: int | str, message: MessageRef, emoji: str | None = None) -> None:
        """Remove all reactions, or all of one emoji."""
        place = self.world.channel(channel)
        target = self._message(place, message)
        if emoji is None:
            messages.clear_reactions(self.backend, place, target)
        else:
            messages.clear_emoji(self.backend, place, target, messages.parse_emoji(self.world, emoji))

    async def start_typing(self, author: int | str, channel: int | str) -> None:
        """Let a person type."""
        messages.publish_typing(self.backend, self.world.channel(channel), self.world.user(author).id, None)

    async def create_channel(self, name: str, topic: str | None = None) -> dict[str, Any]:
        return payloads.channel(self.world, channels.create_channel(self.backend, self.world.guild, name, topic))

    async def change_channel(self, channel: int | str, **fields: Any) -> dict[str, Any]:
        """Set fields of the Channel record (name, topic, overwrites, archived, locked) and publish it."""
        place = self.world.channel(channel)
        for name, value in fields.items():
            setattr(place, name, value)
        channels.publish_change(self.backend, place)
        return payloads.channel(self.world, place)

    async def delete_channel(self, channel: int | str) -> None:
        channels.delete(self.backend, self.world.channel(channel))

    async def create_thread(
        self, author: int | str, channel: int | str, name: str, message: MessageRef | None = None
    ) -> dict[str, Any]:
        parent = self.world.channel(channel)
        start = None if message is None else self._message(parent, message)
        thread = channels.create_thread(self.backend, parent, name, self.world.user(author), message=start)
        return payloads.channel(self.world, thread)

    async def change_role(self, role: int | str, **fields: Any) -> dict[str, Any]:
        """Set fields of the Role record (name, permissions, mentionable) and publish it."""
        record = self.world.role(role)
        for name, value in fields.items():
            setattr(record, name, value)
        guild = next(g for g in self.world.guilds.values() if record.id in g.roles)
        body = {"guild_id": str(guild.id), "role": payloads.role(record)}
        self.backend.emit("GUILD_ROLE_UPDATE", body, guild_id=guild.id)
        return payloads.role(record)

    async def open_direct(self, person: int | str, bot: str) -> int:
        """The id of the DM between a person and a bot."""
        return channels.direct_channel(self.backend, self.world.app(bot).user.id, self.world.user(person).id).id

    async def type_option(
        self, author: int | str, channel: int | str, bot: str, command: str, option: str, typed: str
    ) -> Interaction:
        """Type an option of a slash command. What the bot offers for it appears in what is returned."""
        place, app = self.world.channel(channel), self.world.app(bot)
        options = [{"name": option, "type": TEXT, "value": typed, "focused": True}]
        data = slash_data(self.world, place, app, command, options)
        return self._use(author, place, app, data, COMPLETION)

    async def interact_on(
        self, author: int | str, channel: int | str, bot: str, command: str, message: MessageRef
    ) -> Interaction:
        """Use a command of a message's menu."""
        place, app = self.world.channel(channel), self.world.app(bot)
        target = self._message(place, message)
        return self._use(author, place, app, message_data(self.world, place, app, command, target))

    def user_of(self, bot: str) -> dict[str, Any]:
        """A bot's user as Discord shows it."""
        return payloads.user(self.world.app(bot).user)

    async def send_event(self, bot: str, name: str, data: Any) -> None:
        """Send a bot's gateway sessions any event, also one that Discord never would."""
        for session in self._sessions(bot):
            session.send(name, json.dumps(data))

    async def drop_gateway(self, bot: str, code: int | None = None) -> None:
        """Cut a bot's gateway connection, or close it with a code. The bot may resume."""
        for session in self._sessions(bot):
            connection, session.connection = session.connection, None
            if connection is not None and code is None:
                connection.abort()
            elif connection is not None and code is not None:
                await connection.close(code)
        self.backend.changed()

    async def reconnect_gateway(self, bot: str) -> None:
        """Send op 7, which asks the bot to reconnect and resume."""
        for session in self._sessions(bot):
            if session.connection is not None:
                session.connection.send_op(RECONNECT)

    async def invalidate_session(self, bot: str, resumable: bool = False) -> None:
        """Send op 9. A session that is not resumable is dropped, so that a resume is refused."""
        for session in self._sessions(bot):
            if session.connection is not None:
                session.connection.send_op(INVALID_SESSION, resumable)
            if not resumable:
                del self.gateway.sessions[session.id]

    def _sessions(self, bot: str) -> list[Session]:
        return [session for session in self.gateway.sessions.values() if session.app.key == bot]


def message_data(world: World, channel: Channel, app: BotApplication, name: str, target: Message) -> Json:
    """The data of a command in a message's menu."""
    command = find_command(app, channel, name, MESSAGE)
    resolved = {"messages": {str(target.id): payloads.message(world, target)}}
    return {"id": command["id"], "name": name, "type": MESSAGE, "target_id": str(target.id), "resolved": resolved}
