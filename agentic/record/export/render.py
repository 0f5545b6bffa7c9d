"""A story as text: HTML (one file), Markdown, JSON."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import aiosqlite
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from agentic.record.export.discord_html import NAMED, name_of, to_html
from agentic.record.export.story import GREY, Look, Message, Story, read_story
from agentic.record.queries.posts import Picture

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
