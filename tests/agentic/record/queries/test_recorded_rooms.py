"""Rooms of the record, by pages and one by one, and the season of their contests."""

from contextlib import closing

import pytest

from agentic.record.database import connect_blocking, migrate
from agentic.record.queries.posts import messages_of_room, room_of
from agentic.record.queries.statistics import season
from agentic.record.rows import contest_statements, room_statements, room_words_statements, turn_statements
from agentic.wire.entries import Contender, ContestNote, RoomMessage, RoomNote, RoomWords
from tests.support.recording import AT, turn


def filled(path, *statements):
    migrate(path)
    with closing(connect_blocking(path, writable=True)) as connection:
        for sql, values in statements:
            connection.executemany(sql, values)
    return path


def room(number, status="active", kind="debate"):
    return room_statements(
        RoomNote(
            thread_id=number,
            channel_id=5,
            conversation_id=f"c{number}",
            topic=f"topic {number}",
            policy="pull",
            members=("claude",),
            left=("grok",),
            format=kind,
            sides={"claude": "for"},
            ledger=("Claude: it's tea (open)",),
            status=status,
            opened_at=AT + number // 2,
            changed_at=AT,
        )
    )


def contest(number, kind, winner):
    contenders = (Contender(agent=winner, model="m", votes=2), Contender(agent="loser", model="m", votes=1))
    return contest_statements(ContestNote(id=f"{number}", kind=kind, at=AT, channel_id=5, contenders=contenders))


@pytest.fixture
async def db(tmp_path, opened):
    rooms = [each for number in range(1, 8) for each in room(number, "closed" if number == 3 else "active")]
    turns = turn_statements(turn("m1", channel_id=4, cost_usd=0.25, posted=(8,)), str)
    turns += turn_statements(turn("card-4", channel_id=4, cost_usd=0.5, kind="card"), str)
    said = RoomMessage(message_id=9, author="person", author_id=77, name="Ann", text="hi", at=AT)
    post = RoomMessage(message_id=8, author="agent", agent="claude", name="Claude", text="well", at=AT)
    words = room_words_statements(RoomWords(agent="claude", thread_id=4, at=AT, messages=(said, post)))
    kinds = enumerate(("open", "debate", "panel", "interview"), start=10)
    contests = [each for number, kind in kinds for each in room(number, kind=kind)]
    contests += [each for number in range(10, 14) for each in contest(f"room-{number}", "room", f"of {number}")]
    contests += [*contest(1, "room", "claude"), *contest(2, "arena", "grok"), *contest(3, "arena", "grok")]
    return await opened(filled(tmp_path / "record.db", *rooms, *turns, *words, *contests))


async def test_a_room_has_its_members_and_what_its_turns_came_to(db):
    found = await room_of(db, 4)
    assert (found.members, found.left, found.posts, found.cost_usd) == (("claude",), ("grok",), 1, 0.75)
    assert (found.format, found.sides, found.ledger) == ("debate", {"claude": "for"}, ("Claude: it's tea (open)",))
    assert (await room_of(db, 5)).posts == 0
    assert await room_of(db, 99) is None


async def test_its_messages_come_in_their_order(db):
    assert [(each.agent, each.author_id, each.text) for each in await messages_of_room(db, 4)] == [
        ("claude", None, "well"),
        (None, 77, "hi"),
    ]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, {"grok": (2, 2), "claude": (1, 1), "of 10": (1, 1), "of 11": (1, 1), "loser": (0, 5)}),
        ({"kind": "arena"}, {"grok": (2, 2), "loser": (0, 2)}),
    ],
)
async def test_the_season_has_the_contests_of_a_kind_without_panels_and_interviews(db, wanted, expected):
    assert {one.agent: (one.wins.count, one.contests) for one in await season(db, **wanted)} == expected
