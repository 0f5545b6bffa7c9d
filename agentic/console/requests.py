"""Reads requests: bodies as models, queries as values within bounds.

Errors are answered with one line for a person, `{"error": …}`, never with a traceback or a path.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Sequence
from datetime import date
from typing import TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import BaseModel, ValidationError

from agentic.ids import MAX_ID
from agentic.net import http_server
from agentic.wire.connection import StateUnavailable

LINES = {
    401: "Sign in first.",
    404: "This page doesn't exist.",
    405: "This address doesn't accept that method.",
    408: "The request took too long.",
    413: "The request is too large.",
}

MAX_DAYS = 3_660  # of a range

M = TypeVar("M", bound=BaseModel)
C = TypeVar("C", bound=str)

log = logging.getLogger(__name__)


class Refused(Exception):
    """A request can't be served. `text` tells a person why, in one line. `field` names the value that is wrong."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None, field: str | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.headers, self.field = status, text, headers or {}, field


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every failure of a handler into a line for a person. Unexpected failures are logged."""
    try:
        return await handler(request)
    except Refused as refused:
        return error(refused.status, refused.text, refused.headers, refused.field)
    except web.HTTPException as raised:
        kept = {name: raised.headers[name] for name in ("Allow", "Location") if name in raised.headers}
        return error(raised.status, LINES.get(raised.status, raised.reason.lower()), kept)
    except StateUnavailable:
        return error(503, "Redis is unavailable; the bots keep running. Try again in a moment.")
    except sqlite3.Error as failed:
        log.warning("the console failed to read the history: %s", failed)
        return error(503, "The history can't be read now. The log says why.")
    except ConnectionError:  # the browser is gone
        raise
    except Exception:
        log.exception("the console failed on %s %s", request.method, request.path)
        return error(500, "Something went wrong. The log says why.")


def error(status: int, text: str, headers: dict[str, str] | None = None, field: str | None = None) -> web.Response:
    about = {"error": text} if field is None else {"error": text, "field": field}
    return web.json_response(about, status=status, headers=headers)


async def read_body(request: web.Request, model: type[M]) -> M:
    """Read a POST's JSON object. Raises Refused, which names wrong fields without their contents."""
    if request.content_type != "application/json":
        raise Refused(415, "expected JSON (Content-Type: application/json)")
    body = await http_server.read_body(request)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        places = error.errors(include_url=False, include_input=False, include_context=False)
        fields = sorted({str(one["loc"][0]) for one in places if one["loc"]} & model.model_fields.keys())
        raise Refused(400, f"invalid: {', '.join(fields) or 'not the expected JSON object'}") from None


def snowflake(text: str, name: str = "id") -> int:
    """Parse a Discord id. Raises Refused."""
    if not re.fullmatch(r"[1-9][0-9]{0,18}", text, re.ASCII) or int(text) > MAX_ID:
        raise Refused(400, f"{name}: expected a whole number (a Discord id)")
    return int(text)


def query_int(request: web.Request, name: str, default: int, low: int, high: int) -> int:
    """Read a whole number from `low` to `high` in the query. Raises Refused."""
    text = request.query.get(name)
    if text is None or text == "":
        return default
    if not re.fullmatch(r"-?[0-9]{1,15}", text, re.ASCII) or not low <= int(text) <= high:
        raise Refused(400, f"{name}: expected a whole number from {low} to {high}")
    return int(text)


def query_text(request: web.Request, name: str, longest: int = 200) -> str | None:
    """Read a text in the query, or None if it is missing or empty. Raises Refused."""
    text = request.query.get(name, "").strip()
    if len(text) > longest or "\0" in text:
        raise Refused(400, f"{name}: expected a text of at most {longest} characters")
    return text or None


def query_id(request: web.Request, name: str) -> int | None:
    """Read an id in the query, or None if it is missing. Raises Refused."""
    text = query_text(request, name, 40)
    return None if text is None else snowflake(text, name)


def query_choice(request: web.Request, name: str, choices: Sequence[C]) -> C:
    """Read one of these texts in the query; the first if it is missing. Raises Refused."""
    text = query_text(request, name) or choices[0]
    for choice in choices:
        if choice == text:
            return choice
    raise Refused(400, f"{name}: expected one of {', '.join(choices)}")


def query_days(request: web.Request, today: date | None = None) -> tuple[date, date] | None:
    """Read the days `from` and `to`; None if both are missing. A missing `to` is `today`, or `from`. Raises Refused."""
    begins, ends = query_text(request, "from"), query_text(request, "to")
    if begins is None and ends is None:
        return None
    try:
        first = date.fromisoformat(begins or "")
        last = date.fromisoformat(ends) if ends else today or first
    except ValueError:
        raise Refused(400, "from, to: expected days as YYYY-MM-DD") from None
    if not 0 <= (last - first).days < MAX_DAYS or last == date.max:
        raise Refused(400, f"from, to: expected a range of 1 to {MAX_DAYS:,} days, the earlier day first")
    return first, last


def file_response(text: str, content_type: str, name: str) -> web.Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(text=text, content_type=content_type, charset="utf-8", headers=headers)
