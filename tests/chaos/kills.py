"""One trial: a bot in a process of its own is killed with SIGKILL at a point of its turn and started again.

Nothing in the program knows of it: the points are seen from outside, by what reaches the model server and Discord.

    thinking   the model has been asked and has not answered
    answered   the post is on its way, Discord has not taken it
    posted     Discord has taken the post, the bot was not told
    reacting   the post is confirmed, the reaction is on its way
    reported   the result is out
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection
from agentic.wire.messages import Instruction
from tests.chaos.tally import Tally
from tests.support.discord.faults import RequestInfo, RestFault
from tests.support.flow import Flow, decision, flow
from tests.support.models.wire.values import ModelRequest
from tests.support.program import Program, at
from tests.support.redis_server import PATIENT, RedisServer

POINTS = ("thinking", "answered", "posted", "reacting", "reported")
AGENT, CHANNEL = "chatgpt", "debate"
MOST_JITTER = 0.03  # seconds between what is seen and the kill
WITHIN = 40.0  # seconds for a trial's every wait


@dataclass(frozen=True)
class Outcome:
    """What a trial came to; `wanted` is the number of messages that the answer has."""

    point: str
    kind: str
    seed: int
    wanted: int
    posts: int
    model_calls: int
    charged_calls: float
    results: int
    seconds: float

    def tally(self) -> Tally:
        """In the numbers of all scenarios; what only this one knows is told in words."""
        return Tally(
            posts=self.posts,
            double_posts=max(0, self.posts - self.wanted),
            model_calls=self.model_calls,
            double_charges=max(0, round(self.charged_calls) - self.model_calls),
            free=max(0, self.model_calls - round(self.charged_calls)),
            lost=max(0, self.wanted - self.posts),
            slowest=self.seconds,
            wrong=tuple(self.faults()),
        )

    def faults(self) -> list[str]:
        """What went wrong, in words; nothing if all held."""
        found = []
        if self.posts != self.wanted:
            found.append(f"{self.posts} messages posted instead of {self.wanted}")
        if self.model_calls != (2 if self.point == "thinking" else 1):
            found.append(f"{self.model_calls} model calls")
        if self.charged_calls != self.model_calls:
            found.append(f"{self.charged_calls:g} calls charged")
        if self.results != (1 if self.kind == "instruction" else 0):
            found.append(f"{self.results} different results")
        return found


class Trial:
    """`kind` is "instruction" or "mention"; chance decides on the answer's length and the moment of the kill."""

    def __init__(self, f: Flow, link: RedisConnection, folder: Path, point: str, kind: str, seed: int) -> None:
        self.f, self.link, self.folder = f, link, folder
        self.point, self.kind, self.seed = point, kind, seed
        self.rng = random.Random(seed)
        self.parts = self.rng.choice((1, 1, 3))
        self.results: set[str] = set()
        self.bus = Bus(link)
        self._stuck, self._seen = asyncio.Event(), asyncio.Event()
        self._asked: asyncio.Task[object] | None = None
        self._turn = "i1"

    async def run(self) -> Outcome:
        began = time.monotonic()
        self._set_the_trap()
        await self.f.discord.say("Bob", CHANNEL, "good morning")  # something to react to
        with self._process() as first:
            await self._online()
            await self._begin()
            await self._sprung()
            await asyncio.sleep(self.rng.uniform(0, MOST_JITTER))
            first.kill()
        self._stuck.set()
        self.f.discord.faults.clear()
        self.f.discord.world.nonces.clear()  # Discord remembers them for minutes only
        await self.link.call(lambda redis: redis.delete(keys.owner(AGENT)))  # it would run out within five seconds
        with self._process() as second:
            await self._done()
            await self._ask_again()
            second.tell(signal.SIGTERM)
            assert await second.ended(WITHIN) == 0, second.stderr
        return await self._outcome(time.monotonic() - began)

    def _set_the_trap(self) -> None:
        paragraphs = [f"{letter * 1500}." for letter in "abc"[: self.parts]]
        said = decision("\n\n".join(paragraphs), react_emoji="🔥" if self.point == "reacting" else None)

        async def answer(_: ModelRequest) -> str:
            if self.point == "thinking" and not self._seen.is_set():
                self._seen.set()
                await self._stuck.wait()
            return said

        async def hold(info: RequestInfo) -> object:
            wanted = {"answered": ("POST", "/messages"), "reacting": ("PUT", "/@me")}.get(self.point)
            if wanted is None or info.method != wanted[0] or not info.path.endswith(wanted[1]):
                return None
            self._seen.set()
            await self._stuck.wait()
            raise web.HTTPServiceUnavailable  # whoever asked is gone; it was not done

        self.f.models.answer = answer
        self.f.discord.faults.on_request = hold  # type: ignore[assignment]
        if self.point == "posted":
            self.f.discord.faults.add(RestFault("POST", "/messages$", status=None, cut="after"))

    def _process(self) -> Program:
        environment = {
            "AGENT_NAME": AGENT,
            "BOT_TOKEN_CHATGPT": f"token-{AGENT}",
            "OPENAI_API_KEY": "a-key",
            "OPENAI_BASE_URL": self.f.models.base_url("openai"),
            "REDIS_URL": str(self.f.settings.redis_url),
            "CHANNEL_THEME_MAP": f"{self.f.channel(CHANNEL)}:debate",
            "AGENT_COOLDOWN_SECONDS": "60",
        }
        return Program(self.folder, entry="main_one_bot", before=at(self.f.discord), environment=environment)

    async def _online(self) -> None:
        channel = keys.instructions(AGENT)

        async def ready() -> bool:
            numsub = await self.link.call(lambda redis: redis.pubsub_numsub(channel))
            return AGENT in self.f.discord.online and bool(numsub[0][1])

        await until_true(ready)

    async def _begin(self) -> None:
        if self.kind == "mention":
            asked = await self.f.discord.say("Alice", CHANNEL, f"<@{self.f.user_id(AGENT)}> well?")
            self._turn = f"m{asked['id']}"
        else:
            self._asked = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        instruction = Instruction(
            instruction_id="i1",
            channel_id=self.f.channel(CHANNEL),
            channel_theme="debate",
            is_conversation_starter=True,
            deadline=time.time() + 80,
        )
        result = await self.bus.ask(AGENT, instruction)
        self.results.add(result.to_wire())

    async def _sprung(self) -> None:
        async with asyncio.timeout(WITHIN):
            if self.point == "posted":
                await self.f.discord.wait_for(lambda: self.f.said(CHANNEL, AGENT), timeout=WITHIN)
            elif self.point == "reported":
                await self._done()
            else:
                await self._seen.wait()

    async def _done(self) -> None:
        async def done() -> bool:
            state = await self.link.call(lambda redis: redis.hget(keys.turn(AGENT, self._turn), "state"))
            return state == "done"

        await until_true(done)

    async def _ask_again(self) -> None:
        """Whoever asks again hears the same, and nothing is posted."""
        await self._online()
        if self._asked is not None:
            await asyncio.wait_for(self._asked, WITHIN)
            await asyncio.wait_for(self._ask(), WITHIN)

    async def _outcome(self, seconds: float) -> Outcome:
        costs = await self.link.call(lambda redis: redis.keys(keys.cost(AGENT, "*")))
        charged = await self.link.call(lambda redis: redis.hget(costs[0], "ai_calls")) if costs else 0
        return Outcome(
            self.point,
            self.kind,
            self.seed,
            self.parts,
            len(self.f.said(CHANNEL, AGENT)),
            len(self.f.models.requests),
            float(charged or 0),
            len(self.results),
            seconds,
        )


async def until_true(condition: Callable[[], Awaitable[bool]]) -> None:
    """Looks again and again at another process, which tells nobody."""
    async with asyncio.timeout(WITHIN):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def _stage(folder: Path) -> AsyncIterator[tuple[Flow, RedisConnection]]:
    with RedisServer() as redis:
        async with flow(folder, redis_url=redis.url) as f, RedisConnection(redis.url, command_timeout=PATIENT) as link:
            yield f, link


async def run_trial(folder: Path, point: str, kind: str, seed: int, trial: type[Trial] = Trial) -> Outcome:
    """A world of its own for each trial."""
    async with _stage(folder) as (f, link):
        made = trial(f, link, folder, point, kind, seed)
        bus = asyncio.create_task(made.bus.run())
        try:
            return await made.run()
        finally:
            bus.cancel()
            await asyncio.gather(bus, return_exceptions=True)
