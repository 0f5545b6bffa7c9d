"""Model servers on a bad day: one that hangs, is cut, lies, babbles, refuses or says nothing, in a conversation of the
four and when a person asks.

Whoever asks is met with an answer or a line or sign in its place, once; the other three go on; once the server is well
again the same agent answers as before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

from agent_config import AGENTS
from tests.chaos.scene import BABBLE, NAMES, Scene
from tests.chaos.stage import Inside
from tests.support.flow import decision
from tests.support.models.wire.values import Answer, ModelRequest

Bad = Callable[[Scene, ModelRequest], Answer]
SHORT = 11.5  # seconds for a turn, ten of which are the post's
WHOLE_TURN = 150.0  # seconds, for the one that is as long as it really is
USUAL = 1500  # characters

LIES: Mapping[str, Answer] = {
    "page": Answer(body=b"<html>down for maintenance</html>", media_type="text/html"),
    "plain": Answer(body=b"upstream connect error", media_type="text/plain"),
    "half": Answer(body=b'{"id": "r", "output": [{"type": "mess'),
    "list": Answer(body=b"[1, 2, 3]"),
    "null": Answer(body=b"null"),
    "number": Answer(body=b"1e400"),
    "odd": Answer(body=b'{"output": 7, "content": "x", "candidates": {"a": 1}, "usage": [], "error": 3}'),
    "bytes": Answer(body=b"\xff\xfe\x00\x00"),
    "deep": Answer(body=b"[" * 100_000),
    "nothing": Answer(body=b""),
    "deep decision": Answer(text="[" * 100_000),
    "deeper decision": Answer(text='{"text":' * 100_000),
    "odd decision": Answer(text='{"skip": "no", "text": ["a"], "react_emoji": 5, "react_to_message_id": 1e400}'),
}
COUNTS: Mapping[str, object] = {
    "negative": -5,
    "not a number": math.nan,
    "infinite": math.inf,
    "huge": 10**30,
    "large": 10**13,
    "text": "many",
    "fraction": 20.5,
    "none": None,
}


def hangs(_scene: Scene, _request: ModelRequest) -> Answer:
    return Answer(delay=math.inf)


def cut(_scene: Scene, _request: ModelRequest) -> Answer:
    return Answer(cut=True)


def lies(scene: Scene, _request: ModelRequest) -> Answer:
    return LIES[scene.rng.choice(tuple(LIES))]


def miscounts(scene: Scene, request: ModelRequest) -> Answer:
    said = decision(f"{scene.head(request)} said", topic="t")
    wrong = scene.rng.choice((*COUNTS, "missing"))

    def edit(answer: dict[str, Any]) -> None:
        told = answer["usage" if "usage" in answer else "usageMetadata"]
        if wrong == "missing":
            told.clear()
        for key, count in told.items():
            told[key] = COUNTS[wrong] if isinstance(count, int) else count

    return Answer(text=said, edit=edit)


def babbles(scene: Scene, request: ModelRequest) -> Answer:
    head = scene.head(request)
    parts = [f"{head} p{number} {BABBLE * (USUAL // 5)}" for number in range(12)]
    if scene.rng.random() < 0.5:
        return Answer(text=decision("\n\n".join(parts), topic="t"), output_tokens=8000)
    return Answer(
        text=f"{head} {BABBLE * 2 * USUAL * 10}", output_tokens=8000, stop=scene.rng.choice(("stop", "length"))
    )


def endless(_scene: Scene, _request: ModelRequest) -> Answer:
    return Answer(endless=True)


def refuses(_scene: Scene, _request: ModelRequest) -> Answer:
    return Answer(text="", stop="refusal")


def empty(scene: Scene, _request: ModelRequest) -> Answer:
    return Answer(text=scene.rng.choice(("", " \n", "{}", "null", '{"skip": false}', '{"text": ""}')))


async def bad_day(scene: Inside, bad: Bad, agent: str, *, times: int | None = None) -> None:
    """`times`: how many of the agent's calls go wrong, all of them where it is None."""
    left = [math.inf if times is None else times]

    def misbehave(request: ModelRequest) -> Answer | None:
        if NAMES[request.provider] != agent or left[0] <= 0:
            return None
        left[0] -= 1
        return bad(scene, request)

    scene.misbehave = misbehave
    scene.excused = set() if bad is miscounts else {agent}
    talking = scene.talk()
    await scene.answered(await scene.ask(agent), WHOLE_TURN)
    await scene.heard_out(talking, WHOLE_TURN)
    scene.misbehave = lambda _request: None
    healed = await scene.ask(agent)
    await scene.answered(healed)
    if not any(f"{healed.tag} {agent}" in text for text in scene.f.said("casual")):
        scene.wrong.append(f"{agent} did not answer after its model was well again")
    await scene.settled()


def _scene_of(bad: Bad, *, patient: bool = False) -> Callable[[Inside], object]:
    async def play(scene: Inside) -> None:
        agent = scene.rng.choice(tuple(AGENTS))
        shortened = patient and (scene.quick or scene.seed)  # once as long as it really is
        # The agent ends its turn by itself and says so; the coordinator's own limit is for one that says nothing.
        with patch("agentic.agent.events.LONGEST_TURN", SHORT) if shortened else nullcontext():
            await bad_day(scene, bad, agent, times=scene.rng.choice((1, None)))

    return play


SCENES = {
    "model hangs": _scene_of(hangs, patient=True),
    "model cut in mid-answer": _scene_of(cut),
    "model lies: no answer of its kind": _scene_of(lies),
    "model lies: wrong counts of tokens": _scene_of(miscounts),
    "model babbles": _scene_of(babbles),
    "model never comes to an end": _scene_of(endless, patient=True),
    "model refuses": _scene_of(refuses),
    "model says nothing": _scene_of(empty),
}
RUNS = {"model hangs": 2, "model lies: no answer of its kind": 12, "model lies: wrong counts of tokens": 12}
