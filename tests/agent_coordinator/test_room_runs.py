"""A room that runs: members that fail, the audience, people who write, errors of the program, and many at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent_coordinator.config import RESUME_SECONDS
from agent_coordinator.policies.rounds import MODERATOR_WAIT_SECONDS
from agent_coordinator.room_rules import RETRY_SECONDS
from agent_coordinator.rooms import BUSY_THREAD_SECONDS, STALLED_SECONDS
from agentic.state.conversation_state import ConversationState
from agentic.wire.bus import AgentTimedOut
from agentic.wire.messages import Instruction, PersonNotice
from tests.support.coordinator_doubles import Ids, Voice, skipper, talker, until
from tests.support.room_scene import NAMES, THREAD, RoomScene, converser, wanted


@pytest.fixture
async def scene() -> AsyncIterator[RoomScene]:
    async with RoomScene() as running:
        yield running


def absent(instruction: Instruction) -> None:
    del instruction


def after(turns: int, first: Voice, then: Voice) -> Voice:
    """A voice that changes after so many turns."""
    left = [turns]

    def voice(instruction: Instruction) -> Any:
        left[0] -= 1
        return (first if left[0] >= 0 else then)(instruction)

    return voice


@pytest.mark.promise(152)
async def test_a_model_that_fails_is_skipped_and_leaves_after_three_times_in_a_row() -> None:
    async with RoomScene(grok=skipper("grok", "model_failed")) as scene:
        await scene.open(turns=7)
        await scene.talk()
    assert [member.name for member in scene.room.left] == ["grok"]
    assert (scene.room.why, scene.room.turn_number) == ("turn_limit", 7)
    assert scene.bus.speakers().count("grok") == 3
    assert scene.numbers == [1, 2, 2, 3, 4, 4, 5, 6, 6, 7], "a turn that failed has used no number"


@pytest.mark.promise(152)
async def test_an_agent_that_starts_again_has_some_seconds_between_two_attempts() -> None:
    async with RoomScene(grok=after(2, absent, converser("grok", Ids()))) as scene:
        await scene.open(turns=8)
        await scene.talk()
    assert scene.room.left == ()
    assert scene.time.slept.count(RETRY_SECONDS) == 2


async def test_a_room_whose_lock_is_lost_during_a_turn_continues_after_its_pause(scene: RoomScene) -> None:
    """As in a Redis that was emptied."""
    await scene.die()
    await scene.lead(turn_delay_min=5.0, turn_delay_max=5.0)
    speak, keep = scene.bus.voices["grok"], scene.state.coordination.conversations.keep
    stores = 0

    def lose_lock(instruction: Instruction) -> Any:
        scene.state.coordination.schedule.holders.clear()
        return speak(instruction)

    async def count_stores(*state: Any) -> bool:
        nonlocal stores
        stores += 1
        assert stores < 100, "it tries again and again"
        return await keep(*state)

    scene.bus.voices["grok"], scene.state.coordination.conversations.keep = lose_lock, count_stores
    await scene.open(turns=6)
    await scene.talk()
    assert (scene.room.turn_number, scene.numbers) == (6, [1, 2, 3, 4, 5, 6])


async def test_a_room_without_answers_closes_when_fewer_than_two_are_left() -> None:
    async with RoomScene(**dict.fromkeys(NAMES, lambda _: AgentTimedOut("no result"))) as scene:
        await scene.open()
        await scene.talk()
    assert (scene.room.why, scene.room.turn_number) == ("too_few_left", 0)


@pytest.mark.promise(277)
async def test_a_room_waits_while_the_program_of_all_its_members_is_down() -> None:
    voices = {name: after(5, absent, converser(name, Ids())) for name in NAMES}
    async with RoomScene(**voices) as scene:
        await scene.open(turns=6)
        await scene.talk()
    assert (scene.room.why, scene.room.turn_number, scene.room.names) == ("turn_limit", 6, NAMES)
    assert scene.time.slept.count(RETRY_SECONDS) >= 5 * len(NAMES) - 1


async def test_a_room_in_which_nobody_has_anything_to_say_closes() -> None:
    async with RoomScene(**{name: skipper(name) for name in NAMES}) as scene:
        await scene.open()
        await scene.talk()
    assert scene.room.why == "most_skipped"
    assert len(scene.bus.asked) == 2 * len(NAMES)
    assert scene.room.skips == 2 * len(NAMES)


async def test_a_muted_member_stays() -> None:
    async with RoomScene(grok=skipper("grok", "muted")) as scene:
        await scene.open(turns=9)
        await scene.talk()
    assert scene.room.names == NAMES


async def test_a_member_leaves_by_its_decision_and_its_last_word_counts() -> None:
    async with RoomScene(claude=talker("claude", leaves=True)) as scene:
        await scene.open(turns=4)
        await scene.talk()
    assert scene.bus.speakers() == ["claude", "grok", "historian", "grok"]
    assert scene.numbers == [1, 2, 3, 4]


@pytest.mark.parametrize(("wants", "why", "turns"), [(True, "goodbye", 8), (False, "turn_limit", 12)])
async def test_a_mere_goodbye_ends_only_a_room_that_wants_it(wants: bool, why: str, turns: int) -> None:
    async with RoomScene(grok=talker("grok", text="Goodbye!")) as scene:
        await scene.open(goodbye_ends=wants, turns=12)
        await scene.talk()
    assert (scene.room.why, scene.room.turn_number) == (why, turns)


async def test_two_requests_for_the_end_in_a_row_close_the_room() -> None:
    voices = {
        name: talker(name, text=f"{name} has said it all", end_conversation=True) for name in ("grok", "historian")
    }
    async with RoomScene(**voices) as scene:
        await scene.open(turns=20)
        await scene.talk()
    assert (scene.room.why, scene.room.turn_number) == ("agreed", 6), "each has spoken twice"


@pytest.mark.promise(152)
@pytest.mark.parametrize(
    ("reason", "status", "why"), [("budget", "closed", "budget"), ("not_permitted", "paused", "no_access")]
)
async def test_what_concerns_all_members_loses_none(reason: str, status: str, why: str) -> None:
    async with RoomScene(grok=skipper("grok", reason)) as scene:
        await scene.open()
        await scene.talk()
    assert (scene.room.status, scene.room.why, scene.room.names) == (status, why, NAMES)


async def test_a_slot_is_waited_out_and_known_from_its_begin_to_its_end(scene: RoomScene) -> None:
    await scene.open(turns=6, audience_seconds=45.0)
    scene.free = True
    scene.let_one_speak()
    await until(lambda: scene.room.status == "closed")
    before, during, after_it = [room for room in scene.state.coordination.rooms.changes if room.turn_number == 3]
    assert (before.slot_until, during.slot_until, after_it.slot_until) == (None, during.changed_at + 45, None)
    assert after_it.changed_at == during.slot_until
    votes = [room for room in scene.state.coordination.rooms.changes if room.turn_number == 6 and room.slot_until]
    assert [(room.slot_until, room.closing_because) for room in votes] == [(votes[0].changed_at + 45, "turn_limit")]
    assert (scene.room.changed_at, scene.room.why) == (votes[0].slot_until, "turn_limit"), "the last slot is for votes"


@pytest.mark.parametrize(("poll", "slots"), [(True, [60.0]), (False, [])])
async def test_a_room_with_polls_has_time_to_vote_at_its_end(poll: bool, slots: list[float]) -> None:
    async with RoomScene() as scene:
        await scene.open(turns=3, format="debate", poll=poll)
        await scene.talk()
        votes = [room for room in scene.state.coordination.rooms.changes if room.slot_until]
        assert [room.slot_until - room.changed_at for room in votes] == slots
        assert all(room.closing_because == "turn_limit" and room.turn_number == 3 for room in votes)
        assert (scene.room.status, scene.room.why) == ("closed", "turn_limit")


async def test_a_message_of_a_person_is_the_next_turns_subject_and_does_not_shorten_the_slot(scene: RoomScene) -> None:
    scene.time.held = True
    await scene.open(turns=6, audience_seconds=45.0)
    scene.free = True
    scene.let_one_speak()
    await until(lambda: THREAD in scene.state.coordination.rooms.kept and scene.room.slot_until is not None)
    scene.hear(PersonNotice(channel_id=THREAD, message_id=77, text="And milk?"))
    scene.hear(PersonNotice(channel_id=THREAD, message_id=78, text="Or lemon?"))
    await until(
        lambda: (
            len(ConversationState.from_json(scene.state.coordination.conversations.states[THREAD][1]).talk.heard) == 2
        )
    )
    assert len(scene.bus.asked) == 3
    assert scene.room.slot_until is not None
    assert await scene.give("room-next") == "requested"
    await until(lambda: len(scene.bus.asked) > 3)
    assert [asked.take_up for _, asked in scene.bus.asked[:4]] == [None, None, None, 78]


async def test_a_room_that_was_paused_in_a_slot_speaks_when_it_is_resumed(scene: RoomScene) -> None:
    scene.time.held = True
    await scene.open(turns=6, audience_seconds=45.0)
    scene.free = True
    scene.let_one_speak()
    await until(lambda: scene.room.slot_until is not None)
    await scene.give("room-pause")
    await until(lambda: not scene.coordinator.engine.locks.busy)
    assert scene.room.slot_until is None
    await scene.give("room-resume")
    await until(lambda: len(scene.bus.asked) > 3)


async def test_people_moderate_by_naming_the_next_and_a_room_that_waits_for_them_too_long_pauses(
    scene: RoomScene,
) -> None:
    scene.time.held = True
    await scene.open(policy="moderated", turns=3)
    scene.free = True
    scene.let_one_speak()
    await until(lambda: len(scene.bus.asked) == 1 and scene.time.waiting)
    assert await scene.give("room-next", agent="historian") == "requested"
    await until(lambda: len(scene.bus.asked) == 2 and scene.time.waiting)
    scene.time.let_go()
    await until(lambda: scene.room.status == "paused")
    assert (scene.room.why, scene.bus.speakers()) == ("nobody_named", ["claude", "historian"])


async def test_each_wait_for_a_person_who_moderates_is_as_long_as_the_first(scene: RoomScene) -> None:
    scene.time.held = True
    await scene.open(policy="moderated")
    scene.free = True
    scene.let_one_speak()
    await until(lambda: len(scene.bus.asked) == 1 and scene.time.waiting)
    scene.time.now += MODERATOR_WAIT_SECONDS - 1
    await scene.give("room-next", agent="historian")
    await until(lambda: len(scene.bus.asked) == 2 and scene.time.waiting)
    begun = scene.time.now
    scene.time.let_go()
    await until(lambda: scene.room.status == "paused")
    assert scene.room.changed_at >= begun + MODERATOR_WAIT_SECONDS


@pytest.mark.promise(153)
async def test_a_room_whose_conversation_dies_goes_on_after_a_minute(scene: RoomScene, caplog: Any) -> None:
    keep, broken = scene.state.coordination.conversations.keep, []

    async def fail_once(*args: Any) -> bool:
        if scene.bus.asked and not broken:
            broken.append(scene.time.now)
            raise RuntimeError("a bug")
        return await keep(*args)

    scene.state.coordination.conversations.keep = fail_once  # type: ignore[method-assign]
    await scene.open()
    await scene.talk()
    assert (scene.room.why, scene.room.turn_number) == ("turn_limit", 4)
    assert "stalled for 60 s; resuming it" in caplog.text
    assert "a bug" in caplog.text
    assert STALLED_SECONDS in scene.time.slept
    assert len({asked.instruction_id for _, asked in scene.bus.asked}) == 4, "the turn under way is asked for again"


@pytest.mark.promise(153)
async def test_a_room_whose_thread_was_taken_goes_on_after_a_minute(scene: RoomScene, caplog: Any) -> None:
    scene.time.held = True
    await scene.open()
    await until(lambda: scene.bus.asked)
    scene.state.coordination.schedule.holders[THREAD] = "another"
    scene.let_one_speak()
    await until(lambda: not scene.coordinator.engine.locks.busy)
    assert scene.room.status == "active"
    del scene.state.coordination.schedule.holders[THREAD]
    scene.time.let_go()
    await scene.talk()
    assert (scene.room.why, scene.room.turn_number) == ("turn_limit", 4)
    assert len({asked.instruction_id for _, asked in scene.bus.asked}) == 4
    assert "stalled for 60 s; resuming it" in caplog.text


@pytest.mark.promise(153)
async def test_a_stalled_room_whose_thread_another_conversation_has_goes_on_after_that(scene: RoomScene) -> None:
    scene.time.held = True
    await scene.open()
    await until(lambda: scene.bus.asked)
    scene.state.coordination.schedule.holders[THREAD] = "another"
    scene.let_one_speak()
    await until(lambda: not scene.coordinator.engine.locks.busy)
    del scene.state.coordination.schedule.holders[THREAD]
    async with scene.coordinator.engine.locks.hold(THREAD, "another"):
        scene.time.let_go()
        await until(lambda: scene.time.slept.count(BUSY_THREAD_SECONDS) > 1)
    await scene.talk()
    assert (scene.room.why, scene.room.turn_number) == ("turn_limit", 4)


@pytest.mark.promise(150)
async def test_a_leader_goes_on_with_every_active_room_however_old(scene: RoomScene) -> None:
    await scene.open()
    await scene.speak(2)
    await scene.die()
    scene.time.now += 30 * RESUME_SECONDS
    await scene.lead()
    await scene.talk()
    assert scene.numbers == [1, 2, 3, 3, 4]
    assert len({asked.instruction_id for _, asked in scene.bus.asked}) == 4


async def test_a_leader_that_resumes_nothing_closes_the_rooms(scene: RoomScene) -> None:
    await scene.open()
    await scene.speak(1)
    await scene.die()
    await scene.lead(resumes=False)
    await until(lambda: scene.room.status == "closed")
    assert scene.room.why == "too_old"
    assert scene.state.coordination.conversations.states == {}


async def test_a_leader_leaves_paused_and_closed_rooms_alone(scene: RoomScene) -> None:
    await scene.open()
    await scene.talk()
    await scene.die()
    before = list(scene.state.coordination.rooms.changes)
    await scene.lead()
    assert scene.coordinator.engine.locks.busy == frozenset()
    assert scene.state.coordination.rooms.changes == before


async def test_forty_rooms_run_side_by_side() -> None:
    async with RoomScene() as scene:
        scene.free = True
        for thread in range(THREAD, THREAD + 40):
            order = wanted(thread_id=thread, conversation_id=f"c{thread}", turns=5)
            assert await scene.give("room-open", thread=thread, room=order.model_dump_json()) == "opened"
        await until(
            lambda: all(room.status == "closed" for room in scene.state.coordination.rooms.kept.values()), 20_000
        )
    assert {room.turn_number for room in scene.state.coordination.rooms.kept.values()} == {5}
