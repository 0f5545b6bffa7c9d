"""How people changed their minds, from two polls, and how the closing card says it."""

import pytest

from agentic.rooms.polls import MAX_QUESTION, moves_between, moves_line, poll_of
from agentic.state.rooms import Room, RoomMember


def room(topic="Is a tomato a fruit?", sides=("for", "against")):
    members = tuple(RoomMember(name=f"m{n}", shown=f"M{n}", side=side) for n, side in enumerate(sides))
    return Room(thread_id=50, channel_id=5, conversation_id="c", topic=topic, members=members)


def stands(letters):
    sides = {"f": "for", "a": "against", "u": "undecided"}
    return {person: sides[letter] for person, letter in enumerate(letters) if letter != "-"}


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("ffu", "aaf", "against won over 2 people, for 1 and lost 2 (of 3 people who answered both polls)."),
        ("u", "f", "for won over 1 person (of 1 person who answered both polls)."),
        ("ffa", "uuu", "against lost 1 person, for lost 2 (of 3 people who answered both polls)."),
        ("fffaau", "aaafff", "against won over 3 people and lost 2, for 3 and lost 3 (of 6"),
        ("fau", "fau", "nobody. Of 3 people who answered both polls, none changed sides."),
        ("f-", "-a", "nobody answered both polls."),
        ("", "", "nobody answered both polls."),
    ],
)
def test_the_card_says_who_won_people_over_and_who_lost_them(before, after, told):
    moves = moves_between(stands(before), stands(after))
    assert moves_line(room(), moves).startswith(f"**Who moved the room**: {told}")


def test_undecided_members_are_a_side_if_there_are_any():
    moves = moves_between(stands("ff"), stands("uu"))
    assert "undecided won over 2 people" in moves_line(room(sides=("for", "undecided")), moves)
    assert "undecided" not in moves_line(room(), moves)


@pytest.mark.parametrize("length", [10, MAX_QUESTION - 24, MAX_QUESTION - 23, 400])
def test_a_question_fits_discord_s_limit(length):
    poll = poll_of(room("x" * length), hours=1)
    assert len(poll.question) <= MAX_QUESTION
    assert poll.question.endswith(" Where do you stand?")
    assert poll.answers == ("For", "Against", "Undecided")
