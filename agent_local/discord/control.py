"""What people do, and others that are none of our bots: called in the process by tests and by the terminal.

Authors and channels are named or given by id, messages by id or by the dict that an earlier call returned. No
permission is checked here.
"""

import secrets
from collections.abc import Sequence
from typing import Any

from agent_local.discord import interaction_payloads as using
from agent_local.discord import payloads
from agent_local.discord.backend import Backend
from agent_local.discord.gateway.events import Event
from agent_local.discord.interaction_payloads import Options
from agent_local.discord.interactions import Interaction
from agent_local.discord.rest import webhooks as rest_webhooks
from agent_local.discord.world import channels, messages, reactions, worlds
from agent_local.discord.world.messages import Change, Draft, Posting, Upload
from agent_local.discord.world.world import BotApplication, Channel, Member, Message, User, World

File = tuple[str, bytes, str]
"""(file name, content, media type)"""
MessageRef = int | str | dict[str, Any]


class People:
    """The control side of the stand-in. Methods that post return the message as a dict, as REST shows it."""

    world: World

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    async def say(
        self,
        author: int | str,
        channel: int | str,
        text: str,
        *,
        reply_to: MessageRef | None = None,
        ping_reply: bool = True,
        attachments: Sequence[File] = (),
    ) -> dict[str, Any]:
        """Posts as a person (or as a bot user, without its program).

        Mentions are written <@id>; a reply pings unless told not to.
        """
        place = self.world.channel(channel)
        draft = _draft(text, attachments)
        if reply_to is not None:
            draft.reference = messages.reference(place, self._message(place, reply_to))
            if not ping_reply:
                draft.allowed_mentions = {"parse": ["users", "roles", "everyone"], "replied_user": False}
        return self._shown(messages.post(self.backend, place, self.world.user(author), draft))

    async def say_as_webhook(
        self, name: str, channel: int | str, text: str, *, attachments: Sequence[File] = ()
    ) -> dict[str, Any]:
        """Posts through a webhook that none of our bots made, under any name."""
        place = self.world.channel(channel)
        parent = self.world.channel(place.parent_id) if place.parent_id else place
        foreign = (w for w in self.world.webhooks.values() if w.channel_id == parent.id and w.application_id is None)
        webhook = next(foreign, None) or rest_webhooks.make(self.backend, parent, "Captain Hook", None, None)
        how = Posting(webhook_id=webhook.id)
        author = rest_webhooks.face(webhook, name)
        return self._shown(messages.post(self.backend, place, author, _draft(text, attachments), how))

    async def say_as_foreign_bot(
        self, name: str, channel: int | str, text: str, *, reply_to: MessageRef | None = None
    ) -> dict[str, Any]:
        """Posts as a bot of somebody else's, under any name, also that of one of ours."""
        ours = {app.user.id for app in self.world.apps.values()}
        found = next((u for u in self.world.users.values() if u.bot and u.username == name and u.id not in ours), None)
        return await self.say((found or self._foreign_bot(name)).id, channel, text, reply_to=reply_to)

    def _foreign_bot(self, name: str) -> User:
        user = User(self.world.snowflakes.next(), name, bot=True)
        self.world.users[user.id] = user
        self._join(user)
        return user

    async def add_person(self, name: str) -> dict[str, Any]:
        """A new member of the first guild."""
        user = worlds.add_person(self.world, name)
        self._join(user)
        return payloads.user(user)

    def _join(self, user: User) -> None:
        guild = self.world.guild
        member = guild.members[user.id] = Member(user, joined_at=self.backend.clock())
        body = {**payloads.member(member), "guild_id": str(guild.id)}
        self.backend.emit("GUILD_MEMBER_ADD", body, guild_id=guild.id)

    async def edit(self, channel: int | str, message: MessageRef, text: str) -> dict[str, Any]:
        place = self.world.channel(channel)
        target = self._message(place, message)
        messages.edit(self.backend, place, target, Change(content=text))
        return self._shown(target)

    async def delete(self, channel: int | str, *which: MessageRef) -> None:
        """Deletes one message, or several in one bulk event."""
        place = self.world.channel(channel)
        ids = [self._message(place, m).id for m in which]
        messages.delete(self.backend, place, ids, bulk=len(ids) > 1)

    async def react(self, author: int | str, channel: int | str, message: MessageRef, emoji: str) -> None:
        place = self.world.channel(channel)
        kind = reactions.parse_emoji(self.world, emoji)
        reactions.add(self.backend, place, self._message(place, message), self.world.user(author).id, kind)

    async def unreact(self, author: int | str, channel: int | str, message: MessageRef, emoji: str) -> None:
        place = self.world.channel(channel)
        kind = reactions.parse_emoji(self.world, emoji)
        reactions.remove(self.backend, place, self._message(place, message), self.world.user(author).id, kind)

    async def clear_reactions(self, channel: int | str, message: MessageRef, emoji: str | None = None) -> None:
        """Removes all reactions, or all of one emoji."""
        place = self.world.channel(channel)
        target = self._message(place, message)
        if emoji is None:
            reactions.remove_all(self.backend, place, target)
        else:
            reactions.remove_kind(self.backend, place, target, reactions.parse_emoji(self.world, emoji))

    async def pin(self, author: int | str, channel: int | str, message: MessageRef, pinned: bool = True) -> None:
        place = self.world.channel(channel)
        messages.pin(self.backend, place, self._message(place, message), self.world.user(author), pinned)

    async def start_typing(self, author: int | str, channel: int | str) -> None:
        """A person begins to type."""
        messages.tell_typing(self.backend, self.world.channel(channel), self.world.user(author).id, None)

    async def create_channel(self, name: str, topic: str | None = None) -> dict[str, Any]:
        return payloads.channel(self.world, channels.create(self.backend, self.world.guild, name, topic))

    async def change_channel(self, channel: int | str, **fields: Any) -> dict[str, Any]:
        """Sets fields of the Channel record (name, topic, overwrites, archived, locked) and tells it."""
        place = self.world.channel(channel)
        for name, value in fields.items():
            setattr(place, name, value)
        channels.tell_changed(self.backend, place)
        return payloads.channel(self.world, place)

    async def delete_channel(self, channel: int | str) -> None:
        channels.delete(self.backend, self.world.channel(channel))

    async def create_thread(
        self, author: int | str, channel: int | str, name: str, message: MessageRef | None = None
    ) -> dict[str, Any]:
        parent = self.world.channel(channel)
        start = None if message is None else self._message(parent, message)
        thread = channels.create_thread(self.backend, parent, name, self.world.user(author), start)
        return payloads.channel(self.world, thread)

    async def change_role(self, role: int | str, **fields: Any) -> dict[str, Any]:
        """Sets fields of the Role record (name, permissions, mentionable) and tells it."""
        record = self.world.role(role)
        for name, value in fields.items():
            setattr(record, name, value)
        guild = next(g for g in self.world.guilds.values() if record.id in g.roles)
        body = {"guild_id": str(guild.id), "role": payloads.role(record)}
        self.backend.emit("GUILD_ROLE_UPDATE", body, guild_id=guild.id)
        return payloads.role(record)

    async def open_direct(self, person: int | str, bot: str) -> int:
        """The id of the DM between a person and a bot."""
        return channels.direct(self.backend, self.world.app(bot).user.id, self.world.user(person).id).id

    async def interact(
        self, author: int | str, channel: int | str, bot: str, command: str, options: Options = ()
    ) -> Interaction:
        """Uses a slash command of a bot, "hello" or "bots status", as `using` says. The answers appear in what is
        returned."""
        place, app = self.world.channel(channel), self.world.app(bot)
        return self._use(author, place, app, using.slash_data(self.world, place, app, command, options))

    async def interact_on(
        self, author: int | str, channel: int | str, bot: str, command: str, message: MessageRef
    ) -> Interaction:
        """Uses a command of a message's menu."""
        place, app = self.world.channel(channel), self.world.app(bot)
        target = self._message(place, message)
        return self._use(author, place, app, using.message_data(self.world, place, app, command, target))

    async def fill_in(self, shown: Interaction, *values: str) -> Interaction:
        """Sends back the form that a command was answered with, its fields filled in order."""
        assert shown.form is not None, "no form was shown"
        app = next(app for app in self.world.apps.values() if app.id == shown.application_id)
        place = self.world.channel(shown.channel_id)
        return self._use(shown.user_id, place, app, using.form_data(shown.form, values))

    def _use(self, author: int | str, place: Channel, app: BotApplication, data: dict[str, Any]) -> Interaction:
        interaction = Interaction(
            id=self.world.snowflakes.next(),
            token=secrets.token_urlsafe(48),
            application_id=app.id,
            user_id=self.world.user(author).id,
            channel_id=place.id,
            created=self.backend.clock(),
        )
        self.backend.remember_interaction(interaction)
        body = using.body(self.world, place, interaction, data)
        self.backend.publish(Event("INTERACTION_CREATE", body, place.guild_id, place, only=app.user.id))
        return interaction

    def messages(self, channel: int | str) -> list[dict[str, Any]]:
        """All that a channel still holds, oldest first, system messages too."""
        return [self._shown(m) for m in self.world.channel(channel).messages.values()]

    def _message(self, channel: Channel, which: MessageRef) -> Message:
        message_id = int(which["id"] if isinstance(which, dict) else which)
        return channel.messages[message_id]

    def _shown(self, message: Message) -> dict[str, Any]:
        return payloads.message(self.world, message)


def _draft(text: str, attachments: Sequence[File]) -> Draft:
    return Draft(text, [Upload(name, content, media_type) for name, content, media_type in attachments])
