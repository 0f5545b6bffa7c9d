"""The season: how agents did in contests in which people voted. Every share comes with its count and its 95 % interval.

GET /api/arena?kind=arena|room
"""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from agentic.console.json_values import Json
from agentic.console.parts import ConsoleParts
from agentic.console.requests import Refused, query_text
from agentic.record.queries.intervals import Share
from agentic.record.queries.season import Standing, season

KINDS = ("arena", "room")


def routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
    async def arena(request: web.Request) -> web.Response:
        kind = query_text(request, "kind")
        if kind is not None and kind not in KINDS:
            raise Refused(400, f"kind: expected one of {', '.join(KINDS)}")
        standings = await season(await parts.store.open(), kind=kind)
        return web.json_response({"items": [_standing_json(each) for each in standings], "next": None})

    return [web.get("/api/arena", arena)]


def _standing_json(standing: Standing) -> Json:
    return {
        "agent": standing.agent,
        "model": standing.model,
        "contests": standing.contests,
        "wins": _share_json(standing.wins),
        "ties": standing.ties,
        "votes": _share_json(standing.votes),
        "fair_share": standing.fair_share,
    }


def _share_json(share: Share) -> Json:
    return {"count": share.count, "of": share.of, "value": share.value, "low": share.low, "high": share.high}
