"""Read a Discord message as an entry of the transcript, and as the facts that decide whether it calls an agent.

A question that a person asks by a slash command is posted by the bot; it counts as that person's message.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass

import discord

from agentic.chat.directory import Directory, clean_name
from agentic.chat.outlet import unfinished
from agentic.chat.service import IncomingMessage
from agentic.context.commands import order_in
from agentic.context.entries import Attachment, Entry, Reaction, Speaker, hidden_by_text
from agentic.services.discord.channels import author_of, parent_of
from agentic.services.discord.extras import extras_of, forwarded_files, forwards_hidden, is_forward, notice_of
from agentic.services.discord.mentions import mentioned_in, to_names

MAX_QUESTION = 1900  # characters; the mention goes before it
NO_AGENTS = Directory()
SERVICE = Speaker(0, "Discord", "stranger")  # says what happened in the server

_QUESTION = re.compile(r"<@(\d{1,20})> (.*)", re.DOTALL)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommandQuestion:
    """A question to an agent (a user id) by slash command."""

    by: discord.User
    agent: int
    prompt: str


def question_text(agent_id: int, prompt: str) -> str:
    """The message that shows a question, with the prompt exactly as it was given."""
    return f"<@{agent_id}> {prompt}"


def read_question(text: str) -> tuple[int, str] | None:
    """The agent's user id and the prompt in a message that shows a question; None for any other message."""
    found = _QUESTION.fullmatch(text)
    return (int(found[1]), found[2]) if found else None


def command_question(message: discord.Message, directory: Directory) -> CommandQuestion | None:
    """The question that a message of ours shows; None for any other message."""
    used = message.interaction_metadata
    if used is None or directory.agent_of(message.author.id) is None or used.user.bot:
        return None
    read = read_question(message.content)
    if read is None or directory.agent_of(read[0]) is None:
        return None
    return CommandQuestion(used.user, *read)


def is_said(message: discord.Message) -> bool:
    """Whether somebody wrote it. Joins, boosts and pins are nobody's words, nor is the copy of the message that a
    thread began at, which py-cord does not count among them. The answer to a command of a context menu is a bot's."""
    if message.type is discord.MessageType.context_menu_command:
        return True
    return not message.is_system() and message.type is not discord.MessageType.thread_starter_message


def speaker_of(message: discord.Message, directory: Directory) -> Speaker:
    """Agents are recognised by their user id, our webhook posts by their own id. Other webhooks and bots are strangers,
    everybody else is a person."""
    author = message.author
    name = clean_name(author.display_name)
    agent = directory.agent_of_post(message.id) if message.webhook_id else directory.agent_of(author.id)
    if agent is not None:
        return Speaker(author.id, name, "agent", agent)
    return Speaker(author.id, name, "stranger" if author.bot or message.webhook_id else "person")


def shown_text(message: discord.Message, directory: Directory = NO_AGENTS) -> str:
    """The content with names for mentions, channels, roles and custom emoji, for agents also where nobody is pinged."""
    agents = {user_id: directory.name_of(user_id) for user_id in mentioned_in(message.content)}
    return to_names(
        message.content,
        {
            **{user_id: name for user_id, name in agents.items() if name is not None},
            **{user.id: clean_name(user.display_name) for user in message.mentions},
        },
        {channel.id: clean_name(channel.name) for channel in message.channel_mentions},
        {role.id: clean_name(role.name) for role in _roles_in(message)},
    )


def mentioned_users(message: discord.Message) -> frozenset[int]:
    """The ids of mentioned users. Discord lists those that are pinged; a bot's text pings nobody, so it is searched. A
    mention of the role that a bot has for itself alone, which people mix up with the bot, mentions the bot. A forwarded
    mention calls nobody."""
    if is_forward(message):
        return frozenset()
    pinged = frozenset(user.id for user in message.mentions)
    if message.author.bot:
        return pinged | mentioned_in(message.content)
    tags = (role.tags for role in _roles_in(message))
    return pinged | {tag.bot_id for tag in tags if tag is not None and tag.bot_id is not None}


def _roles_in(message: discord.Message) -> list[discord.Role]:
    """Return the roles that the text mentions. Discord lists only those that the author may ping, and most people may
    not ping a bot's own role.
    """
    if not isinstance(message.guild, discord.Guild):
        return []
    found = (message.guild.get_role(role_id) for role_id in message.raw_role_mentions)
    return [role for role in found if role is not None]


def mentioned_roles(message: discord.Message) -> frozenset[int]:
    return frozenset() if is_forward(message) else frozenset(message.raw_role_mentions)


def replied_message(message: discord.Message) -> int | None:
    """Return the id of the message in the same channel that this one replies to. A forward, and a post that a channel
    follows from elsewhere, refer to another channel's message and are no replies."""
    reference = message.reference
    if reference is None or is_forward(message) or reference.channel_id != message.channel.id:
        return None
    return reference.message_id


def replied_author(message: discord.Message) -> int | None:
    """The author of the message that this one replies to, where Discord sends it."""
    replied = message.reference.resolved if message.reference and replied_message(message) is not None else None
    return replied.author.id if isinstance(replied, discord.Message) else None


def incoming_message(message: discord.Message, by_command: CommandQuestion | None = None) -> IncomingMessage:
    """The message's facts; `by_command` is the question that it shows."""
    if by_command is not None:
        return IncomingMessage(
            message_id=message.id,
            author_id=by_command.by.id,
            by_person=True,
            guild_id=message.guild.id if message.guild else None,
            channel_id=message.channel.id,
            parent_id=parent_of(message.channel),
            mentioned_users=frozenset((by_command.agent,)),
        )
    return IncomingMessage(
        message_id=message.id,
        author_id=message.author.id,
        by_person=not message.author.bot and message.webhook_id is None and is_said(message),
        author_roles=frozenset(role.id for role in getattr(message.author, "roles", ())),  # users have none
        guild_id=message.guild.id if message.guild else None,
        channel_id=message.channel.id,
        parent_id=parent_of(message.channel),
        mentioned_users=mentioned_users(message),
        mentioned_roles=mentioned_roles(message),
        replied_to=replied_author(message),
    )


def to_entries(messages: Iterable[discord.Message], directory: Directory) -> list[Entry]:
    """The entries of messages that somebody wrote. One that cannot be read is skipped."""
    found = []
    for message in messages:
        try:
            entry = to_entry(message, directory)
        except Exception as error:  # an odd message must not lose the others
            log.warning("message %d cannot be read and is skipped (%s)", message.id, type(error).__name__)
        else:
            found += [entry] if entry is not None else []
    return found


def to_entry(message: discord.Message, directory: Directory) -> Entry | None:
    """None for a message that nobody wrote, except for a notice of Discord's that bots should know."""
    created_at, edited = message.created_at.timestamp(), message.edited_at is not None
    if not is_said(message):  # a notice is by nobody: it calls no agent and counts as no person's word
        notice = notice_of(message)
        return Entry(message.id, SERVICE, "", created_at, extras=(notice,)) if notice else None
    if (question := command_question(message, directory)) is not None:
        name = directory.distinct_name(question.by.id, clean_name(question.by.display_name))
        return Entry(
            id=message.id,
            speaker=Speaker(question.by.id, name, "person"),
            text=to_names(message.content, {question.agent: directory.agent_of(question.agent) or ""}),
            created_at=created_at,
            edited=edited,
            mentions=frozenset((question.agent,)),
        )
    author, speaker = author_of(message), speaker_of(message, directory)
    private, is_agent = message.guild is None, speaker.kind == "agent"
    agents = {user_id: directory.name_of(user_id) or "" for user_id in directory.ids}
    names = {**agents, **{user.id: clean_name(user.display_name) for user in message.mentions}}
    own = (
        Attachment(a.id, a.filename, a.url, a.size, (a.content_type or "").split(";")[0]) for a in message.attachments
    )
    hidden = hidden_by_text(message.content, private=private) or forwards_hidden(message)
    return Entry(
        id=message.id,
        speaker=speaker,
        text=shown_text(message, directory),
        created_at=created_at,
        reply_to=replied_message(message),
        attachments=(*own, *forwarded_files(message)),
        # An agent's own posts are its text; a preview of a link in it would come after the others have read it.
        extras=() if is_agent else extras_of(message, names),
        reactions=tuple(Reaction(str(r.emoji), count=r.count) for r in message.reactions),
        edited=edited,
        mentions=mentioned_users(message) | mentioned_roles(message),
        replied_to=replied_author(message),
        hidden=hidden or (is_agent and unfinished(message.content)),
        pinned=message.pinned,
        webhook=message.webhook_id is not None,
        author_roles=author.roles,
        may_manage=author.manages_messages,
        private=private,
        order=order_in(message.content),
    )
