"""Redis in mid-conversation: killed and restarted, emptied, paused, full, slow, cut off between what it did and its
reply; a master that dies before its replica has taken over. A person asks meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agent_config import AGENTS
from tests.chaos.scene import until
from tests.chaos.stage import Inside

PAUSE = 60.0  # seconds; the short version ends it as soon as the program has noticed
MOST_UNREPLICATED = 1  # calls: the last one that a master booked, and died before its replica knew
ANSWERED_WITHIN = 5.0  # seconds, while Redis is unavailable
MOMENTS = ("thinking", "posting")
# A turn's steps by words of their scripts: it begins and takes its limits, its answer is kept, it ends.
STEPS = ("local is_admitted", "return 'kept'", "'settled:'")

Step = Callable[[], Awaitable[object]]


async def _through(scene: Inside, trouble: Step, relief: Step, *, hears: bool = True) -> None:
    """A conversation at whose chosen moment the trouble begins. A person is answered during it and after it."""
    talking = scene.talk()
    moment, nth = scene.rng.choice(MOMENTS), scene.rng.randint(1, len(AGENTS))
    trap = scene.at(moment, nth, trouble)
    await scene.await_moment(talking, trap.sprung)
    asked = await scene.ask(scene.rng.choice(tuple(AGENTS)))
    if hears:
        await scene.answered(asked, ANSWERED_WITHIN)
    await relief()
    await scene.answered(asked)
    await scene.heard_out(talking, 120)
    await scene.ask_and_hear(scene.rng.choice(tuple(AGENTS)))
    await scene.settled()


async def killed(scene: Inside) -> None:
    async def kill() -> None:
        scene.redis.kill()

    async def start() -> None:
        await asyncio.sleep(0 if scene.quick else scene.rng.uniform(0, 5))
        scene.redis.start()

    await _through(scene, kill, start)


async def failed_over(scene: Inside) -> None:
    async def kill() -> None:
        scene.unreplicated = MOST_UNREPLICATED
        scene.servers.kill_master()

    async def nothing() -> None:
        pass

    await _through(scene, kill, nothing)


async def emptied(scene: Inside) -> None:
    async def flush() -> None:
        await scene.link.call(lambda redis: redis.flushall())
        await scene.emptied()

    async def nothing() -> None:
        pass

    await _through(scene, flush, nothing)


async def paused(scene: Inside) -> None:
    async def pause() -> None:
        scene.redis.pause()

    async def resume() -> None:
        await asyncio.sleep(0 if scene.quick else PAUSE)
        scene.redis.resume()

    await _through(scene, pause, resume)


async def full(scene: Inside) -> None:
    async def fill() -> None:
        await scene.link.call(lambda redis: redis.config_set("maxmemory", 1))

    async def make_room() -> None:
        await asyncio.sleep(0 if scene.quick else scene.rng.uniform(0, 5))
        await scene.link.call(lambda redis: redis.config_set("maxmemory", 0))

    await _through(scene, fill, make_room)


async def slow(scene: Inside) -> None:
    """Below the commands' time limit, or above it, where what failed was carried out all the same."""

    async def dawdle() -> None:
        scene.way.delay = scene.rng.choice((0.1, 0.25, 0.32, 0.6))

    async def hurry() -> None:
        await asyncio.sleep(0 if scene.quick else scene.rng.uniform(0, 5))
        scene.way.delay = 0.0

    await _through(scene, dawdle, hurry)


async def cut(scene: Inside) -> None:
    """Connections are cut between execution and reply, at each step of a turn: of a mention's, of a conversation's."""
    steps = list(STEPS)
    scene.rng.shuffle(steps)
    for step in steps:
        scene.way.cuts.append(step)
        await scene.ask_and_hear(scene.rng.choice(tuple(AGENTS)))
        await _written(scene)
    talking = scene.talk()
    trap = scene.at("thinking", scene.rng.randint(1, len(AGENTS)), lambda: _cut_next(scene))
    await scene.await_moment(talking, trap.sprung)
    asked = await scene.ask(scene.rng.choice(tuple(AGENTS)))
    await scene.answered(asked)
    await scene.heard_out(talking, 120)
    await _written(scene)
    if lacking := [step for step in steps if step not in scene.way.cut]:
        scene.wrong.append(f"not cut: {lacking}")
    scene.wrong += await scene.miscounted()


async def _cut_next(scene: Inside) -> None:
    scene.way.cuts.append(scene.rng.choice(STEPS[1:]))


async def _written(scene: Inside) -> None:
    """Returns when Redis knows of each turn that has ended."""
    await scene.settled()
    state = scene.runtime.services.state
    await until(lambda: not state.turns.unwritten)
    await state.link.write_queued()
