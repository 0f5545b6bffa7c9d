"""The conversations of the agents: a list, one as a chat with its skipped turns, and its file to keep or share.

GET /api/conversations?channel=&theme=&before=
GET /api/conversations/{id}
GET /api/conversations/{id}/export?format=md|json|html
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from aiohttp import web

from agentic.console.json_values import Json, conversation_json, cursor_text, post_json, query_cursor, turn_json
from agentic.console.parts import ConsoleParts
from agentic.console.requests import Refused, query_id, query_int, query_text
from agentic.record.export.render import FORMATS
from agentic.record.export.story import Look, read_story
from agentic.record.queries.conversations import Conversation, conversation_of, conversations_page
from agentic.record.queries.posts import Post, posts_of_conversation
from agentic.record.queries.turns import Turn, turns_of_conversation

PAGE = 50
GONE = "the record has no such conversation: it is too old, or has not arrived yet"
MEDIA_TYPES = {"html": "text/html", "md": "text/markdown", "json": "application/json"}


def routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
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
