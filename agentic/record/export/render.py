"""Render a story (a conversation or a room) as HTML in one file, Markdown, or JSON.

Discord's markdown becomes HTML: bold, italic, code, quotes, lists, headings, links, spoilers, mentions by name. Only
tags of this module come out; every piece of the text is escaped. Links lead to http and https alone. Nothing is loaded:
custom emoji and mentions are names.

A room's story has its agents' posts, and between them what people said in its thread. People have keys of their own in
it, from the order in which they spoke: an export has their names, never their ids.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import aiosqlite
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from agentic.formats import DEFAULT_FORMAT
from agentic.record.database import connect
from agentic.record.export.story import (
    GREY,
    Look,
    Message,
    Progress,
    RoomFacts,
    Story,
    emoji_name,
    messages_of,
    read_story,
)
from agentic.record.queries.posts import (
    Conversation,
    Picture,
    conclusion_of,
    has_room_up_to,
    messages_of_room,
    models_in_room,
    posts_of_channel,
    room_of,
    votes_in_room,
)
from agentic.record.queries.turns import turns_of_channel

MAX_TITLE = 60  # of a file's name
LOOKS, LOOK_SECONDS = 24, 0.25  # how often to look into the record, which is some seconds behind

_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~])")
_OTHER_SCHEME = re.compile(r"\]\((?!<?https?://)")
# A code block ends at as many marks as it began with, or more. Tildes need lines of their own. The console
# (agentic/console/static/js/markup.js) has the same pattern.
FENCE = (
    r"(?P<ticks>`{3,9})(?:[\w+#.-]{1,20}\n)?(?P<code>.+?)(?P=ticks)`*"
    r"|^(?P<tildes>~{3,9})[\w+#.-]*[ \t]*\n(?P<lines>.*?)^(?P=tildes)~*[ \t]*$"
)
_FENCE = re.compile(FENCE, re.DOTALL | re.MULTILINE)
_CODE = re.compile(rf"{FENCE}|`[^`\n]+`", re.DOTALL | re.MULTILINE)
_REST_QUOTED = re.compile(r"^>>> ", re.MULTILINE)
_QUOTE = re.compile(r"> ?(.*)")
_HEADING = re.compile(r"(#{1,3}|-#) +(.+)")
_ITEM = re.compile(r"( *)([-*]|\d{1,9}\.) +(.+)")
# Mentions, channels, and so on, which Discord writes as ids. Part of a verbose pattern.
NAMED = r"""
    (?P<person><@!?(?P<person_id>\d{1,20})>)
    | (?P<role><@&\d+>)
    | (?P<channel><\#(?P<channel_id>\d{1,20})>)
    | (?P<emoji><a?:\w+:\d+>)
    | (?P<time><t:(?P<seconds>-?\d{1,10})(?::[tTdDfFR])?>)
    | (?P<command></(?P<command_name>[^:<>]+):\d+>)
"""
_NAMED = re.compile(NAMED, re.VERBOSE)
_INLINE = re.compile(
    rf"""
    (?P<escaped>\\[^\w\s])
    | (?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))
    | (?P<link>\[(?P<label>[^\[\]\n]+)\]\(<?(?P<to>https?://[^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?\))
    | (?P<address><https?://[^\s<>]+>|https?://[^\s<>]*[^\s<>.,;:!?'"*_~|)\]])
    | {NAMED}
    | (?P<strong>\*\*(?!\*\*).+?\*\*(?!\*))
    | (?P<u>__(?!__).+?__(?!_))
    | (?P<s>~~.+?~~)
    | (?P<spoiler>\|\|.+?\|\|)
    | (?P<em>\*(?![\s*]).+?(?<![\s*])\*(?!\*)|\b_[^_].*?_\b)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported page, and a name for its file."""

    name: str
    text: str


async def room_page(
    record_file: Path, thread_id: int, kind: str = "html", look: Look | None = None, upto: Progress | None = None
) -> Exported | None:
    """Export a room as `html`, `md`, or `json` from the record's file; None if the file doesn't have the room.

    Raises RecordError, sqlite3.Error.
    """
    async with connect(record_file) as db:
        return await export_room(db, thread_id, kind, look or Look(), upto)


async def export_room(
    db: aiosqlite.Connection, thread_id: int, kind: str, look: Look, upto: Progress | None = None
) -> Exported | None:
    """Export a room like `room_page`, from an open record. Wait a little until the record has the room `upto` there."""
    for _ in range(LOOKS if upto is not None else 0):  # something may be lost on its way to the record
        if upto is None or await has_room_up_to(db, thread_id, upto.turn, upto.closed_at):
            break
        await asyncio.sleep(LOOK_SECONDS)
    return await _render("room", await read_room_story(db, thread_id, look), kind)


async def export(db: aiosqlite.Connection, conversation_id: str, kind: str, look: Look) -> Exported | None:
    """Export a conversation as `html`, `md`, or `json`; None if the record doesn't have it."""
    return await _render("conversation", await read_story(db, conversation_id, look), kind)


async def _render(what: str, story: Story | None, kind: str) -> Exported | None:
    """Render a story. `what` it is, its day, and its topic give the file's name."""
    if story is None:
        return None
    title = (story.conversation.topic or story.conversation.theme).lower()
    words = re.sub(r"[^a-z0-9]+", "-", title)[:MAX_TITLE].strip("-")
    name = f"{what}-{story.began:%Y-%m-%d}{'-' * bool(words)}{words}.{kind}"
    return Exported(name, await asyncio.to_thread(FORMATS[kind], story))


async def read_room_story(db: aiosqlite.Connection, thread_id: int, look: Look) -> Story | None:
    """Read a room without its deleted messages; None if the record doesn't have it."""
    room = await room_of(db, thread_id)
    if room is None:
        return None
    said = await messages_of_room(db, thread_id)
    people = dict.fromkeys(each.author_id for each in said if each.agent is None)
    keys = {author_id: f"@{number}" for number, author_id in enumerate(people, start=1)}  # unlike any agent's key
    newest_names = {each.agent or keys[each.author_id]: each.name for each in said if each.name}
    look = replace(look, names={**newest_names, **look.names})
    posts = await messages_of(db, await posts_of_channel(db, thread_id), await turns_of_channel(db, thread_id), look)
    recorded = {post.message_id for post in posts}
    others = [
        Message(
            each.message_id,
            each.agent or keys[each.author_id],
            datetime.fromtimestamp(each.at, look.zone),
            each.text,
            picture=None,
            reactions=(),
            cost_usd=0.0,
            person=each.agent is None,
        )
        for each in said
        if each.message_id not in recorded
    ]
    messages = sorted((*posts, *others), key=lambda message: message.message_id)
    speakers = tuple(dict.fromkeys(message.agent for message in messages))
    began = datetime.fromtimestamp(room.opened_at, look.zone)
    conversation = Conversation(
        id=room.conversation_id,
        channel_id=room.channel_id,
        theme="room" if room.format == DEFAULT_FORMAT else room.format,
        topic=room.topic,
        policy=room.policy,
        started_at=room.opened_at,
        ended_at=None if room.status == "active" else room.changed_at,
        ended_because=room.why,
        rounds=room.turn_number,
        messages=room.posts,
        cost_usd=room.cost_usd,
    )
    facts = RoomFacts(
        room.details,
        room.rules,
        room.sides,
        await models_in_room(db, thread_id),
        await votes_in_room(db, thread_id, look.bots),
        await conclusion_of(db, thread_id),
    )
    return Story(conversation, look, began, tuple(messages), speakers, facts)


def as_html(story: Story) -> str:
    """Render a complete page. It loads nothing and has no script, and its policy forbids browsers both."""
    agents = [
        {
            "name": story.look.name(agent),
            "initial": story.look.name(agent)[:1].upper() or "?",
            "color": f"#{story.look.colors.get(agent, GREY) & 0xFFFFFF:06x}",
            "messages": sum(message.agent == agent for message in story.messages),
            "about": story.room.about(agent) if story.room is not None else "",
        }
        for agent in story.agents
    ]
    return _template().render(
        story=story,
        look=story.look,
        agents=agents,
        place={agent: number for number, agent in enumerate(story.agents)},
        body=lambda message: to_html(message.text, story.look),
        details=to_html(story.room.details, story.look) if story.room is not None and story.room.details else "",
        card=to_html(story.room.card, story.look) if story.room is not None and story.room.card else "",
        source=data_address,
    )


@cache
def _template() -> Template:
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html")


def as_markdown(story: Story) -> str:
    """Quote each message, so that no text can pass for another agent's message."""
    look, conversation = story.look, story.conversation
    names = ", ".join(_plain(look.name(agent)) for agent in story.agents)
    head = f"*{_plain(conversation.theme)}, {story.began:%Y-%m-%d %H:%M %Z}, {names}*"
    cost = [f"Cost: ${conversation.cost_usd:.4f}"] if look.costs else []
    parts = [f"# {_plain(story.title)}", head, *cost]
    if story.room is not None:
        members = [
            f"- **{_plain(story.look.name(each))}**: {_plain(story.room.about(each))}"
            for each in story.agents
            if story.room.about(each)
        ]
        parts += [_quoted(story.room.details, look)] if story.room.details else []
        parts += [f"Rules: {_plain(story.room.rules)}"] if story.room.rules else []
        parts += ["\n".join(members)] if members else []
    parts += [_message_markdown(story, each) for each in story.messages]
    if story.room is not None and story.room.card:
        parts += ["## The closing card", _quoted(story.room.card, story.look)]
    return "\n\n".join(parts) + "\n"


def _message_markdown(story: Story, message: Message) -> str:
    """Render a message with names instead of ids, without HTML, and with links only to http and https."""
    lines = [f"**{_plain(story.look.name(message.agent))}** {message.at:%H:%M}", ""]
    lines += [_quoted(message.text, story.look)]
    lines += [">", f"> ![picture]({data_address(message.picture)})"] if message.picture else []
    given = "  ".join(f"{_plain(each.emoji)} {each.count}" for each in message.reactions)
    return "\n".join([*lines, *(["", given] if given else [])])


def _quoted(text: str, look: Look) -> str:
    def clean(outside: str) -> str:
        named = _NAMED.sub(lambda match: name_of(match, look), outside)
        return _OTHER_SCHEME.sub(r"]\\(", named.replace("<", "&lt;"))

    pieces, end = list[str](), 0
    for code in _CODE.finditer(text):
        pieces += clean(text[end : code.start()]), code[0]
        end = code.end()
    pieces.append(clean(text[end:]))
    return "\n".join(f"> {line}".rstrip() for line in "".join(pieces).split("\n"))


def _plain(text: str) -> str:
    """Return a text on one line, with Markdown escaped."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def as_json(story: Story) -> str:
    """Return the story as JSON: ids as text, times in unix seconds, money in US dollars, pictures in base64."""
    conversation, look = story.conversation, story.look
    people = {message.agent for message in story.messages if message.person}
    told = {"id", "theme", "topic", "started_at", "ended_at", "ended_because", "rounds"}
    whole = {
        **conversation.model_dump(include=told | ({"cost_usd"} if look.costs else set())),
        "channel_id": str(conversation.channel_id),
        "agents": [{"agent": agent, "name": look.name(agent)} for agent in story.agents if agent not in people],
        "messages": [_message_json(story, message) for message in story.messages],
    }
    if story.room is not None:
        told = {"card", "arguments", "agreed", "unsettled", "judge", "verdict", "closed_at"}
        ending = story.room.conclusion
        whole |= {
            "details": story.room.details,
            "rules": story.room.rules,
            "sides": dict(story.room.sides),
            "models": {agent: list(models) for agent, models in story.room.models.items()},
            "votes": dict(story.room.votes),
            "conclusion": ending.model_dump(include=told) if ending is not None else None,
        }
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def _message_json(story: Story, message: Message) -> dict[str, Any]:
    picture = message.picture
    shown = picture and {"media_type": picture.media_type, "data": base64.b64encode(picture.data).decode()}
    return {
        "message_id": str(message.message_id),
        "agent": None if message.person else message.agent,  # a person has only a name
        "name": story.look.name(message.agent),
        "at": message.at.timestamp(),
        "text": message.text,
        "picture": shown,
        "reactions": [asdict(each) for each in message.reactions],
        **({"cost_usd": message.cost_usd} if story.look.costs else {}),
    }


FORMATS: Mapping[str, Callable[[Story], str]] = {"html": as_html, "md": as_markdown, "json": as_json}


def data_address(picture: Picture) -> str:
    return f"data:{picture.media_type};base64,{base64.b64encode(picture.data).decode()}"


# -- Discord's markdown as HTML ----------------------------------------------------------------------------------------


def to_html(text: str, look: Look) -> Markup:
    """Render a message as a sequence of HTML blocks."""
    text = text.strip("\n")
    found, end = Markup(""), 0
    for fence in _FENCE.finditer(text):
        found += _render_blocks(text[end : fence.start()], look)
        code = (fence["code"] or fence["lines"]).removeprefix("\n").rstrip()
        found += Markup("<pre><code>{}</code></pre>").format(code)
        end = fence.end()
    return found + _render_blocks(text[end:], look)


def _render_blocks(text: str, look: Look) -> Markup:
    rest = _REST_QUOTED.search(text)
    if rest is not None:
        quoted = Markup("<blockquote>{}</blockquote>").format(_render_by_lines(text[rest.end() :], look))
        return _render_by_lines(text[: rest.start()], look) + quoted
    return _render_by_lines(text, look)


def _render_by_lines(text: str, look: Look) -> Markup:
    kinds = groupby(text.split("\n"), key=_kind)
    return Markup("").join(_render_block(kind, list(lines), look) for kind, lines in kinds)


def _kind(line: str) -> str:
    if not line.strip():
        return "nothing"
    if line.startswith(("> ", ">\n")) or line == ">":
        return "quote"
    if item := _ITEM.fullmatch(line):
        return "ol" if item[2][0].isdigit() else "ul"
    return "heading" if _HEADING.fullmatch(line) else "paragraph"


def _render_block(kind: str, lines: list[str], look: Look) -> Markup:
    if kind == "nothing":
        return Markup("")
    if kind == "quote":
        quoted = "\n".join(_QUOTE.sub(r"\1", line, count=1) for line in lines)
        return Markup("<blockquote><p>{}</p></blockquote>").format(inline(quoted, look))
    if kind == "heading":
        found = [match for match in map(_HEADING.fullmatch, lines) if match]
        classes = ["subtext" if match[1] == "-#" else "heading" for match in found]
        return Markup("").join(
            Markup('<p class="{}">{}</p>').format(name, inline(match[2], look))
            for name, match in zip(classes, found, strict=True)
        )
    if kind in ("ol", "ul"):
        items = [match for match in map(_ITEM.fullmatch, lines) if match]
        start = Markup(' start="{}"').format(int(items[0][2][:-1])) if kind == "ol" else ""
        inner = Markup("").join(
            Markup("<li{}>{}</li>").format(Markup(' class="deeper"') if len(item[1]) > 1 else "", inline(item[3], look))
            for item in items
        )
        return Markup("<{0}{1}>{2}</{0}>").format(kind, start, inner)
    return Markup("<p>{}</p>").format(inline("\n".join(lines), look))


def inline(text: str, look: Look, *, linked: bool = False) -> Markup:
    """Render the text of a block. `linked`: it's the label of a link, so it can't contain another link. A mark ends at
    the next mark of its kind, which limits how deeply marks are nested."""
    found, end = Markup(""), 0
    for match in _INLINE.finditer(text):
        found += _render_text(text[end : match.start()]) + _render_mark(match, look, linked)
        end = match.end()
    return found + _render_text(text[end:])


def _render_mark(match: re.Match[str], look: Look, linked: bool) -> Markup:
    kind, whole = match.lastgroup, match[0]
    if kind in ("strong", "u", "s"):
        return Markup("<{0}>{1}</{0}>").format(kind, inline(whole[2:-2], look, linked=linked))
    if kind == "em":
        return Markup("<em>{}</em>").format(inline(whole[1:-1], look, linked=linked))
    if kind == "spoiler":
        hidden = inline(whole[2:-2], look, linked=linked)
        return Markup('<span class="spoiler" tabindex="0" title="Spoiler">{}</span>').format(hidden)
    if kind == "code":
        return Markup("<code>{}</code>").format(whole.strip("`").strip())
    if kind in ("link", "address"):
        if linked:
            return _render_text(whole)
        address = match["to"] or whole.strip("<>")
        label = inline(match["label"], look, linked=True) if match["label"] else escape(address)
        link = Markup('<a href="{}" target="_blank" rel="noopener noreferrer nofollow">{}</a>')
        return link.format(address, label)
    name = name_of(match, look)
    if kind in ("person", "role", "channel", "command"):
        return Markup('<span class="mention">{}</span>').format(name)
    return escape(name)


def name_of(match: re.Match[str], look: Look) -> str:
    """Return the name for a match of NAMED, or an escaped character."""
    match match.lastgroup:
        case "person":
            return "@" + look.people.get(int(match["person_id"]), "somebody")
        case "role":
            return "@role"
        case "channel":
            return "#" + look.channels.get(int(match["channel_id"]), "channel")
        case "command":
            return "/" + match["command_name"]
        case "time":
            at = datetime.fromtimestamp(int(match["seconds"]), look.zone)
            return f"{at.day} {at:%B %Y, %H:%M}"
        case "emoji":
            return emoji_name(match[0])
    return match[0][1:]


def _render_text(text: str) -> Markup:
    return escape(text).replace("\n", Markup("<br>"))
