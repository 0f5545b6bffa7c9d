"""What waits for its turn: how long it may, and what becomes of it when the program ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentic.agent.events import CronEvent, HookEvent
from agentic.automation.webhook_server import WebhookPayload
from agentic.chat.outlet import NO_CHANNEL
from tests.support.agent_scene import LOUNGE, MEMES, Scene
from tests.support.doubles import ALICE, BOB, GUILD, LoopTime, settle


def job(name: str, channel_id: int = LOUNGE, *, now: float = 0.0) -> CronEvent:
    return CronEvent(
        id=f"cron:{name}:1",
        channel_id=channel_id,
        theme="casual",
        deadline=now + 60,
        seconds=60.0,
        job=name,
        instruction=f"Do {name}.",
    )


async def restarted(scene: Scene) -> Scene:
    """The program after its end, with the same Redis."""
    await scene.cog.host.drain()
    await scene.aclose()
    scene.state.crash()
    later = Scene(state=scene.state)
    later.clock.now = scene.clock.now
    return await later.start()


async def held(scene: Scene, **more: int) -> asyncio.Event:
    """A turn is under way in the lounge and does not end before the event is set."""
    go_on = asyncio.Event()
    scene.answers(go_on.wait)
    await scene.ask("first", **more)
    return go_on


async def ended(scene: Scene, go_on: asyncio.Event) -> None:
    """The program is told to stop, and what runs ends."""
    scene.cog.host.stop_listening()
    go_on.set()
    await settle()


@pytest.mark.promise(114)
async def test_an_errands_time_begins_with_its_turn() -> None:
    scene = await Scene().start()
    go_on = await held(scene)
    for name in ("one", "two"):
        assert scene.cog.host.queue.enqueue(job(name, now=scene.clock.now))
    scene.clock.now += 600
    go_on.set()
    await settle()
    assert [record.reason for record in scene.state.recorded if record.kind == "cron"] == [None, None]
    assert scene.texts()[-2:] == ["Hello.", "Hello."]
    await scene.aclose()


async def test_a_turn_that_was_begun_has_no_second_time() -> None:
    event = job("one", now=100.0).begun(1000.0)
    assert (event.deadline, event.begun(2000.0).deadline) == (1060.0, 1060.0)


@pytest.mark.promise(114)
async def test_errands_without_a_channel_do_not_wait_for_each_other() -> None:
    scene = await Scene(env={"MAX_CONCURRENT_TURNS": "4"}).start()
    go_on = asyncio.Event()
    scene.answers(go_on.wait)
    assert scene.cog.host.queue.enqueue(job("slow", NO_CHANNEL, now=scene.clock.now))
    await settle()
    assert scene.cog.host.queue.enqueue(job("quick", NO_CHANNEL, now=scene.clock.now))
    await settle()
    assert [record.id for record in scene.state.recorded] == ["cron:quick:1"]
    go_on.set()
    await settle()
    assert [record.id for record in scene.state.recorded] == ["cron:quick:1", "cron:slow:1"]
    await scene.aclose()


@pytest.mark.promise(45)
async def test_what_nobody_asked_for_leaves_people_their_share_of_the_days_turns() -> None:
    scene = await Scene(env={"AGENT_MAX_DAILY": "4"}).start()
    for n in range(6):
        assert scene.cog.host.queue.enqueue(job(f"job{n}", now=scene.clock.now))
    await settle()
    assert await scene.instruct("i1") is not None
    reasons = [record.reason for record in scene.state.recorded]
    assert reasons == [None, None, None, *4 * ["daily_limit"]]
    await scene.ask()
    await scene.ask("and again?")
    assert [record.reason for record in scene.state.recorded[-2:]] == [None, "daily_limit"]
    await scene.aclose()


@pytest.mark.promise(45)
@pytest.mark.parametrize(
    ("most", "unasked", "taken"), [("4", "0", 0), ("4", "1", 1), ("4", "9", 4), ("1", "", 1), ("0", "", 0)]
)
async def test_how_many_turns_nobody_needs_to_ask_for_is_the_owners_choice(most: str, unasked: str, taken: int) -> None:
    scene = await Scene(env={"AGENT_MAX_DAILY": most, "AGENT_MAX_DAILY_UNASKED": unasked}).start()
    for n in range(5):
        assert scene.cog.host.queue.enqueue(job(f"job{n}", now=scene.clock.now))
    await settle()
    assert [record.reason for record in scene.state.recorded].count(None) == taken
    await scene.aclose()


@pytest.mark.promise(45)
async def test_what_people_bring_about_is_theirs_in_every_way(tmp_path: Path) -> None:
    (tmp_path / "claude").mkdir()
    (tmp_path / "claude" / "agents.md").write_text("## Hooks\n### agent_stop\n\nNote it.\n")
    env = {"AGENT_MAX_DAILY": "8", "AGENT_MAX_DAILY_UNASKED": "0", "PERSONAS_DIR": str(tmp_path)}
    scene = await Scene(env=env).start()
    asked = await scene.ask()
    await scene.instruct("i1", trigger_message_id=asked)
    assert [(record.kind, record.reason) for record in scene.state.recorded][:3] == [
        ("mention", None),
        ("hook", None),
        ("instruction", None),
    ]
    await scene.aclose()


@pytest.mark.promise(113)
async def test_mentions_that_waited_when_the_program_ended_are_answered_by_the_next_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    scene = await Scene().start()
    go_on = await held(scene)
    asked = [await scene.ask(f"question {n}", author=author) for n, author in enumerate((ALICE, BOB, 13, 14, 15))]
    await ended(scene, go_on)
    scene.clock.now += 300
    later = await restarted(scene)
    await later.cog.host.catch_up.resume_open_turns()
    await settle()
    assert {record.asked_message_id for record in later.state.recorded} >= set(asked), "also beyond three of a channel"
    assert len(later.texts()) == len(asked)
    assert "saved waiting events for the next start: 5 message" in caplog.text
    await later.aclose()


async def test_a_mention_that_is_too_old_for_an_answer_is_named(caplog: pytest.LogCaptureFixture) -> None:
    scene = await Scene(env={"MENTION_CATCHUP_SECONDS": "0"}).start()
    go_on = await held(scene)
    asked = await scene.ask("second")
    await ended(scene, go_on)
    later = await restarted(scene)
    await later.cog.host.catch_up.resume_open_turns()
    await settle()
    assert later.texts() == []
    assert f"claude: dropped the waiting message m{asked}: it is older" in caplog.text
    await later.aclose()


@pytest.mark.promise(113)
async def test_news_that_were_taken_outlive_the_end_of_the_program() -> None:
    scene = await Scene().start()
    go_on = await held(scene, channel=MEMES)
    for n in range(3):
        assert (
            await scene.cog.host.automation.receive(
                f"event-{n}", WebhookPayload(channel_id=MEMES, name="build", text=f"red {n}")
            )
            == "taken"
        )
    await ended(scene, go_on)
    assert len(scene.cog.asked) == 1
    later = await restarted(scene)
    await later.cog.host.catch_up.resume_open_turns()
    await settle()
    assert ["red" in prompt.text for prompt, _ in later.cog.asked] == [True, True, True]
    assert len(later.texts(MEMES)) == 3
    await later.cog.host.catch_up.resume_open_turns()
    await settle()
    assert len(later.cog.asked) == 3, "and are told once"
    await later.aclose()


@pytest.mark.promise(113)
async def test_news_that_were_taken_outlive_a_crash() -> None:
    scene = await Scene().start()
    await held(scene, channel=MEMES)
    assert (
        await scene.cog.host.automation.receive("event-1", WebhookPayload(channel_id=MEMES, name="build", text="red"))
        == "taken"
    )
    scene.state.crash()
    later = await Scene(state=scene.state).start()
    await later.cog.host.catch_up.resume_open_turns()
    await settle()
    assert [record.kind for record in later.state.recorded].count("webhook") == 1
    await later.aclose()
    await scene.aclose()


async def test_news_for_which_there_is_no_room_are_not_kept() -> None:
    scene = await Scene(env={"MAX_QUEUE_DEPTH": "0"}).start()
    go_on = await held(scene, channel=MEMES)
    news = WebhookPayload(channel_id=MEMES, name="build", text="red")
    assert await scene.cog.host.automation.receive("event-1", news) == "full"
    assert await scene.state.turns.known("claude", ["event-1"]) == set()
    go_on.set()
    await settle()
    assert await scene.cog.host.automation.receive("event-1", news) == "taken"
    await scene.aclose()


@pytest.mark.promise(89)
async def test_while_redis_is_unavailable_people_are_answered_and_scheduled_turns_wait() -> None:
    scene, time = await Scene().start(), LoopTime()
    scene.answers({"text": "You asked."}, {"text": "One."}, {"text": "Two."})
    scene.state.away = True
    assert await scene.instruct() is None
    assert scene.cog.host.queue.enqueue(job("plan", now=scene.clock.now))
    await time.run(1)
    await scene.ask()
    await time.run(1)
    assert scene.texts() == ["You asked."]
    scene.state.away = False
    await time.run(1)
    assert scene.texts() == ["You asked.", "One.", "Two."]
    assert [result.instruction_id for result in scene.results] == ["i1"]
    await scene.aclose()


@pytest.mark.promise(113)
async def test_an_instruction_that_waited_is_left_to_the_coordinator(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    scene = await Scene().start()
    go_on = await held(scene)
    assert await scene.instruct("i1") is None
    await ended(scene, go_on)
    later = await restarted(scene)
    await later.cog.host.catch_up.resume_open_turns()
    await settle()
    assert later.texts() == []
    assert (await later.instruct("i1")) is not None, "it is asked again, and has its turn"
    assert "saved waiting events for the next start: 1 instruction" in caplog.text
    await later.aclose()


@pytest.mark.promise(113)
async def test_what_cannot_be_kept_is_named(caplog: pytest.LogCaptureFixture) -> None:
    scene = await Scene().start()
    go_on = await held(scene)
    plain = {"channel_id": LOUNGE, "theme": "casual", "deadline": scene.clock.now + 60}
    assert scene.cog.host.queue.enqueue(HookEvent(id="startup-1", hook="startup", instruction="Hello.", **plain))
    assert scene.cog.host.queue.enqueue(job("plan", now=scene.clock.now))
    await ended(scene, go_on)
    scene.state.away = True
    await scene.cog.host.drain()
    scene.state.away = False
    assert "claude: dropped the waiting hook startup-1: it can't outlive this run" in caplog.text
    assert "claude: dropped the waiting cron cron:plan:1: Redis is unavailable" in caplog.text
    await scene.aclose()


@pytest.mark.promise(111)
async def test_clocks_and_the_door_are_the_first_to_stop(tmp_path: Path) -> None:
    (tmp_path / "claude").mkdir()
    (tmp_path / "claude" / "heartbeat.md").write_text("## Build\n- interval: 60\n- channel: lounge\n\nLook.\n")
    scene = await Scene(env={"PERSONAS_DIR": str(tmp_path)}).start()
    clocks = scene.cog.host.automation._clock
    await clocks.tick()
    scene.clock.now += 61
    scene.cog.host.stop_listening()
    before = dict(scene.state.turns.last_runs.times)
    await clocks.tick()
    assert scene.state.turns.last_runs.times == before, "what is due in the drain stays due"
    assert (
        await scene.cog.host.automation.receive("event-1", WebhookPayload(channel_id=LOUNGE, name="build", text="red"))
        == "standby"
    )
    await scene.aclose()


@pytest.mark.promise(115)
async def test_news_wait_for_a_server_that_is_on_its_way_and_are_not_refused_for_good() -> None:
    scene = await Scene().start()
    lounge = scene.client.channels.pop(LOUNGE)
    scene.client.guild.unavailable = True
    waiting = asyncio.create_task(
        scene.cog.host.automation.receive("event-1", WebhookPayload(channel_id=LOUNGE, name="build", text="red"))
    )
    await settle()
    assert not waiting.done()
    scene.client.channels[LOUNGE], scene.client.guild.unavailable = lounge, False
    await scene.cog.on_guild_available(scene.client.guild)
    assert await waiting == "taken"
    await settle()
    assert scene.texts() == ["Hello."]
    await scene.aclose()


@pytest.mark.promise(115)
async def test_news_for_a_server_that_does_not_come_may_be_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentic.services.discord.service.GUILD_WAIT", 0.0)
    scene = await Scene().start()
    del scene.client.channels[LOUNGE]
    scene.client.guild.unavailable = True
    news = WebhookPayload(channel_id=LOUNGE, name="build", text="red")
    assert await scene.cog.host.automation.receive("event-1", news) == "standby"
    scene.client.guild.unavailable = False
    assert await scene.cog.host.automation.receive("event-1", news) == "no_channel"
    await scene.aclose()


@pytest.mark.promise(115)
async def test_whoever_waits_for_a_server_is_not_content_with_another_one() -> None:
    scene = await Scene().start()
    lounge = scene.client.channels.pop(LOUNGE)
    other = both_on_their_way(scene)
    finding = asyncio.create_task(scene.cog.channels.outlet_in_scope(LOUNGE))
    await settle()
    other.unavailable = False
    await scene.cog.on_guild_available(other)
    await settle()
    assert not finding.done()
    scene.client.channels[LOUNGE], scene.client.guild.unavailable = lounge, False
    await scene.cog.on_guild_available(scene.client.guild)
    assert (await finding).view.channel_id == LOUNGE
    await scene.aclose()


def both_on_their_way(scene: Scene) -> object:
    """Both servers of the bot are on their way; the other one."""
    other = type(scene.client.guild)(scene.me)
    other.id = GUILD + 1
    scene.client.guild.unavailable = other.unavailable = True
    scene.client.guilds.append(other)
    return other


@pytest.mark.promise(115)
async def test_the_startup_hook_waits_for_its_channels_server(tmp_path: Path) -> None:
    (tmp_path / "claude").mkdir()
    (tmp_path / "claude" / "agents.md").write_text("## Hooks\n### startup\n- channel: lounge\n\nSay hello.\n")
    scene = await Scene(env={"PERSONAS_DIR": str(tmp_path)}).start()
    lounge = scene.client.channels.pop(LOUNGE)
    scene.client.guild.unavailable = True
    slept = asyncio.Event()

    async def sleep(_: float) -> None:
        slept.set()
        await asyncio.sleep(0)

    scene.cog.host.automation._sleep = sleep
    run = asyncio.create_task(scene.cog.host.run_automation())
    await slept.wait()
    await settle()
    assert scene.cog.asked == []
    scene.client.channels[LOUNGE], scene.client.guild.unavailable = lounge, False
    await settle()
    assert scene.texts() == ["Hello."]
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    await scene.aclose()
