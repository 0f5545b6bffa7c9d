"""The next step in a room's thread, as a table of rooms and marks."""

import pytest

from agentic.rooms.notices import HIDDEN, closed_line, for_channel, line_text, slot_line, why_line
from agentic.rooms.threads import next_step, standing_of
from agentic.state.rooms import NOT_ASKED, Marks, Room, RoomLine, RoomMember
from agentic.state.silence import EVERYTHING, Scope, Silenced
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
DEBATE = room(format="debate", phase="rebuttals", turn_number=4).with_line("phase", why="rebuttals")
OPEN = room(audience_seconds=60, slot_until=NOW + 60)
POLLED = room(poll=True)
LAST = room(poll=True, slot_until=NOW + 60, closing_because="turn_limit")


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
        (POLLED, ACTIVE, "ask before"),
        (POLLED, Marks(standing="active", poll_before=1), None),
        (POLLED, Marks(standing="active", poll_before=NOT_ASKED), None),
        (LAST, Marks(standing="active", poll_before=1), "announce"),
        (LAST, Marks(standing="active", poll_before=1, slot=NOW + 60), "ask after"),
        (LAST, Marks(standing="active", poll_before=NOT_ASKED, slot=NOW + 60), None),
        (LAST, Marks(standing="active", poll_before=1, poll_after=2, slot=NOW + 60), None),
        (OPEN.model_copy(update={"poll": True}), Marks(standing="active", poll_before=1, slot=NOW + 60), None),
        (DEBATE, ACTIVE, "line"),
        (DEBATE, Marks(standing="active", line=1), "ledger"),
        (DEBATE, Marks(standing="active", line=1, ledger="rebuttals of 20"), None),
        (DEBATE.model_copy(update={"phase": "opening statements"}), Marks(standing="active", line=1), None),
        (DEBATE.model_copy(update={"audience_seconds": 60}), Marks(standing="active", line=1), "lock"),
        (DEBATE.model_copy(update={"status": "paused"}), Marks(standing="paused", line=1), None),
        (PAUSED, Marks(standing="active", locked=True), "unlock"),
        (PAUSED, ACTIVE, "report"),
        (PAUSED, Marks(standing="paused stopped"), None),
        (PAUSED.model_copy(update={"why": "locked"}), Marks(standing="paused stopped"), "report"),
        (CLOSED, Marks(standing="active", locked=True), "unlock"),
        (CLOSED, ACTIVE, "card"),
        (CLOSED, Marks(standing="paused stopped"), "card"),
        (CLOSED, Marks(standing="closed agreed"), "archive"),
        (CLOSED, Marks(standing="closed agreed", archived=True), None),
        (CLOSED.model_copy(update={"why": "too_old"}), ACTIVE, None),
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
    assert "The room “tomatoes” is paused" in for_channel(line.replace(" after 1 turn", ""), room())


@pytest.mark.parametrize(
    ("kind", "scope", "words"),
    [
        ("stopped", Scope.channel(50), "Use /resume here first"),
        ("stopped", Scope.channel(77), "Use /resume in <#77> first, then /room resume"),
        ("paused", EVERYTHING, "Use /bots resume first, then /room resume"),
    ],
)
def test_a_stopped_room_says_where_the_stop_ends(kind, scope, words):
    stopped = room(status="paused", why="stopped")
    assert words in why_line(stopped, Silenced(kind, scope, 0.0))


def test_a_cause_that_this_version_does_not_know_is_left_out():
    assert why_line(room(status="paused", why="flooded")).startswith("🫥 This room is paused. ")
    assert closed_line(room(status="closed")) == "🫥 **This room is closed**."
    assert standing_of(room(status="closed")) == "closed"


def test_the_audience_hears_how_long_it_has():
    assert "yours for 60 s" in slot_line(OPEN, NOW)
    assert "yours for 12 s" in slot_line(OPEN, NOW + 48)


def test_a_phase_s_line_says_how_long_it_lasts_what_happens_and_who_begins() -> None:
    members = tuple(RoomMember(name=name, shown=name.title()) for name in ("grok", "claude"))
    debate = room(format="debate", members=members, turns=10).with_line("phase", "Grok", why="rebuttals")
    told, about = line_text(debate, debate.lines[-1]), "each member attacks the strongest claim of the other side."
    assert told == f"{HIDDEN}**Rebuttals**, until turn 4: {about} Next: Grok."
    unknown = debate.lines[-1].model_copy(update={"members": ()})
    assert line_text(debate, unknown) == f"{HIDDEN}**Rebuttals**, until turn 4: {about}"
    later = line_text(debate, unknown.model_copy(update={"why": "a phase of another version"}))
    assert later == f"{HIDDEN}**A phase of another version**"


def test_a_slot_ends_with_a_line_that_says_what_gets_an_answer():
    def said(why, *members):
        return line_text(OPEN, RoomLine(number=1, kind="slot", members=members, why=why))

    assert said("0", "Grok").endswith("Nobody asked anything. Next: Grok.")
    assert "answer 3 messages. Next: Grok." in said("3", "Grok", "Claude")
    assert said("1").endswith("answer 1 message.")


def test_the_last_slot_is_for_votes():
    last = OPEN.model_copy(update={"closing_because": "turn_limit"})
    assert "react with 👍 to the posts that you liked best" in slot_line(last, NOW)
    assert "that convinced you" in slot_line(last.model_copy(update={"format": "debate"}), NOW)
    assert "vote" not in slot_line(OPEN, NOW)


def test_the_thread_is_told_who_speaks_next_and_when():
    line = RoomLine(number=1, kind="next", members=("Grok",), why="1781085690")
    assert line_text(room(), line) == f"{HIDDEN}Grok speaks next, <t:1781085690:R> (<t:1781085690:t>)."
