"""Discord's bad days in mid-conversation: connections cut, moved and invalidated, events told twice, posts refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agent_config import AGENTS
from tests.chaos.scene import until
from tests.chaos.stage import Inside
from tests.support.discord.faults import RestFault

MOMENTS = ("thinking", "posting")
REPLAYED = 50  # events that a resume tells again

Step = Callable[[], Awaitable[object]]


async def _through(scene: Inside, trouble: Step, agents: tuple[str, ...] = tuple(AGENTS)) -> None:
    """A conversation at whose chosen moment the trouble begins; one of `agents` is asked in the middle of it."""
    asked = []

    async def begin() -> None:
        await trouble()
        asked.append(await scene.ask(scene.rng.choice(agents)))

    talking = scene.talk()
    trap = scene.at(scene.rng.choice(MOMENTS), scene.rng.randint(1, len(AGENTS)), begin)
    await scene.await_moment(talking, trap.sprung)
    await scene.heard_out(talking)
    await scene.answered(asked[0])
    scene.f.discord.faults.rules.clear()
    scene.f.discord.faults.duplicate_events, scene.f.discord.faults.replayed = False, 0
    await until(lambda: scene.f.discord.online >= set(AGENTS))
    await scene.ask_and_hear(asked[0].agent)
    await scene.settled()


def _hit(scene: Inside) -> tuple[str, ...]:
    """One bot, or all of them."""
    return tuple(scene.rng.sample(tuple(AGENTS), scene.rng.choice((1, len(AGENTS)))))


async def dropped(scene: Inside) -> None:
    bots = _hit(scene)

    async def drop() -> None:
        for bot in bots:
            await scene.f.discord.drop_gateway(bot)

    await _through(scene, drop, bots)


async def reconnect(scene: Inside) -> None:
    bots = _hit(scene)

    async def ask_to() -> None:
        for bot in bots:
            await scene.f.discord.reconnect_gateway(bot)

    await _through(scene, ask_to, bots)


async def invalidated(scene: Inside) -> None:
    bots = _hit(scene)

    async def invalidate() -> None:
        for bot in bots:
            await scene.f.discord.invalidate_session(bot, resumable=scene.rng.random() < 0.3)

    await _through(scene, invalidate, bots)


async def told_twice(scene: Inside) -> None:
    async def stutter() -> None:
        scene.f.discord.faults.duplicate_events = True

    await _through(scene, stutter)


async def told_again(scene: Inside) -> None:
    """A resume tells once more what was heard already, messages that were answered among it."""
    bots = _hit(scene)
    await scene.ask_and_hear(bots[0])

    async def repeat() -> None:
        scene.f.discord.faults.replayed = REPLAYED
        for bot in bots:
            await scene.f.discord.drop_gateway(bot)

    await _through(scene, repeat, bots)


async def too_many(scene: Inside) -> None:
    wait = scene.rng.uniform(0.1, 0.5)
    said = {"message": "You are being rate limited.", "retry_after": wait, "global": scene.rng.random() < 0.5}
    times = scene.rng.randint(1, 4)

    async def refuse() -> None:
        headers = {"Retry-After": str(wait)}
        scene.f.discord.faults.add(RestFault("POST", "/messages$", 429, times=times, body=said, headers=headers))

    await _through(scene, refuse)


async def broken(scene: Inside) -> None:
    """Also where the post was made before its answer went wrong."""
    times, late = (1 if scene.quick else scene.rng.randint(1, 3)), scene.rng.random() < 0.5

    async def fail() -> None:
        scene.f.discord.faults.add(RestFault("POST", "/messages$", 500, times=times, late=late))

    await _through(scene, fail)


async def cut(scene: Inside) -> None:
    async def sever() -> None:
        when = scene.rng.choice(("before", "after"))
        scene.f.discord.faults.add(RestFault("POST", "/messages$", cut=when, times=1))

    await _through(scene, sever)
