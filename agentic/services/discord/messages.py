"""Turns a Discord message into a transcript entry, and into the facts that decide whether it calls an agent.

The bot posts the question that a person asks with a slash command; it is treated as that person's message.

Parts outside a message's text become one line each: forwards, stickers, polls, embeds, components, voice messages, and
Discord's own notices (a join, a boost, a poll's result). These lines contain strangers' words, so the layouts put them
on one line and remove their brackets. They are read from payloads instead of py-cord's objects: there a message and a
forwarded snapshot have the same shape, and a component unknown to py-cord keeps its text.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import discord

from agentic.chat.directory import Directory, clean_name
from agentic.chat.formatting import read_question
from agentic.chat.outlet import is_unfinished
from agentic.chat.service import IncomingMessage, Person
from agentic.context.commands import order_in
from agentic.context.entries import Addressees, Attachment, Entry, Kind, Reaction, Speaker, hidden_by_text, one_line
from agentic.services.discord.channels import author_of, parent_of
from agentic.services.discord.mentions import NO_NAMES, mentioned_in, to_names
from agentic.text import counted

NO_AGENTS = Directory()
SERVICE = Speaker(0, "Discord", "stranger")  # the speaker of Discord's own notices

FORWARD = 1  # a message_reference's type
VOICE_MESSAGE = 1 << 13  # a flag
MAX_LINE = 1_500  # characters of one line
MAX_CHARACTERS = 4_000  # of all lines of a message
MAX_DEPTH = 6  # of components in components, and of forwards of forwards
_WITH_LINES = ("message_snapshots", "sticker_items", "poll", "components", "flags", "embeds")  # fields of a payload
_BOOSTS = {8: "", 9: ", which is level 1 now", 10: ", which is level 2 now", 11: ", which is level 3 now"}
Json = Mapping[str, Any]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommandQuestion:
    """A question to an agent (a user id) with a slash command."""

    by: discord.User
    agent: int


def command_question(message: discord.Message, directory: Directory) -> CommandQuestion | None:
    """Return the question that a message of ours shows, or None if it shows none."""
    used = message.interaction_metadata
    if used is None or directory.agent_of(message.author.id) is None or used.user.bot:
        return None
    read = read_question(message.content)
    if read is None or directory.agent_of(read[0]) is None:
        return None
    return CommandQuestion(used.user, read[0])


def is_said(message: discord.Message) -> bool:
    """Return whether somebody wrote the message. Joins, boosts, and pins have no author, nor has a thread's copy of its
    first message, which py-cord doesn't treat as a system message. A bot writes the answer to a context menu command.
    """
    if message.type is discord.MessageType.context_menu_command:
        return True
    return not message.is_system() and message.type is not discord.MessageType.thread_starter_message


def speaker_of(message: discord.Message, directory: Directory) -> Speaker:
    """Return a message's speaker. Agents are recognized by their user id, and our webhook posts by the message's id.
    Other webhooks and bots are strangers; everyone else is a person."""
    author = message.author
    agent = directory.agent_of_post(message.id) if message.webhook_id else directory.agent_of(author.id)
    rights = author_of(message, directory) if agent is None else Person(author.id)  # an agent gives no commands
    kind: Kind = "stranger" if author.bot or message.webhook_id else "person"
    return Speaker(
        author.id,
        clean_name(author.display_name),
        kind if agent is None else "agent",
        agent,
        roles=rights.roles,
        may_manage=rights.manages_messages,
        webhook=message.webhook_id is not None,
    )


def shown_text(message: discord.Message, directory: Directory = NO_AGENTS, people: Mapping[int, str] = NO_NAMES) -> str:
    """Return the content with names for mentions, channels, roles, and custom emoji; for agents and `people` even
    without a ping."""
    if "<" not in message.content:
        return message.content
    agents = {user_id: directory.name_of(user_id) for user_id in mentioned_in(message.content)}
    return to_names(
        message.content,
        {
            **people,
            **{user_id: name for user_id, name in agents.items() if name is not None},
            **{user.id: clean_name(user.display_name) for user in message.mentions},
        },
        {channel.id: clean_name(channel.name) for channel in message.channel_mentions},
        {role.id: clean_name(role.name) for role in _roles_in(message)},
    )


def mentioned_users(message: discord.Message) -> frozenset[int]:
    """Return the ids of mentioned users. Discord lists only pinged users, and a bot's text pings nobody, so it is
    searched. Mentioning a bot's own role, which people mistake for the bot, mentions the bot. Mentions in a forwarded
    message are ignored."""
    if is_forward(message):
        return frozenset()
    pinged = frozenset(user.id for user in message.mentions)
    if message.author.bot:
        return pinged | mentioned_in(message.content)
    tags = (role.tags for role in _roles_in(message))
    return pinged | {tag.bot_id for tag in tags if tag is not None and tag.bot_id is not None}


def _roles_in(message: discord.Message) -> list[discord.Role]:
    """Return the roles that the text mentions. Discord's own list has only the roles that the author may ping, and most
    people may not ping a bot's own role."""
    if not isinstance(message.guild, discord.Guild):
        return []
    found = (message.guild.get_role(role_id) for role_id in message.raw_role_mentions)
    return [role for role in found if role is not None]


def mentioned_roles(message: discord.Message) -> frozenset[int]:
    return frozenset() if is_forward(message) else frozenset(message.raw_role_mentions)


def replied_message(message: discord.Message) -> int | None:
    """Return the id of the message in the same channel that this one replies to. Forwards, and posts from followed
    channels, refer to another channel's message and aren't replies."""
    reference = message.reference
    if reference is None or is_forward(message) or reference.channel_id != message.channel.id:
        return None
    return reference.message_id


def replied_author(message: discord.Message) -> int | None:
    """Return the author of the message that this one replies to, if Discord sends it."""
    return next((replied.author.id for replied in replied_messages([message])), None)


def replied_messages(messages: Iterable[discord.Message]) -> list[discord.Message]:
    """Return the messages that these ones reply to, if Discord sends them."""
    resolved = [message.reference.resolved for message in messages if message.reference and replied_message(message)]
    return [each for each in resolved if isinstance(each, discord.Message)]


def incoming_message(message: discord.Message, by_command: CommandQuestion | None = None) -> IncomingMessage:
    """Return the message's facts. `by_command` is the question that it shows."""
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
    """Return the entries of messages that somebody wrote. Unreadable messages are skipped."""
    found = []
    for message in messages:
        try:
            entry = to_entry(message, directory)
        except Exception as error:  # an odd message must not lose the others
            log.warning("reading message %d failed: %s; it is skipped", message.id, type(error).__name__)
        else:
            found.append(entry)
    return [entry for entry in found if entry is not None]


def to_entry(message: discord.Message, directory: Directory) -> Entry | None:
    """Return a message's entry, or None if nobody wrote it, unless it is a notice that bots should know."""
    created_at, edited = message.created_at.timestamp(), message.edited_at is not None
    if not is_said(message):  # a notice has no author: it calls no agent and isn't a person's message
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
            addressees=Addressees(frozenset((question.agent,))),
        )
    speaker = speaker_of(message, directory)
    private, is_agent = message.guild is None, speaker.kind == "agent"
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
        # An agent's own post is only its text: a link preview would come after the other bots have read it.
        extras=() if is_agent else extra_lines(message, directory),
        reactions=tuple(Reaction(str(r.emoji), count=r.count) for r in message.reactions),
        edited=edited,
        addressees=Addressees(mentioned_users(message) | mentioned_roles(message), replied_author(message)),
        hidden=hidden or (is_agent and is_unfinished(message.content)),
        pinned=message.pinned,
        private=private,
        order=order_in(message.content),
    )


def is_forward(message: discord.Message) -> bool:
    """Return whether a message forwards another one. Its text and mentions belong to that message."""
    reference = message._raw_data.get("message_reference")
    return isinstance(reference, dict) and reference.get("type", 0) == FORWARD


def forwards_hidden(message: discord.Message) -> bool:
    """Return whether a forwarded message is hidden from bots. Its author's wish applies wherever it is shown."""
    return any(hidden_by_text(str(snapshot.get("content") or "")) for snapshot in _snapshots(message._raw_data))


def extra_lines(message: discord.Message, directory: Directory) -> tuple[str, ...]:
    """Return the lines about a message's parts outside its text, at most MAX_CHARACTERS in all."""
    payload = message._raw_data
    if not any(payload.get(name) for name in _WITH_LINES):
        return ()
    names = {user_id: directory.name_of(user_id) or "" for user_id in directory.ids}
    names |= {user.id: clean_name(user.display_name) for user in message.mentions}
    lines = list(_lines(payload, names))
    for snapshot in _snapshots(payload):
        words = _line("", [snapshot.get("content")], _named(snapshot, names))
        lines += [f"forwarded message: {words}"] if words else []
        lines += [f"forwarded {line}" for line in _lines(snapshot, names) if line]
    shown: list[str] = []
    left = MAX_CHARACTERS
    for line in dict.fromkeys(filter(None, lines)):  # without duplicates, as of ten embeds with a picture
        if left > 0:
            shown.append(line[: min(MAX_LINE, left)])
            left -= len(shown[-1])
    return tuple(shown)


def forwarded_files(message: discord.Message) -> Iterator[Attachment]:
    """Yield the files of forwarded messages. Discord sends their URLs with the forward."""
    for snapshot in _snapshots(message._raw_data):
        for file in _dicts(snapshot.get("attachments")):
            if (file_id := _number(file.get("id"))) and file.get("url"):
                kind = str(file.get("content_type") or "").split(";")[0]
                name, size = str(file.get("filename") or "file"), _number(file.get("size"))
                yield Attachment(file_id, name, str(file["url"]), size, kind)


def expires_at(url: str) -> float:
    """Return when an attachment's address expires, in unix seconds. Discord writes it in hexadecimal."""
    try:
        return float(int(parse_qs(urlsplit(url).query)["ex"][0], 16))
    except (KeyError, ValueError, OverflowError):
        return math.inf


def notice_of(message: discord.Message) -> str | None:
    """Return the line of one of Discord's own notices, or None if it is useless for the bots: "pinned a message"
    doesn't say which one (often a command), and would take a message's place in the window."""
    who, kind = clean_name(message.author.display_name), message.type
    if kind is discord.MessageType.new_member:
        return f"event: {who} joined the server"
    if kind.value in _BOOSTS:
        return f"event: {who} boosted the server{_BOOSTS[kind.value]}"
    return _poll_result(message._raw_data) if kind is discord.MessageType.poll_result else None


def _snapshots(payload: Json, depth: int = 0) -> Iterator[Json]:
    """Yield the messages that a message forwards, including forwards of forwards."""
    for each in _dicts(payload.get("message_snapshots")) if depth < MAX_DEPTH else ():
        if isinstance(snapshot := each.get("message"), dict):
            yield snapshot
            yield from _snapshots(snapshot, depth + 1)


def _lines(payload: Json, names: Mapping[int, str]) -> Iterator[str]:
    """Yield the lines about a message or a snapshot, without its text and files."""
    names = _named(payload, names)
    for sticker in _dicts(payload.get("sticker_items")):
        yield _line("sticker: ", [sticker.get("name")], names)
    if isinstance(poll := payload.get("poll"), dict):
        yield _poll(poll, names)
    yield _line("components: ", list(_component_words(payload.get("components"))), names, " / ")
    if _number(payload.get("flags")) & VOICE_MESSAGE:
        length = next((file.get("duration_secs") for file in _dicts(payload.get("attachments"))), None)
        yield f"voice message: {length:.0f} s" if isinstance(length, int | float) else "voice message: unknown length"
    for embed in _dicts(payload.get("embeds")):
        head = "embed: " if embed.get("type", "rich") == "rich" else "link preview: "
        yield _line(head, list(_embed_words(embed)), names, " – ")


def _poll(poll: Json, names: Mapping[int, str]) -> str:
    results = poll.get("results")
    known = results if isinstance(results, dict) else {}
    counts = {_number(each.get("id")): _number(each.get("count")) for each in _dicts(known.get("answer_counts"))}
    answers = []
    for answer in _dicts(poll.get("answers")):
        votes = f" ({counted(counts.get(_number(answer.get('answer_id')), 0), 'vote')})" if results is not None else ""
        answers.append(f"{_media(answer.get('poll_media'))}{votes}")
    ended = bool(known.get("is_finalized"))
    question = f"{_media(poll.get('question'))}{' (ended)' if ended else ''}"
    return _line("poll: ", [question, *answers], names, " / ")


def _poll_result(payload: Json) -> str | None:
    """Return the notice of a poll's result, which Discord sends as an embed's fields."""
    embed = next(_dicts(payload.get("embeds")), {})
    fields = {str(field.get("name")): str(field.get("value")) for field in _dicts(embed.get("fields"))}
    question, winner = fields.get("poll_question_text"), fields.get("victor_answer_text")
    if question is None:
        return None
    votes, total = fields.get("victor_answer_votes", "?"), fields.get("total_votes", "?")
    result = f"“{winner}” won with {votes} of {total} votes" if winner else f"no single winner in {total} votes"
    return _line("poll result: ", [question, result], {}, " / ")


def _media(media: object) -> str:
    """Return the text of a poll's question or answer, with its emoji."""
    if not isinstance(media, dict):
        return ""
    emoji = media.get("emoji")
    name = emoji.get("name") if isinstance(emoji, dict) else None
    return " ".join(str(part) for part in (name, media.get("text")) if part)


def _embed_words(embed: Json) -> Iterator[str]:
    for part in _dicts([embed.get("provider"), embed.get("author")]):
        yield str(part.get("name") or "")
    yield from (str(embed.get(part) or "") for part in ("title", "description"))
    for field in _dicts(embed.get("fields")):
        yield f"{field.get('name') or ''}: {field.get('value') or ''}"
    if isinstance(footer := embed.get("footer"), dict):
        yield str(footer.get("text") or "")
    pictured = any(isinstance(embed.get(part), dict) for part in ("image", "thumbnail"))
    if pictured and embed.get("type", "rich") == "rich":
        yield "with a picture"


def _component_words(components: object, depth: int = 0) -> Iterator[str]:
    """Yield the words of nested components: texts, labels, choices, and descriptions of pictures."""
    for part in _dicts(components) if depth < MAX_DEPTH else ():
        if part.get("content"):
            yield str(part["content"])
        if part.get("label"):
            yield f"button “{part['label']}”" if part.get("type") == 2 else str(part["label"])
        options = [str(option.get("label") or "") for option in _dicts(part.get("options"))]
        if part.get("placeholder") or options:
            yield f"menu “{part.get('placeholder') or ''}” ({', '.join(filter(None, options))})"
        if part.get("description") or isinstance(part.get("media"), dict):
            yield f"picture “{part['description']}”" if part.get("description") else "picture"
        if part.get("type") == 13 and part.get("name"):
            yield f"file {part['name']}"
        for inner in ("components", "items"):
            yield from _component_words(part.get(inner), depth + 1)
        for inner in ("accessory", "component"):
            yield from _component_words([part.get(inner)], depth + 1)


def _named(payload: Json, names: Mapping[int, str]) -> Mapping[int, str]:
    """Return `names` and the names of the users that a payload mentions."""
    users = {
        _number(user.get("id")): str(user.get("global_name") or user.get("username") or "")
        for user in _dicts(payload.get("mentions"))
    }
    return {**users, **names} if users else names


def _line(head: str, parts: Sequence[object], names: Mapping[int, str], between: str = " ") -> str:
    """Return the non-empty parts on one line, with names for mentions, or "" if there are none."""
    shown = (one_line(str(part), 2 * MAX_LINE) for part in parts if part)
    text = between.join(part for part in shown if part.strip(" :"))  # blank fields are decoration
    if not text:
        return ""
    return f"{head}{to_names(text[: 2 * MAX_LINE], {user: names[user] for user in mentioned_in(text) & names.keys()})}"


def _number(found: object) -> int:
    """Return a number that Discord sends as a number or as text, or 0 for anything else."""
    return int(found) if isinstance(found, int) or (isinstance(found, str) and found.isdecimal()) else 0


def _dicts(found: object) -> Iterator[Json]:
    """Yield the maps in a list. Discord may send null or omit the list."""
    if isinstance(found, list):
        yield from (each for each in found if isinstance(each, dict))
