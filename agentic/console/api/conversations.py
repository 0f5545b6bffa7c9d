"""Conversations and rooms.

The conversations of the agents: a list, one as a chat with its skipped turns, and its file to keep or share.

GET /api/conversations?channel=&theme=&before=
GET /api/conversations/{id}
GET /api/conversations/{id}/export?format=md|json|html

Rooms: all of them, one with its messages and its file to keep, what a new one may have; why somebody speaks next.

GET /api/rooms                     the newest, with their standing
GET /api/rooms/{thread}            one, with the messages that the record has
GET /api/rooms/{thread}/export?format=md|json|html
GET /api/new-room                  who may take part, where, by which rules
GET /api/pulls/{channel}           the last choice of a speaker by pulls, explained
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from aiohttp import web

from agentic.actions.console_rooms import NO_BOT, Seat
from agentic.console.json_values import (
    Json,
    channel_json,
    conversation_json,
    cursor_text,
    id_text,
    person_name,
    post_json,
    query_cursor,
    turn_json,
)
from agentic.console.parts import ConsoleParts
from agentic.console.requests import Refused, query_id, query_int, query_text, snowflake
from agentic.record.export.render import FORMATS, export_room, read_room_story
from agentic.record.export.story import Look, Message, read_story
from agentic.record.queries.posts import Conversation, Post, conversation_of, conversations_page, posts_of_conversation
from agentic.record.queries.turns import Turn, turns_of_conversation
from agentic.state.conversations import Pulls
from agentic.state.rooms import (
    ARCHIVE_MINUTES,
    DEFAULT_ARCHIVE_MINUTES,
    DEFAULT_POLICY,
    DEFAULT_THEME,
    DEFAULT_TURNS,
    FEWEST_MEMBERS,
    MOST_MEMBERS,
    MOST_RULES,
    MOST_TURNS,
    POLICIES,
    Room,
    RoomMember,
)
from agentic.themes import THEMES
from agentic.wire.messages import MAX_TOPIC

PAGE = 50
GONE = "the record has no such conversation: it is too old, or has not arrived yet"
MEDIA_TYPES = {"html": "text/html", "md": "text/markdown", "json": "application/json"}


def conversation_routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
    async def conversations(request: web.Request) -> web.Response:
        page = await conversations_page(
            await parts.store.open(),
            channel_id=query_id(request, "channel"),
            theme=query_text(request, "theme"),
            after=query_cursor(request, of_texts=True),
            count=query_int(request, "count", PAGE, 1, 200),
        )
        items = [conversation_json(parts, each) for each in page.items]
        return web.json_response({"items": items, "next": cursor_text(page.next)})

    async def conversation(request: web.Request) -> web.Response:
        found = await _asked_for(parts, request)
        db = await parts.store.open()
        turns, posts = await turns_of_conversation(db, found.id), await posts_of_conversation(db, found.id)
        return web.json_response({**conversation_json(parts, found), "items": _chat(parts, turns, posts)})

    async def export(request: web.Request) -> web.Response:
        kind = query_text(request, "format") or ""
        if kind not in FORMATS:
            raise Refused(400, f"format: expected one of {', '.join(FORMATS)}")
        found = await _asked_for(parts, request)
        look = Look(parts.names, parts.colours, channels=parts.live.names(), zone=parts.settings.timezone)
        story = await read_story(await parts.store.open(), found.id, look)
        if story is None:
            raise Refused(404, GONE)
        name = f"conversation-{datetime.fromtimestamp(found.started_at, parts.settings.timezone):%Y-%m-%d-%H%M}.{kind}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        text = await asyncio.to_thread(FORMATS[kind], story)
        return web.Response(text=text, content_type=MEDIA_TYPES[kind], charset="utf-8", headers=headers)

    return [
        web.get("/api/conversations", conversations),
        web.get("/api/conversations/{id}", conversation),
        web.get("/api/conversations/{id}/export", export),
    ]


async def _asked_for(parts: ConsoleParts, request: web.Request) -> Conversation:
    found = await conversation_of(await parts.store.open(), request.match_info["id"])
    if found is None:
        raise Refused(404, GONE)
    return found


def _chat(parts: ConsoleParts, turns: Iterable[Turn], posts: Iterable[Post]) -> list[Json]:
    """The turns in their order, each with its posts."""
    posted: dict[tuple[str, str], list[Post]] = defaultdict(list)
    for post in posts:
        posted[post.agent, post.turn_id].append(post)
    return [
        {
            **turn_json(parts, turn),
            "posts": [post_json(parts, post, turn.guild_id) for post in posted[turn.agent, turn.id]],
        }
        for turn in turns
    ]


ROOMS_GONE = "there is no such room, or it ended more than 90 days ago"


def room_routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
    async def rooms(_: web.Request) -> web.Response:
        found = await parts.ledger.rooms.list()
        opening = None if parts.rooms.can_open() else NO_BOT
        return web.json_response({"items": [_room_json(parts, room) for room in found], "why_not": opening})

    async def room(request: web.Request) -> web.Response:
        found = await _rooms_asked_for(parts, request)
        messages = await _recorded(parts, found.thread_id)
        seats = [_seat_json(seat) for seat in parts.rooms.seats() if found.member(seat.key) is None]
        return web.json_response({**_room_json(parts, found), "messages": messages, "others": seats})

    async def export(request: web.Request) -> web.Response:
        kind = query_text(request, "format") or ""
        if kind not in FORMATS:
            raise Refused(400, f"format: expected one of {', '.join(FORMATS)}")
        thread = snowflake(request.match_info["thread"])
        page = await export_room(await parts.store.open(), thread, kind, _look(parts))
        if page is None:
            raise Refused(404, "the record does not have this room yet, or no longer")
        headers = {"Content-Disposition": f'attachment; filename="{page.name}"'}
        return web.Response(text=page.text, content_type=MEDIA_TYPES[kind], charset="utf-8", headers=headers)

    async def new_room(_: web.Request) -> web.Response:
        return web.json_response({**_BOUNDS, "seats": [_seat_json(seat) for seat in parts.rooms.seats()]})

    async def pulls(request: web.Request) -> web.Response:
        last = await parts.ledger.pulls.last(snowflake(request.match_info["channel"], "channel"))
        return web.json_response({"choice": None if last is None else _pulls_json(last)})

    return [
        web.get("/api/rooms", rooms),
        web.get("/api/rooms/{thread}", room),
        web.get("/api/rooms/{thread}/export", export),
        web.get("/api/new-room", new_room),
        web.get("/api/pulls/{channel}", pulls),
    ]


_BOUNDS: Json = {
    "policies": list(POLICIES),
    "policy": DEFAULT_POLICY,
    "themes": list(THEMES),
    "theme": DEFAULT_THEME,
    "turns": DEFAULT_TURNS,
    "most_turns": MOST_TURNS,
    "archives": list(ARCHIVE_MINUTES),
    "archive": DEFAULT_ARCHIVE_MINUTES,
    "fewest": FEWEST_MEMBERS,
    "most": MOST_MEMBERS,
    "longest_topic": MAX_TOPIC,
    "longest_rules": MOST_RULES,
}


async def _rooms_asked_for(parts: ConsoleParts, request: web.Request) -> Room:
    found = await parts.ledger.rooms.read(snowflake(request.match_info["thread"]))
    if found is None:
        raise Refused(404, ROOMS_GONE)
    return found


async def _recorded(parts: ConsoleParts, thread_id: int) -> list[Json]:
    """The room's messages; none where the record does not have them."""
    try:
        story = await read_room_story(await parts.store.open(), thread_id, _look(parts))
    except Refused:
        return []
    return [_message_json(each, story.look) for each in story.messages] if story is not None else []


def _look(parts: ConsoleParts) -> Look:
    return Look(parts.names, parts.colours, channels=parts.live.names(), zone=parts.settings.timezone)


def _room_json(parts: ConsoleParts, room: Room) -> Json:
    return {
        "id": str(room.thread_id),
        "channel": channel_json(parts, room.channel_id),
        "conversation_id": room.conversation_id,
        "topic": room.topic,
        "members": [_member_json(member) for member in room.members],
        "left": [_member_json(member) for member in room.left],
        "policy": room.policy,
        "rules": room.rules,
        "status": room.status,
        "why": parts.endings.get(room.why, room.why) if room.why else None,
        "turn": room.turn_number,
        "turns": room.turns,
        "skips": room.skips,
        "cost_usd": room.cost_usd,
        "audience_seconds": room.audience_seconds,
        "slot_until": room.slot_until,
        "opened_by": id_text(room.opened_by),
        "opened_by_name": person_name(parts, room.opened_by),
        "opened_at": room.opened_at,
        "changed_at": room.changed_at,
    }


def _member_json(member: RoomMember) -> Json:
    return {"key": member.name, "shown": member.shown, "failures": member.failures}


def _seat_json(seat: Seat) -> Json:
    return {
        "key": seat.key,
        "shown": seat.member.shown,
        "bot": seat.is_bot,
        "model": seat.model,
        "about": ", ".join(seat.member.interests),
        "why_not": seat.why_not,
    }


def _message_json(message: Message, look: Look) -> Json:
    return {
        "id": str(message.message_id),
        "agent": None if message.person else message.agent,
        "name": look.name(message.agent),
        "text": message.text,
        "at": message.at.timestamp(),
    }


def _pulls_json(pulls: Pulls) -> Json:
    return {
        "at": pulls.at,
        "chosen": pulls.chosen,
        "because": pulls.because,
        "pulls": [
            {
                "agent": pull.agent,
                "strength": pull.strength,
                "channel": pull.channel,
                "parts": [{"why": part.why, "amount": part.amount} for part in pull.parts],
            }
            for pull in pulls.pulls
        ],
    }
