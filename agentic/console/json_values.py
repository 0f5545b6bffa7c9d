"""Converts values of the history to JSON for the pages. Ids become text, because JavaScript's numbers end at 2^53.

A page's cursor is a text of agentic.record's cursor: the last item's time, and its id to order items of the same time.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any

from aiohttp import web

from agentic.chat.outlet import is_unfinished, without_mark
from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused, query_text
from agentic.context.entries import Entry
from agentic.ids import is_snowflake
from agentic.record.queries.posts import Conversation, Cursor, Post, read_names
from agentic.record.queries.statistics import Spent
from agentic.state.turn_records import TurnRecord
from agentic.wire.reasons import ENDINGS, REASONS

Json = dict[str, Any]
# Fields of a turn that get other names or belong only to the turn's own page.
APART = {"v", "seq", "round_number", "reacted", "phases", "posted", "calls", "tool_calls"}
PEOPLE = (("asked_by", "asked_by_name"), ("person", "name"))  # an item's keys of a person's id and name
_ENDINGS: Mapping[str, str] = {str(why): text for why, text in ENDINGS.items()}
MAX_LINES = 2_000  # of a text to compare: the time grows with its square


def pick(value: object, names: str) -> Json:
    """Return the attributes with these names, which are separated by spaces."""
    return {name: getattr(value, name) for name in names.split()}


def message_json(parts: ConsoleContext, channel_id: int, entry: Entry) -> Json:
    """Return a message of the Live page. `growing`: the bot is still writing it. `notice`: a bot's line that no turn
    led to, such as an arena's. In local mode a poll is more than a line of its text."""
    poll, agents = parts.people and parts.people.poll(channel_id, entry.id), entry.speaker.kind == "agent"
    return {
        "id": str(entry.id),
        "channel": str(channel_id),
        "author": {**pick(entry.speaker, "name kind agent"), "id": str(entry.speaker.id)},
        "at": entry.created_at,
        "text": message_text(entry, with_poll=poll is None),
        "reply_to": id_text(entry.reply_to),
        "edited": entry.edited,
        "growing": agents and is_unfinished(entry.text),
        "notice": agents and entry.hidden,
        "files": [
            {"id": str(one.id), "name": one.filename, "size": one.size, "picture": one.is_picture}
            for one in entry.attachments
        ],
        "reactions": [pick(reaction, "emoji count by") for reaction in entry.reactions],
        "poll": poll and asdict(poll),
    }


def message_text(entry: Entry, *, with_poll: bool = True) -> str:
    if entry.speaker.kind == "agent" and is_unfinished(entry.text):
        return without_mark(entry.text)
    extras = (line for line in entry.extras if with_poll or not line.startswith("poll: "))
    return "\n".join(filter(None, (entry.text, *extras)))


def turn_json(parts: ConsoleContext, turn: TurnRecord) -> Json:
    return {
        **exact(turn.model_dump(exclude=APART)),
        "round": turn.round_number,
        "emoji": turn.reacted.emoji if turn.reacted else None,
        "reason_text": reason_text(turn.reason),
        "channel": channel_json(parts, turn.channel_id),
        "asked_by": id_text(turn.asked_by),
        "asked_by_name": person_name(parts, turn.asked_by),
        "asked_message_id": id_text(turn.asked_message_id),
        "reacted_to": id_text(turn.reacted.message_id if turn.reacted else None),
    }


def reason_text(reason: str | None) -> str | None:
    return REASONS.get(reason, reason) if reason else None


def ending_text(why: str | None) -> str | None:
    return _ENDINGS.get(why, why) if why else None


def conversation_json(parts: ConsoleContext, conversation: Conversation) -> Json:
    return {
        **pick(conversation, "id theme topic starter started_at ended_at rounds messages skips turns cost_usd"),
        "channel": channel_json(parts, conversation.channel_id),
        "agents": list(conversation.agents),
        "ended_text": ending_text(conversation.ended_because),
    }


def post_json(parts: ConsoleContext, post: Post, guild_id: int | None) -> Json:
    """Return a post with the number of each of its reactions."""
    counts: dict[str, int] = {}
    for reaction in post.reactions:
        counts[reaction.emoji] = counts.get(reaction.emoji, 0) + 1
    return {
        **pick(post, "at text deleted_at"),
        "id": str(post.message_id),
        "turn": {"agent": post.agent, "id": post.turn_id},
        "answers": id_text(post.answers_message_id),
        "picture": f"api/pictures/{post.message_id}" if post.picture else None,
        "link": None if parts.is_local else message_link(guild_id, post.channel_id, post.message_id),
        "reactions": [{"emoji": emoji, "count": count} for emoji, count in counts.items()],
    }


def spent_json(spent: Spent) -> Json:
    return {**asdict(spent), "cached_share": spent.cached_share}


def channel_json(parts: ConsoleContext, channel_id: int) -> Json:
    """Return a channel. Its `name` is None if no bot of this process sees it: see `add_names`."""
    return {"id": str(channel_id), "name": parts.live.names().get(channel_id)}


async def add_names(parts: ConsoleContext, items: Sequence[Json]) -> None:
    """Add what only the history knows about the channels and people of these items: a room's topic, also as the name of
    a closed room, and the names of people who haven't written recently. A person's key is `asked_by` or `person`."""
    people = [(item, key, label) for item in items for key, label in PEOPLE if item.get(key) and item[label] is None]
    channels = [item["channel"] for item in items if item.get("channel")]
    with suppress(Refused):  # nothing is recorded
        topics, names = await read_names(
            await parts.store.open(),
            {int(channel["id"]) for channel in channels},
            {int(item[key]) for item, key, _ in people},
        )
        for channel in channels:
            if (topic := topics.get(int(channel["id"]))) is not None:
                channel.update(room=topic, name=channel["name"] or topic)
        for item, key, label in people:
            item[label] = names.get(int(item[key]))


def person_name(parts: ConsoleContext, person: int | None) -> str | None:
    """Return a person's name, or None if they haven't written recently: the history only has ids."""
    return None if person is None else parts.live.people().get(person)


def message_link(guild_id: int | None, channel_id: int, message_id: int) -> str | None:
    """Return a message's URL in Discord, or None if it is on another service."""
    if not is_snowflake(channel_id):
        return None
    return f"https://discord.com/channels/{guild_id or '@me'}/{channel_id}/{message_id}"


def id_text(number: int | None) -> str | None:
    return None if number is None else str(number)


def exact(value: Any) -> Any:
    """Return a model's or tool's JSON, with numbers that JavaScript can't hold (ids) as text."""
    if isinstance(value, dict):
        return {key: exact(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [exact(inner) for inner in value]
    is_id = isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53
    return str(value) if is_id else value


def diff_json(old: str, new: str) -> Json:
    """Compare two texts: how many lines were `added` and `removed`, and the `lines`, or None if the texts are too long.
    A line's `sign`: "+" new, "-" removed, " " unchanged, "@" omitted lines."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > MAX_LINES:
        more = len(after) - len(before)
        return {"added": max(0, more), "removed": max(0, -more), "lines": None}
    compared = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    lines = [{"sign": line[0], "text": "" if line[0] == "@" else line[1:]} for line in compared]
    signs = [line["sign"] for line in lines]
    return {"added": signs.count("+"), "removed": signs.count("-"), "lines": lines}


def today(parts: ConsoleContext) -> str:
    """Return today as YYYY-MM-DD, in the owner's time zone."""
    return datetime.fromtimestamp(parts.clock(), parts.settings.timezone).date().isoformat()


def cursor_text(cursor: Cursor | None) -> str | None:
    return None if cursor is None else f"{cursor[0]!r}:{cursor[1]}"


def query_cursor(request: web.Request, *, of_texts: bool = False) -> Cursor | None:
    """Read a page's start (`before` in the query). `of_texts`: the items' ids are texts. Raises Refused."""
    text = query_text(request, "before", 250)
    if text is None:
        return None
    time, _, last = text.partition(":")
    try:
        at, number = float(time), last if of_texts else int(last)
    except ValueError:
        at, number = math.nan, 0
    if not math.isfinite(at) or (isinstance(number, int) and not 0 <= number < 2**63):
        raise Refused(400, "before: expected the `next` of another page")
    return at, number
