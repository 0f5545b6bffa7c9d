"""Serve health checks over HTTP on loopback if HEALTH_PORT is set; a command that asks them.

/healthz  200 while the process responds; if it doesn't, restart the process
/metrics  the metrics of the process, for Prometheus
/readyz   200 if a bot is online or an account on another service connected (the coordinator alone needs neither) and
          Redis answers; else, and while the process stops, 503. The body names failed bots with the reason, failed
          watchers that will start again, and the state of the record

Restart on /healthz only: a restart doesn't help when Discord or Redis is down.

    python -m agentic.runtime.health [live|ready] [--wait SECONDS]

asks the process with the same settings until the answer is yes or `--wait` is over. Exit code 0: yes, or HEALTH_PORT
isn't set; 1: no.
"""

from __future__ import annotations

import argparse
import http.client
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from agent_config import SettingsError, load_settings, process_environment
from agentic.net.http_server import Connections, serve_if_free

HOST = "127.0.0.1"
OWN_NAMES = ("localhost", HOST)
PATHS = {"live": "/healthz", "ready": "/readyz"}
ASK_SECONDS = 3.0
ASK_AGAIN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Health:
    bots: tuple[str, ...]  # online
    bus: bool  # whether Redis is connected
    stopping: bool = False
    needs_bots: bool = True  # to be ready
    offline: Mapping[str, str] = field(default_factory=dict)  # failed bots, with the reason in one line each
    record: str = "off"  # the state of the record, which the bots don't need
    accounts: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)  # service → agent → is connected
    failing: tuple[str, ...] = ()  # other tasks that failed and will start again

    @property
    def ready(self) -> bool:
        connected = any(is_connected for agents in self.accounts.values() for is_connected in agents.values())
        works = bool(self.bots) or connected or not self.needs_bots
        return works and self.bus and not self.stopping


@asynccontextmanager
async def serving_health(
    port: int, read_health: Callable[[], Health], connections: Connections, *, routes: Iterable[web.RouteDef] = ()
) -> AsyncIterator[None]:
    """Serve the checks and `routes` on `port` (0: don't) while entered."""

    async def live(_: web.Request) -> web.Response:
        return web.json_response({"status": "live"})

    async def ready(_: web.Request) -> web.Response:
        health = read_health()
        status = "ready" if health.ready else "stopping" if health.stopping else "not ready"
        body = {
            "status": status,
            "bots": list(health.bots),
            "redis": health.bus,
            "offline": dict(health.offline),
            "record": health.record,
            "failing": list(health.failing),
            **{
                service: {agent: "connected" if is_there else "not connected" for agent, is_there in agents.items()}
                for service, agents in health.accounts.items()
            },
        }
        return web.json_response(body, status=200 if health.ready else 503)

    app = web.Application(middlewares=[_only_by_own_name])
    app.router.add_get(PATHS["live"], live)
    app.router.add_get(PATHS["ready"], ready)
    app.add_routes(routes)
    if not port:
        yield
        return
    about = {"setting": "HEALTH_PORT", "consequence": "health checks may reach another program"}
    async with serve_if_free(app, HOST, port, connections, **about):
        yield


@web.middleware
async def _only_by_own_name(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Reject requests from other websites under a hostname that points to this machine (DNS rebinding)."""
    try:
        name = urlsplit(f"//{request.host}").hostname
    except ValueError:
        name = None
    if name not in OWN_NAMES:
        return web.json_response({"error": "use the hostname localhost or 127.0.0.1"}, status=403)
    return await handler(request)


def ask(port: int, question: str) -> int:
    """Ask the process on this machine. Returns the HTTP status, or 0 if it doesn't answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=ASK_SECONDS)
    try:
        connection.request("GET", PATHS[question])
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m agentic.runtime.health", description="Ask the running program on HEALTH_PORT for its health."
    )
    parser.add_argument(
        "question",
        nargs="?",
        choices=tuple(PATHS),
        default="live",
        help="live: does it respond? ready: can it answer people?",
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="keep asking for at most this long until the answer is yes",
    )
    options = parser.parse_args(arguments)
    try:
        settings = load_settings(process_environment())
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    if not settings.health_port:
        return 0
    give_up = time.monotonic() + options.wait
    while (status := ask(settings.health_port, options.question)) != 200 and time.monotonic() < give_up:
        time.sleep(ASK_AGAIN_SECONDS)
    print(f"{PATHS[options.question]}: {status or 'no answer'}")
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
