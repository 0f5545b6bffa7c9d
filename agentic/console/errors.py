"""Errors that a person reads: one line of JSON, `{"error": …}`, never a traceback or a path.

Refused   a request cannot be served, for a reason that its sender may know; has the HTTP status
"""

from __future__ import annotations

import logging
import sqlite3

from aiohttp import web
from aiohttp.typedefs import Handler

from agentic.wire.link import RedisAway

LINES = {
    401: "sign in first",
    404: "there is no such page",
    405: "this address does not take that method",
    408: "the request did not come in time",
    413: "the request is too large",
}

log = logging.getLogger(__name__)


class Refused(Exception):
    """`text` is one plain line for a person."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, headers or {}


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every failure of a handler into a line for the person; what is unexpected goes to the log."""
    try:
        return await handler(request)
    except Refused as refused:
        return error(refused.status, refused.text, refused.headers)
    except web.HTTPException as raised:
        kept = {name: raised.headers[name] for name in ("Allow", "Location") if name in raised.headers}
        return error(raised.status, LINES.get(raised.status, raised.reason.lower()), kept)
    except RedisAway:
        return error(503, "Redis does not answer; the bots go on, try again in a moment")
    except sqlite3.Error as failed:
        log.warning("the console could not read the record: %s", failed)
        return error(503, "the record cannot be read now; the log says why")
    except ConnectionError:  # the browser is gone
        raise
    except Exception:
        log.exception("the console failed on %s %s", request.method, request.path)
        return error(500, "the console failed at this; its log says why")


def error(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"error": text}, status=status, headers=headers)
