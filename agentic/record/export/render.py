"""HTML, Markdown, JSON.

Discord's markdown as HTML: bold, italic, code, quotes, lists, headings, links, spoilers, mentions by name.

Only tags of this module come out; every piece of the text is escaped. Links lead to http and https alone. Nothing is
loaded: custom emoji and mentions are names.

A story as text: HTML (one file), Markdown, JSON.

A room as an export shows it: its agents' posts, and between them what people said in its thread.

People have keys of their own in a story, from the order in which they spoke: an export has their names, never their
ids.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import aiosqlite
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from agentic.record.database import opened
from agentic.record.export.story import GREY, Look, Message, Story, emoji_name, messages_of, read_story
from agentic.record.queries.posts import (
    Conversation,
    Picture,
    RecordedMessage,
    RecordedRoom,
    messages_of_room,
    posts_of_channel,
    room_of,
)
from agentic.record.queries.turns import turns_of_channel

_FENCE = re.compile(r"```(?:([\w+#-]{1,20})\n)?(.+?)```\n?", re.DOTALL)
_REST_QUOTED = re.compile(r"^>>> ", re.MULTILINE)
_QUOTE = re.compile(r"> ?(.*)")
_HEADING = re.compile(r"(#{1,3}|-#) +(.+)")
_ITEM = re.compile(r"( *)([-*]|\d{1,9}\.) +(.+)")
# What Discord writes by its id. In a verbose pattern.
NAMED = r"""
    (?P<person><@!?(?P<person_id>\d{1,20})>)
    | (?P<role><@&\d+>)
    | (?P<channel><\#(?P<channel_id>\d{1,20})>)
    | (?P<emoji><a?:\w+:\d+>)
    | (?P<time><t:(?P<seconds>-?\d{1,10})(?::[tTdDfFR])?>)
    | (?P<command></(?P<command_name>[^:<>]+):\d+>)
"""
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


def to_html(text: str, look: Look) -> Markup:
    """A message as HTML: blocks, one below the other."""
    return Markup("").join(_with_fences(text.strip("\n"), look))


def _with_fences(text: str, look: Look) -> Iterator[Markup]:
    end = 0
    for fence in _FENCE.finditer(text):
        yield _blocks(text[end : fence.start()], look)
        yield Markup("<pre><code>{}</code></pre>").format(fence[2].strip("\n"))
        end = fence.end()
    yield _blocks(text[end:], look)


def _blocks(text: str, look: Look) -> Markup:
    if rest := _REST_QUOTED.search(text):
        quoted = Markup("<blockquote>{}</blockquote>").format(_by_lines(text[rest.end() :], look))
        return _by_lines(text[: rest.start()], look) + quoted
    return _by_lines(text, look)


def _by_lines(text: str, look: Look) -> Markup:
    kinds = groupby(text.split("\n"), key=_kind)
    return Markup("").join(_BLOCKS[kind](list(lines), look) for kind, lines in kinds)


def _kind(line: str) -> str:
    if not line.strip():
        return "nothing"
    if line.startswith(("> ", ">\n")) or line == ">":
        return "quote"
    if item := _ITEM.fullmatch(line):
        return "ol" if item[2][0].isdigit() else "ul"
    return "heading" if _HEADING.fullmatch(line) else "paragraph"


def _nothing(lines: list[str], look: Look) -> Markup:
    return Markup("")


def _quote(lines: list[str], look: Look) -> Markup:
    inner = "\n".join(_QUOTE.sub(r"\1", line, count=1) for line in lines)
    return Markup("<blockquote>{}</blockquote>").format(_paragraph(inner.split("\n"), look))


def _heading(lines: list[str], look: Look) -> Markup:
    found = [_HEADING.fullmatch(line) for line in lines]
    return Markup("").join(
        Markup('<p class="{}">{}</p>').format("subtext" if match[1] == "-#" else "heading", inline(match[2], look))
        for match in found
        if match
    )


def _list(tag: str) -> Callable[[list[str], Look], Markup]:
    def render(lines: list[str], look: Look) -> Markup:
        items = [match for match in map(_ITEM.fullmatch, lines) if match]
        start = Markup(' start="{}"').format(int(items[0][2][:-1])) if tag == "ol" else ""
        inner = Markup("").join(
            Markup("<li{}>{}</li>").format(Markup(' class="deeper"') if len(item[1]) > 1 else "", inline(item[3], look))
            for item in items
        )
        return Markup("<{0}{1}>{2}</{0}>").format(tag, start, inner)

    return render


def _paragraph(lines: list[str], look: Look) -> Markup:
    return Markup("<p>{}</p>").format(inline("\n".join(lines), look))


_BLOCKS: Mapping[str, Callable[[list[str], Look], Markup]] = {
    "nothing": _nothing,
    "quote": _quote,
    "heading": _heading,
    "ul": _list("ul"),
    "ol": _list("ol"),
    "paragraph": _paragraph,
}


def inline(text: str, look: Look, *, linked: bool = False) -> Markup:
    """The text of one block; `linked`: it is a link's label, which has no link in it. A mark ends at the next of its
    kind, so marks within marks are as deep as there are kinds of them."""
    found, end = Markup(""), 0
    for match in _INLINE.finditer(text):
        found += _lines(text[end : match.start()]) + _marked(match, look, linked)
        end = match.end()
    return found + _lines(text[end:])


def _marked(match: re.Match[str], look: Look, linked: bool) -> Markup:
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
        return _lines(whole) if linked else _link(match, look)
    return _named(match, look)


def _named(match: re.Match[str], look: Look) -> Markup:
    name = name_of(match, look)
    return _mention(name) if match.lastgroup in ("person", "role", "channel", "command") else escape(name)


def name_of(match: re.Match[str], look: Look) -> str:
    """A match of NAMED, by its name; of an escaped character, that character."""
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


def _mention(name: str) -> Markup:
    return Markup('<span class="mention">{}</span>').format(name)


def _link(match: re.Match[str], look: Look) -> Markup:
    address = match["to"] or match[0].strip("<>")
    label = inline(match["label"], look, linked=True) if match["label"] else escape(address)
    return Markup('<a href="{}" target="_blank" rel="noopener noreferrer nofollow">{}</a>').format(address, label)


def _lines(text: str) -> Markup:
    return escape(text).replace("\n", Markup("<br>"))


TITLE_CHARACTERS = 60  # of a file's name

_CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
_NAMED = re.compile(NAMED, re.VERBOSE)
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~])")
_OTHER_SCHEME = re.compile(r"\]\((?!<?https?://)")


async def export(db: aiosqlite.Connection, conversation_id: str, kind: str, look: Look) -> str | None:
    """A conversation as `html`, `md` or `json`; None where the record does not have it."""
    story = await read_story(db, conversation_id, look)
    return None if story is None else FORMATS[kind](story)


def as_html(story: Story) -> str:
    """A page of its own: it loads nothing, has no script, and says so to the browser too."""
    return _template().render(
        story=story,
        look=story.look,
        agents=[_agent(story, agent) for agent in story.agents],
        place={agent: number for number, agent in enumerate(story.agents)},
        body=lambda message: to_html(message.text, story.look),
        source=data_address,
    )


def as_markdown(story: Story) -> str:
    """Each message is quoted, so that no text passes for another agent's message."""
    look, conversation = story.look, story.conversation
    names = ", ".join(_plain(look.name(agent)) for agent in story.agents)
    head = f"*{_plain(conversation.theme)}, {story.began:%Y-%m-%d %H:%M %Z}, {names}*"
    cost = [f"Cost: ${conversation.cost_usd:.4f}"] if look.costs else []
    parts = [f"# {_plain(story.title)}", head, *cost, *(_message_markdown(story, each) for each in story.messages)]
    return "\n\n".join(parts) + "\n"


def as_json(story: Story) -> str:
    """Ids are text, times unix seconds, money US dollars, pictures base64."""
    conversation, look = story.conversation, story.look
    costs = {"cost_usd": conversation.cost_usd} if look.costs else {}
    people = {message.agent for message in story.messages if message.person}
    whole = {
        "id": conversation.id,
        "channel_id": str(conversation.channel_id),
        "theme": conversation.theme,
        "topic": conversation.topic,
        "started_at": conversation.started_at,
        "ended_at": conversation.ended_at,
        "ended_because": conversation.ended_because,
        "rounds": conversation.rounds,
        **costs,
        "agents": [{"agent": agent, "name": look.name(agent)} for agent in story.agents if agent not in people],
        "messages": [_message_json(story, message) for message in story.messages],
    }
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


FORMATS: Mapping[str, Callable[[Story], str]] = {"html": as_html, "md": as_markdown, "json": as_json}


def file_name(what: str, began: datetime, title: str, kind: str) -> str:
    """A name of `what` it is, its day and its title's words, for a file of this kind."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower())[:TITLE_CHARACTERS].strip("-")
    return f"{what}-{began:%Y-%m-%d}{'-' * bool(words)}{words}.{kind}"


def data_address(picture: Picture) -> str:
    return f"data:{picture.media_type};base64,{base64.b64encode(picture.data).decode()}"


@cache
def _template() -> Template:
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html")


def _agent(story: Story, agent: str) -> dict[str, Any]:
    colour = story.look.colours.get(agent, GREY) & 0xFFFFFF
    name = story.look.name(agent)
    return {
        "name": name,
        "initial": name[:1].upper() or "?",
        "colour": f"#{colour:06x}",
        "messages": sum(message.agent == agent for message in story.messages),
    }


def _message_markdown(story: Story, message: Message) -> str:
    lines = [f"**{_plain(story.look.name(message.agent))}** {message.at:%H:%M}", ""]
    pieces = _CODE.split(message.text)
    pieces[::2] = [_harmless(piece, story.look) for piece in pieces[::2]]
    lines += [f"> {line}".rstrip() for line in "".join(pieces).split("\n")]
    lines += [">", f"> ![picture]({data_address(message.picture)})"] if message.picture else []
    given = "  ".join(f"{_plain(each.emoji)} {each.count}" for each in message.reactions)
    return "\n".join([*lines, *(["", given] if given else [])])


def _harmless(text: str, look: Look) -> str:
    """With names in place of ids, without HTML, without links to other than http and https."""
    named = _NAMED.sub(lambda match: name_of(match, look), text)
    return _OTHER_SCHEME.sub(r"]\\(", named.replace("<", "&lt;"))


def _message_json(story: Story, message: Message) -> dict[str, Any]:
    picture = message.picture
    shown = picture and {"media_type": picture.media_type, "data": base64.b64encode(picture.data).decode()}
    return {
        "message_id": str(message.message_id),
        "agent": None if message.person else message.agent,  # of a person the name alone
        "name": story.look.name(message.agent),
        "at": message.at.timestamp(),
        "text": message.text,
        "picture": shown,
        "reactions": [
            {"emoji": each.emoji, "count": each.count, "agents": list(each.agents)} for each in message.reactions
        ],
        **({"cost_usd": message.cost_usd} if story.look.costs else {}),
    }


def _plain(text: str) -> str:
    """On one line, without a meaning in Markdown."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


@dataclass(frozen=True, slots=True)
class Exported:
    """A page, and a name for its file."""

    name: str
    text: str


async def room_page(record_file: Path, thread_id: int, kind: str = "html", look: Look | None = None) -> Exported | None:
    """A room as `html`, `md` or `json`, from the record's file; None where it does not have the room. Raises
    RecordError, sqlite3.Error."""
    async with opened(record_file) as db:
        return await export_room(db, thread_id, kind, look or Look())


async def export_room(db: aiosqlite.Connection, thread_id: int, kind: str, look: Look) -> Exported | None:
    """As `room_page`, from a record that is open."""
    story = await read_room_story(db, thread_id, look)
    if story is None:
        return None
    return Exported(file_name("room", story.began, story.conversation.topic or "", kind), FORMATS[kind](story))


async def read_room_story(db: aiosqlite.Connection, thread_id: int, look: Look) -> Story | None:
    """None where the record does not have the room. Deleted messages are left out."""
    room = await room_of(db, thread_id)
    if room is None:
        return None
    said = await messages_of_room(db, thread_id)
    people = _keys(said)
    look = replace(look, names={**_names(said, people), **look.names})
    posts = await messages_of(db, await posts_of_channel(db, thread_id), await turns_of_channel(db, thread_id), look)
    recorded = {post.message_id for post in posts}
    others = [_message(each, people, look) for each in said if each.message_id not in recorded]
    messages = sorted((*posts, *others), key=lambda message: message.message_id)
    speakers = tuple(dict.fromkeys(message.agent for message in messages))
    began = datetime.fromtimestamp(room.opened_at, look.zone)
    return Story(_as_conversation(room), look, began, tuple(messages), speakers)


def _keys(said: Iterable[RecordedMessage]) -> Mapping[int | None, str]:
    """Person's id → a key that no agent has."""
    ids = dict.fromkeys(each.author_id for each in said if each.agent is None)
    return {author_id: f"@{number}" for number, author_id in enumerate(ids, start=1)}


def _names(said: Iterable[RecordedMessage], people: Mapping[int | None, str]) -> dict[str, str]:
    """Each speaker's newest name."""
    return {each.agent or people[each.author_id]: each.name for each in said if each.name}


def _message(said: RecordedMessage, people: Mapping[int | None, str], look: Look) -> Message:
    key = said.agent or people[said.author_id]
    at = datetime.fromtimestamp(said.at, look.zone)
    return Message(said.message_id, key, at, said.text, None, (), 0.0, person=said.agent is None)


def _as_conversation(room: RecordedRoom) -> Conversation:
    ended = None if room.status == "active" else room.changed_at
    return Conversation(
        id=room.conversation_id,
        channel_id=room.channel_id,
        theme="room",
        starter="",
        topic=room.topic,
        policy=room.policy,
        started_at=room.opened_at,
        ended_at=ended,
        ended_because=room.why,
        rounds=room.turn_number,
        messages=room.posts,
        skips=0,
        cost_usd=room.cost_usd,
    )
