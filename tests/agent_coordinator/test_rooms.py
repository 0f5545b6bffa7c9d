"""The transitions of a room, as tables: numbers, members who leave, slots, ends."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from agent_coordinator.audience import end_slot, slot_is_due, speaking_next
from agent_coordinator.conversation import RunningConversation, instruction_for
from agent_coordinator.policies.rounds import RoundRobin
from agent_coordinator.room_rules import (
    FAILURES,
    REMOVED,
    RETRY_SECONDS,
    after_turn,
    brief_for,
    conversation_of,
    ending,
    is_goodbye,
    resumed,
    retry_pause,
    waiting,
    with_member,
    without_member,
)
from agentic.state.conversation_state import MAX_ROOM_HISTORY, ConversationState, Missed
from agentic.state.rooms import MAX_FAILURES, MAX_MEMBERS, Room, RoomMember
from agentic.wire.messages import Result, TurnUsage
from tests.support.coordinator_doubles import changed

MEMBERS = tuple(RoomMember(name=name, shown=name.title()) for name in ("claude", "grok", "historian"))
ROOM = Room(thread_id=5, channel_id=1, conversation_id="c", topic="tea", members=MEMBERS, turns=4, opened_at=9.0)


def with_turns(*turns: int) -> tuple[RoomMember, ...]:
    """The members, after so many turns each."""
    counts = turns * len(MEMBERS) if len(turns) == 1 else turns
    return tuple(each.model_copy(update={"turns_taken": taken}) for each, taken in zip(MEMBERS, counts, strict=True))


def begun(**changes: Any) -> ConversationState:
    room = ROOM.model_copy(update=changes)
    return conversation_of(room).begin_round(room.names)


def turn(state: ConversationState, agent: str, outcome: Missed | None = None, **fields: Any) -> ConversationState:
    """Record a turn as the engine does."""
    assert state.room is not None
    if outcome is not None:
        return after_turn(state.miss_turn(agent, outcome), state.room, agent, outcome)
    result = Result(instruction_id="i", agent_name=agent, **fields)
    return after_turn(state.take_turn(agent, result), state.room, agent, result)


def room_of(state: ConversationState) -> Room:
    assert state.room is not None
    return state.room


def test_only_posts_have_numbers_and_they_count_up_without_a_gap() -> None:
    state, numbers = begun(), []
    for fields in (
        {"text": "one"},
        {"skipped": True, "reason": "skipped"},
        {"emoji_reacted": "🔥"},
        {"skipped": True, "reason": "model_failed"},
        {"image_url": "https://cdn/x.png"},
    ):
        state = turn(state, "claude", **fields)
        numbers.append(room_of(state).turn_number)
    state = turn(state, "grok", "timed_out")
    state = turn(state, "grok", text="three")
    assert [*numbers, room_of(state).turn_number] == [1, 1, 1, 1, 2, 3]
    assert brief_for(room_of(state), "grok").turn_number == 4


def test_the_room_has_the_sums_of_its_whole_life() -> None:
    usage = TurnUsage(cost_usd=0.25)
    state = turn(begun(skips=3, cost_usd=1.0), "claude", text="one", usage=usage)
    state = turn(state, "grok", skipped=True, reason="skipped", usage=usage)
    room = room_of(state)
    assert (room.skips, room.cost_usd, room.rounds, room.last_speaker) == (4, 1.5, 1, "claude")


def test_an_instruction_says_which_post_it_asks_for_and_where() -> None:
    room = ROOM.model_copy(update={"turn_number": 3, "rules": "Be brief.", "policy": "moderated", "moderator": "grok"})
    state = conversation_of(room).begin_round(("grok", "claude")).begin_turn("i")
    instruction = instruction_for(state)
    assert (instruction.channel_id, instruction.topic, instruction.is_conversation_starter) == (5, "tea", False)
    brief = instruction.room
    assert brief is not None
    assert (brief.turn_number, brief.turns, brief.policy, brief.rules) == (4, 4, "moderated", "Be brief.")
    assert (brief.members, brief.names_next, brief.closing) == (("Claude", "Grok", "Historian"), True, True)
    assert not brief_for(room, "claude").names_next


def test_a_room_is_opened_by_its_first_turn_only() -> None:
    opening = instruction_for(begun().begin_turn("i"))
    assert opening.is_conversation_starter
    assert opening.room is not None
    assert (opening.room.turn_number, opening.room.closing) == (1, False)


ITS_FAULT = ("agent_budget", "daily_limit", "model_failed", "refused", "unreadable", "deadline", "discord_failed")


@pytest.mark.parametrize("reason", sorted({*ITS_FAULT, *FAILURES}))
def test_a_member_leaves_after_three_failures_in_a_row(reason: str) -> None:
    state = begun()
    for _ in range(MAX_FAILURES):
        assert "grok" in room_of(state).names
        state = turn(state, "grok", skipped=True, reason=reason)
    assert room_of(state).names == ("claude", "historian")
    assert [member.name for member in room_of(state).left] == ["grok"]
    assert "grok" not in state.queue.pending


def test_the_order_continues_after_a_member_that_left() -> None:
    state, order = begun(), RoundRobin(("claude", "historian"), 9, 0, 0)
    for _ in range(MAX_FAILURES):
        state = turn(state, "grok", skipped=True, reason="model_failed")
    assert state.queue.last_in_order == "claude"
    assert order.choose(state, random.Random()).speakers == ("historian", "claude")


def test_nobody_speaks_twice_in_a_row_because_the_last_in_order_was_silent() -> None:
    order = RoundRobin(("claude", "grok", "historian"), 9, 0, 0)
    state = turn(turn(begun(), "historian", text="one"), "grok", skipped=True, reason="model_failed")
    assert order.choose(state, random.Random()).speakers == ("claude", "grok", "historian")


@pytest.mark.parametrize("missed", ["absent", "timed_out"])
def test_an_agent_that_does_not_answer_has_failed(missed: Missed) -> None:
    state = begun()
    for _ in range(MAX_FAILURES):
        state = turn(state, "grok", missed)
    assert room_of(state).names == ("claude", "historian")


@pytest.mark.promise(277)
@pytest.mark.parametrize("fields", [{"outcome": "absent"}, {"skipped": True, "reason": "benched"}])
def test_a_room_whose_members_are_all_absent_waits_for_them(fields: dict[str, Any]) -> None:
    state = begun()
    for agent in ("claude", "grok", "historian") * (MAX_FAILURES + 2):
        state = turn(state, agent, **fields)
        assert (room_of(state).status, room_of(state).names) == ("active", ("claude", "grok", "historian"))
    assert (ending(state, room_of(state)), retry_pause(state)) == (None, RETRY_SECONDS)
    assert ConversationState.from_json(state.to_json()) == state
    for _ in range(MAX_FAILURES - 1):
        state = turn(turn(state, "claude", text="I am back."), "grok", "absent")
    assert room_of(state).names == ("claude", "historian"), "the others came back without it"


@pytest.mark.parametrize("fields", [{"text": "Back."}, {"skipped": True, "reason": "skipped"}])
def test_failures_are_counted_from_the_last_turn_that_worked(fields: dict[str, Any]) -> None:
    state = begun()
    for _ in range(MAX_FAILURES - 1):
        state = turn(state, "grok", "timed_out")
    state = turn(turn(state, "grok", **fields), "grok", "timed_out")
    member = room_of(state).member("grok")
    assert member is not None
    assert member.failures == 1


@pytest.mark.parametrize("reason", ["skipped", "overtaken", "muted", "interrupted", "out_of_turn"])
def test_a_turn_that_fails_for_no_fault_of_its_model_is_a_skip(reason: str) -> None:
    state = begun()
    for _ in range(MAX_FAILURES + 1):
        state = turn(state, "grok", skipped=True, reason=reason)
    assert room_of(state).names == ("claude", "grok", "historian")


def test_a_member_leaves_with_its_last_word() -> None:
    state = turn(begun(), "grok", text="I have said what I had to.", leaves=True)
    assert (room_of(state).names, room_of(state).turn_number) == (("claude", "historian"), 1)


@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("budget", "closed", "budget"),
        ("person_budget", "closed", "person_budget"),
        ("stopped", "paused", "stopped"),
        ("not_permitted", "paused", "no_access"),
    ],
)
def test_what_concerns_all_members_ends_the_room_and_is_no_failure(reason: str, status: str, why: str) -> None:
    state = turn(begun(), "grok", skipped=True, reason=reason)
    room = room_of(state)
    assert (state.ended_because, room.status, room.why) == (why, status, why)
    assert room.member("grok") == MEMBERS[1]


UNSEEN = {"skipped": True, "reason": "unknown_channel"}


@pytest.mark.promise(276)
def test_a_room_pauses_when_two_agents_in_a_row_do_not_see_its_thread() -> None:
    state = turn(begun(), "claude", **UNSEEN)
    assert (room_of(state).status, retry_pause(state)) == ("active", RETRY_SECONDS)
    state = turn(state, "grok", **UNSEEN)
    assert (state.ended_because, room_of(state).status, room_of(state).why) == ("no_access", "paused", "no_access")


@pytest.mark.promise(276)
@pytest.mark.parametrize("between", [{"text": "I see it."}, {"skipped": True, "reason": "skipped"}])
def test_a_thread_that_another_agent_sees_is_left_by_the_one_that_does_not(between: dict[str, Any]) -> None:
    state = begun()
    for _ in range(MAX_FAILURES):
        state = turn(turn(state, "claude", **UNSEEN), "grok", **between)
    assert (room_of(state).status, room_of(state).names) == ("active", ("grok", "historian"))


def test_a_room_that_is_resumed_may_miss_its_thread_once_again() -> None:
    state = turn(turn(begun(), "claude", **UNSEEN), "grok", **UNSEEN)
    state = turn(replace(resumed(state, 9), ended_because=None), "claude", **UNSEEN)
    assert room_of(state).status == "active"


def test_the_last_turn_that_can_be_paid_counts_and_closes_the_room() -> None:
    state = turn(begun(), "grok", text="To sum up:", reason="budget")
    assert (room_of(state).turn_number, room_of(state).status, state.ended_because) == (1, "closed", "budget")


@pytest.mark.parametrize(
    ("changes", "state_changes", "why"),
    [
        ({}, {}, None),
        ({"turn_number": 3}, {}, None),
        ({"turn_number": 4}, {}, "turn_limit"),
        ({"turn_number": 9}, {}, "turn_limit"),
        ({"members": MEMBERS[:1]}, {}, "too_few_left"),
        ({"members": MEMBERS[:2]}, {}, None),
        ({}, {"end_streak": 1}, None),
        ({}, {"end_streak": 2}, None),
        ({"members": with_turns(2)}, {"end_streak": 2}, "agreed"),
        ({"members": with_turns(2, 1, 2)}, {"end_streak": 9}, None),
        ({}, {"idle_turns": 5}, None),
        ({}, {"idle_turns": 6}, "most_skipped"),
    ],
)
def test_the_ends_of_a_room(changes: dict[str, Any], state_changes: dict[str, Any], why: str | None) -> None:
    state = changed(begun(**changes), **state_changes)
    assert ending(state, room_of(state)) == why


@pytest.mark.parametrize("text", ["Goodbye", "goodbye.", " GOODBYE!!! 👋", "**Good-bye**", "good bye…"])
def test_a_mere_goodbye_in_any_spelling_ends_a_room_that_wants_it(text: str) -> None:
    assert is_goodbye(text)
    fair = {"members": with_turns(2, 1, 2)}
    assert turn(begun(goodbye_ends=True, **fair), "grok", text=text).ended_because == "goodbye"
    assert turn(begun(goodbye_ends=True), "grok", text=text).ended_because is None, "not everybody has spoken twice"
    assert turn(begun(**fair), "grok", text=text).ended_because is None


@pytest.mark.parametrize("text", ["Goodbye, Claude", "", "A goodbye", "👋", "bye"])
def test_other_words_are_no_goodbye(text: str) -> None:
    assert not is_goodbye(text)


def test_a_member_that_is_removed_while_its_turn_is_under_way_is_still_recorded() -> None:
    state = begun().begin_turn("i")
    state = without_member(without_member(state, "claude", REMOVED), "grok", REMOVED)
    assert (state.queue.pending, room_of(state).names) == (("claude", "historian"), ("historian",))
    state = turn(state, "claude", text="one")
    assert (room_of(state).turn_number, state.queue.pending) == (1, ("historian",))


def test_a_member_that_left_may_join_again_as_the_last_one() -> None:
    state = with_member(without_member(begun(), "claude", REMOVED), MEMBERS[0])
    assert (room_of(state).names, room_of(state).left) == (("grok", "historian", "claude"), ())
    assert with_member(state, MEMBERS[0]) == state


def test_a_room_has_at_most_so_many_members_also_where_two_are_added_at_once() -> None:
    state = begun()
    for number in range(MAX_MEMBERS):
        state = with_member(state, RoomMember(name=f"persona-{number}", shown=f"P{number}"))
    assert len(room_of(state).members) == MAX_MEMBERS


def test_a_slot_comes_after_as_many_posts_as_there_are_members() -> None:
    room, due = ROOM.model_copy(update={"audience_seconds": 30.0}), []
    for number in range(1, 8):
        room = room.model_copy(update={"turn_number": number})
        if slot_is_due(room):
            due.append(number)
            state = conversation_of(room).with_room(slot_until=100.0)
            assert slot_is_due(room_of(state)), "until it is over"
            room = room_of(end_slot(state))
    assert due == [3, 6]
    assert room.slot_until is None
    assert not slot_is_due(ROOM.model_copy(update={"turn_number": 30}))


def test_json_brings_a_room_back_and_a_state_of_an_earlier_version_has_none() -> None:
    state = turn(begun(), "claude", text="one", message_id=7)
    assert ConversationState.from_json(state.to_json()) == state
    plain = json.loads(replace(state, room=None).to_json())
    del plain["room"], plain["policy"], plain["counts"]["idle_turns"]
    old = ConversationState.from_json(json.dumps(plain))
    assert (old.room, old.policy, old.talk.history) == (None, "rounds", state.talk.history)


def test_a_state_keeps_the_newest_messages_of_a_room_only() -> None:
    state = begun(turns=200)
    for number in range(MAX_ROOM_HISTORY + 5):
        state = turn(state, "claude", text=f"{number}")
    assert [said.text for said in state.talk.history] == [str(number) for number in range(5, MAX_ROOM_HISTORY + 5)]
    plain = replace(state, room=None)
    for _ in range(3):
        plain = plain.take_turn("claude", Result(instruction_id="i", agent_name="claude", text="more"))
    assert len(plain.talk.history) == MAX_ROOM_HISTORY + 3


async def test_what_a_person_changes_during_a_step_is_made_on_its_outcome_too_and_once() -> None:
    running = RunningConversation(begun().begin_turn("i"))
    asked = running.state
    running.change(partial(without_member, agent="historian", why=REMOVED))
    running.change(partial(speaking_next, agent="grok"))
    after = running.become(turn(asked, "claude", text="one"))
    assert (room_of(after).names, room_of(after).turn_number, after.queue.requested) == (("claude", "grok"), 1, "grok")
    running.state = running.state.grant_request()
    assert running.become(running.state.begin_turn("j")).queue.requested is None


def lines(state: ConversationState) -> list[tuple[str, tuple[str, ...], str]]:
    return [(line.kind, line.members, line.why) for line in room_of(state).lines]


def test_a_member_that_fails_is_said_once_and_once_more_when_it_leaves() -> None:
    state = begun()
    for _ in range(MAX_FAILURES):
        state = turn(turn(state, "grok", skipped=True, reason="model_failed"), "claude", text="one")
    assert lines(state) == [("failed", ("Grok",), "model_failed"), ("left", ("Grok",), "model_failed")]


def test_a_member_that_fails_now_and_then_is_said_once() -> None:
    state = begun()
    for _ in range(4):
        state = turn(turn(state, "grok", "timed_out"), "grok", text="one")
    assert lines(state) == [("failed", ("Grok",), "timed_out")]
    state = turn(resumed(state, 9), "grok", "timed_out")
    assert len(lines(state)) == 2, "a room that is resumed begins anew"


def test_a_room_that_is_resumed_says_again_that_it_waits_for_a_name() -> None:
    state = waiting(waiting(begun(policy="moderated")))
    assert [kind for kind, *_ in lines(state)] == ["waits"]
    state = waiting(resumed(state.ended("nobody_named"), 4))
    assert [kind for kind, *_ in lines(state)] == ["waits", "waits"]


def test_one_absence_is_nothing_to_tell_since_all_may_be_restarting() -> None:
    state = turn(turn(turn(begun(), "claude", "absent"), "grok", "absent"), "historian", "absent")
    assert lines(state) == []
    state = turn(turn(begun(), "claude", "absent"), "grok", text="one")
    assert lines(turn(state, "claude", "absent")) == [("failed", ("Claude",), "absent")]


def test_a_thread_that_one_member_does_not_see_for_a_moment_is_nothing_to_tell() -> None:
    state = turn(begun(), "claude", skipped=True, reason="unknown_channel")
    assert lines(state) == []
    state = turn(turn(state, "grok", text="one"), "claude", skipped=True, reason="unknown_channel")
    assert lines(state) == [("failed", ("Claude",), "unknown_channel")]


def test_a_member_that_leaves_by_itself_or_is_removed_is_said() -> None:
    state = turn(begun(), "claude", text="I am off.", leaves=True)
    assert lines(without_member(state, "grok", REMOVED)) == [
        ("left", ("Claude",), "chose"),
        ("left", ("Grok",), REMOVED),
    ]


async def test_a_removal_during_a_turn_and_a_failure_of_that_turn_are_two_lines() -> None:
    running = RunningConversation(begun().begin_turn("i"))
    asked = running.state
    running.change(partial(without_member, agent="historian", why=REMOVED))
    said = room_of(running.state).lines
    after = running.become(turn(asked, "claude", skipped=True, reason="model_failed"))
    assert [line.number for line in room_of(after).lines] == [1, 2]
    assert room_of(after).lines[:1] == said, "what was posted keeps its number"
    assert {line.kind for line in room_of(after).lines} == {"left", "failed"}


def test_a_conversation_that_was_stored_with_its_channels_theme_has_its_rooms() -> None:
    stored = json.loads(begun().to_json())
    stored["theme"] = "memes"
    del stored["room"]["theme"]
    assert ConversationState.from_json(json.dumps(stored)).theme == "debate"
    stored["room"]["theme"] = "science"
    assert ConversationState.from_json(json.dumps(stored)).theme == "science"
