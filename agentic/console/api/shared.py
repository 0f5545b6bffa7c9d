"""Shows the page of a room that the owner shared, to anyone with the link.

The link has a token of 256 random bits, and works until the owner ends it. The page is made of the history, so what was
deleted or forgotten isn't on it. It has no script, and its policy gives it an origin of its own: it can't reach the
console.
"""

from __future__ import annotations

import asyncio
import re

from aiohttp import web
from cachetools import TTLCache

from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused
from agentic.console.security import hash_source
from agentic.record.export.render import export_room

PAGE_SECONDS = 10.0  # for which a page is kept, however many people look at it
MAX_PAGES = 20
CSP = (
    "default-src 'none'; style-src {style}; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; sandbox allow-popups allow-popups-to-escape-sandbox"
)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{40,64}")


def routes(parts: ConsoleContext) -> web.RouteTableDef:
    table = web.RouteTableDef()
    pages = TTLCache[int, str](MAX_PAGES, PAGE_SECONDS, timer=parts.monotonic)
    rendering = asyncio.Lock()

    @table.get("/shared/{token}")
    async def show_shared_page(request: web.Request) -> web.Response:
        token = request.match_info["token"]
        shares = parts.state.coordination.room_shares
        thread_id = await shares.thread_of(token) if _TOKEN.fullmatch(token) else None
        if thread_id is None:
            raise Refused(404, "This link doesn't work. It may have ended.")
        async with rendering:
            text = pages.get(thread_id)
            if text is None:
                text = pages[thread_id] = await _render_page(parts, thread_id)
        policy = CSP.format(style=hash_source(text, "style"))
        headers = {"Content-Security-Policy": policy, "X-Robots-Tag": "noindex"}
        return web.Response(text=text, content_type="text/html", charset="utf-8", headers=headers)

    return table


async def _render_page(parts: ConsoleContext, thread_id: int) -> str:
    """Render the page with the name of the room's own channel only, and without costs."""
    room = await parts.state.coordination.rooms.read(thread_id)
    names = parts.live.names()
    channels = {room.channel_id: names[room.channel_id]} if room is not None and room.channel_id in names else {}
    page = await export_room(await parts.store.open(), thread_id, "html", parts.look(channels))
    if page is None:
        raise Refused(404, "This room isn't in the history anymore.")
    return page.text
