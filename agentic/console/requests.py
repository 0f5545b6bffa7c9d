"""Read what a request brings: its body as a model, its query as values within bounds. Answer errors as one line.

An error that a person reads is one line of JSON, `{"error": …}`, never a traceback or a path.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from typing import TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import BaseModel, ValidationError

from agentic.ids import MAX_ID
from agentic.net import http_server
from agentic.wire.connection import StateUnavailable

LINES = {
    401: "sign in first",
    404: "there is no such page",
    405: "this address does not take that method",
    408: "the request did not come in time",
    413: "the request is too large",
}
_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,15}", re.ASCII)

M = TypeVar("M", bound=BaseModel)

log = logging.getLogger(__name__)


class Refused(Exception):
    """A request can't be served, for a reason that its sender may know. `text` is one plain line for a person."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, headers or {}


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every failure of a handler into a line for the person; an unexpected one goes to the log."""
    try:
        return await handler(request)
    except Refused as refused:
        return error(refused.status, refused.text, refused.headers)
    except web.HTTPException as raised:
        kept = {name: raised.headers[name] for name in ("Allow", "Location") if name in raised.headers}
        return error(raised.status, LINES.get(raised.status, raised.reason.lower()), kept)
    except StateUnavailable:
        return error(503, "Redis is unavailable; the bots keep running. Try again in a moment.")
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


async def read_body(request: web.Request, model: type[M]) -> M:
    """Read the JSON object of a POST. Raises Refused with the names of the wrong fields, without their contents."""
    if request.content_type != "application/json":
        raise Refused(415, "expected JSON (Content-Type: application/json)")
    body = await http_server.read_body(request)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        places = error.errors(include_url=False, include_input=False, include_context=False)
        fields = sorted({str(one["loc"][0]) for one in places if one["loc"]} & model.model_fields.keys())
        raise Refused(400, f"cannot be read: {', '.join(fields) or 'it is no such JSON object'}") from None


def snowflake(text: str, name: str = "id") -> int:
    """Read an id of Discord. Raises Refused."""
    if not _ID.fullmatch(text) or int(text) > MAX_ID:
        raise Refused(400, f"{name}: expected a whole number (an id of Discord)")
    return int(text)


def query_int(request: web.Request, name: str, default: int, low: int, high: int) -> int:
    """Read a whole number from `low` to `high` in the query. Raises Refused."""
    text = request.query.get(name)
    if text is None or text == "":
        return default
    if not _NUMBER.fullmatch(text) or not low <= int(text) <= high:
        raise Refused(400, f"{name}: expected a whole number from {low} to {high}")
    return int(text)


def query_text(request: web.Request, name: str, longest: int = 200) -> str | None:
    """Read a text in the query, None if it is missing or empty. Raises Refused."""
    text = request.query.get(name, "").strip()
    if len(text) > longest or "\0" in text:
        raise Refused(400, f"{name}: expected a text of at most {longest} characters")
    return text or None


def query_id(request: web.Request, name: str) -> int | None:
    """Read an id in the query, None if it is missing. Raises Refused."""
    text = query_text(request, name, 40)
    return None if text is None else snowflake(text, name)


def file_response(text: str, content_type: str, name: str) -> web.Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(text=text, content_type=content_type, charset="utf-8", headers=headers)
