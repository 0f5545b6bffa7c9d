"""The program in processes of its own: two of them of which one is killed, one that is told to end in mid-turn, and one
that is started again after Redis was unavailable."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from redis.asyncio import Redis

from agent_config import AGENTS
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from agentic.wire.messages import Command
from tests.chaos.scene import TALK, WITHIN, Question, Scene, until
from tests.support import warm_start
from tests.support.flow import QUICK, flow
from tests.support.program import Program, at
from tests.support.program import environment as environment_of
from tests.support.redis_server import PATIENT, RedisServer

TAKEN_OVER_WITHIN = 15.0  # seconds
ASK_AGAIN = 0.2  # seconds
NOWHERE = 5  # no channel of the world
MOMENTS = ("thinking", "posting")


class Outside(Scene):
    """The program in processes; what they share is Redis and Discord."""

    folder: Path
    redis: RedisServer

    def process(self, *, files: int | None = None, **settings: str) -> Program:
        """The program, started. `files`: how many it may open."""
        more = {"COORDINATOR_MAX_ROUNDS": "1", **settings}
        environment = {**QUICK, **environment_of(self.f, self.redis.url, **more)}
        only = ("--only", ",".join(self.present))
        before = at(self.f.discord)
        if files is not None:
            before += f"; import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))"
        return Program(self.folder, *only, before=before, environment=environment)

    async def leads(self, process: Program) -> bool:
        """Whether it holds the coordinator and all agents."""
        holder = f":{process.pid}:"  # is part of the name under which it holds what it holds
        names = [keys.COORDINATOR_OWNER, *(keys.owner(agent) for agent in self.present)]
        return all([holder in str(await self.link.call(lambda r, n=name: r.get(n))) for name in names])

    async def up(self, process: Program) -> None:
        """Returns when the process leads, its bots listen and are known, and its coordinator does what it is told.

        Raises TimeoutError with what the process wrote.
        """
        channels = [keys.instructions(agent) for agent in self.present]
        try:
            async with asyncio.timeout(WITHIN):
                while not await self._listening(channels) or not await self.leads(process):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await self._obeyed()
        except TimeoutError:
            raise TimeoutError(f"exit code {process.poll()}, it wrote: {process.stderr}") from None

    async def _obeyed(self) -> None:
        """Returns when a command is answered: who has just taken the lead drops commands for a moment."""
        nowhere = Command(command="start", channel_id=NOWHERE, command_id="scene").to_wire()
        async with Redis.from_url(self.redis.url) as redis, redis.pubsub() as outcomes:
            await outcomes.subscribe(keys.COORDINATOR_OUTCOMES)
            while await outcomes.get_message(ignore_subscribe_messages=True, timeout=ASK_AGAIN) is None:
                await redis.publish(keys.COORDINATOR_COMMANDS, nowhere)

    async def _listening(self, channels: list[str]) -> bool:
        numsub = await self.link.call(lambda redis: redis.pubsub_numsub(*channels))
        # What is said to an agent before Redis knows of it is not answered later.
        known = await self.link.call(lambda redis: redis.exists(*(keys.seen(agent) for agent in self.present)))
        return (
            known == len(self.present)
            and self.f.discord.online >= set(self.present)
            and all(count for _, count in numsub)
        )

    async def talk(self) -> None:
        """Asks for a conversation, as the owner's console does."""
        self.next_talk()
        command = Command(command="start", channel_id=self.f.channel(TALK)).to_wire()
        await self.link.call(lambda redis: redis.publish(keys.COORDINATOR_COMMANDS, command))

    async def over(self) -> None:
        """Returns when the conversation has left nothing in Redis: it ended in order."""
        channel = self.f.channel(TALK)
        left = (keys.conversation(channel), keys.conversation_state(channel))
        async with asyncio.timeout(WITHIN):
            while await self.link.call(lambda redis: redis.exists(*left)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        self.orderly += 1


@asynccontextmanager
async def outside(folder: Path, seed: int, *, quick: bool = False) -> AsyncIterator[Outside]:
    warm_start.ask({})  # the imports of the first process would stop this event loop for seconds
    with RedisServer() as redis:
        async with flow(folder, redis_url=redis.url) as f, RedisConnection(redis.url, command_timeout=PATIENT) as link:
            scene = Outside(f, link, seed, quick=quick, present=tuple(AGENTS))
            scene.folder, scene.redis = folder, redis
            await scene.begin()
            yield scene


async def leader_killed(scene: Outside) -> None:
    """Two run_all.py on one Redis: one acts. It is killed, the other takes over, coordinator and agents alike."""
    with scene.process(STANDBY="true") as first:
        await scene.up(first)
        with scene.process(STANDBY="true") as second:
            until_then = "this process waits to take over" if scene.quick else "another coordinator leads"
            await until(lambda: second.says(until_then))
            killed: list[float] = []

            async def kill() -> None:
                first.kill()
                killed.append(time.monotonic())

            await scene.ask_and_hear(scene.present[0])
            trap = scene.at(scene.rng.choice(MOMENTS), scene.rng.randint(1, len(scene.present)), kill)
            await scene.talk()
            await asyncio.wait_for(trap.sprung.wait(), WITHIN)
            asked = await scene.ask(scene.rng.choice(scene.present))
            await scene.up(second)
            if (waited := time.monotonic() - killed[0]) > TAKEN_OVER_WITHIN:
                scene.wrong.append(f"taken over after {waited:.1f} s")
            await scene.answered(asked)
            await scene.over()
            await scene.ask_and_hear(scene.present[0])
            await ended_well(scene, second, signal.SIGTERM)


async def told_to_end(scene: Outside, number: signal.Signals) -> None:
    """In the middle of a turn; what it left is done after its next start."""
    with scene.process() as first:
        await scene.up(first)

        async def tell() -> None:
            first.tell(number)
            await until(lambda: first.says("stopping"))

        trap = scene.at(scene.rng.choice(MOMENTS), scene.rng.randint(1, len(scene.present)), tell)
        await scene.talk()
        await asyncio.wait_for(trap.sprung.wait(), WITHIN)
        if (code := await first.ended()) != 0:
            scene.wrong.append(f"exit code {code}")
        asked = await scene.ask(scene.rng.choice(scene.present))
        with scene.process() as second:
            await scene.up(second)
            await scene.answered(asked)
            await scene.over()
            await ended_well(scene, second, number)


async def sigterm(scene: Outside) -> None:
    await told_to_end(scene, signal.SIGTERM)


async def ctrl_c(scene: Outside) -> None:
    await told_to_end(scene, signal.SIGINT)


async def after_an_outage(scene: Outside) -> None:
    """Turns end while Redis is unavailable; once it is back and knows of them, the process is killed or ended, and
    starts again: nothing is replayed, paid again, excused under its own answer, or forgotten."""
    with scene.process() as first:
        await scene.up(first)
        await scene.ask_and_hear(scene.present[0])

        async def take_away() -> None:
            scene.redis.kill()

        trap = scene.at(scene.rng.choice(MOMENTS), scene.rng.randint(1, len(scene.present)), take_away)
        await scene.talk()
        await asyncio.wait_for(trap.sprung.wait(), WITHIN)
        asked = [await scene.ask(agent) for agent in scene.rng.sample(scene.present, 2)]
        for question in asked:
            await scene.answered(question)
        await asyncio.sleep(0 if scene.quick else scene.rng.uniform(0, 5))
        scene.redis.start()
        await _known(scene, asked)
        if scene.rng.random() < 0.5:
            first.kill()
            scene.cut_off = 1
        else:
            await ended_well(scene, first, signal.SIGTERM)
    with scene.process() as second:
        await scene.up(second)
        for question in asked:
            await scene.answered(question)
        await scene.over()
        await scene.ask_and_hear(scene.present[-1])
        await _known(scene, scene.questions)
        await ended_well(scene, second, signal.SIGTERM)
    scene.wrong += await scene.miscounted()


async def _known(scene: Outside, questions: Sequence[Question]) -> None:
    """Returns when Redis knows that these were answered."""
    async with asyncio.timeout(WITHIN):
        for question in questions:
            key = keys.turn(question.agent, f"m{question.message_id}")
            while await scene.link.call(lambda redis, key=key: redis.hget(key, "state")) != "done":  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def ended_well(scene: Outside, process: Program, number: signal.Signals = signal.SIGTERM) -> None:
    process.tell(number)
    if (code := await process.ended()) != 0:
        scene.wrong.append(f"exit code {code} at the end")
    if process.says("Traceback"):
        scene.wrong.append(process.stderr[-2000:])
