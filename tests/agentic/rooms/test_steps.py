"""The next step in a room's thread, as a table of rooms and marks."""

import pytest

from agentic.rooms.threads import closed_line, next_step, slot_line, standing_of, why_line, why_line_outside
from agentic.state.rooms import Marks, Room
from agentic.wire.reasons import ENDINGS, PAUSES

NOW = 1000.0
ACTIVE = Marks(standing="active")


def room(**more):
    return Room(
        **{"thread_id": 50, "channel_id": 5, "conversation_id": "c", "topic": "tomatoes", "members": (), **more}
    )


PAUSED = room(status="paused", why="stopped", turn_number=7)
CLOSED = room(status="closed", why="agreed")
SLOTS = room(audience_seconds=60)
OPEN = room(audience_seconds=60, slot_until=NOW + 60)


@pytest.mark.parametrize(
    ("of", "marks", "step"),
    [
        (room(), Marks(), "settle"),
        (room(), ACTIVE, None),
        (room(), Marks(standing="closed agreed", archived=True), "unarchive"),
        (room(), Marks(standing="paused archived"), "unarchive"),
        (room(), Marks(standing="paused no_access"), "unarchive"),
        (room(), Marks(standing="paused stopped"), "settle"),
        (room(), Marks(standing="active", locked=True), "unlock"),
        (SLOTS, ACTIVE, "lock"),
        (SLOTS, Marks(standing="active", locked=True), "lock"),
        (SLOTS, Marks(standing="active", locked=True, lock_done=True), None),
        (OPEN, Marks(standing="active", locked=True), "unlock"),
        (OPEN, ACTIVE, "announce"),
        (OPEN, Marks(standing="active", slot=NOW + 60), None),
        (OPEN.model_copy(update={"slot_until": NOW}), Marks(standing="active", slot=NOW), "lock"),
        (PAUSED, Marks(standing="active", locked=True), "unlock"),
        (PAUSED, ACTIVE, "report"),
        (PAUSED, Marks(standing="paused stopped"), None),
        (PAUSED.model_copy(update={"why": "locked"}), Marks(standing="paused stopped"), "report"),
        (CLOSED, Marks(standing="active", locked=True), "unlock"),
        (CLOSED, ACTIVE, "card"),
        (CLOSED, Marks(standing="paused stopped"), "card"),
        (CLOSED, Marks(standing="closed agreed"), "archive"),
        (CLOSED, Marks(standing="closed agreed", archived=True), None),
    ],
)
def test_the_next_step(of, marks, step):
    assert next_step(of, marks, NOW, may_lock=True) == step


@pytest.mark.parametrize(("unlockable", "step"), [(False, "warn"), (True, None)])
def test_where_a_lock_would_shut_a_member_out_that_is_said_once(unlockable, step):
    marks = Marks(standing="active", unlockable=unlockable)
    assert next_step(SLOTS, marks, NOW, may_lock=False) == step
    assert next_step(OPEN, marks, NOW, may_lock=False) == "announce"


@pytest.mark.parametrize("why", sorted(PAUSES))
def test_each_pause_is_one_line_with_its_cause_and_what_to_do(why):
    line = why_line(room(status="paused", why=why, turn_number=1))
    assert line.startswith(f"🫥 This room is paused after 1 turn: {ENDINGS[why]}. ")
    assert "/room" in line
    assert "\n" not in line
    assert "The room “tomatoes” is paused" in why_line_outside(room(status="paused", why=why))


def test_a_cause_that_this_version_does_not_know_is_left_out():
    assert why_line(room(status="paused", why="flooded")).startswith("🫥 This room is paused. ")
    assert closed_line(room(status="closed")) == "🫥 **This room is closed**."
    assert standing_of(room(status="closed")) == "closed"


def test_the_audience_hears_how_long_it_has():
    assert "yours for 60 s" in slot_line(OPEN, NOW)
    assert "yours for 12 s" in slot_line(OPEN, NOW + 48)
