"""The stand-in in a process of its own: python -m tests.support.discord.discord_process --port 0 --bots 4 --channels 20

Prints one line of JSON when it is ready, then serves until it is told to stop (SIGTERM, SIGINT):

    {"api_base": "http://127.0.0.1:PORT/api/v{API_VERSION}", "control": "http://127.0.0.1:PORT/_control/", "guild": ID,
     "channels": {NAME: ID}, "bots": {KEY: {"id": ID, "token": TOKEN}}, "people": {NAME: ID}}
"""

import argparse
import asyncio
import json
import signal
from typing import Any

from agentic.local.discord.channels import small_world
from agentic.local.discord.server import LOOPBACK
from agentic.local.discord.world import World
from tests.support.discord.http_control import HttpControl
from tests.support.discord.rate_limits import RateLimits
from tests.support.discord.stand_in import DiscordStandIn

_KEYS = ("chatgpt", "claude", "gemini", "grok")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.discord.discord_process", description="Discord's stand-in on loopback"
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--bots", type=int, default=4)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--people", type=int, default=1)
    parser.add_argument("--limits", action="store_true", help="enforce rate limits about as Discord does")
    parser.add_argument("--rest-delay", type=float, default=0.0, help="seconds that every REST answer takes")
    return parser.parse_args()


def _world(arguments: argparse.Namespace) -> World:
    keys = [_KEYS[n] if n < len(_KEYS) else f"bot{n + 1}" for n in range(arguments.bots)]
    return small_world(
        bots={key: (key.capitalize(), f"token-{key}") for key in keys},
        channels=[f"channel-{n + 1}" for n in range(arguments.channels)],
        people=[f"person-{n + 1}" for n in range(arguments.people)],
    )


def _address(server: DiscordStandIn) -> dict[str, Any]:
    world = server.world
    return {
        "api_base": server.api_base,
        "control": f"http://{LOOPBACK}:{server.port}/_control/",
        "guild": world.guild.id,
        "channels": {c.name: c.id for c in world.channels()},
        "bots": {a.key: {"id": a.user.id, "token": a.token} for a in world.apps.values()},
        "people": {u.display_name: u.id for u in world.users.values() if not u.bot},
    }


async def serve(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    limits = RateLimits() if arguments.limits else None
    server = DiscordStandIn(_world(arguments), port=arguments.port, limits=limits)
    server.faults.rest_delay = arguments.rest_delay
    HttpControl(server)
    async with server:
        print(json.dumps(_address(server)), flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(serve(_arguments()))
