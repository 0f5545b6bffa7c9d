from __future__ import annotations

from dataclasses import replace

from agentic.actions.status import idle_lines
from agentic.state.idle import IdleState, RunningTask, TaskState
from tests.support.slash_scene import a_place

NOW = 1_800_000_000.0


def test_people_read_what_bots_do_while_nobody_writes_and_why_not() -> None:
    state = IdleState(
        tasks={
            "discover:claude": TaskState(due=NOW + 9, why="nobody has turned on unprompted messages"),
            "follow_up:claude": TaskState(due=NOW + 2400),
            "summarise:claude": TaskState(due=NOW - 5),
            "profile:penny": TaskState(due=NOW),
        },
        asking=RunningTask(
            instruction_id="i1", agent="penny", task="profile", deadline=NOW + 90, channel_id=1, message_id=2
        ),
    )
    assert idle_lines(state, {"claude": "Claude"}, NOW) == (
        "Claude: summaries (as soon as it's quiet), follow-ups (in 40 minutes at the earliest), "
        "and discoveries (nobody has turned on unprompted messages)",
        "penny: profiles (running now)",
    )
    assert idle_lines(IdleState(person_at=NOW), {}, NOW) == ()


async def test_the_status_says_what_the_bots_are_where_their_files_do():
    async with a_place() as place:
        assert "-#" not in await place.use("bots status")
        claude = place.services.settings.agents["claude"]
        told = replace(claude, front=replace(claude.front, disclosure="Claude is an AI."))
        agents = {**place.services.settings.agents, "claude": told}
        place.services.settings = place.services.settings.with_(agents=agents)
        assert (await place.use("bots status")).endswith("\n-# Claude is an AI.")
