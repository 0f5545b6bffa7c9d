"""The whole program on Signal over real sockets: the stand-in for signal-cli-rest-api, the official SDKs against the
model server, a real Redis. Nothing of it is patched."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agent_config import AGENTS, Settings, load_settings
from agentic.runtime.process import Runtime
from agentic.runtime.runtime import running
from agentic.runtime.services import ProcessConfig, provider_model
from agentic.services.signal.settings import SignalSettings
from tests.support.flow import QUICK, by_provider
from tests.support.models.model_server import ModelServer
from tests.support.process_config import process_config
from tests.support.redis_server import until
from tests.support.signal_server import ACCOUNT, ANNA, BEN, SignalServer

GROUP = "Z3JvdXA="


@dataclass(frozen=True)
class SignalFlow:
    """What a test steers and looks at."""

    signal: SignalServer
    models: ModelServer
    settings: Settings
    environ: Mapping[str, str]

    async def say(self, text: str | None, who: str = ANNA, **more: Any) -> int:
        """A person writes; the time by which Signal knows the message."""
        return await self.signal.say(text, who, **more)

    def said(self, recipient: str = ANNA) -> list[str]:
        """What was sent to a person or group, oldest first."""
        return [sent.text for sent in self.signal.sent if sent.recipient == recipient]

    async def answered(self, count: int = 1, recipient: str = ANNA) -> list[str]:
        """The first `count` messages that were sent there."""
        await self.signal.until(lambda: len(self.said(recipient)) >= count)
        return self.said(recipient)

    def setup(self, **more: object) -> ProcessConfig:
        fields = {
            "settings": self.settings,
            "agents": (),
            "accounts": self.settings.account_agents,
            "use_default_redis": False,
            "make_model": partial(provider_model, free_at_home=False),
            **more,
        }
        return process_config(**fields)

    @asynccontextmanager
    async def running(self, *, stands_by: bool = False, **more: object) -> AsyncIterator[Runtime]:
        """Run the program until its agents act, or only listen if it stands by for another process that acts."""
        async with running(self.setup(**more)) as runtime:
            for number in SignalSettings.of(self.settings).signal_numbers.values():
                await self.signal.connected(number)
            hosts = runtime.host_of
            await until(
                lambda: all((host := hosts(agent)) is not None and host.acts != stands_by for agent in runtime.accounts)
            )
            yield runtime


@asynccontextmanager
async def signal_flow(data_dir: Path, *, redis_url: str | None = None, **settings: str) -> AsyncIterator[SignalFlow]:
    """Claude is on Signal, and Anna and Ben may write to it; keywords are settings of .env."""
    async with ModelServer(by_provider) as models, SignalServer() as signal:
        signal.begin_at(int(time.time() * 1000) - 100_000)
        environ = {
            "SIGNAL_NUMBERS": f"claude:{ACCOUNT}",
            "SIGNAL_ALLOWED": f"{ANNA},{BEN}",
            "SIGNAL_API_URL": signal.url,
            **{spec.key_setting: "a-key" for spec in AGENTS.values()},
            **{spec.base_url_setting: models.base_url(spec.provider) for spec in AGENTS.values()},
            "DATA_DIR": str(data_dir),
            "PERSONAS_DIR": str(data_dir / "personas"),
            **({"REDIS_URL": redis_url} if redis_url else {}),
            **QUICK,
            **settings,
        }
        yield SignalFlow(signal, models, load_settings(environ, None), environ)
