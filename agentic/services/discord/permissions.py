"""The roles and rights of people in a channel, as plain values."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

import discord

from agentic.chat.service import Person, PersonReaction
from agentic.chat.transcript import Transcripts
from agentic.context.commands import order_in
from agentic.services.discord.channels import Channel

_COMMAND = re.compile(r"(?:\s*<@[!&]?\d{1,20}>)*\s*\.(?:config|history)\b")


def person_in(user: discord.User | discord.Member | discord.ClientUser, channel: object) -> Person:
    """A user with their rights in a channel: none where they are not known as a member of its guild."""
    if not isinstance(user, discord.Member) or not isinstance(channel, Channel):
        return Person(user.id)
    roles = frozenset(role.id for role in user.roles)
    return Person(user.id, roles, channel.permissions_for(user).manage_messages)


def author_of(message: discord.Message) -> Person:
    """The author of a message, with their rights in its channel."""
    return person_in(message.author, message.channel)


def person_reaction(
    event: discord.RawReactionActionEvent, channel: object, transcripts: Transcripts
) -> PersonReaction | None:
    """None for a bot's reaction, and where the message's author is not known."""
    author = _author_id(event, transcripts)
    if author is None or event.member is None or event.member.bot:
        return None
    return PersonReaction(
        person_in(event.member, channel), event.channel_id, event.message_id, author, str(event.emoji)
    )


def _author_id(event: discord.RawReactionActionEvent, transcripts: Transcripts) -> int | None:
    """Discord sends it with the event, except for a webhook's message; py-cord leaves it in the raw data."""
    said = event.data.get("message_author_id")
    if isinstance(said, str) and said.isdecimal():
        return int(said)
    transcript = transcripts.known(event.channel_id)
    entry = transcript.get(event.message_id) if transcript is not None else None
    return entry.speaker.id if entry is not None else None


async def with_members(
    messages: Sequence[discord.Message], member: Callable[[int], Awaitable[discord.Member | None]]
) -> Sequence[discord.Message]:
    """The messages, with the roles of people who give orders in them. The gateway sends an author's roles with each
    message, REST only with the member: one request for each such person."""
    members: dict[int, discord.Member | None] = {}
    for message in messages:
        author = message.author
        by_user = isinstance(author, discord.User) and not author.bot and message.webhook_id is None
        if not by_user or not _gives_order(message):
            continue
        if author.id not in members:
            members[author.id] = await member(author.id)
        message.author = members[author.id] or author
    return messages


def _gives_order(message: discord.Message) -> bool:
    if _COMMAND.match(message.content):
        return True
    named = message.mentions or message.raw_role_mentions or message.reference
    return bool(named) and order_in(message.content) is not None
