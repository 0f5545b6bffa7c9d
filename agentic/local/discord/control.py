"""The actions of people in the stand-in: called in the same process, by the terminal and by benchmarks.

Authors and channels are given by name or id, messages by id or by the dict that an earlier call returned. No permission
is checked here, but Manage Threads in a locked thread. Methods raise KeyError for what does not exist, and ValueError
with Discord's words for what it would refuse.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from agentic.local.discord import components, message_payloads, messages, threads
from agentic.local.discord import interaction_payloads as using
from agentic.local.discord import world_reactions as reactions
from agentic.local.discord.backend import Backend
from agentic.local.discord.discord_interactions import Interaction
from agentic.local.discord.errors import ApiError
from agentic.local.discord.events import Event
from agentic.local.discord.interaction_payloads import Options
from agentic.local.discord.messages import Draft, Upload
from agentic.local.discord.world import BotApplication, Channel, Message, World

File = tuple[str, bytes, str]
"""(file name, content, media type)"""
MessageRef = int | str | dict[str, Any]


class People:
    """The people's side of the stand-in. Methods that post return the message as a dict, as REST shows it."""

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
        """Post as a person (or as a bot user, without its program). Mentions are written <@id>."""
        place, who = self.world.channel(channel), self.world.user(author)
        draft = draft_of_text(text, attachments)
        if reply_to is not None:
            draft.reference = messages.reference(place, self._message(place, reply_to))
            if not ping_reply:
                draft.allowed_mentions = {"parse": ["users", "roles", "everyone"], "replied_user": False}
        with _as_value_error():
            threads.require_post(self.world, who.id, place)
            return self._shown(messages.post(self.backend, place, who, draft))

    async def react(self, author: int | str, channel: int | str, message: MessageRef, emoji: str) -> bool:
        """Add a reaction; False if it was there before."""
        place, who = self.world.channel(channel), self.world.user(author).id
        target = self._message(place, message)
        with _as_value_error():
            kind = reactions.parse_emoji(self.world, emoji)
            new = who not in target.reactions.get(kind, ())
            reactions.add(self.backend, place, target, who, kind)
        return new

    async def unreact(self, author: int | str, channel: int | str, message: MessageRef, emoji: str) -> None:
        """Remove a reaction."""
        place = self.world.channel(channel)
        with _as_value_error():
            kind = reactions.parse_emoji(self.world, emoji)
            reactions.remove(self.backend, place, self._message(place, message), self.world.user(author).id, kind)

    async def pin(self, author: int | str, channel: int | str, message: MessageRef, pinned: bool = True) -> bool:
        """Pin a message, or remove its pin; False if that changed nothing."""
        place = self.world.channel(channel)
        target = self._message(place, message)
        new = (target.pinned_at is not None) != pinned
        with _as_value_error():
            messages.pin(self.backend, place, target, self.world.user(author), pinned)
        return new

    async def interact(
        self, author: int | str, channel: int | str, bot: str, command: str, options: Options = ()
    ) -> Interaction:
        """Use a slash command of a bot, "hello" or "bots status". The answers appear in what is returned."""
        place, app = self.world.channel(channel), self.world.app(bot)
        return self._use(author, place, app, using.slash_data(self.world, place, app, command, options))

    async def type_option(
        self, author: int | str, channel: int | str, bot: str, command: str, option: str, typed: str
    ) -> Interaction:
        """Type an option of a slash command. What the bot offers for it appears in what is returned."""
        place, app = self.world.channel(channel), self.world.app(bot)
        data = using.typed_data(self.world, place, app, command, option, typed)
        return self._use(author, place, app, data, using.COMPLETION)

    async def fill_in(self, shown: Interaction, *values: components.Filled) -> Interaction:
        """Submit the form that answered a command, its fields filled in order."""
        if shown.form is None:
            raise KeyError("no form was shown")
        place, app = self.world.channel(shown.channel_id), self.world.app(shown.application_id)
        return self._use(shown.user_id, place, app, components.form_data(shown.form, values), using.MODAL_SUBMIT)

    async def choose(self, shown: Interaction, *values: str, author: int | str | None = None) -> Interaction:
        """Choose from the menu that answered a command, by default as the person who used it."""
        if shown.menu is None:
            raise KeyError("no menu was shown")
        place, app = self.world.channel(shown.channel_id), self.world.app(shown.application_id)
        who, data = shown.user_id if author is None else author, components.menu_data(shown.menu, values)
        source = shown.answers[-1]
        more = {"source": source, "original_id": int(source["id"]), "hidden": shown.hidden}
        return self._use(who, place, app, data, using.COMPONENT, **more)

    def _use(
        self,
        author: int | str,
        place: Channel,
        app: BotApplication,
        data: dict[str, Any],
        kind: int = using.COMMAND,
        **more: Any,
    ) -> Interaction:
        """`more` are further fields of the interaction."""
        interaction = Interaction(
            id=self.world.snowflakes.next(),
            token=secrets.token_urlsafe(48),
            application_id=app.id,
            user_id=self.world.user(author).id,
            channel_id=place.id,
            created=self.backend.clock(),
            command=_full_name(data),
            **more,
        )
        self.backend.remember_interaction(interaction)
        body = using.body(self.world, place, interaction, data, kind)
        self.backend.publish(Event("INTERACTION_CREATE", body, place.guild_id, place, only=app.user.id))
        return interaction

    def messages(self, channel: int | str) -> list[dict[str, Any]]:
        """The messages of a channel, oldest first, including system messages."""
        return [self._shown(m) for m in self.world.channel(channel).messages.values()]

    def _message(self, channel: Channel, which: MessageRef) -> Message:
        message_id = int(which["id"] if isinstance(which, dict) else which)
        return channel.messages[message_id]

    def _shown(self, message: Message) -> dict[str, Any]:
        return message_payloads.message(self.world, message)


@contextmanager
def _as_value_error() -> Iterator[None]:
    """Let a person read Discord's words."""
    try:
        yield
    except ApiError as error:
        raise ValueError(error.body["message"]) from error


def _full_name(data: dict[str, Any]) -> str:
    """The command with its sub-command: "bots status"; "" for a form."""
    parts = [option["name"] for option in data.get("options", ()) if option["type"] == using.SUB_COMMAND]
    return " ".join([data.get("name", ""), *parts])


def draft_of_text(text: str, attachments: Sequence[File]) -> Draft:
    return Draft(text, [Upload(name, content, media_type) for name, content, media_type in attachments])
