"""A set-up to be checked, healthy until changed: bots on the stand-in, keys at the model server, a real Redis."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import discord
from aiohttp import web
from rich.console import Console

from agent_config import AGENTS, Settings, load_settings
from agentic.check.run import run_check
from agentic.local.discord.channels import small_world
from agentic.local.discord.server import routed_to
from agentic.local.discord.world import World
from tests.support.discord.stand_in import DiscordStandIn
from tests.support.models.model_server import ModelServer
from tests.support.redis_server import RedisServer

TOKENS = {name: f"canary-token-{name}" for name in AGENTS}
KEYS = {name: f"canary-key-{name}" for name in AGENTS}
EMOJIS = discord.Permissions(use_external_emojis=True).value


class KeyedModelServer(ModelServer):
    """Describes its models to these keys only; a refusal quotes the key, as some providers do."""

    keys = frozenset(KEYS.values())

    def _model_routes(self) -> list[web.RouteDef]:
        return [web.get(route.path, self._keyed(route.handler)) for route in super()._model_routes()]

    def _keyed(self, handler: Callable[..., Awaitable[web.StreamResponse]]) -> Callable[..., Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            headers = request.headers
            sent = headers.get("Authorization") or headers.get("x-api-key") or headers.get("x-goog-api-key") or ""
            key = sent.removeprefix("Bearer ")
            if key not in self.keys:
                error = {"code": 401, "message": f"Incorrect API key provided: {key}", "status": "UNAUTHENTICATED"}
                return web.json_response({"error": error}, status=401)
            answer = await handler(request)
            assert isinstance(answer, web.Response)
            return answer

        return handle


@dataclass
class Stage:
    """`environ` is what the settings are read from; `check` runs the check and keeps what it printed."""

    world: World
    discord: DiscordStandIn
    environ: dict[str, str]
    printed: str = ""
    settings: Settings = field(init=False)

    async def check(self, console: Console | None = None, **how: Any) -> int:
        self.settings = load_settings(self.environ, env_file=None)
        shown = console or Console(file=io.StringIO(), width=200)
        how = {"use_default_redis": False, "env_file": Path("nowhere/.env"), **how}
        code = await run_check(self.settings, console=shown, **how)
        assert isinstance(shown.file, io.StringIO)
        self.printed = shown.file.getvalue()
        return code

    def lines(self, *marks: str) -> list[str]:
        """The findings with these marks, without their sections."""
        return [line.strip() for line in self.printed.splitlines() if line.strip().startswith(marks)]

    def section(self, title: str) -> str:
        """The lines under a heading."""
        return "\n".join(self._section(title))

    def _section(self, title: str) -> Iterator[str]:
        inside = False
        for line in self.printed.splitlines():
            inside = line == title or (inside and line.startswith("  "))
            if inside:
                yield line


@asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[Stage]:
    """A server with the channels #debate and #memes and all bots of the table."""
    world = small_world({name: (AGENTS[name].display_name, TOKENS[name]) for name in AGENTS}, ("debate", "memes"))
    for role in world.guild.roles.values():
        role.permissions |= EMOJIS
    with RedisServer() as redis:
        async with DiscordStandIn(world) as server, KeyedModelServer() as models:
            with routed_to(server):
                yield Stage(world, server, _environ(world, models, redis, folder))


def _environ(world: World, models: ModelServer, redis: RedisServer, folder: Path) -> dict[str, str]:
    environ = {
        "CHANNEL_THEME_MAP": ",".join(f"{world.channel(name).id}:{name}" for name in ("debate", "memes")),
        "GUILD_IDS": str(world.guild.id),
        "BOTS_ROLE_ID": str(world.role("bots").id),
        "BOT_IDS": ",".join(str(world.app(name).user.id) for name in AGENTS),
        "REDIS_URL": redis.url,
        "DATA_DIR": str(folder / "data"),
        "TIMEZONE": "Europe/Berlin",
    }
    for name, spec in AGENTS.items():
        environ[spec.token_setting], environ[spec.key_setting] = TOKENS[name], KEYS[name]
        environ[spec.base_url_setting] = models.base_url(spec.provider)
    return environ
