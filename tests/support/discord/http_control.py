"""The control side over HTTP, for benchmarks that run the stand-in in a process of its own.

POST JSON to /_control/say, /_control/messages, /_control/faults, /_control/reset-counts or /_control/state. Loopback
only, as the server is.
"""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from aiohttp import web

from tests.support.discord.faults import RestFault
from tests.support.discord.rate_limits import RateLimits
from tests.support.discord.stand_in import DiscordStandIn

_PREFIX = "/_control/"
_Action = Callable[[dict[str, Any]], Awaitable[Any]]


class HttpControl:
    """Adds the control routes to a stand-in before it is entered: HttpControl(server)."""

    def __init__(self, server: DiscordStandIn) -> None:
        self._server = server
        actions: dict[str, _Action] = {
            "say": self._say,
            "messages": self._messages,
            "faults": self._faults,
            "reset-counts": self._reset_counts,
            "state": self._state,
        }
        for name, action in actions.items():
            server.extra_routes.append(web.post(_PREFIX + name, _serving(action)))

    async def _say(self, body: dict[str, Any]) -> Any:
        """{author, channel, text, reply_to?} → the message."""
        return await self._server.say(body["author"], body["channel"], body["text"], reply_to=body.get("reply_to"))

    async def _messages(self, body: dict[str, Any]) -> Any:
        """{channel?} → the messages of one channel, or of all by channel id."""
        if "channel" in body:
            return self._server.messages(body["channel"])
        return {str(c.id): self._server.messages(c.id) for c in self._server.world.channels()}

    async def _faults(self, body: dict[str, Any]) -> Any:
        """{rest_delay?, duplicate_events?, rules?: [fields of RestFault], limits?: of RateLimits} → what holds now."""
        faults = self._server.faults
        faults.rest_delay = float(body.get("rest_delay", faults.rest_delay))
        faults.duplicate_events = bool(body.get("duplicate_events", faults.duplicate_events))
        if "rules" in body:
            faults.rules[:] = [RestFault(**rule) for rule in body["rules"]]
        if "limits" in body:
            self._server.limiter.limits = None if body["limits"] is None else RateLimits(**body["limits"])
        return {"rest_delay": faults.rest_delay, "rules": [asdict(rule) for rule in faults.rules]}

    async def _reset_counts(self, _: dict[str, Any]) -> Any:
        """→ the counts as they were."""
        return self._server.reset_counts()

    async def _state(self, _: dict[str, Any]) -> Any:
        """→ who is online, the counts, and the unknown requests."""
        server = self._server
        return {"online": sorted(server.online), "counts": server.counts, "unknown": server.unknown_requests}


def _serving(action: _Action) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def serve(request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else {}
        try:
            return web.json_response(await action(body))
        except (KeyError, TypeError, ValueError) as error:
            return web.json_response({"error": str(error)}, status=400)

    return serve
