"""Values of the record as JSON for the pages: ids as texts, since JavaScript's numbers end at 2^53. Pure.

A page's cursor is a text: the time of its last item and what orders items of the same time, as agentic.record has them.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from aiohttp import web

from agentic.console.parts import ConsoleParts
from agentic.console.requests import Refused, query_text
from agentic.ids import is_snowflake
from agentic.record.queries.posts import Conversation, Cursor, Post
from agentic.record.queries.statistics import Spent
from agentic.record.queries.turns import Turn

Json = dict[str, Any]
LONGEST_CURSOR = 250
BIGGEST = 2**63 - 1
MOST_EXACT = 2**53 - 1


def turn_json(parts: ConsoleParts, turn: Turn) -> Json:
    """A row of the list."""
    return {
        "agent": turn.agent,
        "id": turn.id,
        "at": turn.at,
        "kind": turn.kind,
        "trigger": turn.trigger,
        "outcome": turn.outcome,
        "reason": turn.reason,
        "reason_text": parts.reasons.get(turn.reason, turn.reason) if turn.reason else None,
        "conversation_id": turn.conversation_id,
        "round": turn.round,
        "channel": channel_json(parts, turn.channel_id),
        "asked_by": id_text(turn.asked_by),
        "asked_by_name": person_name(parts, turn.asked_by),
        "asked_message_id": id_text(turn.asked_message_id),
        "model": turn.model,
        "entries": turn.entries,
        "seconds": turn.seconds,
        "cost_usd": turn.cost_usd,
        "emoji": turn.emoji,
        "reacted_to": id_text(turn.reacted_to),
        "image": turn.image,
        "text": turn.text,
    }


def conversation_json(parts: ConsoleParts, each: Conversation) -> Json:
    return {
        "id": each.id,
        "channel": channel_json(parts, each.channel_id),
        "theme": each.theme,
        "topic": each.topic,
        "starter": each.starter,
        "agents": list(each.agents),
        "started_at": each.started_at,
        "ended_at": each.ended_at,
        "ended_text": parts.endings.get(each.ended_because, each.ended_because) if each.ended_because else None,
        "rounds": each.rounds,
        "messages": each.messages,
        "skips": each.skips,
        "turns": each.turns,
        "cost_usd": each.cost_usd,
    }


def post_json(parts: ConsoleParts, post: Post, guild_id: int | None) -> Json:
    """A post with its reactions: for each emoji, how many and which agents of ours."""
    given: dict[str, list[int]] = {}
    for reaction in post.reactions:
        given.setdefault(reaction.emoji, []).append(reaction.user_id)
    return {
        "id": str(post.message_id),
        "turn": {"agent": post.agent, "id": post.turn_id},
        "at": post.at,
        "text": post.text,
        "deleted_at": post.deleted_at,
        "answers": id_text(post.answers_message_id),
        "picture": f"api/pictures/{post.message_id}" if post.picture else None,
        "link": None if parts.is_local else message_link(guild_id, post.channel_id, post.message_id),
        "reactions": [{"emoji": emoji, "count": len(people)} for emoji, people in given.items()],
    }


def spent_json(spent: Spent) -> Json:
    return {
        "cost_usd": spent.cost_usd,
        "turns": spent.turns,
        "input_tokens": spent.input_tokens,
        "cached_tokens": spent.cached_tokens,
        "output_tokens": spent.output_tokens,
        "cached_share": spent.cached_share,
    }


def channel_json(parts: ConsoleParts, channel_id: int) -> Json:
    """`name` is None for a channel that no bot of this process sees."""
    return {"id": str(channel_id), "name": parts.live.names().get(channel_id)}


def person_name(parts: ConsoleParts, person: int | None) -> str | None:
    """None for nobody, and for a person who has not written lately: the record itself has ids alone."""
    return None if person is None else parts.live.people().get(person)


def message_link(guild_id: int | None, channel_id: int, message_id: int) -> str | None:
    """None for a message of another service than Discord."""
    if not is_snowflake(channel_id):
        return None
    return f"https://discord.com/channels/{guild_id or '@me'}/{channel_id}/{message_id}"


def id_text(number: int | None) -> str | None:
    return None if number is None else str(number)


def exact(value: Any) -> Any:
    """JSON of a model or a tool, with numbers that JavaScript cannot hold (ids) as texts."""
    if isinstance(value, dict):
        return {key: exact(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [exact(inner) for inner in value]
    is_id = isinstance(value, int) and not isinstance(value, bool) and abs(value) > MOST_EXACT
    return str(value) if is_id else value


def today(parts: ConsoleParts) -> str:
    """YYYY-MM-DD, in the owner's time zone."""
    return datetime.fromtimestamp(parts.clock(), parts.settings.timezone).date().isoformat()


def cursor_text(cursor: Cursor | None) -> str | None:
    return None if cursor is None else f"{cursor[0]!r}:{cursor[1]}"


def query_cursor(request: web.Request, *, of_texts: bool = False) -> Cursor | None:
    """Where a page begins, `before` of the query; `of_texts`: items are ordered by an id that is a text. Raises
    Refused."""
    text = query_text(request, "before", LONGEST_CURSOR)
    if text is None:
        return None
    time, _, last = text.partition(":")
    try:
        at, number = float(time), last if of_texts else int(last)
    except ValueError:
        at, number = math.nan, 0
    if not math.isfinite(at) or (isinstance(number, int) and not 0 <= number <= BIGGEST):
        raise Refused(400, "before: expected what the page before it gave as `next`")
    return at, number
