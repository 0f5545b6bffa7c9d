"""What a person may do in a channel, as plain values."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

import discord

from agent_chat.incoming import Signed, Who
from agent_chat.transcript import Transcripts
from agent_context.steering.stop_orders import order_in
from agent_discord.objects.channels import Channel

_COMMAND = re.compile(r"(?:\s*<@[!&]?\d{1,20}>)*\s*\.(?:config|history)\b")


def who_wrote(message: discord.Message) -> Who:
    """The person who wrote a message. Who is no member of the channel's guild (any more) has no rights there."""
    return _who(message.author, message.channel)


def signed(event: discord.RawReactionActionEvent, channel: object, transcripts: Transcripts) -> Signed | None:
    """Who reacted to whose message; None for a bot's reaction, and where the message's author is not known."""
    author = _author_of(event, transcripts)
    if author is None or event.member is None or event.member.bot:
        return None
    who = _who(event.member, channel)
    return Signed(who, event.channel_id, event.message_id, author, str(event.emoji))


async def with_members(
    messages: Sequence[discord.Message], member: Callable[[int], Awaitable[discord.Member | None]]
) -> Sequence[discord.Message]:
    """The messages, with the roles of those who wrote commands: REST says only of a member's own record which they
    have, the gateway with each message. One request for each such person."""
    commands = [one for one in messages if _commands(one) and isinstance(one.author, discord.User)]
    members: dict[int, discord.Member | None] = {}
    for message in commands:
        author = message.author
        if author.bot or message.webhook_id is not None:
            continue
        if author.id not in members:
            members[author.id] = await member(author.id)
        message.author = members[author.id] or author
    return messages


def _commands(message: discord.Message) -> bool:
    if _COMMAND.match(message.content):
        return True
    named = message.mentions or message.raw_role_mentions or message.reference
    return bool(named) and order_in(message.content) is not None


def who_is(user: discord.User | discord.Member, channel: object) -> Who:
    """A person in a channel; without rights where they are not known as a member of its guild."""
    return _who(user, channel)


def _who(user: discord.User | discord.Member | discord.ClientUser, channel: object) -> Who:
    if not isinstance(user, discord.Member) or not isinstance(channel, Channel):
        return Who(user.id)
    roles = frozenset(role.id for role in user.roles)
    return Who(user.id, roles, channel.permissions_for(user).manage_messages)


def _author_of(event: discord.RawReactionActionEvent, transcripts: Transcripts) -> int | None:
    """Discord says it with the event, but for webhooks' messages; py-cord leaves it in the raw data."""
    said = event.data.get("message_author_id")
    if isinstance(said, str) and said.isdecimal():
        return int(said)
    transcript = transcripts.known(event.channel_id)
    entry = transcript.get(event.message_id) if transcript is not None else None
    return entry.speaker.id if entry is not None else None
