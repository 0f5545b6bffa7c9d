"""The surroundings of a measurement: Discord, the models, and the programs that are measured with them in turn."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_config import AGENTS
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection
from agentic.wire.server import locate_redis
from tests.benchmarks.processes import Child, child

THEME = "story"  # shows the whole window and searches nothing: every prompt at its full size
HISTORY_ROUTE = "GET /channels/{channel_id}/messages"
BUS_PATIENCE = 10.0  # seconds


class NotHere(Exception):
    """This machine lacks something; the text says what."""


Mention = tuple[int, str, str]
"""Its tag, the agent, the channel."""


@dataclass(frozen=True)
class AnsweredMention:
    """A mention with its time and its answers (`time.perf_counter()`, seconds)."""

    tag: int
    agent: str
    channel: str
    sent_at: float
    answers: Sequence[Mapping[str, Any]]


@dataclass
class Stage:
    """The stand-ins, and the programs that can be started with them. `history`: messages in each channel before."""

    discord: Child
    models: Child
    folder: Path
    history: int
    profiles: Path | None = None
    _tags: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _programs: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def channels(self) -> dict[str, int]:
        """Name → id."""
        return dict(self.discord.hello["channels"])

    @asynccontextmanager
    async def program(self, **settings: str) -> AsyncIterator[Child]:
        """Run the program, entered when its bots are online. `settings` override those of `_settings`."""
        number = next(self._programs)
        data_dir = self.folder / f"data-{number}"
        given = {"settings": {**self._settings(data_dir), **settings}, "api_base": self.discord.hello["api_base"]}
        async with child("program", given, self.folder) as program:
            self.data_dir = data_dir
            yield program

    @asynccontextmanager
    async def settled_program(self, **settings: str) -> AsyncIterator[Child]:
        """Run the program, entered when SDKs are imported and the channels' history is read."""
        reads = await self.history_reads()
        async with self.program(**settings) as program:
            await program.ask("settled")
            if self.history:
                count = reads + len(self.channels)
                await self.discord.ask("wait_for_requests", route=HISTORY_ROUTE, count=count)
            async with self._profiled(program):
                yield program

    @asynccontextmanager
    async def bare(self) -> AsyncIterator[Child]:
        """Run the bare libraries, entered when their bots are online."""
        given = {
            "tokens": {agent: f"token-{agent}" for agent in AGENTS},
            "api_base": self.discord.hello["api_base"],
            "base_urls": self.models.hello["base_urls"],
        }
        async with child("bare", given, self.folder) as bare:
            yield bare

    @asynccontextmanager
    async def redis(self) -> AsyncIterator[RedisConnection]:
        """The running program's Redis. Raises NotHere without a Redis that can be shared."""
        async with locate_redis(None, self.data_dir, use_default_port=False) as place:
            if not isinstance(place.address, str):
                raise NotHere("no redis-server was found")
            async with RedisConnection(place.address) as link:
                yield link

    @asynccontextmanager
    async def bus(self) -> AsyncIterator[Bus]:
        """The coordinator's end of the running program's bus. Raises NotHere without a Redis that can be shared."""
        async with self.redis() as link:
            bus = Bus(link)
            for agent in AGENTS:
                bus.listen_to(agent)
            listening = asyncio.create_task(bus.run())
            try:
                await asyncio.wait_for(bus.ready.wait(), BUS_PATIENCE)
                yield bus
            finally:
                listening.cancel()
                with suppress(asyncio.CancelledError):
                    await listening

    async def mention(self, lines: Sequence[tuple[str, str, str]], within: float = 30.0) -> list[AnsweredMention]:
        """Post these mentions (person, agent, channel) together and wait at most `within` seconds for the answers."""
        mentions = await self.say(lines)
        return await self.answers(mentions, within)

    async def say(self, lines: Sequence[tuple[str, str | None, str]]) -> list[Mention]:
        """Post these lines (person, agent or None, channel) together; return the mentions among them."""
        said: list[dict[str, Any]] = []
        mentions: list[Mention] = []
        for person, agent, channel in lines:
            said.append({"person": person, "channel": channel})
            if agent is not None:
                mentions.append((next(self._tags), agent, channel))
                said[-1] |= {"bot": agent, "tag": mentions[-1][0]}
        await self.discord.ask("say", lines=said)
        return mentions

    async def answers(self, mentions: Sequence[Mention], within: float) -> list[AnsweredMention]:
        """Return the mentions with their answers, when all are answered or after `within` seconds."""
        tags = [tag for tag, _, _ in mentions]
        found = await self.discord.ask("answers", tags=tags, within=within, patience=within + 30.0)
        return [
            AnsweredMention(*mention, found[str(mention[0])]["sent_at"], found[str(mention[0])]["answers"])
            for mention in mentions
        ]

    async def requests(self) -> list[dict[str, Any]]:
        """Return the models' requests since the last call: [{tag, provider, at}]."""
        return list(await self.models.ask("requests"))

    async def history_reads(self) -> int:
        counts: dict[str, int] = await self.discord.ask("counts")
        return counts.get(HISTORY_ROUTE, 0)

    def _settings(self, data_dir: Path) -> dict[str, str]:
        keys = {spec.token_setting: f"token-{name}" for name, spec in AGENTS.items()}
        keys |= {spec.key_setting: "k" for spec in AGENTS.values()}
        base_urls = self.models.hello["base_urls"]
        keys |= {spec.base_url_setting: base_urls[spec.provider] for spec in AGENTS.values()}
        return {
            **keys,
            "DATA_DIR": str(data_dir),
            "CHANNEL_THEME_MAP": ",".join(f"{channel}:{THEME}" for channel in self.channels.values()),
            "AGENT_COOLDOWN_SECONDS": "0",
            "AGENT_MAX_DAILY": "1000000",
            "MENTIONS_PER_MINUTE": "none",
            "COORDINATOR_SCHEDULE_MIN": "0",
            "COORDINATOR_SCHEDULE_MAX": "0",
            "COORDINATOR_REACTIVE_PROBABILITY": "0",
        }

    @asynccontextmanager
    async def _profiled(self, program: Child) -> AsyncIterator[None]:
        if self.profiles is None:
            yield
            return
        await program.ask("profile")
        yield
        name = f"{self.folder.name}-{next(self._programs)}.prof"
        await program.ask("profile", path=str((self.profiles / name).resolve()))


@dataclass(frozen=True)
class Bench:
    """One run of benchmarks. `seconds`: length of the measurement stalls. `profiles`: a folder for profiles.
    `bare`: also measure the bare libraries."""

    folder: Path
    quick: bool = False
    bare: bool = True
    seconds: float = 60.0
    profiles: Path | None = None

    def size(self, full: int, quick: int) -> int:
        """The number of repetitions."""
        return quick if self.quick else full

    @asynccontextmanager
    async def stage(
        self,
        name: str,
        *,
        channels: int = 1,
        people: int = 1,
        history: int = 0,
        delay: float = 0.0,
        varied: bool = False,
    ) -> AsyncIterator[Stage]:
        """Start stand-ins. `history`: messages in each channel; `delay`: seconds that a model takes; `varied`:
        each message and answer has a text of its own."""
        folder = self.folder / name
        folder.mkdir()
        world = {"channels": channels, "people": people, "history": history, "varied": varied}
        async with AsyncExitStack() as stack:
            discord = await stack.enter_async_context(child("discord_side", world, folder))
            models = await stack.enter_async_context(child("model_side", {"delay": delay, "varied": varied}, folder))
            yield Stage(discord, models, folder, history, self.profiles)
