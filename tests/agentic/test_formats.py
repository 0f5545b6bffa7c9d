"""The formats of rooms: how turns are divided into phases, and who has which part."""

from __future__ import annotations

from itertools import pairwise

import pytest

from agentic.formats import DEFAULT_FORMAT, FORMATS
from agentic.rooms.opening import RoomDraft, room_of
from agentic.state.rooms import MAX_MEMBERS, Room, RoomMember

WITH_PHASES = [name for name in FORMATS if name != DEFAULT_FORMAT]


def a_room(*names: str, **fields: object) -> Room:
    sides = dict(name.split(":") for name in names if ":" in name)
    shown = [name.partition(":")[0] for name in names]
    members = tuple(RoomMember(name=each.lower(), shown=each, side=sides.get(each, "")) for each in shown)
    room = Room(thread_id=1, channel_id=2, conversation_id="c", topic="Tea", members=members, **fields)
    return room.with_sides()


@pytest.mark.parametrize("name", WITH_PHASES)
@pytest.mark.parametrize("turns", [1, 2, 3, 7, 20, 41, 200])
@pytest.mark.parametrize("round_size", [1, 2, 3, 4, MAX_MEMBERS, 14])
def test_the_phases_fill_a_room_exactly(name, turns, round_size):
    schedule = FORMATS[name].schedule(turns, round_size)
    ends = [0, *(last for _, last in schedule)]
    assert ends[-1] == turns or (all(phase.turns for phase, _ in schedule) and turns - ends[-1] < round_size)
    assert all(before < after for before, after in pairwise(ends))
    assert schedule[0][0] is FORMATS[name].phases[0]


@pytest.mark.parametrize(
    ("turns", "members", "ends"),
    [
        (20, 4, {"opening statements": 4, "rebuttals": 8, "cross-questions": 12, "audience": 16, "closing words": 20}),
        (20, 2, {"opening statements": 2, "rebuttals": 12, "cross-questions": 16, "audience": 18, "closing words": 20}),
        (22, 4, {"opening statements": 4, "rebuttals": 10, "cross-questions": 14, "audience": 18, "closing words": 22}),
        (12, 4, {"opening statements": 4, "rebuttals": 8, "closing words": 12}),
        (8, 4, {"opening statements": 4, "closing words": 8}),
        (11, 4, {"opening statements": 4, "closing words": 8}),
        (3, 4, {"opening statements": 3}),
    ],
)
def test_a_debate_s_phases_scale_with_its_turns(turns, members, ends):
    assert {phase.name: last for phase, last in FORMATS["debate"].schedule(turns, members)} == ends


def test_a_room_with_no_format_has_no_phase():
    room = a_room("Claude", "Grok")
    assert (room.schedule(), room.next_phase()) == ((), None)


@pytest.mark.promise(591)
def test_a_member_that_leaves_does_not_bring_back_an_earlier_phase():
    room = a_room("Ada", "Bob", "Cy", "Dee", format="debate", turn_number=4, phase="rebuttals")
    assert room.next_phase().name == "rebuttals"
    fewer = room.model_copy(update={"members": room.members[:2], "turn_number": 13, "phase": "audience"})
    assert fewer.next_phase().name == "audience"  # by number alone, it would be the cross-questions


@pytest.mark.parametrize(
    ("names", "fields", "sides"),
    [
        (("Ada", "Bob", "Cy"), {"format": "debate"}, ["for", "against", "for"]),
        (("Ada", "Bob:for", "Cy"), {"format": "debate"}, ["against", "for", "for"]),
        (("Ada:undecided", "Bob", "Cy"), {"format": "debate"}, ["undecided", "for", "against"]),
        (("Ada", "Bob", "Cy"), {"format": "debate", "moderator": "ada"}, ["", "for", "against"]),
        (("Ada", "Bob"), {"format": "panel"}, ["", ""]),
        (("Ada", "Bob"), {"format": "interview"}, ["guest", ""]),
        (("Ada", "Bob:guest"), {"format": "interview"}, ["", "guest"]),
        (("Ada", "Bob", "Cy"), {"format": "interview", "moderator": "ada"}, ["", "guest", ""]),
        (("Ada", "Bob"), {}, ["", ""]),
    ],
)
def test_members_without_a_side_get_one(names, fields, sides):
    assert [member.side for member in a_room(*names, **fields).members] == sides


@pytest.mark.parametrize(
    ("turns", "policy", "expected"),
    [(8, "round-robin", 8), (11, "round-robin", 8), (13, "round-robin", 13), (11, "moderated", 11)],
)
def test_a_room_has_no_turns_that_fill_no_round_of_its_phases(turns, policy, expected):
    draft = RoomDraft(asked_by=1, channel_id=2, topic="Tea", format="debate", turns=turns, policy=policy)
    members = [RoomMember(name=name, shown=name) for name in ("ada", "bob", "cy", "dee")]
    assert room_of(draft, members, None, 0.0).turns == expected
