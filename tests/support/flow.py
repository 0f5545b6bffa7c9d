"""The whole program over real sockets: py-cord against the Discord stand-in, the official SDKs against the model
server, a real Redis. Nothing of it is patched; the set-up chooses addresses and delays only."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from agent_config import AGENTS, Settings, load_settings
from agentic.local.discord.channels import small_world
from agentic.local.discord.server import routed_to
from agentic.local.discord.world import World
from agentic.runtime.process import Runtime
from agentic.runtime.runtime import running
from agentic.runtime.services import ProcessConfig, provider_model
from tests.support.discord.stand_in import DiscordStandIn
from tests.support.models.model_server import ModelServer
from tests.support.models.wire.values import ModelRequest
from tests.support.process_config import process_config
from tests.support.warm_start import SDKS

for sdk in SDKS:  # else the first answer waits for these imports: on a busy machine longer than a test does
    import_module(sdk)

SHOWN = {"chatgpt": "ChatGPT", "claude": "Claude", "gemini": "Gemini", "grok": "Grok"}
QUICK = {
    "COORDINATOR_TURN_DELAY_MIN": "0",
    "COORDINATOR_TURN_DELAY_MAX": "0",
    "COORDINATOR_SCHEDULE_MAX": "0",
    "COORDINATOR_REACTIVE_PROBABILITY": "0",
    "AGENT_COOLDOWN_SECONDS": "0",
    "MENTIONS_PER_MINUTE": "none",
    "TIMEZONE": "UTC",
}


def decision(text: str | None = None, **more: object) -> str:
    return json.dumps({"skip": False, "text": text, **more})


def by_provider(request: ModelRequest) -> str:
    """Each model says who it is and how many messages it was shown."""
    return decision(f"{request.provider} saw {len(request.texts)}", topic="tests")


@dataclass(frozen=True)
class Flow:
    """What a test steers and looks at."""

    world: World
    discord: DiscordStandIn
    models: ModelServer
    settings: Settings

    def channel(self, name: str) -> int:
        return next(c.id for guild in self.world.guilds.values() for c in guild.channels.values() if c.name == name)

    def user_id(self, bot: str) -> int:
        return int(self.discord.user_of(bot)["id"])

    def said(self, channel: str, author: str | None = None) -> list[str]:
        """What was posted in a channel, oldest first; `author` is a bot's key or a person's name."""
        shown = SHOWN.get(author or "", author)
        messages = self.discord.messages(channel)
        return [m["content"] for m in messages if shown is None or _name(m["author"]) == shown]

    def setup(self, **more: object) -> ProcessConfig:
        fields = {
            "settings": self.settings,
            "agents": tuple(self.settings.agents),
            "use_default_redis": False,
            "personas": False,  # who the bots are is for tests of that
            "make_model": partial(provider_model, free_at_home=False),  # the model server's answers have a price
            "picture_origins": (self.discord.api_base.split("/api")[0],),
            **more,
        }
        return process_config(**fields)

    @asynccontextmanager
    async def running(self, **more: object) -> AsyncIterator[Runtime]:
        async with running(self.setup(**more)) as runtime:
            await runtime.wait_online()
            yield runtime


def _name(author: Mapping[str, object]) -> str:
    return str(author.get("global_name") or author["username"])


@asynccontextmanager
async def flow(
    data_dir: Path,
    *,
    channels: Mapping[str, str] | None = None,
    redis_url: str | None = None,
    token: str = "token-",  # noqa: S107
    clock: Callable[[], float] = time.time,
    ids: Mapping[str, int] = MappingProxyType({}),
    **settings: str,
) -> AsyncIterator[Flow]:
    """`channels` maps names to themes; a bot's token is `token` and its name; further keywords are settings of .env.
    `clock` and `ids` are those of the Discord stand-in's world."""
    themes = channels or {"casual": "casual", "debate": "debate"}
    world = small_world(
        {name: (shown, f"{token}{name}") for name, shown in SHOWN.items()},
        tuple(themes),
        ("Alice", "Bob"),
        clock=clock,
        ids=ids,
    )
    ids = {c.name: c.id for guild in world.guilds.values() for c in guild.channels.values()}
    async with ModelServer(by_provider) as models, DiscordStandIn(world) as discord:
        environ = {
            **{spec.token_setting: f"{token}{name}" for name, spec in AGENTS.items()},
            **{spec.key_setting: "a-key" for spec in AGENTS.values()},
            **{spec.base_url_setting: models.base_url(spec.provider) for spec in AGENTS.values()},
            "CHANNEL_THEME_MAP": ",".join(f"{ids[name]}:{theme}" for name, theme in themes.items()),
            "DATA_DIR": str(data_dir),
            "PERSONAS_DIR": str(data_dir / "personas"),
            **({"REDIS_URL": redis_url} if redis_url else {}),
            **QUICK,
            **settings,
        }
        with routed_to(discord):
            yield Flow(world, discord, models, load_settings(environ, None))
