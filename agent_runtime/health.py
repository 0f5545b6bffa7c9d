"""Two questions that a service manager asks over HTTP on loopback, where HEALTH_PORT is set.

/healthz  does the process still turn its wheels? An answer is the answer; restart it when there is none
/readyz   can it do its work now? 200 when a bot is online (the coordinator alone has none) and Redis answers, 503
          otherwise and while it stops. It names the bots that failed, and why

A restart mends no Discord and no Redis that are away, so only the first question is one for a restart.

    python -m agent_runtime.health [live|ready] [--wait SECONDS]

asks the process of the same settings, again and again while `--wait` lasts: 0 for yes, 1 for no; 0 also where
HEALTH_PORT is not set.
"""

from __future__ import annotations

import argparse
import http.client
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from agent_config import SettingsError, load_settings, process_environment

HOST = "127.0.0.1"
PATHS = {"live": "/healthz", "ready": "/readyz"}
ASK_SECONDS = 3.0
ASK_AGAIN_SECONDS = 0.5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Health:
    """The bots that are online now, whether the bus hears, whether the process is about to end. `needs_bots`: none
    online is not ready; the coordinator alone has none. `offline`: bots that failed, and why, in one line each."""

    bots: tuple[str, ...]
    bus: bool
    stopping: bool = False
    needs_bots: bool = True
    offline: Mapping[str, str] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return (bool(self.bots) or not self.needs_bots) and self.bus and not self.stopping


@asynccontextmanager
async def serving_health(port: int, look: Callable[[], Health]) -> AsyncIterator[int]:
    """Answers on `port` while it is entered, and gives it; 0 serves nothing.

    A port that somebody else has (another bot's process of the same .env) is a warning: the bots matter more.
    """
    runner = web.AppRunner(_app(look), access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        if port:
            try:
                await web.TCPSite(runner, HOST, port).start()
            except OSError as error:
                why = error.strerror or type(error).__name__
                log.warning("HEALTH_PORT %d cannot be served: %s; who asks there asks another program", port, why)
        yield port
    finally:
        await runner.cleanup()


def _app(look: Callable[[], Health]) -> web.Application:
    async def live(_: web.Request) -> web.Response:
        return web.json_response({"status": "live"})

    async def ready(_: web.Request) -> web.Response:
        health = look()
        status = "ready" if health.ready else "stopping" if health.stopping else "not ready"
        body = {"status": status, "bots": list(health.bots), "redis": health.bus, "offline": dict(health.offline)}
        return web.json_response(body, status=200 if health.ready else 503)

    app = web.Application()
    app.router.add_get(PATHS["live"], live)
    app.router.add_get(PATHS["ready"], ready)
    return app


def ask(port: int, question: str) -> int:
    """The HTTP status that a process on this machine answers with; 0 when none answers."""
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
        prog="python -m agent_runtime.health", description="Asks the running program how it is."
    )
    parser.add_argument("question", nargs="?", choices=tuple(PATHS), default="live")
    parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="ask again until it says yes")
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
