import re
from types import SimpleNamespace

import pytest

from agent_config import load_settings
from agentic.actions.base import REPLY_CHARACTERS
from agentic.actions.explain import BUDGETS, find_turn, why_not, why_text
from agentic.state.budgets import Caps
from agentic.state.conversation_state import ConversationState
from agentic.state.conversations import ScorePart, SpeakerChoice, SpeakerScore
from agentic.state.idle import IdleState, RunningTask, TaskState
from agentic.state.limits import LimitRequest
from agentic.state.rooms import Room, RoomMember
from agentic.state.shared_state import SharedState
from agentic.state.silence import ChannelRef, Scope
from agentic.state.turn_records import KEEP_SECONDS, TurnRecord
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable
from agentic.wire.reasons import REASONS
from tests.support.doubles import Clock, Snowflakes, lone_silence
from tests.support.redis_server import PATIENT, RedisServer

NAMES = {"claude": "Claude", "grok": "Grok"}
SPOKE = TurnRecord(
    id="m5",
    agent="claude",
    kind="mention",
    trigger="mention",
    channel_id=1,
    asked_by=11,
    model="anthropic/one",
    entries=14,
    seconds=3.21,
    input_tokens=2140,
    output_tokens=96,
    cost_usd=0.00042,
    at=1000.0,
)


# why it spoke


def test_it_says_why_the_coordinator_chose_it_and_which_turn_of_a_room_it_was():
    turn = {"trigger": "round", "round_number": 3, "chosen_because": "named by Ada"}
    assert "among the bots. Why this bot: named by Ada." in why_text(SPOKE.model_copy(update=turn), NAMES)
    assert why_text(SPOKE.model_copy(update={**turn, "room_turn": 7}), NAMES).startswith(
        "**Claude** took turn 7 in a room"
    )


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("follow_up", "followed up on a conversation while nobody was writing. Why: Ada was not answered."),
        ("discover", "had news for <@11> while nobody was writing. Why: Ada was not answered."),
    ],
)
def test_of_a_message_that_nobody_asked_for_it_says_why_and_how_to_end_them(task, words):
    turn = {"kind": "reflection", "trigger": task, "asked_by": 11, "chosen_because": "Ada was not answered"}
    text = why_text(SPOKE.model_copy(update=turn), NAMES)
    assert text.startswith(f"**Claude** {words}")
    assert "🔕" in text
    assert "🔕" not in why_text(SPOKE, NAMES)


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        ({"trigger": "mention", "asked_by": 11}, "answered <@11>"),
        ({"trigger": "reactive", "asked_by": 11}, "joined in after another bot answered <@11>"),
        ({"trigger": "reactive", "asked_by": None}, "joined in after another bot answered a person"),
        ({"trigger": "starter"}, "started a conversation among the bots"),
        ({"trigger": "round", "round_number": 3}, "took its turn in round 3 of a conversation among the bots"),
        ({"trigger": "heartbeat"}, "was triggered by: heartbeat"),
        ({"trigger": "@everyone\n**x**" * 500}, "was triggered by: everyone"),
    ],
)
def test_it_says_what_called_it(turn, words):
    text = why_text(SPOKE.model_copy(update=turn), NAMES)
    assert text.startswith(f"**Claude** {words}")
    assert "@everyone" not in text
    assert len(text) <= REPLY_CHARACTERS


def test_it_says_the_model_what_was_read_how_long_it_took_and_what_it_cost():
    assert why_text(SPOKE, NAMES).splitlines()[1:] == [
        "It used anthropic/one, read 14 messages, and took 3.2 s. Cost: $0.0004 for 2,140 tokens in, 96 out."
    ]
    cached = SPOKE.model_copy(update={"cached_tokens": 2000, "entries": 1})
    assert "read 1 message," in why_text(cached, NAMES)
    assert "2,140 tokens in (2,000 of them cached)" in why_text(cached, NAMES)


def test_an_answer_that_was_none_says_its_reason_in_words():
    assert "the model chose to stay silent" in why_text(SPOKE.model_copy(update={"reason": "skipped"}), NAMES)


# why it did not


# what is read for it


@pytest.fixture
async def services():
    """A services over a real Redis, as far as the question needs one."""
    clock = Clock()
    settings = load_settings({"TIMEZONE": "UTC", "AGENT_MAX_DAILY": "3"}, env_file=None)
    caps = Caps(all=5.0, agent=1.0, channel=2.0)
    with RedisServer() as server:
        async with RedisConnection(server.url, command_timeout=PATIENT) as link:
            state = SharedState(link, clock, caps=caps)
            yield SimpleNamespace(
                state=state,
                silence=lone_silence(clock),
                settings=settings,
                agents=SimpleNamespace(names=NAMES),
                clock=clock,
                server=server,
                link=link,
            )


async def asked(services):
    return (await why_not(services, "claude", ChannelRef(1), services.clock())).splitlines()


async def here(services):
    await services.state.coordination.presence.renew("claude", "21")


async def test_in_a_room_without_it_that_is_the_first_reason(services):
    clio = RoomMember(name="historian", shown="Clio")
    room = Room(thread_id=1, channel_id=5, conversation_id="c", topic="tea", members=(clio,)).model_dump_json()
    await services.link.call(lambda redis: redis.set(keys.room(1), room))
    await here(services)
    assert await asked(services) == ["**Claude** is silent here: it isn't a member of this room (/room add adds it)."]


async def test_each_thing_that_keeps_an_agent_silent_is_found(services):
    state, now = services.state, services.clock()
    assert await asked(services) == ["**Claude** is silent here: it's offline."]
    await here(services)
    assert "nobody has mentioned it" in (await asked(services))[0]
    await services.silence.stop(Scope.agent("claude"), 60.0)
    assert "muted, which ends" in (await asked(services))[0]
    await services.silence.resume(Scope.agent("claude"))
    await services.silence.stop(Scope.channel(1), source="x")
    await state.coordination.backoffs.put("claude", now + 300)
    lines = await asked(services)
    assert "the bots are stopped in this channel" in lines[0]
    assert f"tries again <t:{now + 300:.0f}:R>" in lines[2]


async def test_limits_are_found_and_asking_takes_nothing_of_them(services):
    rules = {"cooldown": 30.0, "daily_max": 3, "date": "2026-05-28"}
    assert f"{services.clock():.0f}" == "1780000000"
    await here(services)
    await services.state.limits.take(LimitRequest(agent="claude", channel_id=1, **rules))
    for _ in range(5):
        assert "it just spoke here and can speak again in" in (await asked(services))[0]
    for channel in (2, 3):
        assert await services.state.limits.take(LimitRequest(agent="claude", channel_id=channel, **rules)) == "ok"
    assert "its 3 turns for today are used up" in (await asked(services))[0]


@pytest.mark.parametrize(("spent", "found"), [(0.9, []), (0.96, ["agent"]), (1.9, ["agent", "channel"]), (5, BUDGETS)])
async def test_budgets_that_near_their_end_are_found(services, spent, found):
    date = "2026-05-28"
    taken = {"date": date, "turn_id": "i1", "estimate": 0.0001, "until": services.clock() + 90, "kind": "round"}
    assert await services.state.limits.take(LimitRequest(agent="claude", channel_id=1, **taken)) == "ok"
    await services.state.turns.settle("claude", "i1", "{}", 1e10, date=date, spent={"total_cost": spent})
    assert sorted(await services.state.limits.budgets.used_up("claude", 1, date)) == sorted(found)
    await here(services)
    text = "\n".join(await asked(services))
    assert [budget for budget in BUDGETS if BUDGETS[budget] in text] == list(found)


async def test_where_nothing_stands_against_it_nobody_has_asked(services):
    await here(services)
    assert (await asked(services))[0].endswith(
        "nobody has mentioned it here in the last week, and no conversation is running."
    )
    await services.state.turns.settle("claude", "i1", "{}", 1e10, record=SPOKE)
    (line,) = await asked(services)
    assert re.search(r"nobody has mentioned it since its last turn here \(<t:\d+:R>\)\.$", line)


async def test_the_decisive_reason_comes_first_and_the_others_behind_it(services):
    state, now, date = services.state, services.clock(), "2026-05-28"
    rules = {"agent": "claude", "cooldown": 30.0, "daily_max": 3, "date": date}
    for channel in (1, 2, 3):
        assert await state.limits.take(LimitRequest(channel_id=channel, **rules)) == "ok"
    taken = {"date": date, "turn_id": "i1", "estimate": 0.0001, "until": now + 90, "kind": "round"}
    assert await state.limits.take(LimitRequest(agent="claude", channel_id=9, **taken)) == "ok"
    await state.turns.settle("claude", "i1", "{}", 1e10, date=date, spent={"total_cost": 5})
    await state.turns.settle("claude", "i2", "{}", 1e10, record=SPOKE.model_copy(update={"reason": "skipped"}))
    await services.silence.stop(Scope.agent("claude"), 60.0)
    await services.silence.stop(Scope.channel(1), source="x")
    await state.coordination.backoffs.put("claude", now + 300)
    running = ConversationState("talk", 1, "casual", started_at=0.0).begin_round(("grok", "claude"))
    await state.coordination.schedule.hold_channel(1, "talk", 60)
    await state.coordination.conversations.keep(1, "talk", running.begin_turn("i1").to_json())
    expected = [
        "it's offline",
        "the bots are stopped in this channel",
        "it's muted, which ends <t:",
        "its AI provider is rejecting requests (key or quota), and it tries again <t:",
        *(BUDGETS[budget] for budget in await state.limits.budgets.used_up("claude", 1, date)),
        "its 3 turns for today are used up",
        "it just spoke here and can speak again in ",
        "a conversation is running here (round 1), and it's Grok's turn",
        "in its last turn here (<t:",
    ]
    first, besides, *others = await asked(services)
    assert (first, besides) == (f"**Claude** is silent here: {expected[0]}.", "Also:")
    assert len(others) == len(expected) - 1 > 8
    assert all(found.startswith(f"- {reason}") for found, reason in zip(others, expected[1:], strict=True))


async def test_a_mute_that_is_over_is_none(services):
    await here(services)
    await services.silence.stop(Scope.agent("claude"), 60.0)
    services.clock.now += 61.0
    await here(services)
    assert "nobody has mentioned it" in (await asked(services))[0]


async def test_in_a_conversation_it_says_whose_turn_it_is(services):
    coordination = services.state.coordination
    begun = ConversationState("talk", 1, "casual", started_at=0.0)
    await here(services)
    await coordination.schedule.hold_channel(1, "talk", 60)
    await coordination.conversations.keep(1, "talk", begun.to_json())
    assert "and the next turn hasn't started yet" in (await asked(services))[0]
    state = begun.begin_round(("claude", "grok")).begin_turn("i1")
    await coordination.conversations.keep(1, "talk", state.to_json())
    assert "(round 1), and it's taking its turn right now" in (await asked(services))[0]


async def test_without_caps_no_budget_is_used_up(services):
    assert await SharedState(services.state.link).limits.budgets.used_up("claude", 1, "2026-05-28") == []


async def test_a_conversation_is_found_as_its_coordinator_keeps_it(services):
    state = ConversationState("talk", 1, "casual", started_at=0.0).begin_round(("grok", "claude"))
    await here(services)
    await services.state.coordination.schedule.hold_channel(1, "talk", 60)
    await services.state.coordination.conversations.keep(1, "talk", state.begin_turn("i1").to_json())
    assert "(round 1), and it's Grok's turn" in (await asked(services))[0]
    await services.state.coordination.conversations.keep(1, "talk", "{}")
    assert "nobody" in (await asked(services))[0]


async def test_its_last_turn_is_found(services):
    await here(services)
    await services.state.turns.settle(
        "claude", "i1", "{}", 1e10, record=SPOKE.model_copy(update={"reason": "overtaken"})
    )
    assert REASONS["overtaken"] in (await asked(services))[0]


@pytest.mark.promise(495)
async def test_what_its_idle_tasks_wait_for_comes_last_as_the_coordinator_wrote_it(services):
    await here(services)
    now = services.clock()
    tasks = {
        "summarise:claude": TaskState(why="it's muted"),
        "follow_up:claude": TaskState(due=now + 60, why="it's outside the active hours"),
        "discover:claude": TaskState(due=now + 2400),
        "discover:grok": TaskState(why="its last turn failed"),
    }
    await services.state.coordination.idle.write(IdleState(tasks=tasks), 0)
    first, *others = await asked(services)
    assert "nobody has mentioned it" in first
    waiting = "follow-ups (it's outside the active hours) and discoveries (in 40 minutes at the earliest)"
    assert others == ["Also:", f"- its unprompted messages have to wait: {waiting}"]
    asking = RunningTask(instruction_id="i", agent="claude", task="follow_up", deadline=now, channel_id=1, message_id=1)
    await services.state.coordination.idle.write(IdleState(tasks=tasks, asking=asking), 0)
    assert "follow-ups (running now)" in (await asked(services))[-1]


@pytest.mark.parametrize("tasks", [{}, {"profile:claude": TaskState()}, {"discover:grok": TaskState()}])
async def test_an_agent_that_never_writes_unasked_has_no_line_about_it(services, tasks):
    await here(services)
    await services.state.coordination.idle.write(IdleState(tasks=tasks), 0)
    assert len(await asked(services)) == 1


async def test_a_message_without_a_record_and_one_that_is_too_old_are_said_to_be_unknown(services):
    ids = Snowflakes(services.clock)
    assert await find_turn(services.state, NAMES, ids(), services.clock()) is None
    old = ids()
    services.server.kill()
    assert await find_turn(services.state, NAMES, old, services.clock() + KEEP_SECONDS + 1) is None
    with pytest.raises(StateUnavailable):
        await find_turn(services.state, NAMES, old, services.clock())
    with pytest.raises(StateUnavailable):
        await why_not(services, "claude", ChannelRef(1), services.clock())


# another one was chosen


def choice(**changes):
    grok = SpeakerScore(agent="grok", strength=1.1, parts=(ScorePart(why="named by Ada", amount=1.0),))
    claude = SpeakerScore(
        agent="claude", strength=0.3, parts=(ScorePart(why="hasn't spoken for a while", amount=0.5),), channel=0.6
    )
    pulls = {
        "channel_id": 1,
        "conversation_id": "c",
        "at": 1000.0,
        "chosen": "grok",
        "pulls": (grok, claude),
        **changes,
    }
    return SpeakerChoice(**pulls)


async def test_it_says_with_numbers_why_another_agent_was_asked(services):
    await here(services)
    await services.state.coordination.scores.keep(choice())
    (text,) = await asked(services)
    assert "Grok got the turn with a score of 1.10 (named by Ada 1.00)" in text
    assert "its own score was 0.30 (hasn't spoken for a while 0.50, times 0.60 after silence)" in text


async def test_one_that_could_not_be_asked_has_no_score(services):
    await here(services)
    await services.state.coordination.scores.keep(choice(pulls=choice().pulls[:1]))
    assert "it had just had a turn itself" in (await asked(services))[0]
