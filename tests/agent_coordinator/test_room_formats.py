"""Rooms with a format: who speaks in which phase, what they are told, and that every phase comes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from agentic.state.conversation_state import ConversationState
from agentic.state.rooms import Room, RoomMember
from agentic.wire.messages import Command, Instruction, Result, RoomBrief, RoomOrder
from tests.support.coordinator_doubles import Ids, Voice, skipper, talker, until
from tests.support.room_scene import NAMES, THREAD, RoomScene, converser

A, B, C = NAMES[:3]


def members(*sides: str) -> tuple[RoomMember, ...]:
    return tuple(RoomMember(name=name, shown=name.title(), side=side) for name, side in zip(NAMES, sides, strict=False))


def briefs(scene: RoomScene) -> list[tuple[str, RoomBrief]]:
    return [(agent, asked.room) for agent, asked in scene.bus.asked if asked.room is not None]


def phases(scene: RoomScene) -> list[tuple[str, list[str]]]:
    """Each phase with its speakers."""
    found: list[tuple[str, list[str]]] = []
    for agent, brief in briefs(scene):
        if not found or found[-1][0] != brief.phase:
            found.append((brief.phase, []))
        found[-1][1].append(agent)
    return found


async def test_a_debate_goes_through_its_phases_and_tells_the_thread_once_of_each() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=10, format="debate", members=members("for", "against"))
        await scene.talk()
    names = ["opening statements", "rebuttals", "cross-questions", "audience", "closing words"]
    assert phases(scene) == [(name, [A, B]) for name in names]
    told = [(line.kind, line.why, line.members) for line in scene.room.lines]
    assert told == [
        ("slot", "0", (A.title(),)) if name == "audience" else ("phase", name, (A.title(),)) for name in names
    ], "the end of the audience's time begins its phase"
    assert {(agent, brief.side) for agent, brief in briefs(scene)} == {(A, "for"), (B, "against")}
    assert briefs(scene)[2][1].sides == ("for", "against")
    assert scene.room.why == "turn_limit"


async def test_a_moderator_opens_each_phase_and_has_the_last_word() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=9, format="debate", members=members("", "for", "against"), moderator=A)
        await scene.talk()
    assert phases(scene) == [
        ("opening statements", [A, B, C]),
        ("rebuttals", [A, B, C]),
        ("closing words", [B, C, A]),
    ]
    told = {brief.phase_task for agent, brief in briefs(scene) if agent == A}
    others = {brief.phase_task for agent, brief in briefs(scene) if agent != A}
    assert not told & others
    assert {brief.side for agent, brief in briefs(scene) if agent == A} == {"moderator"}


async def test_in_an_interview_the_guest_answers_each_of_the_others() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=12, format="interview", members=members("", "guest", ""))
        await scene.talk()
    assert phases(scene) == [
        ("introduction", [A, B, C, B]),
        ("questions", [A, B, C, B]),
        ("last words", [A, B, C, B]),
    ]
    rules = {agent: brief.format_rules for agent, brief in briefs(scene)}
    assert B.title() in rules[A]
    assert rules[A] == rules[C] != rules[B]


async def test_an_interview_whose_guest_leaves_has_another_guest() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=12, format="interview", members=members("guest", "", ""))
        await scene.speak(2)
        await scene.give("room-remove", agent=A)
        await scene.talk()
    assert scene.room.guest is not None
    assert scene.room.guest.name == B
    assert set(scene.bus.speakers()[2:]) == {B, C}
    assert all(one != other for one, other in pairwise(scene.bus.speakers()[2:]))


def ending(name: str, ids: Ids) -> Voice:
    return talker(name, ids, text="I agree, and that's all.", end_conversation=True)


async def test_agreement_and_repetition_do_not_cut_a_debate_short() -> None:
    ids = Ids()
    async with RoomScene(**{name: ending(name, ids) for name in NAMES}) as scene:
        await scene.open(turns=10, format="debate", members=members("for", "against"))
        await scene.talk()
    assert (scene.room.turn_number, scene.room.why) == (10, "turn_limit")
    angles = {brief.phase: asked.angle for (_, brief), (_, asked) in zip(briefs(scene), scene.bus.asked, strict=True)}
    assert angles["rebuttals"] is not None
    assert angles["closing words"] is None, "its task says that a closing has no new argument"


async def test_a_debate_that_is_resumed_with_more_turns_goes_on_with_a_phase_of_them() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=10, format="debate", members=members("for", "against"))
        await scene.talk()
        await scene.give("room-resume", turns=10)
        await scene.talk()
    assert [name for name, _ in phases(scene)][-4:] == ["rebuttals", "cross-questions", "audience", "closing words"]
    assert scene.room.turn_number == 20


@pytest.mark.parametrize(
    ("policy", "format_", "known"),
    [
        ("round-robin", "open", 12),
        ("round-robin", "debate", 12),
        ("round-robin", "interview", 12),
        ("rounds", "debate", 8),  # all but the first of each round
        ("pull", "interview", 5),  # the guest, after each of the others
    ],
)
async def test_a_room_knows_who_is_next(policy: str, format_: str, known: int) -> None:
    expected: list[str | None] = []
    async with RoomScene() as scene:
        seats = members("guest" if format_ == "interview" else "", "", "")
        await scene.open(turns=12, format=format_, policy=policy, members=seats)
        while scene.room.status == "active":
            if len(scene.bus.asked) == 5:
                await call(scene, f"{scene.bus.speakers()[-1].title()}, since when?")
            state = ConversationState.from_json(scene.state.coordination.conversations.states[THREAD][1])
            assert state.speaking == scene.bus.speakers()[-1]
            expected.append(state.next_speaker)
            await scene.speak()
    assert expected[-1] is None
    guesses = [(guess, who) for guess, who in zip(expected, scene.bus.speakers()[1:], strict=False) if guess]
    assert all(guess == who for guess, who in guesses), guesses
    assert len(guesses) >= known


@pytest.mark.parametrize("policy", ["round-robin", "rounds", "pull"])
async def test_in_an_interview_the_guest_speaks_every_other_turn(policy: str) -> None:
    async with RoomScene() as scene:
        await scene.open(turns=12, format="interview", policy=policy, members=members("", "guest", ""))
        await scene.talk()
    assert scene.bus.speakers()[1::2] == [B] * 6
    assert {agent: scene.bus.speakers().count(agent) for agent in (A, C)} == {A: 3, C: 3}


@pytest.mark.parametrize("policy", ["round-robin", "rounds"])
async def test_who_is_called_between_two_rounds_has_its_turn_of_the_next_one_earlier(policy: str) -> None:
    async with RoomScene() as scene:
        await scene.open(turns=9, policy=policy, members=members("", "", ""))
        await scene.speak(2)
        who = scene.bus.speakers()[0]  # the third's turn is under way
        await call(scene, f"{who.title()}, since when?")
        await scene.talk()
    spoke = scene.bus.speakers()
    assert spoke[3] == who
    assert [sorted(spoke[at : at + 3]) for at in (0, 3, 6)] == [[A, B, C]] * 3


async def test_a_member_whose_question_was_deleted_while_it_thought_still_makes_its_statement() -> None:
    plain, count = converser(A, Ids()), iter(range(100))

    def voice(instruction: Instruction) -> Any:
        gone = {"skipped": True, "reason": "withdrawn"}
        return plain(instruction) if next(count) else plain(instruction).model_copy(update={"text": None, **gone})

    async with RoomScene(**{A: voice}) as scene:
        await scene.open(turns=4, format="debate", members=members("for", "against"))
        await scene.talk()
    assert phases(scene) == [("opening statements", [A, B, A]), ("closing words", [B, A])]
    assert scene.room.why == "turn_limit"


async def test_a_member_that_joins_a_debate_gets_the_side_with_fewer_members() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=10, format="debate", members=members("for", "for"))
        await scene.give("room-add", member=RoomMember(name=C, shown="C").model_dump_json())
    assert scene.room.member(C).side == "against"


@pytest.mark.parametrize("more", [0, 20])
async def test_the_ledger_reaches_the_next_turns(more: int) -> None:
    made = tuple(f"Claude: argument {number} (open)" for number in range(1 + more))
    async with RoomScene() as scene:
        await scene.open(turns=10, format="debate", members=members("for", "against"))
        await scene.speak()
        scene.bus.command(Command(command="room-ledger", channel_id=THREAD, room=RoomOrder(ledger=made)))
        await until(lambda: scene.room.ledger != ())
        await scene.talk()
    assert briefs(scene)[0][1].ledger == ()
    assert briefs(scene)[-1][1].ledger == made[:10]


async def test_a_room_without_a_format_is_told_of_none() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=4)
        await scene.talk()
    untold = RoomBrief(turn_number=0)
    for _, brief in briefs(scene):
        assert all(getattr(brief, name) == getattr(untold, name) for name in ("format", "side", "sides", "phase"))
    assert not [line for line in scene.room.lines if line.kind == "phase"]


async def test_with_rounds_each_member_speaks_once_a_round() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=12, policy="rounds", members=members("", "", ""))
        await scene.talk()
    spoke = scene.bus.speakers()
    assert len(spoke) == 12
    assert all(set(spoke[start : start + 3]) == {A, B, C} for start in range(0, 12, 3))


async def call(scene: RoomScene, text: str) -> None:
    """A person writes while a turn is under way."""
    scene.person_writes(900 + len(scene.bus.asked), text)
    await until(lambda: len(scene.coordinator._tasks) == 1)


@pytest.mark.parametrize("policy", ["round-robin", "rounds", "pull"])
@pytest.mark.parametrize("turns_before", [1, 4])
@pytest.mark.promise(602)
async def test_who_is_called_after_its_turn_of_a_phase_takes_no_other_members(policy: str, turns_before: int) -> None:
    async with RoomScene() as scene:
        await scene.open(turns=6, format="debate", policy=policy, members=members("for", "against", "for"))
        await scene.speak(turns_before)
        who = scene.bus.speakers()[turns_before - 1]
        await call(scene, f"{who.title()}, since when?")
        await scene.talk()
    extra = turns_before + 1
    assert briefs(scene)[extra][0] == who
    assert scene.bus.asked[extra][1].take_up is not None
    own = [(agent, brief) for at, (agent, brief) in enumerate(briefs(scene)) if at != extra]
    for phase in ("opening statements", "closing words"):
        assert sorted(agent for agent, brief in own if brief.phase == phase) == sorted((A, B, C)), phase
    assert briefs(scene)[extra][1].phase_task not in {brief.phase_task for _, brief in own}
    assert (scene.room.turn_number, scene.room.turns, scene.room.why) == (7, 7, "turn_limit")
    assert [brief.closing for _, brief in briefs(scene)] == [False] * 6 + [True]


@pytest.mark.parametrize("policy", ["round-robin", "rounds", "pull", "moderated"])
@pytest.mark.promise(602)
async def test_calls_within_a_debate_take_no_turn_of_its_phases(policy: str) -> None:
    async with RoomScene() as scene:
        seats = members("", "for", "against")
        await scene.open(turns=30, format="debate", policy=policy, members=seats, moderator=A)
        (_, start), (_, last), *_ = scene.room.schedule()
        await scene.speak(start + 2)
        who = scene.bus.speakers()[start]
        for _ in range(3):
            await call(scene, f"{who.title()}, since when?")
            await scene.speak()
        await scene.talk()
    phase = [brief for _, brief in briefs(scene) if brief.phase == phases(scene)[1][0]]
    assert len(phase) == last - start + scene.room.extra_turns
    assert len({brief.phase_task for brief in phase}) == 3, "the moderator's, the others', and that of the answers"
    assert scene.room.extra_turns in (2, 3), "the first may have been its turn of the next round"


async def test_who_is_called_before_its_closing_words_has_them_earlier() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=6, format="debate", members=members("for", "against", "for"))
        await scene.speak(3)
        await call(scene, f"{C.title()}, since when?")
        await scene.talk()
    assert phases(scene)[-1] == ("closing words", [A, C, B])


async def test_a_call_between_two_phases_gets_a_turn_of_the_next() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=6, format="debate", members=members("for", "against", "for"))
        await scene.speak(2)
        await call(scene, f"{B.title()}, since when?")
        await scene.talk()
    assert phases(scene)[-1] == ("closing words", [B, A, C])


async def test_a_moderator_that_is_called_still_has_the_last_word() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=6, format="debate", members=members("", "for", "against"), moderator=A)
        await scene.speak(3)
        await call(scene, f"{A.title()}, who is ahead?")
        await scene.talk()
    assert phases(scene)[-1] == ("closing words", [B, A, C, A])


@pytest.mark.parametrize(
    ("turns_before", "called", "last_words"),
    [
        (4, C, [A, C, B, C, B]),  # it is the guest's turn, and it had none yet
        (5, A, [A, B, A, C, B]),
        (5, B, [A, B, B, C, B]),
        (5, C, [A, B, C, B]),  # it is next anyway
        (6, A, [A, B, C, A, B]),
    ],
)
@pytest.mark.promise(602)
async def test_in_an_interview_each_has_its_last_words_though_people_call(
    turns_before: int, called: str, last_words: list[str]
) -> None:
    async with RoomScene() as scene:
        await scene.open(turns=8, format="interview", members=members("", "guest", ""))
        await scene.speak(turns_before)
        await call(scene, f"{called.title()}, since when?")
        await scene.talk()
    assert phases(scene)[-1] == ("last words", last_words)


async def test_with_scores_each_member_speaks_once_in_the_first_and_the_last_phase() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=12, format="debate", policy="pull", members=members("for", "against", "for"))
        await scene.talk()
    assert [sorted(who) for name, who in (phases(scene)[0], phases(scene)[-1])] == [[A, B, C], [A, B, C]]


async def test_a_member_that_moderates_gives_each_other_its_closing_words() -> None:
    def names_b(instruction: Any) -> Result:
        return Result(
            instruction_id=instruction.instruction_id, agent_name=A, text="Go on.", message_id=1, next_agent=B
        )

    async with RoomScene(**{A: names_b}) as scene:
        seats = members("", "for", "against")
        await scene.open(turns=12, format="debate", policy="moderated", members=seats, moderator=A)
        await scene.talk()
    assert (phases(scene)[0], phases(scene)[-1]) == (
        ("opening statements", [A, B, A, C]),
        ("closing words", [A, B, A, C]),
    )


@pytest.mark.promise(603)
async def test_a_member_whose_model_fails_tries_its_closing_words_again() -> None:
    ids, failed = Ids(), []

    def fails_once(instruction: Any) -> Any:
        if instruction.room.phase == "closing words" and not failed:
            failed.append(instruction)
            return skipper(C, "model_failed")(instruction)
        return converser(C, ids)(instruction)

    async with RoomScene(**{C: fails_once}) as scene:
        await scene.open(turns=6, format="debate", members=members("for", "against", "for"))
        await scene.talk()
    assert phases(scene)[-1] == ("closing words", [A, B, C, C])
    assert (scene.room.turn_number, scene.room.names) == (6, (A, B, C))


@pytest.mark.parametrize(("reason", "tries"), [("skipped", 1), ("muted", 1), ("model_failed", 2)])
@pytest.mark.promise(603)
async def test_nobody_closes_a_debate_twice_because_a_member_says_nothing(reason: str, tries: int) -> None:
    async with RoomScene(**{C: skipper(C, reason)}) as scene:
        await scene.open(turns=6, format="debate", members=members("for", "against", "for"))
        await scene.talk()
        assert phases(scene)[0][1] == [A, B, *[C] * tries]
        closing = [agent for agent, brief in briefs(scene) if brief.phase == "closing words"]
        assert (closing.count(A), closing.count(B)) == (1, 1)
        assert scene.room.why == "turn_limit"
        await scene.give("room-resume")
        await scene.talk()
    assert scene.room.turns > 6, "it had used its turns, and has more"


async def test_people_call_at_most_as_many_members_again_as_a_room_has_turns() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=4, members=members("", ""))
        while scene.room.status == "active":
            await call(scene, f"{A.title()}, since when?")
            await scene.speak()
    assert (scene.room.extra_turns, scene.room.turn_number) == (4, 8)


async def test_a_debate_that_an_earlier_version_began_goes_on_with_its_phase() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=8, format="debate", members=members("for", "against"))
        await scene.speak()
        await scene.die()
        old = {"phase_turns", "phase_noted", "extra_turns"}
        room = Room.model_validate_json(scene.room.model_dump_json(exclude=old))
        scene.state.coordination.rooms.kept[THREAD] = room
        scene.state.coordination.conversations.states.clear()
        await scene.lead()
        await scene.talk()
    assert phases(scene)[0] == ("opening statements", [A, B, B])  # the turn under way was asked for again
    assert [line.why for line in scene.room.lines if line.kind == "phase"].count("opening statements") == 1


async def test_with_rounds_each_has_its_turns_besides_those_that_people_asked_for() -> None:
    async with RoomScene() as scene:
        await scene.open(turns=9, policy="rounds", members=members("", "", ""))
        await scene.speak(7)
        who = scene.bus.speakers()[6]
        await call(scene, f"{who.title()}, since when?")
        await scene.talk()
    spoke = scene.bus.speakers()
    assert spoke[8] == who
    assert {agent: [*spoke[:8], spoke[9]].count(agent) for agent in (A, B, C)} == {A: 3, B: 3, C: 3}
