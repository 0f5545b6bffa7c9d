"""Shows conversations and rooms: lists, messages, files to download, and the choices for a new room.

A conversation reads like a chat, with its skipped turns. `/api/pulls` explains the choice of the next speaker.
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace

from aiohttp import web

from agentic.console.json_values import (
    Json,
    add_names,
    channel_json,
    conversation_json,
    cursor_text,
    ending_text,
    id_text,
    person_name,
    pick,
    post_json,
    query_cursor,
    turn_json,
)
from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused, file_response, query_id, query_int, query_text, snowflake
from agentic.formats import DEFAULT_FORMAT, FORMAT_TEXTS
from agentic.policies import POLICY_TEXTS
from agentic.record.export.render import FORMATS, export, export_room, read_room_story
from agentic.record.export.story import Look, Message, Progress
from agentic.record.queries.posts import conversation_of, conversations_page, posts_of_conversation, room_of
from agentic.record.queries.turns import turns_of_conversation
from agentic.state.rooms import (
    ARCHIVE_MINUTES,
    DEFAULT_ARCHIVE_MINUTES,
    DEFAULT_POLICY,
    DEFAULT_THEME,
    DEFAULT_TURNS,
    MAX_DETAILS,
    MAX_MEMBERS,
    MAX_RULES,
    MAX_TURNS,
    MIN_MEMBERS,
    Room,
    parse_room,
)
from agentic.themes import THEMES

PAGE = 50
NO_BOT = "No bot is online here, and a room's thread needs one."
NO_ROOM = "This room doesn't exist, or it isn't in the history anymore."
GONE = "This conversation isn't in the history. It may be too old, or not written yet."
MEDIA_TYPES = {"html": "text/html", "md": "text/markdown", "json": "application/json"}
ROOM_BOUNDS: Json = {
    "policies": dict(POLICY_TEXTS),
    "policy": DEFAULT_POLICY,
    "themes": list(THEMES),
    "theme": DEFAULT_THEME,
    "turns": DEFAULT_TURNS,
    "most_turns": MAX_TURNS,
    "archives": list(ARCHIVE_MINUTES),
    "archive": DEFAULT_ARCHIVE_MINUTES,
    "fewest": MIN_MEMBERS,
    "most": MAX_MEMBERS,
    "longest_topic": MAX_DETAILS,
    "formats": dict(FORMAT_TEXTS),
    "format": DEFAULT_FORMAT,
    "longest_rules": MAX_RULES,
}


def routes(parts: ConsoleContext) -> list[web.AbstractRouteDef]:
    return [*_conversation_routes(parts), *_room_routes(parts)]


def _conversation_routes(parts: ConsoleContext) -> web.RouteTableDef:
    table = web.RouteTableDef()

    @table.get("/api/conversations")
    async def list_conversations(request: web.Request) -> web.Response:
        page = await conversations_page(
            await parts.store.open(),
            channel_id=query_id(request, "channel"),
            theme=query_text(request, "theme"),
            after=query_cursor(request, of_texts=True),
            count=query_int(request, "count", PAGE, 1, 200),
        )
        items = [conversation_json(parts, each) for each in page.items]
        await add_names(parts, items)
        return web.json_response({"items": items, "next": cursor_text(page.next)})

    @table.get("/api/conversations/{id}")
    async def show_conversation(request: web.Request) -> web.Response:
        db = await parts.store.open()
        found = await conversation_of(db, request.match_info["id"])
        if found is None:
            raise Refused(404, GONE)
        turns, posts = await turns_of_conversation(db, found.id), await posts_of_conversation(db, found.id)
        posted: dict[tuple[str, str], list[Json]] = defaultdict(list)
        guilds = {(turn.agent, turn.id): turn.guild_id for turn in turns}
        for post in posts:
            key = (post.agent, post.turn_id)
            posted[key].append(post_json(parts, post, guilds.get(key)))
        chat = [{**turn_json(parts, turn), "posts": posted[turn.agent, turn.id]} for turn in turns]
        shown = conversation_json(parts, found)
        await add_names(parts, [shown, *chat])
        return web.json_response({**shown, "items": chat})

    @table.get("/api/conversations/{id}/export")
    async def export_conversation(request: web.Request) -> web.Response:
        kind = _file_format(request)
        look = parts.look(parts.live.names())
        page = await export(await parts.store.open(), request.match_info["id"], kind, look)
        if page is None:
            raise Refused(404, GONE)
        return file_response(page.text, MEDIA_TYPES[kind], page.name)

    return table


def _room_routes(parts: ConsoleContext) -> web.RouteTableDef:
    table = web.RouteTableDef()

    @table.get("/api/rooms")
    async def list_rooms(_: web.Request) -> web.Response:
        rooms = await parts.state.coordination.rooms.list()
        why_not = NO_BOT if parts.actions.context.place.opener is None else None
        return web.json_response({"items": [_room_json(parts, room) for room in rooms], "why_not": why_not})

    @table.get("/api/rooms/{thread}")
    async def show_room(request: web.Request) -> web.Response:
        """Show a room with its messages in the history. `kept`: whether it can still be resumed. `waits_until`: until
        when it waits for a person to name a member."""
        thread_id = snowflake(request.match_info["thread"])
        kept = await parts.state.coordination.rooms.read(thread_id)
        room = kept or await _recorded_room(parts, thread_id)
        if room is None:
            raise Refused(404, NO_ROOM)
        running = await parts.state.coordination.conversations.read(room.thread_id) if room.status == "active" else None
        messages: list[Json] = []
        token = await parts.state.coordination.room_shares.token_of(room.thread_id)
        outcome: Json = {"votes": None, "conclusion": None, "shared": f"shared/{token}" if token else None}
        with suppress(Refused):  # no record
            look = parts.look(parts.live.names())
            story = await read_room_story(await parts.store.open(), room.thread_id, look)
            messages = [_message_json(each, story.look) for each in story.messages] if story is not None else []
            facts = story.room if story is not None else None
            if facts is not None:
                outcome["votes"] = {each.name: facts.votes.get(each.name, 0) for each in room.everyone}
            if facts is not None and facts.conclusion is not None:
                told = "agreed unsettled judge verdict arguments card closed_at"
                outcome["conclusion"] = pick(facts.conclusion, told)
        others = [seat for seat in _seats_json(parts) if room.member(seat["key"]) is None]
        found = {**_room_json(parts, room), **outcome, "messages": messages, "others": others}
        if running is not None:
            state = replace(running, room=room)
            found |= {**pick(state, "speaking next_speaker"), "waits_until": state.queue.waits_until}
        return web.json_response({**found, "kept": kept is not None})

    @table.get("/api/rooms/{thread}/export")
    async def export_room_page(request: web.Request) -> web.Response:
        kind = _file_format(request)
        thread = snowflake(request.match_info["thread"])
        coordination = parts.state.coordination
        room = await coordination.rooms.read(thread)
        upto = Progress.of(room, await coordination.room_marks.read(thread)) if room is not None else None
        page = await export_room(await parts.store.open(), thread, kind, parts.look(parts.live.names()), upto)
        if page is None:
            raise Refused(404, "This room isn't in the history yet, or not anymore.")
        return file_response(page.text, MEDIA_TYPES[kind], page.name)

    @table.get("/api/new-room")
    async def show_room_choices(_: web.Request) -> web.Response:
        """List the bots for a new room, and its limits."""
        return web.json_response({**ROOM_BOUNDS, "seats": _seats_json(parts)})

    @table.get("/api/pulls/{channel}")
    async def show_pulls(request: web.Request) -> web.Response:
        """Explain the last choice of a speaker that was made by scores."""
        last = await parts.state.coordination.scores.last(snowflake(request.match_info["channel"], "channel"))
        choice = None if last is None else last.model_dump(mode="json", include={"at", "chosen", "because", "pulls"})
        return web.json_response({"choice": choice})

    return table


def _file_format(request: web.Request) -> str:
    kind = query_text(request, "format") or ""
    if kind not in FORMATS:
        raise Refused(400, f"format: expected one of {', '.join(FORMATS)}")
    return kind


async def _recorded_room(parts: ConsoleContext, thread_id: int) -> Room | None:
    """Return a room that isn't kept anymore as the history knows it. Return None if it doesn't."""
    with suppress(Refused):  # no record
        note = await room_of(await parts.store.open(), thread_id)
        if note is None:
            return None
        shown = {**parts.names, **{seat.key: seat.shown for seat in parts.actions.context.services.agents.roster}}
        members, left = (
            [{"name": name, "shown": shown.get(name, name), "side": note.sides.get(name, "")} for name in names]
            for names in (note.members, note.left)
        )
        ended = {**note.model_dump(), "members": members, "left": left, "status": "closed"}
        return parse_room(thread_id, json.dumps(ended))
    return None


def _room_json(parts: ConsoleContext, room: Room) -> Json:
    return {
        **pick(room, "conversation_id topic details format policy rules status turns skips cost_usd audience_seconds"),
        **pick(room, "slot_until opened_at changed_at judge pace next_turn_at proposed"),
        "id": str(room.thread_id),
        "policy_text": POLICY_TEXTS[room.policy],
        "channel": channel_json(parts, room.channel_id),
        "members": [{"key": each.name, **pick(each, "shown failures side")} for each in room.members],
        "left": [{"key": each.name, **pick(each, "shown failures side")} for each in room.left],
        "moderator": room.moderator,
        "phase": phase.name if (phase := room.next_phase()) is not None else "",
        "why": ending_text(room.why),
        "turn": room.turn_number,
        "opened_by": id_text(room.opened_by),
        "opened_by_name": person_name(parts, room.opened_by),
    }


def _seats_json(parts: ConsoleContext) -> list[Json]:
    """Return the agents who may take part in a room."""
    return [
        {**pick(seat, "key model why_not shown"), "bot": seat.is_bot, "about": ", ".join(seat.member.interests)}
        for seat in parts.actions.context.services.agents.roster
    ]


def _message_json(message: Message, look: Look) -> Json:
    return {
        "id": str(message.message_id),
        "agent": None if message.person else message.agent,
        "name": look.name(message.agent),
        "text": message.text,
        "at": message.at.timestamp(),
    }
