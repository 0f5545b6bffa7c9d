"""One trial on Signal: the server restarts while an answer is written, and nothing is lost or sent twice.

thinking   it goes while the model is asked
between    it goes once a part of the answer was confirmed, if there are several
starting   it is back before the answer is there, and refuses everything for a while, as in a cold start
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from pathlib import Path

from tests.chaos.tally import Tally
from tests.support.flow import decision
from tests.support.models.wire.values import ModelRequest
from tests.support.redis_server import RedisServer
from tests.support.signal_flow import GROUP, SignalFlow, signal_flow
from tests.support.signal_server import ANNA, BEN, SignalServer, group_id, refused

POINTS = ("thinking", "between", "starting")
WITHIN = 60.0  # seconds for a trial's every wait
MOST_AWAY = 2.0  # seconds


class RestartTrial:
    """Chance decides on the chat, the length of the answer, how long the server is away, and how it refuses."""

    def __init__(self, f: SignalFlow, point: str, seed: int) -> None:
        self.f, self.point = f, point
        self.rng = random.Random(seed)
        self.parts = 3 if point == "between" else self.rng.choice((1, 3))
        self.in_group = bool(seed % 2)
        self.place = group_id(GROUP) if self.in_group else ANNA

    async def run(self) -> Tally:
        began = time.monotonic()
        self.f.models.answer = self._answer
        async with self.f.running():
            await self.f.say("@Claude q1?", group=GROUP) if self.in_group else await self.f.say("q1?")
            if self.point == "between":
                await self.f.signal.until(lambda: self.f.signal.sent, WITHIN)
                await self._restart()
            await self._answered("q1", self.parts)
            await self.f.signal.connected()
            await self.f.say("q2?", BEN)
            await self._answered("q2", 1)
        return self._tally(time.monotonic() - began)

    async def _answer(self, request: ModelRequest) -> str:
        tag = re.findall(r"\bq\d\b", request.tail)[-1]
        if tag == "q1" and self.point != "between":
            await self._restart()
        parts = self.parts if tag == "q1" else 1
        return decision("\n\n".join(f"{tag} part {number} {'la ' * 500}." for number in range(parts)))

    async def _restart(self) -> None:
        """The server goes, and comes back in the background, so that the answer meets it in every state."""
        signal = self.f.signal
        await signal.stop()
        if self.point == "starting":
            status = self.rng.choice((400, 404, 500, 502, 503))
            for kind in ("about", "receive", "send", "send"):
                signal.fail(kind, lambda: refused("not started yet", status))
            await asyncio.sleep(self.rng.uniform(0.1, 0.5))  # the program sees that it is gone
            await signal.start()
            return
        self.coming = asyncio.create_task(_come_back(signal, self.rng.uniform(0, MOST_AWAY)))

    async def _answered(self, tag: str, parts: int) -> None:
        await self.f.signal.until(lambda: sum(post[1] == tag for post in self._posts()) >= parts, WITHIN)

    def _posts(self) -> Counter[tuple[str, ...]]:
        """Chat, question and part of each message that was sent."""
        found = Counter[tuple[str, ...]]()
        for sent in self.f.signal.sent:
            head = re.match(r"(q\d) part (\d)", sent.text)
            found[sent.recipient, *(head.groups() if head else (sent.text, ""))] += 1
        return found

    def _tally(self, seconds: float) -> Tally:
        posts, calls = self._posts(), len(self.f.models.requests)
        wanted = {(self.place, "q1", str(number)) for number in range(self.parts)} | {(BEN, "q2", "0")}
        wrong = [f"sent without need: {sorted(set(posts) - wanted)}"] if set(posts) - wanted else []
        if calls != 2:
            wrong.append(f"{calls} model calls")
        return Tally(
            posts=posts.total(),
            double_posts=posts.total() - len(posts),
            model_calls=calls,
            lost=len(wanted - set(posts)),
            slowest=seconds,
            wrong=tuple(wrong),
        )


async def _come_back(signal: SignalServer, seconds: float) -> None:
    await asyncio.sleep(seconds)
    await signal.start()


async def run_trial(folder: Path, point: str, seed: int) -> Tally:
    """A world of its own for each trial."""
    with RedisServer() as redis:
        async with signal_flow(folder, redis_url=redis.url) as f:
            return await RestartTrial(f, point, seed).run()
