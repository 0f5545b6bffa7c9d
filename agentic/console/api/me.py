"""Answers what every page needs first: names, colours, channels, and the token that goes with each action."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from agentic.console.parts import ConsoleParts
from agentic.console.security import csrf_token
from agentic.themes import THEMES


def routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
    async def me(request: web.Request) -> web.Response:
        known = parts.live.names()
        channels = [
            {"id": str(channel), "name": known.get(channel, str(channel)), "theme": theme}
            for channel, theme in parts.settings.channels.items()
        ]
        return web.json_response(
            {
                "names": dict(parts.names),
                "colours": {agent: f"#{colour:06x}" for agent, colour in parts.colours.items()},
                "channels": channels,
                "themes": list(THEMES),
                "paused": parts.stops.paused,
                "local": parts.is_local,
                "recorded": parts.store.path is not None,
                "prompts": parts.settings.records_prompts,
                "signs_in": parts.settings.console_token is not None,
                "timezone": str(parts.settings.timezone),
                "csrf": csrf_token(request),
            }
        )

    return [web.get("/api/me", me)]
