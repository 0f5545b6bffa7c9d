from __future__ import annotations

import asyncio
import inspect
import itertools
import random
from collections.abc import Callable, Collection
from typing import Any

import pytest

from agent_coordinator.config import CoordinatorConfig
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.idle.background import LEFT_SECONDS, TURN_SECONDS, BackgroundScheduler
from agentic.process.tasks import BackgroundTasks
from agentic.state.idle import Candidate, TaskState
from agentic.state.silence import EVERYTHING, Scope, SilenceChange
from agentic.wire import keys
from agentic.wire.bus import AgentAbsent
from agentic.wire.connection import StateUnavailable
from agentic.wire.entries import ProfileNote, SummaryNote, UnaskedNote
from agentic.wire.messages import Result
from tests.support.coordinator_doubles import CHANNEL, MemoryLease, MemoryState, Time
from tests.support.doubles import lone_silence
from tests.support.idle_server import ADA, HOUR, NEWS, NOON, SERVER, Agents, Record, idle_config


class Scene:
    """A scheduler whose ticks the test makes. A person has just written when it begins."""

    def __init__(self, config: CoordinatorConfig | None = None, *, state: MemoryState | None = None) -> None:
        self.time, self.state = Time(), state or MemoryState()
        self.silence = lone_silence(self.time.clock)
        self.record, self.bus, self.lease = Record(self.time.clock), Agents(self.time.clock), MemoryLease()
        self.lease.give()
        self.config, self.busy, self.tasks = config or idle_config(), set[int](), BackgroundTasks()
        self.record.ada_writes()

    async def begin(self) -> Scene:
        """As a process that has just taken the lead."""
        context = CoordinatorContext(
            self.config,
            self.bus,
            self.state,
            lease=self.lease,
            silence=self.silence,
            record=self.record,
            clock=self.time.clock,
            rng=random.Random(1),
            sleep=self.time.sleep,
            tasks=self.tasks,
        )
        context.leadership.begin()
        self.idle = BackgroundScheduler(context, self.record, lambda: self.busy)
        await self.idle._load()
        return self

    async def tick(self, after: float = 0.0) -> None:
        self.time.now += after
        await self.idle.tick(self.record)

    async def ticks(self, seconds: float, every: float = 60.0) -> None:
        end = self.time.now + seconds
        while self.time.now < end:
            await self.tick(every)

    def task(self, task: str, agent: str = "claude") -> TaskState:
        assert self.state.coordination.idle.state is not None
        return self.state.coordination.idle.state.tasks[f"{task}:{agent}"]


async def begun(*tasks: str, **settings: Any) -> Scene:
    return await Scene(idle_config(*tasks, **settings)).begin()


async def test_one_task_a_tick_by_priority_with_a_note_for_each() -> None:
    scene = await begun()
    await scene.tick(299)
    assert scene.record.asked == 0
    done = []
    for _ in range(2):
        await scene.tick(1)
        done.append(scene.bus.tasks())
    assert done == [["summarise"], ["summarise"]], "the second tick finds nothing left to summarise"
    await scene.tick(1)
    assert scene.bus.tasks() == ["summarise", "profile"]
    (_, summary), (_, profile) = scene.record.notes
    assert isinstance(summary, SummaryNote)
    assert isinstance(profile, ProfileNote)
    assert (summary.text, profile.topics) == ("They race.", ("tall ships", "bread"))
    await scene.ticks(4 * HOUR + 600)
    assert scene.bus.tasks() == ["summarise", "profile", "follow_up"]
    follow_up = scene.bus.asked[-1][1]
    assert (follow_up.action, follow_up.channel_id, follow_up.channel_theme) == ("reflect", CHANNEL, "debate")
    assert follow_up.reflection is not None
    assert follow_up.reflection.message_id == summary.message_id
    assert follow_up.deadline == scene.bus.at[-1] + TURN_SECONDS


async def test_follow_ups_and_discoveries_keep_their_windows_after_a_persons_message() -> None:
    scene = await begun("follow_up", "discover")
    scene.record.profile = ProfileNote(user_id=ADA, topics=("tall ships",), upto=10**19 % 2**63, at=0.0)
    for task, shortest, longest in (("follow_up", HOUR, 2 * HOUR), ("discover", 2 * HOUR, 4 * HOUR)):
        for _ in range(20):
            scene.idle.person_wrote()
            await scene.tick()
            due = scene.task(task).due - scene.time.now - 300
            assert shortest <= due <= longest


@pytest.mark.promise(440)
async def test_where_nothing_is_due_a_tick_asks_for_nothing_at_all() -> None:
    scene = await begun()
    await scene.ticks(600)
    asked, written = scene.record.asked, scene.state.coordination.idle.written
    for _ in range(20):
        await scene.tick(1)
    assert (scene.record.asked, scene.state.coordination.idle.written) == (asked, written)


@pytest.mark.promise(440)
async def test_with_nothing_new_a_look_is_one_cheap_query() -> None:
    scene = await begun("summarise", "profile")
    await scene.ticks(900)
    asked, calls = scene.record.asked, len(scene.bus.asked)
    await scene.ticks(6 * HOUR)
    looks = 2 * 6 * HOUR / 600
    assert scene.record.asked - asked <= looks + 2
    assert len(scene.bus.asked) == calls == 2


@pytest.mark.promise(441)
async def test_a_persons_message_resets_the_timers_and_cancels_what_runs() -> None:
    scene = await begun("follow_up")
    await scene.tick()
    due = scene.task("follow_up").due
    scene.bus.hangs = True
    running = asyncio.create_task(scene.tick(due - scene.time.now))
    await scene.bus.under_way.wait()
    scene.idle.person_wrote()
    scene.idle.person_wrote()
    await running
    assert scene.bus.cancelled() == [scene.bus.asked[0][1].instruction_id], "once"
    assert scene.bus.published[0][0] == keys.COORDINATOR_CANCELS
    assert scene.task("follow_up").due >= scene.time.now + HOUR
    assert scene.task("follow_up").failures == 0
    assert scene.state.coordination.idle.state is not None
    assert scene.state.coordination.idle.state.asking is None
    assert scene.record.notes == []


@pytest.mark.promise(441)
async def test_what_a_cancelled_turn_had_just_posted_is_noted() -> None:
    scene = await begun("follow_up")
    posted = asyncio.Event()

    async def ask(agent: str, instruction: Any, *, absent_grace: float | None = None) -> Result:
        scene.bus.under_way.set()
        await posted.wait()
        return Result(instruction_id=instruction.instruction_id, agent_name=agent, text=NEWS, message_id=5)

    async def sleep(seconds: float) -> None:
        posted.set()
        await asyncio.Event().wait()

    scene.bus.ask, scene.idle._context.sleep = ask, sleep  # type: ignore[method-assign]
    running = asyncio.create_task(scene.tick(3 * HOUR))
    await scene.bus.under_way.wait()
    scene.idle.person_wrote()
    await running
    assert [type(note) for _, note in scene.record.notes] == [UnaskedNote]


async def test_a_cancelled_summary_is_made_when_nobody_writes_again() -> None:
    scene = await begun("summarise")
    scene.bus.hangs = True
    running = asyncio.create_task(scene.tick(300))
    await scene.bus.under_way.wait()
    scene.idle.person_wrote()
    await running
    scene.bus.hangs = False
    await scene.ticks(900)
    assert [type(note) for _, note in scene.record.notes] == [SummaryNote]


@pytest.mark.promise(441)
async def test_a_person_who_writes_while_the_task_is_chosen_wins() -> None:
    scene = await begun("summarise")
    newest = scene.record.newest

    async def interrupted(agent: str, task: str) -> int:
        scene.idle.person_wrote()
        return await newest(agent, task)

    scene.record.newest = interrupted  # type: ignore[method-assign]
    await scene.tick(300)
    assert scene.bus.asked == []


@pytest.mark.parametrize("where", [Scope.channel(CHANNEL), EVERYTHING, Scope("all", guild=SERVER)], ids=str)
async def test_a_stop_cancels_what_runs_there(where: Scope) -> None:
    scene = await begun("follow_up")
    scene.state.coordination.presence.in_servers[CHANNEL] = SERVER
    scene.bus.hangs = True
    running = asyncio.create_task(scene.tick(3 * HOUR))
    await scene.bus.under_way.wait()
    await scene.silence.stop(where)
    await scene.idle.on_silence(SilenceChange(where))
    await running
    assert len(scene.bus.cancelled()) == 1


async def test_a_stop_elsewhere_cancels_nothing() -> None:
    scene = await begun("follow_up")
    scene.bus.hangs = True
    running = asyncio.create_task(scene.tick(3 * HOUR))
    await scene.bus.under_way.wait()
    await scene.silence.stop(Scope.channel(CHANNEL + 1))
    await scene.idle.on_silence(SilenceChange(Scope.channel(CHANNEL + 1)))
    assert scene.bus.cancelled() == []
    running.cancel()


GATES: list[tuple[str, Callable[[Scene], object], str]] = [
    ("summarise", lambda scene: scene.silence.stop(EVERYTHING), "all bots are paused"),
    ("summarise", lambda scene: setattr(scene.record, "talk_at", 0.0), "no messages are logged in its channels"),
    ("summarise", lambda scene: scene.silence.stop(Scope.agent("claude"), 99 * HOUR), "it's muted"),
    (
        "profile",
        lambda scene: scene.state.coordination.backoffs.ends.update(claude=NOON + 99 * HOUR),
        "its AI provider is rejecting its requests",
    ),
    ("profile", lambda scene: scene.state.limits.budgets.kinds.append("idle"), "its share of today's budget"),
    ("discover", lambda scene: scene.state.limits.budgets.kinds.append("all"), "today's budget is used up"),
    ("discover", lambda scene: None, "nobody has a profile"),
    (
        "follow_up",
        lambda scene: scene.silence.stop(Scope.channel(CHANNEL)),
        "the bots are stopped in that channel",
    ),
    (
        "follow_up",
        lambda scene: scene.silence.stop(Scope("all", guild=SERVER)),
        "the bots are paused in that server",
    ),
    (
        "follow_up",
        lambda scene: scene.silence.stop(Scope.agent("claude", SERVER), 99 * HOUR),
        "it's muted in that server",
    ),
    ("profile", lambda scene: scene.silence.stop(Scope("all", guild=SERVER)), "nobody has written anything new"),
    ("summarise", lambda scene: scene.silence.stop(Scope("all", guild=SERVER)), "there is nothing to summarize"),
    ("follow_up", lambda scene: scene.busy.add(CHANNEL), "a conversation is running in that channel"),
    (
        "follow_up",
        lambda scene: scene.record.agreed.update({ADA: False}),
        "the person doesn't want unprompted messages",
    ),
]


@pytest.mark.parametrize(("task", "hinder", "why"), GATES, ids=[why for _, _, why in GATES])
async def test_a_closed_gate_is_said_and_no_model_is_called(
    task: str, hinder: Callable[[Scene], object], why: str
) -> None:
    scene = await begun(task)
    hindered = hinder(scene)
    if inspect.isawaitable(hindered):
        await hindered
    await scene.tick(5 * HOUR)
    assert scene.bus.asked == []
    assert scene.task(task).why.startswith(why)
    assert scene.task(task).due > scene.time.now


async def test_a_bot_that_is_muted_or_in_back_off_is_asked_when_both_are_over() -> None:
    scene = await begun("summarise")
    ends = scene.time.now + HOUR
    await scene.silence.stop(Scope.agent("claude"), HOUR)
    scene.state.coordination.backoffs.ends.update(claude=ends + 600)
    await scene.ticks(HOUR + 500)
    assert scene.bus.asked == []
    await scene.ticks(HOUR)
    assert scene.bus.tasks() == ["summarise"]
    assert scene.bus.at[0] >= ends + 600


@pytest.mark.promise(525)
async def test_another_server_that_is_paused_closes_no_gate() -> None:
    scene = await begun("follow_up")
    await scene.silence.stop(Scope("all", guild=SERVER + 1))
    await scene.tick(5 * HOUR)
    assert scene.bus.tasks() == ["follow_up"]


@pytest.mark.promise(440)
async def test_quiet_hours_make_no_query_and_no_model_call() -> None:
    scene = Scene(idle_config())
    object.__setattr__(scene.config, "active_start", 13)
    object.__setattr__(scene.config, "active_end", 23)
    await scene.begin()
    await scene.tick(300)
    assert (scene.record.asked, scene.bus.asked) == (0, [])
    assert scene.task("summarise").due == NOON + HOUR
    await scene.tick(HOUR - 300)
    assert scene.bus.tasks() == ["summarise"]


async def test_an_opt_in_is_needed_where_the_owner_wants_it() -> None:
    scene = await begun("follow_up", unprompted="opt_in")
    await scene.tick(3 * HOUR)
    assert (scene.bus.asked, scene.task("follow_up").why) == ([], "nobody has turned on unprompted messages")
    scene.record.agreed[ADA] = True
    await scene.tick(3 * HOUR)
    assert scene.bus.tasks() == ["follow_up"]


@pytest.mark.promise(443)
async def test_after_an_unasked_message_there_is_no_other_before_somebody_writes() -> None:
    scene = await begun("follow_up", "discover")
    scene.record.profile = ProfileNote(user_id=ADA, topics=("bread", "ink"), upto=2**62, at=0.0)
    await scene.ticks(80 * HOUR, every=300)
    assert sorted(scene.bus.tasks()) == ["discover", "follow_up"], "one of each, and 48 hours lie between them"
    assert scene.bus.at[1] - scene.bus.at[0] >= 48 * HOUR
    await scene.ticks(200 * HOUR, every=600)
    assert len(scene.bus.tasks()) == 2


async def test_a_discovery_comes_again_after_an_interval_if_the_owner_says_so() -> None:
    scene = await begun("discover", again_hours=30)
    scene.record.profile = ProfileNote(user_id=ADA, topics=("tall ships",), upto=2**62, at=0.0)
    await scene.ticks(1_000 * HOUR, every=600)
    assert scene.bus.tasks() == ["discover"] * 3, "nobody answered three of them"
    pauses = [later - earlier for earlier, later in itertools.pairwise(scene.bus.at)]
    assert [pause >= hours * HOUR for pause, hours in zip(pauses, (48, 96), strict=True)] == [True, True]
    assert max(pauses) < 110 * HOUR


@pytest.mark.promise(483)
async def test_a_record_that_does_not_show_an_unasked_message_yet_ends_no_cooldown_for_any_agent() -> None:
    scene = await begun("follow_up", agents=("claude", "grok"))
    scene.record.log = lambda agent, entry: None  # type: ignore[method-assign]
    await scene.ticks(12 * HOUR)
    assert scene.bus.tasks() == ["follow_up"]
    assert "unanswered" in scene.task("follow_up", "grok" if scene.bus.speakers() == ["claude"] else "claude").why


@pytest.mark.promise(444)
@pytest.mark.parametrize("failure", ["model_failed", "absent"])
async def test_a_task_that_fails_is_not_hammered(failure: str) -> None:
    scene = await begun("summarise")
    if failure == "absent":
        scene.bus.ask = absent(scene)  # type: ignore[method-assign]
    scene.bus.refuses["summarise"] = failure
    await scene.ticks(24 * HOUR)
    assert 5 <= len(scene.bus.asked) <= 10
    assert scene.record.notes == []


@pytest.mark.promise(480)
async def test_a_summary_that_the_record_refused_is_made_again_and_not_at_every_look() -> None:
    scene = await begun("summarise")
    scene.record.log = lambda agent, entry: None  # type: ignore[method-assign]
    await scene.ticks(1.5 * HOUR)
    assert scene.bus.tasks() == ["summarise", "summarise"]


async def test_what_a_run_failed_at_comes_after_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await begun("summarise")
    scene.bus.refuses["summarise"] = "model_failed"
    ask, skipped = scene.record.to_summarise, list[tuple[int, ...]]()

    async def to_summarise(agent: str, before: float, skip: Collection[int] = ()) -> Candidate | None:
        skipped.append(tuple(skip))
        return None if skip else await ask(agent, before)

    monkeypatch.setattr(scene.record, "to_summarise", to_summarise)
    await scene.ticks(HOUR)
    failed = scene.bus.asked[0][1].reflection.message_id
    assert skipped[:3] == [(), (failed,), ()]
    assert len(scene.bus.asked) > 1, "it is tried again where there is nothing else"


def absent(scene: Scene) -> Callable[..., Any]:
    async def ask(agent: str, instruction: Any, *, absent_grace: float | None = None) -> Result:
        scene.bus.asked.append((agent, instruction))
        raise AgentAbsent("nobody listens")

    return ask


async def test_a_used_up_share_that_only_the_agent_sees_waits_for_midnight() -> None:
    scene = await begun("summarise")
    scene.bus.refuses["summarise"] = "idle_budget"
    await scene.tick(300)
    assert scene.task("summarise").due == NOON + 12 * HOUR


async def test_a_discovery_that_had_nothing_new_to_say_waits_for_a_person() -> None:
    scene = await begun("follow_up")
    scene.bus.refuses["follow_up"] = "not_new"
    await scene.ticks(24 * HOUR, every=300)
    assert len(scene.bus.asked) == 1
    scene.record.ada_writes()
    scene.idle.person_wrote()
    await scene.ticks(3 * HOUR)
    assert len(scene.bus.asked) == 2


async def test_a_discovery_that_found_no_profile_is_made_once_there_is_one() -> None:
    scene = await begun("discover")
    await scene.ticks(12 * HOUR, every=300)
    assert (scene.bus.asked, scene.task("discover").why) == ([], "nobody has written since it last looked")
    scene.record.profile = ProfileNote(user_id=ADA, topics=("tall ships",), upto=1, at=scene.time.now)
    await scene.ticks(5 * HOUR, every=300)
    assert scene.bus.tasks() == ["discover"]


async def test_a_talk_that_is_too_young_for_a_follow_up_is_looked_at_again() -> None:
    scene = await begun("follow_up")
    scene.time.now += 3 * HOUR
    scene.record.ada_writes()  # in the record, but this coordinator did not hear it
    await scene.tick(60)
    assert scene.task("follow_up").why == "no conversation was left hanging"
    await scene.ticks(3 * HOUR)
    assert scene.bus.tasks() == ["follow_up"]


@pytest.mark.promise(442)
async def test_a_restart_goes_on_and_does_not_fire_at_once() -> None:
    scene = await begun("follow_up", "discover")
    await scene.tick(60)
    before = scene.state.coordination.idle.state
    again = await Scene(scene.config, state=scene.state).begin()
    again.time.now = scene.time.now
    assert scene.state.coordination.idle.state == before
    late = await Scene(scene.config, state=scene.state).begin()
    late.idle._board._began = late.time.now = NOON + 9 * HOUR
    await late.tick(299)
    assert late.bus.asked == [], "a person may have written while nobody listened"
    await late.tick(1)
    assert late.bus.tasks() == ["follow_up"]


@pytest.mark.promise(442)
async def test_a_redis_that_came_back_empty_waits_as_after_a_persons_message() -> None:
    scene = await begun("follow_up")
    scene.state.coordination.idle.state = None
    scene.time.now += 9 * HOUR
    await scene.begin()
    await scene.tick(HOUR)
    assert scene.bus.asked == []
    assert HOUR + 300 <= scene.task("follow_up").due - (scene.time.now - HOUR) <= 2 * HOUR + 300


@pytest.mark.promise(442)
async def test_what_an_earlier_leader_asked_for_is_noted_and_not_asked_again() -> None:
    scene = await begun("follow_up")
    scene.bus.hangs = True
    running = asyncio.create_task(scene.tick(3 * HOUR))
    await scene.bus.under_way.wait()
    running.cancel()  # a crash
    _, asked = scene.bus.asked[0]
    await scene.begin()
    await scene.tick(60)
    assert scene.record.notes == []
    result = Result(instruction_id=asked.instruction_id, agent_name="claude", text=NEWS, message_id=77)
    scene.state.coordination.idle.results[asked.instruction_id] = result
    for _ in range(2):
        await scene.tick()
    ((agent, note),) = scene.record.notes
    assert isinstance(note, UnaskedNote)
    assert (agent, note.message_id, note.person_id, note.text) == ("claude", 77, ADA, NEWS)
    assert len(scene.bus.asked) == 1


async def test_a_turn_of_an_earlier_leader_that_never_ends_is_given_up() -> None:
    scene = await begun("summarise")
    scene.bus.hangs = True
    running = asyncio.create_task(scene.tick(300))
    await scene.bus.under_way.wait()
    running.cancel()
    scene.bus.hangs = False
    await scene.begin()
    await scene.tick(TURN_SECONDS)
    assert len(scene.bus.asked) == 1
    await scene.tick(LEFT_SECONDS + 1)
    assert scene.task("summarise").failures == 1
    await scene.tick(HOUR)
    assert len(scene.bus.asked) == 2


@pytest.mark.promise(505)
@pytest.mark.parametrize("restart", [False, True])
async def test_a_clock_that_was_a_year_ahead_and_is_set_back_stops_no_task_for_a_year(restart: bool) -> None:
    scene = await begun("summarise", "follow_up")
    await scene.tick(365 * 24 * HOUR)
    scene.idle.person_wrote()
    await scene.ticks(10 * HOUR)
    scene.time.now = NOON + HOUR
    if restart:
        await scene.begin()
    before = len(scene.bus.asked)
    await scene.ticks(12 * HOUR)
    assert len(scene.bus.asked) == before, "nothing is new"
    assert all(scene.task(task).due < scene.time.now + 12 * HOUR for task in ("summarise", "follow_up"))
    scene.record.ada_writes()
    scene.idle.person_wrote()
    await scene.ticks(HOUR)
    assert scene.bus.tasks()[before:] == ["summarise"]


@pytest.mark.promise(505)
async def test_a_turn_of_an_earlier_leader_whose_clock_was_ahead_is_given_up() -> None:
    scene = await begun("summarise")
    scene.bus.hangs = True
    running = asyncio.create_task(scene.tick(24 * 365 * HOUR))
    await scene.bus.under_way.wait()
    running.cancel()
    scene.bus.hangs, scene.time.now = False, NOON
    await scene.begin()
    await scene.ticks(8 * HOUR)
    assert len(scene.bus.asked) == 2


async def test_who_was_overtaken_asks_for_nothing() -> None:
    scene = await begun("summarise")
    scene.state.coordination.idle.epoch = 9
    await scene.tick(300)
    assert scene.bus.asked == []
    scene.lease.lapsed = True
    asked = scene.record.asked
    await scene.tick(10)
    assert scene.record.asked == asked


@pytest.mark.promise(442)
async def test_while_redis_is_away_nothing_is_asked_and_nothing_is_lost() -> None:
    scene = await begun("summarise")
    scene.state.coordination.idle.away = 1
    with pytest.raises(StateUnavailable):
        await scene.tick(300)
    assert scene.bus.asked == []
    await scene.tick(10)
    assert scene.bus.tasks() == ["summarise"]


async def test_several_agents_take_turns_in_what_one_of_them_can_do() -> None:
    scene = await begun("summarise", agents=("claude", "grok"))
    await scene.tick(300)
    assert scene.bus.speakers() == ["claude"]
    scene.record.ada_writes()
    scene.idle.person_wrote()
    await scene.tick(300)
    assert scene.bus.speakers() == ["claude", "grok"]
