"""What people write in a room's thread: what gets an answer, from whom, and what binds nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from agent_coordinator.audience import PHASE_SECONDS, RESTART_SECONDS, hearing, in_room, withdrawn
from agent_coordinator.room_rules import conversation_of, without_member
from agentic.state.conversation_state import MAX_TO_ANSWER, ConversationState
from agentic.state.rooms import Room
from agentic.state.talk import MAX_HEARD_IN_ROOM, PersonMessage
from agentic.wire.messages import Command, Result, RoomOrder
from tests.support.coordinator_doubles import skipper, until
from tests.support.room_scene import NAMES, THREAD, RoomScene, wanted


@pytest.fixture
async def scene() -> AsyncIterator[RoomScene]:
    async with RoomScene() as running:
        yield running


def asked(scene: RoomScene) -> list[tuple[str, tuple[int, ...]]]:
    """Who was asked, and which messages each turn had to answer."""
    return [(who, each.questions or ((each.take_up,) if each.take_up else ())) for who, each in scene.bus.asked]


def heard(scene: RoomScene) -> list[int]:
    state = ConversationState.from_json(scene.state.coordination.conversations.states[THREAD][1])
    return [message.message_id for message in state.talk.heard]


async def test_heckling_takes_no_turn_and_each_question_takes_one(scene: RoomScene) -> None:
    heckles = ["hi", "lol", "And milk?", "pizza", "Claude, why do you say so", "hahaha", "first!", "nice one", "wow"]
    await scene.open(turns=len(heckles))
    for number, text in enumerate(heckles, 900):
        await until(lambda: THREAD in scene.state.coordination.rooms.kept)
        scene.person_writes(number, text)
        await until(lambda: len(scene.coordinator._tasks) == 1)
        await scene.speak()
    assert [taken for _, taken in asked(scene) if taken] == [(902,), (904,)]
    assert next(who for who, taken in asked(scene) if taken == (904,)) == "claude"


@pytest.mark.promise(589)
async def test_a_slot_collects_all_questions_and_each_is_answered_by_whom_it_is_for(scene: RoomScene) -> None:
    scene.time.held = True
    await scene.open(turns=9, audience_seconds=45.0)
    scene.free = True
    scene.let_one_speak()
    await until(lambda: scene.room.slot_until is not None)
    said = ["And milk?", "lol", "Historian, since when?", "Or lemon?", "Grok is wrong.", "Historian, why not before?"]
    for number, text in enumerate(said, 900):
        scene.person_writes(number, text)
    await until(lambda: 905 in heard(scene))
    scene.free = False
    assert await scene.give("room-next") == "requested"
    await scene.speak(2)
    await until(lambda: len(scene.bus.asked) == 6)
    assert asked(scene)[3:6] == [("historian", (900, 902, 903, 905)), ("claude", ()), ("grok", (904,))]
    (line,) = [line for line in scene.room.lines if line.kind == "slot"]
    assert (line.why, line.members) == ("5", ("Historian",)), "who was called is next"


async def test_if_a_slot_ended_while_the_program_was_down_people_get_time_again(scene: RoomScene) -> None:
    scene.time.held = scene.free = True
    await scene.open(turns=9, audience_seconds=45.0)
    scene.let_one_speak()
    await until(lambda: scene.room.slot_until is not None)
    await scene.die()
    scene.time.now += 100.0
    await scene.lead()
    scene.person_writes(900, "And milk?")
    await until(lambda: 900 in heard(scene))
    assert scene.room.slot_until == scene.time.now + RESTART_SECONDS
    assert not [line for line in scene.room.lines if line.kind == "slot"]


async def test_a_message_to_which_people_react_gets_an_answer_later(scene: RoomScene) -> None:
    await scene.open()
    scene.person_writes(900, "Tea is a soup.")
    await until(lambda: len(scene.coordinator._tasks) == 1)
    await scene.speak()
    await until(lambda: len(scene.bus.asked) == 2)
    scene.person_writes(900, "Tea is a soup.", asks=True)
    scene.person_writes(901, "lol")
    await until(lambda: len(scene.coordinator._tasks) == 1)
    await scene.speak(2)
    assert [taken for _, taken in asked(scene)][:4] == [(), (), (900,), ()]


@pytest.mark.promise(590)
async def test_what_is_asked_while_a_room_is_paused_is_answered_when_it_goes_on(scene: RoomScene) -> None:
    await scene.open(turns=8)
    await scene.speak()
    await scene.give("room-pause")
    scene.let_one_speak()
    await until(lambda: scene.room.status == "paused" and not scene.coordinator.engine.locks.busy)
    for number, text in ((900, "And milk?"), (901, "lol"), (902, "Historian, since when?")):
        scene.person_writes(number, text)
    scene.person_writes(903, "And you?", calls=True, called=("grok",))  # its bot answers right away
    await until(lambda: not scene.coordinator._tasks)
    before = len(scene.bus.asked)
    assert "milk" not in scene.state.coordination.conversations.states[THREAD][1], "people's words stay in the thread"
    await scene.die()
    await scene.lead()
    assert scene.room.status == "paused"
    await scene.give("room-resume")
    await scene.speak(2)
    assert asked(scene)[before] == ("historian", (900, 902))
    assert all(not taken for _, taken in asked(scene)[before + 1 :])


@pytest.mark.parametrize("end", ["room-close", "room-pause", "both"])
@pytest.mark.promise(604)
async def test_what_a_room_has_answered_stays_answered_when_it_is_resumed(scene: RoomScene, end: str) -> None:
    await scene.open(turns=20)
    scene.person_writes(900, "And milk?")
    await until(lambda: len(scene.coordinator._tasks) == 1)
    await scene.speak(2)
    scene.person_writes(901, "Or lemon?")  # too late for the turn under way
    await until(lambda: len(scene.coordinator._tasks) == 1)
    for order in ("room-pause", "room-close") if end == "both" else (end,):
        await scene.give(order)
        scene.let_one_speak()
        await until(lambda: scene.room.status != "active" and not scene.coordinator.engine.locks.busy)
    assert "lemon" not in scene.state.coordination.conversations.states[THREAD][1], "people's words stay in the thread"
    assert await scene.state.coordination.conversations.read(THREAD) is None, "no conversation runs"
    await scene.die()
    await scene.lead()
    await scene.give("room-resume")
    for number, text in ((900, "And milk?"), (901, "Or lemon?")):  # the bots read the thread again
        scene.person_writes(number, text)
    await until(lambda: len(scene.coordinator._tasks) <= 2)
    await scene.speak(3)
    assert [taken for _, taken in asked(scene) if taken] == [(900,), (901,)]


async def test_votes_come_before_a_goodbye_closes_the_room() -> None:
    def goodbye(instruction: Any) -> Result:
        return Result(instruction_id=instruction.instruction_id, agent_name="claude", text="Goodbye.", message_id=7)

    async with RoomScene(**dict.fromkeys(NAMES, goodbye)) as scene:
        await scene.open(turns=40, goodbye_ends=True, audience_seconds=30.0)
        await scene.talk()
        rooms = scene.state.coordination.rooms.changes
        votes = [room for room in rooms if room.closing_because == "goodbye" and room.slot_until is not None]
        assert votes
        assert (scene.room.why, scene.room.changed_at) == ("goodbye", votes[0].slot_until)


async def test_people_are_not_asked_to_vote_if_nobody_posted() -> None:
    voices = {name: skipper(name, "person_budget") for name in NAMES}
    async with RoomScene(**voices) as scene:
        await scene.open(turns=15, format="debate")
        await scene.talk()
        assert (scene.room.why, scene.room.turn_number) == ("person_budget", 0)
        assert all(room.slot_until is None for room in scene.state.coordination.rooms.changes)


async def test_a_format_gives_people_the_thread_before_its_part_for_them(scene: RoomScene) -> None:
    await scene.open(format="debate", turns=15)
    await scene.talk()
    slots = [room for room in scene.state.coordination.rooms.changes if room.slot_until is not None]
    begun = {(room.turn_number, room.phase, room.closing_because): room.slot_until - room.changed_at for room in slots}
    assert begun == {(9, "audience", None): PHASE_SECONDS, (15, "closing words", "turn_limit"): PHASE_SECONDS}


def notices(scene: RoomScene) -> list[str]:
    """What happened in the thread, in order: posts (.), lines, and the openings of slots."""
    told, before = list[str](), scene.state.coordination.rooms.changes[0]
    for room in scene.state.coordination.rooms.changes[1:]:
        told += ["."] * (room.turn_number - before.turn_number)
        new = [line for line in room.lines if not before.lines or line.number > before.lines[-1].number]
        told += [line.why if line.kind == "phase" else f"{line.kind} is over" for line in new]
        if room.slot_until is not None and before.slot_until is None:
            told.append("votes" if room.closing_because is not None else "questions")
        before = room
    return told


@pytest.mark.parametrize(
    ("audience_seconds", "expected"),
    [
        (0.0, [".", ".", "rebuttals", ".", ".", "cross-questions", ".", "."]),
        (
            30.0,
            [
                *(".", ".", "questions", "slot is over", "rebuttals"),
                *(".", ".", "questions", "slot is over", "cross-questions", ".", "."),
            ],
        ),
    ],
)
async def test_a_slot_opens_and_closes_with_a_notice_before_that_of_the_next_phase(
    scene: RoomScene, audience_seconds: float, expected: list[str]
) -> None:
    await scene.open(format="debate", turns=10, members=wanted().members[:2], audience_seconds=audience_seconds)
    await scene.talk()
    again = ["questions", "slot is over"] if audience_seconds else []
    last = ["questions", "slot is over", ".", ".", *again, "closing words", ".", ".", "votes"]
    assert notices(scene) == ["opening statements", *expected, *last]


async def test_the_end_of_a_slot_says_who_is_next(scene: RoomScene) -> None:
    scene.time.held = True
    await scene.open(turns=9, audience_seconds=45.0)
    scene.free = True
    scene.let_one_speak()
    for turn, asked_for, first in ((3, None, "Claude"), (6, "historian", "Historian")):
        await until(lambda turn=turn: scene.room.turn_number == turn and scene.room.slot_until is not None)  # type: ignore[misc]
        await scene.give("room-next", agent=asked_for)
        assert [line.members for line in scene.room.lines if line.kind == "slot"][-1] == (first,)


async def test_the_next_speaker_without_a_name_is_the_policys(scene: RoomScene) -> None:
    scene.time.held = True
    await scene.open(policy="moderated", turns=3)
    scene.free = True
    scene.let_one_speak()
    await until(lambda: len(scene.bus.asked) == 1 and scene.time.waiting)
    assert await scene.give("room-next") == "requested"
    await until(lambda: len(scene.bus.asked) == 2 and scene.time.waiting)
    assert scene.bus.speakers() == ["claude", "grok"], "who has been silent for the longest"


# the rules


@pytest.mark.promise(614)
@pytest.mark.parametrize("is_paused", [False, True])
async def test_what_was_deleted_before_its_turn_is_answered_by_nobody(scene: RoomScene, is_paused: bool) -> None:
    await scene.open(turns=8)
    await scene.speak()
    if is_paused:
        await scene.give("room-pause")
        scene.let_one_speak()
        await until(lambda: scene.room.status == "paused" and not scene.coordinator.engine.locks.busy)
    for number, text in ((900, "And milk?"), (901, "Historian, since when?"), (902, "Or lemon?")):
        scene.person_writes(number, text)
    await until(lambda: len(scene.coordinator._tasks) <= 2)
    order = RoomOrder(deleted=(900, 901, 12))
    scene.bus.command(Command(command="room-withdraw", channel_id=THREAD, room=order))
    await until(lambda: heard(scene) == [902])
    if is_paused:
        await scene.give("room-resume")
    await scene.speak(4)
    assert [taken for _, taken in asked(scene) if taken] == [(902,)]


async def test_deleting_an_old_message_leaves_a_closed_room_as_it_was(scene: RoomScene) -> None:
    await scene.open(turns=4)
    await scene.talk()
    before = scene.room
    await scene.time.sleep(60)
    order = RoomOrder(deleted=(900,))
    scene.bus.command(Command(command="room-withdraw", command_id="w", channel_id=THREAD, room=order))
    await until(lambda: scene._outcome("w") == "withdrawn")
    assert scene.room == before


ROOM = wanted(turns=20)


def state_with(*texts: str, room: Room = ROOM, **fields: Any) -> ConversationState:
    state = conversation_of(room).begin_round(room.names)
    for number, text in enumerate(texts, 900):
        state = hearing(state, in_room(room, PersonMessage(number, text, **fields)))
    return state


def answer(state: ConversationState, agent: str) -> ConversationState:
    state = state.begin_round((agent,)).begin_turn("i")
    return state.take_turn(agent, Result(instruction_id="i", agent_name=agent, text="Well."))


def test_a_question_for_a_member_that_leaves_is_for_the_next_speaker() -> None:
    state = state_with("Grok, why?")
    assert (state.to_answer("claude"), state.to_answer("grok"), state.queue.called) == ((), (900,), ("grok",))
    assert without_member(state, "grok", "removed").to_answer("claude") == (900,)


def test_a_message_that_was_deleted_calls_nobody() -> None:
    state = withdrawn(state_with("Grok, why?", "Historian, why?"), {900})
    assert (state.to_answer("grok"), state.queue.called) == ((), ("historian",))
    assert withdrawn(state, {900}) is state


def test_two_members_that_are_called_both_answer() -> None:
    state = state_with("And you two?", called=("grok", "claude"), calls=True)
    assert (state.to_answer("grok"), state.to_answer("claude"), state.to_answer("historian")) == ((900,), (900,), ())
    state = answer(state, "grok")
    assert (state.to_answer("grok"), state.to_answer("claude")) == ((), (900,))
    assert answer(state, "claude").to_answer("claude") == ()


def test_a_turn_answers_so_many_messages_and_leaves_the_others_to_the_next() -> None:
    state = state_with(*["Why?"] * (MAX_TO_ANSWER + 2))
    assert state.to_answer("claude") == tuple(range(900, 900 + MAX_TO_ANSWER))
    assert answer(state, "claude").to_answer("grok") == (905, 906)


def test_messages_may_arrive_in_any_order_and_twice() -> None:
    state = state_with()
    for number in (902, 900, 901, 900):
        state = hearing(state, in_room(ROOM, PersonMessage(number, "Why?")))
    assert state.to_answer("claude") == (900, 901, 902)
    state = hearing(answer(state, "claude"), in_room(ROOM, PersonMessage(901, "Why?")))
    assert state.to_answer("grok") == ()


def test_of_many_messages_the_questions_are_kept() -> None:
    state = state_with("Why?", *["lol"] * (2 * MAX_HEARD_IN_ROOM), "Since when?")
    assert len(state.talk.heard) == MAX_HEARD_IN_ROOM
    assert state.to_answer("claude") == (900, 900 + 2 * MAX_HEARD_IN_ROOM + 1)
    again = hearing(state, in_room(ROOM, PersonMessage(905, "lol")))
    assert again is state, "what was dropped is not heard again"


def test_a_turn_that_posts_nothing_leaves_its_questions_to_the_next() -> None:
    state = state_with("Why?").begin_round(("claude", "grok")).begin_turn("i")
    state = state.take_turn("claude", Result(instruction_id="i", agent_name="claude", skipped=True))
    assert state.to_answer("grok") == (900,)


@pytest.mark.parametrize(
    ("text", "fields", "called"),
    [
        ("What is tea?", {}, ()),
        ("Grok, what is tea?", {}, ("grok",)),
        ("Grok is right.", {}, ()),
        ("What is tea?", {"replied_to": "historian"}, ("historian",)),
        ("Hm.", {"replied_to": "historian"}, ("historian",)),
        ("Is Grok right?", {"calls": True, "called": ("claude",)}, ("claude",)),
        ("Is Grok right?", {"calls": True, "called": ("gemini",)}, ()),
    ],
)
def test_who_is_called_speaks_next(text: str, fields: dict[str, Any], called: tuple[str, ...]) -> None:
    assert in_room(ROOM, PersonMessage(900, text, **fields)).called == called


def test_a_name_that_fits_two_members_calls_neither() -> None:
    names = {"claude": "The Sceptic", "grok": "A Sceptic"}
    members = tuple(each.model_copy(update={"shown": names.get(each.name, each.shown)}) for each in ROOM.members)
    message = in_room(ROOM.model_copy(update={"members": members}), PersonMessage(900, "Sceptic?"))
    assert (message.names, message.called, message.asks) == ((), (), True)


def test_remarks_do_not_keep_a_conversation_from_its_end() -> None:
    state = replace(state_with(), counts=replace(state_with().counts, end_streak=1, silent=("grok",)))
    assert hearing(state, in_room(ROOM, PersonMessage(900, "lol"))).counts == state.counts
    assert hearing(state, in_room(ROOM, PersonMessage(900, "Why?"))).counts.end_streak == 0
