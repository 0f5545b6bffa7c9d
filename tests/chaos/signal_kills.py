"""One trial on Signal: run_bot.py is killed with SIGKILL at a point of its turn, and run_all.py stood by and goes on.

Both listen to the number and share nothing but Redis. Meanwhile somebody else asks, whom only the one that stands by
can hear, and people talk in a group without calling the agent.

    thinking   the model has been asked and has not answered
    answered   its answer is kept, no part of it is claimed
    sending    a part is claimed and on its way, the server has not taken it: it may be missing, and is never sent again
    sent       the server has taken a part, the agent was not told
    noted      the server has confirmed a part; the next one may be on its way already, as in `sending`
"""

from __future__ import annotations

import asyncio
import random
import re
import signal
import time
from collections import Counter
from pathlib import Path

from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from tests.chaos.kills import until_true
from tests.chaos.tally import Tally
from tests.support.flow import decision
from tests.support.models.wire.values import ModelRequest
from tests.support.program import Program
from tests.support.redis_server import PATIENT, RedisServer, until
from tests.support.signal_flow import GROUP, SignalFlow, signal_flow
from tests.support.signal_server import ACCOUNT, ANNA, BEN, group_id

POINTS = ("thinking", "answered", "sending", "sent", "noted")
AGENT = "claude"
MOST_JITTER = 0.03  # seconds between what is seen and the kill
WITHIN = 40.0  # seconds for a trial's every wait
STOPS_BEFORE_A_CLAIM = """
import asyncio, sys
from agentic.state.posts import PostClaims
async def first(self, agent, part):
    print("about to claim", file=sys.stderr, flush=True)
    await asyncio.Event().wait()
PostClaims.first = first
"""


class SignalTrial:
    """Chance decides on the chat, the length of the answer and the part of it at which the kill comes."""

    def __init__(self, f: SignalFlow, link: RedisConnection, folder: Path, point: str, seed: int) -> None:
        self.f, self.link, self.folder, self.point = f, link, folder, point
        self.rng = random.Random(seed)
        self.parts = self.rng.choice((1, 3))
        self.part = self.rng.randrange(self.parts)  # the one of the kill
        self.in_group = bool(seed % 2)
        self._asked, self._released = asyncio.Event(), asyncio.Event()

    async def run(self) -> Tally:
        began = time.monotonic()
        self._set_the_trap()
        with self._process("main_one_bot", AGENT_NAME=AGENT) as first:
            await self._hears(first, 1)
            with self._process("main") as second:
                await self._hears(first, 2)
                self.f.signal.begin_at(int(time.time() * 1000))  # what is older than the agent is not answered
                await self.f.say("so, what did you do yesterday?", BEN, group=GROUP)
                await self.f.say("q1?", ANNA) if not self.in_group else await self.f.say("@Claude q1?", group=GROUP)
                await self._sprung(first)
                await asyncio.sleep(self.rng.uniform(0, MOST_JITTER))
                first.kill()
                await self.f.say("q2?", BEN)
                self._released.set()
                await self.link.call(lambda redis: redis.delete(keys.owner(AGENT)))  # it runs out within five seconds
                await self._answered("q2")
                await self._settled()
                await self.f.say("q3?", BEN)
                await self._answered("q3")
                await self._settled()
                second.tell(signal.SIGTERM)
                code = await second.ended(WITHIN)
                return await self._tally(time.monotonic() - began, code, second.stderr)

    def _process(self, entry: str, **more: str) -> Program:
        environment = {**self.f.environ, "REDIS_URL": str(self.f.settings.redis_url), **more}
        before = STOPS_BEFORE_A_CLAIM if more and self.point == "answered" else ""
        return Program(self.folder, entry=entry, before=before, environment=environment)

    async def _hears(self, acting: Program, count: int) -> None:
        """Returns when so many processes listen to the number, and this one acts."""
        channel = keys.instructions(AGENT)

        async def listening() -> bool:
            holder = await self.link.call(lambda redis: redis.get(keys.owner(AGENT)))
            hosts = await self.link.call(lambda redis: redis.pubsub_numsub(channel))
            lines = self.f.signal.connections(ACCOUNT)
            return f":{acting.pid}:" in str(holder) and (int(hosts[0][1]), lines) == (count, count)

        await until_true(listening)

    # -- the kill -----------------------------------------------------------------------------------------------------

    def _set_the_trap(self) -> None:
        self.f.models.answer = self._answer
        if self.point in ("sending", "sent"):
            self.f.signal.hold_send(self.part, taken=self.point == "sent", until=self._released)

    async def _answer(self, request: ModelRequest) -> str:
        tag = re.findall(r"\bq\d\b", request.tail)[-1]
        if self.point == "thinking" and not self._asked.is_set():
            self._asked.set()
            await self._released.wait()
        parts = self.parts if tag == "q1" else 1
        return decision("\n\n".join(f"{tag} part {number} {'la ' * 500}." for number in range(parts)))

    async def _sprung(self, first: Program) -> None:
        if self.point == "thinking":
            await asyncio.wait_for(self._asked.wait(), WITHIN)
        elif self.point == "answered":
            await until(lambda: first.says("about to claim"), WITHIN)
        elif self.point == "noted":
            await self.f.signal.until(lambda: len(self.f.signal.sent) > self.part, WITHIN)
        else:
            await self.f.signal.until(lambda: self.f.signal.holds, WITHIN)

    # -- what came of it ----------------------------------------------------------------------------------------------

    def _posts(self) -> Counter[tuple[str, ...]]:
        """Chat, question and part of each message that was sent."""
        found = Counter[tuple[str, ...]]()
        for sent in self.f.signal.sent:
            head = re.match(r"(q\d) part (\d)", sent.text)
            found[sent.recipient, *(head.groups() if head else (sent.text,))] += 1
        return found

    def _wanted(self) -> set[tuple[str, ...]]:
        asked_in = group_id(GROUP) if self.in_group else ANNA
        parts = {(asked_in, "q1", str(number)) for number in range(self.parts)}
        if self.point == "sending":
            parts.discard((asked_in, "q1", str(self.part)))
        return parts | {(BEN, "q2", "0"), (BEN, "q3", "0")}

    async def _answered(self, tag: str) -> None:
        await self.f.signal.until(lambda: any(post[1] == tag for post in self._posts()), WITHIN)

    async def _settled(self) -> None:
        """Returns when no turn of the agent is open."""

        async def settled() -> bool:
            return not await self.link.call(lambda redis: redis.zcard(keys.open_turns(AGENT)))

        await until_true(settled)

    async def _tally(self, seconds: float, code: int, log: str) -> Tally:
        posts, wanted, calls = self._posts(), self._wanted(), len(self.f.models.requests)
        lost = wanted - set(posts)
        if self.point == "noted" and f"/{self.part + 1} of a post may have been sent before" in log:
            lost -= {part for part in lost if part[1:] == ("q1", str(self.part + 1))}
        days = await self.link.call(lambda redis: redis.keys(keys.cost(AGENT, "*")))
        counts = [await self.link.call(lambda redis, day=day: redis.hget(day, "ai_calls")) for day in days]
        charged = round(sum(float(count or 0) for count in counts))
        wrong = [f"sent without need: {sorted(set(posts) - wanted)}"] if set(posts) - wanted else []
        if code != 0 or "Traceback" in log:
            wrong.append(f"exit code {code}: {log[-2000:]}")
        if calls != (4 if self.point == "thinking" else 3):
            wrong.append(f"{calls} model calls")
        return Tally(
            posts=posts.total(),
            double_posts=posts.total() - len(posts),
            model_calls=calls,
            double_charges=max(0, charged - calls),
            free=max(0, calls - charged),
            lost=len(lost),
            slowest=seconds,
            wrong=tuple(wrong),
        )


async def run_trial(folder: Path, point: str, seed: int) -> Tally:
    """A world of its own for each trial."""
    with RedisServer() as redis:
        async with (
            signal_flow(folder, redis_url=redis.url) as f,
            RedisConnection(redis.url, command_timeout=PATIENT) as link,
        ):
            return await SignalTrial(f, link, folder, point, seed).run()
