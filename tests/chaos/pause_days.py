"""Processes that are paused and go on, a machine that sleeps, and orders that are given while nobody listens."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from agent_config import AGENTS
from agentic.state.silence import Scope
from agentic.wire import keys
from tests.chaos.process_days import MOMENTS, Outside
from tests.chaos.scene import TALK, WITHIN, Scene, Trap, until
from tests.chaos.stage import Inside
from tests.support.program import Program

LOOKED_BY = 6.0  # seconds
PAUSE = 8.0  # seconds: longer than a lease lives
NOBODY_NOW = 4000  # the close code of a gateway that wants nobody now


async def leader_paused(scene: Outside) -> None:
    """Two run_all.py on one Redis. The one that acts is paused in mid-turn until the other has taken over, and goes on:
    no turn twice."""
    with scene.process(STANDBY="true") as first:
        await scene.up(first)
        with scene.process(STANDBY="true") as second:
            await until(lambda: second.says("another coordinator leads"))
            trap = await _in_mid_turn(scene, lambda: first.tell(signal.SIGSTOP))
            asked = await scene.ask(scene.rng.choice(scene.present))
            await scene.up(second)
            await asyncio.sleep(scene.rng.choice((0.0, 0.0, scene.rng.uniform(0, 3))))
            first.tell(signal.SIGCONT)
            await scene.answered(asked)
            await scene.over()
            await scene.ask_and_hear(scene.present[0])
            assert trap.sprung.is_set()
            for process in (first, second):
                await _ends(scene, process)


async def machine_sleeps(scene: Outside) -> None:
    """All that runs on the machine stops, Redis too, and goes on as if nothing had been; people went on outside."""
    with scene.process() as process:
        await scene.up(process)
        await _in_mid_turn(scene, lambda: process.tell(signal.SIGSTOP))
        scene.redis.pause()
        asked = await scene.ask(scene.rng.choice(scene.present))
        await asyncio.sleep(PAUSE)
        wakes = [lambda: process.tell(signal.SIGCONT), scene.redis.resume]
        scene.rng.shuffle(wakes)
        for wake in wakes:
            wake()
            await asyncio.sleep(scene.rng.choice((0.0, 2.0)))
        await scene.answered(asked)
        await scene.over()
        await scene.ask_and_hear(scene.present[0])
        await _ends(scene, process)


async def stopped_while_down(scene: Outside) -> None:
    """A person says stop between the end of the program (in order, or killed) and its next start."""
    number = scene.rng.choice((signal.SIGTERM, signal.SIGKILL))
    with scene.process() as first:
        await scene.up(first)
        await _in_mid_turn(scene, lambda: first.tell(number))
        await first.ended()
    async with _ordered(scene) as order:
        with scene.process() as second:
            await scene.up(second)
            await order.obeyed()
            await order.lifted()
            await scene.ask_and_hear(scene.present[0])
            await _ends(scene, second)


async def stopped_while_paused(scene: Outside) -> None:
    with scene.process() as process:
        await scene.up(process)
        await _in_mid_turn(scene, lambda: process.tell(signal.SIGSTOP))
        async with _ordered(scene) as order:
            await asyncio.sleep(PAUSE)
            process.tell(signal.SIGCONT)
            await order.obeyed()
            await order.lifted()
            await scene.ask_and_hear(scene.present[0])
            await _ends(scene, process)


async def stopped_in_a_gap(scene: Inside) -> None:
    """The gateway is gone for all bots, their sessions too: what is said meanwhile no event tells of."""
    discord = scene.f.discord
    talking = scene.talk()
    sprung = scene.at(scene.rng.choice(MOMENTS), 2, lambda: _cut_off(scene)).sprung
    await scene.await_moment(talking, sprung)
    async with _ordered(scene) as order:
        discord.faults.close_gateway = None
        await order.obeyed()
        await asyncio.wait_for(talking, WITHIN)
        await until(lambda: discord.online >= set(AGENTS))
        await order.lifted()
        await scene.ask_and_hear(scene.present[0])
        await scene.settled()


async def _cut_off(scene: Inside) -> None:
    scene.f.discord.faults.close_gateway = NOBODY_NOW
    for bot in AGENTS:
        await scene.f.discord.invalidate_session(bot, resumable=False)
    await until(lambda: not scene.f.discord.online)


async def _in_mid_turn(scene: Outside, happens: Callable[[], object]) -> Trap:
    """Something happens to the program at a chosen moment of a conversation."""

    async def act() -> None:
        happens()

    await scene.ask_and_hear(scene.present[0])  # so the coordinator is there too
    trap = scene.at(scene.rng.choice(MOMENTS), scene.rng.randint(1, len(scene.present)), act)
    await scene.talk()
    await asyncio.wait_for(trap.sprung.wait(), WITHIN)
    return trap


class _Order:
    """A stop that is said while nobody listens, and what must come of it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    async def say(self) -> None:
        scene, discord = self.scene, self.scene.f.discord
        posts = [m for m in discord.messages(TALK) if m["author"].get("bot")]
        self.bot = f"<@{scene.f.user_id(scene.rng.choice(scene.present))}>"
        if posts and scene.rng.random() < 0.5:
            self.message_id = int(posts[-1]["id"])
            await discord.react("Alice", TALK, self.message_id, "🛑")
        else:
            self.message_id = int((await discord.say("Alice", TALK, f"{self.bot} stop"))["id"])
        await discord.say("Bob", TALK, f"{self.bot} still there?")
        scene.cut_off = 1
        scene.excused = set(scene.present)  # the conversation is over before all had their turn

    def _posts(self) -> int:
        return sum(bool(m["author"].get("bot")) for m in self.scene.f.discord.messages(TALK))

    def _marks(self) -> list[str]:
        message = next(m for m in self.scene.f.discord.messages(TALK) if int(m["id"]) == self.message_id)
        return [given["emoji"]["name"] for given in message.get("reactions", ())]

    async def obeyed(self) -> None:
        """Returns when it is seen that it was heard; from then on nothing more is said, and what was asked into the
        silence is no question. While no gateway tells of it a conversation goes on."""
        await until(lambda: "✅" in self._marks())
        self.posts = self._posts()
        await self._quiet()
        left = (keys.conversation_state(self.scene.f.channel(TALK)),)
        async with asyncio.timeout(WITHIN):
            while await self.scene.link.call(lambda redis: redis.exists(*left)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        self.scene.orderly += 1

    async def _quiet(self) -> None:
        """Longer than it takes to look for what was missed."""
        await asyncio.sleep(LOOKED_BY)
        if (more := self._posts() - self.posts) > 0:
            self.scene.wrong.append(f"{more} posts after the stop")

    async def lifted(self) -> None:
        """Who says resume is heard, and what was asked into the silence is not answered later."""
        await self.scene.f.discord.say("Alice", TALK, f"{self.bot} resume")
        stop = str(Scope.channel(self.scene.f.channel(TALK)))
        async with asyncio.timeout(WITHIN):
            while json.loads(await self.scene.link.call(lambda redis: redis.hget(keys.SILENCE, stop)))["until"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await self._quiet()


@asynccontextmanager
async def _ordered(scene: Scene) -> AsyncIterator[_Order]:
    order = _Order(scene)
    await order.say()
    yield order


async def _ends(scene: Outside, process: Program) -> None:
    process.tell(signal.SIGTERM)
    if (code := await process.ended()) != 0:
        scene.wrong.append(f"exit code {code} at the end")
    if process.says("Traceback"):
        scene.wrong.append(process.stderr[-2000:])
