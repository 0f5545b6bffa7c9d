"""Rooms as people open, pause, resume, change and close them, and what comes of each order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentic.state.rooms import DEFAULT_TURNS, MAX_MEMBERS, RoomMember
from agentic.state.silence import EVERYTHING, Scope
from agentic.wire.entries import ConversationNote, RoomNote
from tests.support.coordinator_doubles import CHANNEL, until
from tests.support.room_scene import NAMES, THREAD, RoomScene, member, wanted


@pytest.fixture
async def scene() -> AsyncIterator[RoomScene]:
    async with RoomScene() as running:
        yield running


async def test_a_room_speaks_in_its_order_to_its_limit_and_closes(scene: RoomScene) -> None:
    assert await scene.open() == "opened"
    await scene.talk()
    assert scene.bus.speakers() == ["claude", "grok", "historian", "claude"]
    assert scene.numbers == [1, 2, 3, 4]
    assert (scene.room.status, scene.room.why, scene.room.turn_number) == ("closed", "turn_limit", 4)
    assert [asked.room.closing for _, asked in scene.bus.asked] == [False, False, False, True]
    assert scene.state.coordination.conversations.states == {}
    assert scene.state.coordination.schedule.holders == {}


async def test_the_hour_does_not_matter_and_the_thread_need_not_be_a_channel_of_the_coordinator(
    scene: RoomScene,
) -> None:
    scene.time.now += 12 * 3600  # midnight
    assert await scene.open() == "opened"


@pytest.mark.promise(155)
async def test_the_same_order_twice_opens_one_room(scene: RoomScene) -> None:
    outcomes = await asyncio.gather(scene.open(), scene.open())
    assert [*outcomes, await scene.open(topic="coffee")] == ["opened"] * 3
    assert await scene.open(topic="coffee", conversation_id="another order") == "exists"
    await scene.talk()
    assert scene.numbers == [1, 2, 3, 4]
    assert scene.room.topic == "tea"


async def test_an_opener_does_not_say_how_the_room_stands(scene: RoomScene) -> None:
    await scene.open(status="closed", turn_number=7, left=(member("poet"),), turns=9_999)
    assert (scene.room.status, scene.room.turn_number, scene.room.left, scene.room.turns) == ("active", 0, (), 200)


@pytest.mark.parametrize(
    ("order", "outcome"),
    [
        ({"room": "no JSON"}, "incomplete"),
        ({}, "incomplete"),
        ({"room": wanted(conversation_id="").model_dump_json()}, "incomplete"),
        ({"room": wanted(thread_id=1).model_dump_json()}, "incomplete"),
        ({"room": wanted(channel_id=2**62).model_dump_json()}, "incomplete"),
        ({"room": wanted(members=(member("grok"),)).model_dump_json()}, "too_few_members"),
        ({"room": wanted(members=[member(str(n)) for n in range(MAX_MEMBERS + 1)]).model_dump_json()}, "full"),
    ],
)
async def test_what_cannot_be_a_room_is_refused(scene: RoomScene, order: dict[str, str], outcome: str) -> None:
    assert await scene.give("room-open", **order) == outcome
    assert scene.state.coordination.rooms.kept == {}


async def test_a_resume_while_the_room_is_just_ending_waits_for_its_end(
    scene: RoomScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, ending, may_end = scene.state.coordination.schedule.release_channel, asyncio.Event(), asyncio.Event()

    async def slowly(*hold: Any) -> None:
        ending.set()
        await may_end.wait()
        await release(*hold)

    monkeypatch.setattr(scene.state.coordination.schedule, "release_channel", slowly)
    await scene.open()
    await scene.speak(4)
    await until(ending.is_set)
    scene.time.held = True
    resumed = asyncio.create_task(scene.give("room-resume"))
    await until(lambda: scene.time.waiting or resumed.done())
    may_end.set()
    scene.time.let_go()
    assert await resumed == "room_resumed"
    assert (scene.room.status, scene.room.turns) == ("active", 4 + DEFAULT_TURNS)


@pytest.mark.promise(154)
@pytest.mark.parametrize(
    ("stopped", "outcome"),
    [(Scope.channel(THREAD), "stopped"), (Scope.channel(CHANNEL), "stopped"), (EVERYTHING, "paused")],
)
async def test_a_stop_of_the_thread_its_channel_or_all_bots_is_obeyed(
    scene: RoomScene, stopped: Scope, outcome: str
) -> None:
    await scene.silence.stop(stopped, source="m1")
    assert await scene.open() == outcome
    await scene.silence.resume(stopped)
    assert await scene.open() == "opened"
    await scene.silence.stop(stopped, source="m2")
    await scene.speak()
    await until(lambda: scene.room.status == "paused" and not scene.coordinator.engine.locks.busy)
    assert scene.room.why == "stopped"
    assert await scene.give("room-resume") == outcome
    await scene.silence.resume(stopped)
    assert scene.room.status == "paused", "a resume of the channel is none of the room"
    assert await scene.give("room-resume") == "room_resumed"


@pytest.mark.promise(155)
async def test_a_pause_waits_for_the_turn_under_way_which_still_counts(scene: RoomScene) -> None:
    await scene.open()
    await scene.speak(1)
    assert await scene.give("room-pause", reason="asked") == "room_paused"
    assert (scene.room.status, scene.room.turn_number) == ("paused", 1), "an agent that has not begun drops its turn"
    await scene.speak(1)
    await until(lambda: not scene.coordinator.engine.locks.busy)
    assert (scene.room.status, scene.room.why, scene.room.turn_number) == ("paused", "paused", 2)
    assert await scene.give("room-pause", reason="asked") == "already_paused"
    assert await scene.give("room-resume") == "room_resumed"
    await scene.talk()
    assert scene.numbers == [1, 2, 3, 4]
    assert scene.bus.speakers() == ["claude", "grok", "historian", "claude"], "it goes on in its order"


async def test_a_room_that_is_resumed_before_its_last_turn_is_over_just_goes_on(scene: RoomScene) -> None:
    await scene.open()
    await until(lambda: scene.bus.asked)
    await scene.give("room-pause")
    assert await scene.give("room-resume", turns=1) == "room_resumed"
    await scene.talk()
    assert scene.numbers == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("reason", "why"),
    [("asked", "paused"), ("archived", "archived"), ("locked", "locked"), ("no_access", "no_access"), ("?", "paused")],
)
async def test_a_pause_has_its_cause(scene: RoomScene, reason: str, why: str) -> None:
    await scene.open()
    assert await scene.give("room-pause", reason=reason) == "room_paused"
    assert (scene.room.status, scene.room.why) == ("paused", why)


@pytest.mark.parametrize("closed", [False, True])
async def test_a_room_whose_thread_is_gone_is_never_resumed(scene: RoomScene, closed: bool) -> None:
    await scene.open()
    if closed:
        await scene.talk()
    assert await scene.give("room-pause", reason="deleted") == "room_paused"
    await scene.talk()
    assert (scene.room.status, scene.room.why) == ("paused", "deleted")
    for command in ("room-resume", "room-close", "room-next"):
        assert await scene.give(command, turns=5) == "no_room"
    assert (scene.room.status, scene.room.why) == ("paused", "deleted")


async def test_a_room_that_runs_is_not_resumed_but_gets_the_turns_it_is_given(scene: RoomScene) -> None:
    await scene.open(audience_seconds=60)
    assert await scene.give("room-resume") == "already_active"
    await scene.speak(2)
    scene.time.held = True
    scene.let_one_speak()
    await until(lambda: scene.room.slot_until is not None)
    assert await scene.give("room-resume") == "already_active"
    assert await scene.give("room-resume", turns=2) == "room_extended"
    assert (scene.room.turns, scene.room.slot_until is not None) == (6, True), "people keep their time"
    scene.time.let_go()
    await scene.talk()
    assert scene.numbers == [1, 2, 3, 4, 5, 6]


@pytest.mark.promise(625)
async def test_turns_that_a_room_gets_while_people_vote_come_before_its_end(scene: RoomScene) -> None:
    await scene.open(audience_seconds=60, turns=3)
    await scene.speak(2)
    scene.time.held = True
    scene.let_one_speak()
    await until(lambda: scene.room.closing_because is not None and scene.room.slot_until is not None)
    assert await scene.give("room-resume", turns=2) == "room_extended"
    assert scene.room.closing_because is None
    scene.time.let_go()
    await scene.talk()
    assert (scene.numbers, scene.room.why) == ([1, 2, 3, 4, 5], "turn_limit")


@pytest.mark.parametrize(("more", "limit"), [(None, 24), (3, 7), (9_999, 204)])
async def test_a_closed_room_is_resumed_with_more_turns(scene: RoomScene, more: int | None, limit: int) -> None:
    await scene.open()
    await scene.talk()
    assert await scene.give("room-resume", turns=more) == "room_resumed"
    assert (scene.room.status, scene.room.why, scene.room.turns) == ("active", None, limit)
    await scene.speak(2)
    assert scene.numbers[:6] == [1, 2, 3, 4, 5, 6]
    assert not scene.bus.asked[4][1].is_conversation_starter


async def test_a_member_that_is_added_again_gets_its_persona_s_new_name(scene: RoomScene) -> None:
    await scene.open(members=(member("claude"), member("grok").model_copy(update={"side": "for"})))
    await scene.speak(2)
    renamed = RoomMember(name="grok", shown="Grouch", interests=("tea",))
    assert await scene.give("room-add", member=renamed.model_dump_json()) == "already_member"
    await scene.talk()
    assert [(each.shown, each.side, each.interests) for each in scene.room.members][1:] == [("Grouch", "for", ("tea",))]
    assert scene.room.member("grok").turns_taken == 2  # type: ignore[union-attr]


async def test_a_room_with_one_member_is_not_resumed_before_another_joins(scene: RoomScene) -> None:
    await scene.open(members=(member("claude"), member("grok")))
    assert await scene.give("room-remove", agent="grok") == "removed_member"
    await scene.talk()
    assert scene.room.why == "too_few_left"
    assert await scene.give("room-resume") == "too_few_members"
    assert await scene.give("room-add", member=member("poet").model_dump_json()) == "added_member"
    assert await scene.give("room-resume") == "room_resumed"
    await scene.talk()
    assert scene.bus.speakers() == ["claude", "poet", "claude", "poet"]


async def test_a_room_is_closed_by_a_person(scene: RoomScene) -> None:
    await scene.open()
    assert await scene.give("room-close") == "room_closed"
    await scene.talk()
    assert (scene.room.status, scene.room.why, scene.room.turn_number) == ("closed", "closed", 1)
    assert await scene.give("room-close") == "already_closed"
    await scene.give("room-resume")
    await scene.give("room-pause")
    await scene.talk()
    assert await scene.give("room-close") == "room_closed"
    assert scene.room.status == "closed"


@pytest.mark.promise(155)
async def test_members_join_and_leave_while_the_room_speaks(scene: RoomScene) -> None:
    await scene.open(turns=6)
    assert await scene.give("room-add", member=member("poet").model_dump_json()) == "added_member"
    assert await scene.give("room-remove", agent="grok") == "removed_member"
    await scene.talk()
    assert scene.bus.speakers() == ["claude", "historian", "poet", "claude", "historian", "poet"]
    assert [each.name for each in scene.room.left] == ["grok"]


@pytest.mark.promise(155)
@pytest.mark.parametrize(
    ("command", "fields", "outcome"),
    [
        ("room-add", {"member": member("grok").model_dump_json()}, "already_member"),
        ("room-add", {"member": "{}"}, "incomplete"),
        ("room-add", {}, "incomplete"),
        ("room-remove", {"agent": "poet"}, "no_member"),
        ("room-remove", {}, "incomplete"),
        ("room-next", {"agent": "poet"}, "no_member"),
        *[(f"room-{name}", {"thread": 1}, "no_room") for name in ("pause", "resume", "next", "close", "add", "remove")],
        ("room-pause", {"thread": None}, "no_room"),
    ],
)
async def test_an_order_that_cannot_be_carried_out_says_why(
    scene: RoomScene, command: str, fields: dict[str, Any], outcome: str
) -> None:
    await scene.open()
    before = scene.room
    assert await scene.give(command, **fields) == outcome
    assert scene.room == before


async def test_a_full_room_takes_nobody(scene: RoomScene) -> None:
    await scene.open(members=[member(str(number)) for number in range(MAX_MEMBERS)])
    assert await scene.give("room-add", member=member("poet").model_dump_json()) == "full"


async def test_a_person_says_who_speaks_next(scene: RoomScene) -> None:
    await scene.open(turns=3)
    assert await scene.give("room-next", agent="historian") == "requested"
    await scene.talk()
    assert scene.bus.speakers() == ["claude", "historian", "grok"]
    assert scene.bus.asked[1][1].requested
    assert await scene.give("room-next", agent="historian") == "not_active"


async def test_a_bot_that_is_offline_does_not_speak_next_but_a_persona_has_no_heartbeat(scene: RoomScene) -> None:
    await scene.open()
    scene.state.coordination.presence.arriving.clear()
    assert await scene.give("room-next", agent="grok") == "offline"
    assert await scene.give("room-next", agent="historian") == "requested"


async def test_a_request_for_a_member_that_leaves_is_dropped(scene: RoomScene) -> None:
    await scene.open(turns=3)
    await scene.give("room-next", agent="historian")
    await scene.give("room-remove", agent="historian")
    await scene.talk()
    assert scene.bus.speakers() == ["claude", "grok", "claude"]


async def test_the_record_has_each_change_and_one_conversation_for_the_rooms_whole_life(scene: RoomScene) -> None:
    await scene.open()
    await scene.speak(2)
    await scene.give("room-pause")
    await scene.talk()
    await scene.give("room-resume")
    await scene.talk()
    rooms, talks = scene.notes(RoomNote), scene.notes(ConversationNote)
    assert [note.turn_number for note in rooms if note.status == "active"] == [0, 1, 2, 3, 4]
    assert [(note.status, note.why) for note in rooms if note.status != "active"][-1] == ("closed", "turn_limit")
    assert rooms[0].members == NAMES
    assert {(note.id, note.policy) for note in talks} == {("c", "round-robin")}
    assert [(note.ended_because, note.messages) for note in talks] == [(None, 0), ("paused", 3), ("turn_limit", 4)]
    assert (talks[-1].starter, talks[-1].topic) == ("claude", "tea")


async def test_a_member_whose_persona_was_deleted_is_gone_when_the_room_is_resumed(scene: RoomScene) -> None:
    await scene.open()
    await scene.give("room-pause", reason="asked")
    await scene.speak(1)
    await until(lambda: not scene.coordinator.engine.locks.busy)
    assert await scene.give("room-resume", gone=("grok", "nobody")) == "room_resumed"
    assert scene.room.names == ("claude", "historian")
    assert [(line.kind, line.members, line.why) for line in scene.room.lines] == [("left", ("Grok",), "deleted")]


async def test_a_room_with_too_few_personas_left_stays_paused_without_them(scene: RoomScene) -> None:
    await scene.open()
    await scene.give("room-pause", reason="asked")
    await scene.speak(1)
    await until(lambda: not scene.coordinator.engine.locks.busy)
    assert await scene.give("room-resume", gone=("grok", "claude")) == "too_few_members"
    assert (scene.room.status, scene.room.names) == ("paused", ("historian",))
    assert len(scene.room.lines) == 2


async def test_a_member_that_a_person_calls_has_the_next_turn_once(scene: RoomScene) -> None:
    await scene.open(turns=5)
    await until(lambda: scene.bus.asked)
    scene.person_writes(77, names=("historian",), called=("historian",), calls=True)
    for _ in range(2):  # the bot says so too, perhaps twice
        assert await scene.give("room-next", agent="historian", message_id=77) == "requested"
    await scene.talk()
    assert scene.bus.speakers() == ["claude", "historian", "grok", "historian", "claude"]
    assert [asked.take_up for _, asked in scene.bus.asked] == [None, 77, None, None, None]


async def test_members_that_a_person_calls_together_speak_one_after_the_other(scene: RoomScene) -> None:
    await scene.open(turns=4)
    await until(lambda: scene.bus.asked)
    scene.person_writes(77, names=("historian", "claude"), called=("historian", "claude"), calls=True)
    await scene.give("room-next", agent="claude", message_id=77)
    await scene.talk()
    assert scene.bus.speakers()[:3] == ["claude", "historian", "claude"]


async def test_a_call_of_a_bot_that_is_no_member_changes_no_turn(scene: RoomScene) -> None:
    await scene.open(turns=3)
    await until(lambda: scene.bus.asked)
    scene.person_writes(77, names=("poet",), called=("poet",), calls=True)
    assert await scene.give("room-next", agent="poet", message_id=77) == "no_member"
    await scene.talk()
    assert scene.bus.speakers() == ["claude", "grok", "historian"]
    assert [asked.take_up for _, asked in scene.bus.asked] == [None, None, None]
