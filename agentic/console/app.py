"""The console as an aiohttp application: the page's own files, and the JSON that it asks for.

request → headers of every response → errors as one line → security (who, from where) → a route
"""

from __future__ import annotations

from aiohttp import web

from agentic.console.api import actions, agents, arena, budgets, conversations, costs, live, me, replay, rooms, turns
from agentic.console.api.feed import LiveFeed
from agentic.console.errors import errors_as_json
from agentic.console.parts import ConsoleParts
from agentic.console.security import Security, add_headers
from agentic.console.static_files import file_routes, read_files

MAX_BYTES = 65_536  # of a request's body

API = (me, turns, conversations, rooms, arena, costs, budgets, agents, actions, replay)
"""The modules with `routes(parts)`."""


def console_app(parts: ConsoleParts) -> web.Application:
    """The application, to be served or tested."""
    security = Security(parts.settings, parts.monotonic)
    app = web.Application(middlewares=[errors_as_json, security.check], client_max_size=MAX_BYTES)
    app.on_response_prepare.append(add_headers)
    app.add_routes(list(file_routes(read_files())))
    app.add_routes(security.routes())
    for module in API:
        app.add_routes(list(module.routes(parts)))
    app.add_routes(parts.routes)
    feed = LiveFeed(parts)
    app.cleanup_ctx.append(feed.running)
    app.on_shutdown.append(feed.close)
    app.add_routes(list(live.routes(parts, feed)))
    return app
