"""Reads what a request brings: its body as a model, its query as values within bounds. What is wrong is one line."""

from __future__ import annotations

import re
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from agentic.console.errors import Refused
from agentic.ids import LARGEST_ID
from agentic.net import http_server

_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,15}", re.ASCII)

M = TypeVar("M", bound=BaseModel)


async def read_body(request: web.Request, model: type[M]) -> M:
    """The JSON object of a POST. Raises Refused with the names of the wrong fields, without their contents."""
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
    """An id of Discord's. Raises Refused."""
    if not _ID.fullmatch(text) or int(text) > LARGEST_ID:
        raise Refused(400, f"{name}: expected a whole number (an id of Discord)")
    return int(text)


def query_int(request: web.Request, name: str, default: int, low: int, high: int) -> int:
    """A whole number of the query, from `low` to `high`. Raises Refused."""
    text = request.query.get(name)
    if text is None or text == "":
        return default
    if not _NUMBER.fullmatch(text) or not low <= int(text) <= high:
        raise Refused(400, f"{name}: expected a whole number from {low} to {high}")
    return int(text)


def query_text(request: web.Request, name: str, longest: int = 200) -> str | None:
    """A text of the query, None where it is missing or empty. Raises Refused."""
    text = request.query.get(name, "").strip()
    if len(text) > longest or "\0" in text:
        raise Refused(400, f"{name}: expected a text of at most {longest} characters")
    return text or None


def query_id(request: web.Request, name: str) -> int | None:
    """An id of the query, None where it is missing. Raises Refused."""
    text = query_text(request, name, 40)
    return None if text is None else snowflake(text, name)
