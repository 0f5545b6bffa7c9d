from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import pytest

from agent_coordinator.idle import tasks as gates
from agentic.state.idle import Sent
from agentic.state.silence import Scope, Silenced
from tests.support.coordinator_doubles import BERLIN, NOON

HOUR = 3600.0
ADA, BOB = 11, 12


def sent(
    hours_ago: float, *, person: int | None = ADA, channel: int = 1, answered: bool = False, text: str = ""
) -> Sent:
    return Sent(
        message_id=1,
        agent="claude",
        task="discover",
        channel_id=channel,
        person_id=person,
        text=text,
        at=NOON - hours_ago * HOUR,
        answered=answered,
    )


def local(day: int, hour: int, minute: int = 0) -> float:
    return datetime(2026, 6, day, hour, minute, tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    ("now", "start", "end", "opens"),
    [
        (local(10, 12), 7, 23, None),
        (local(10, 7), 7, 23, None),
        (local(10, 23), 7, 23, local(11, 7)),
        (local(10, 6, 59), 7, 23, local(10, 7)),
        (local(10, 1), 20, 2, None),  # past midnight, of the day before
        (local(10, 2), 20, 2, local(10, 20)),
        (local(10, 3), 7, 7, None),  # equal hours: round the clock
    ],
)
def test_quiet_hours_last_until_the_active_ones_begin(now: float, start: int, end: int, opens: float | None) -> None:
    closed = gates.quiet_hours(now, start, end, BERLIN)
    assert (None if closed is None else closed.until) == opens
    assert (closed is None) == (opens is None)


@pytest.mark.parametrize(("newest", "seen", "is_open"), [(0, 0, False), (5, 0, True), (5, 5, False), (6, 5, True)])
def test_where_nothing_was_written_since_there_is_nothing_to_do(newest: int, seen: int, is_open: bool) -> None:
    assert (gates.nothing_new(newest, seen) is None) is is_open


@pytest.mark.parametrize(
    ("used_up", "why"),
    [((), None), (("idle",), "share"), (("all",), "today's budget"), (("agent", "idle"), "share")],
)
def test_without_money_a_task_waits_for_midnight(used_up: Collection[str], why: str | None) -> None:
    closed = gates.budget(used_up, NOON + 9)
    assert (closed is None) == (why is None)
    assert closed is None or (why is not None and why in closed.why and closed.until == NOON + 9)


STOPPED = Silenced("stopped", Scope.channel(1), NOON + 60)


@pytest.mark.parametrize(("stopped", "busy", "is_open"), [(None, (), True), (STOPPED, (), False), (None, (1,), False)])
def test_a_stopped_channel_and_one_with_a_conversation_are_closed(
    stopped: bool, busy: Collection[int], is_open: bool
) -> None:
    assert (gates.channel_open(1, stopped, busy) is None) is is_open


@pytest.mark.promise(443)
@pytest.mark.parametrize(
    ("person", "consents", "unasked", "is_open"),
    [
        (ADA, {ADA: True}, "opt_in", True),
        (ADA, {}, "opt_in", False),
        (ADA, {BOB: True}, "opt_in", False),
        (ADA, {ADA: False}, "opt_in", False),
        (ADA, {}, "everyone", True),
        (ADA, {ADA: False}, "everyone", False),
        (None, {}, "opt_in", False),
        (None, {}, "everyone", True),
    ],
)
def test_unasked_messages_need_a_yes_or_at_least_no_no(
    person: int | None, consents: Mapping[int, bool], unasked: str, is_open: bool
) -> None:
    assert (gates.opted_in(person, consents, unasked) is None) is is_open


@pytest.mark.promise(443)
@pytest.mark.parametrize(
    ("before", "opens"),
    [
        ([], None),
        ([sent(25, answered=True)], None),
        ([sent(23, answered=True)], NOON + HOUR),
        ([sent(1, person=BOB)], None),
        ([sent(25)], NOON + 23 * HOUR),  # not answered: 48 hours
        ([sent(49)], None),
        ([sent(200), sent(49)], NOON + 47 * HOUR),  # two in a row: 96 hours
        ([sent(200), sent(97)], None),
        ([sent(200), sent(97, answered=True)], None),
        ([sent(300), sent(200, answered=True), sent(47)], NOON + HOUR),  # only those in a row count
    ],
)
def test_a_person_who_does_not_answer_is_left_alone_for_twice_as_long(
    before: Sequence[Sent], opens: float | None
) -> None:
    closed = gates.person_rested(ADA, before, NOON, 24.0)
    assert (closed.until if closed else None) == opens


@pytest.mark.promise(443)
def test_a_third_unanswered_message_is_the_last_until_the_person_writes() -> None:
    silent = [sent(2000), sent(1500), sent(1000)]
    closed = gates.person_rested(ADA, silent, NOON, 24.0)
    assert closed is not None
    assert closed.until is None
    assert gates.person_rested(ADA, [*silent[:2], sent(1000, answered=True)], NOON, 24.0) is None


@pytest.mark.parametrize(
    ("before", "opens"),
    [([], None), ([sent(7)], None), ([sent(5, person=BOB)], NOON + HOUR), ([sent(5, channel=2)], None)],
)
def test_a_channel_rests_for_everybody(before: Sequence[Sent], opens: float | None) -> None:
    closed = gates.channel_rested(1, before, NOON, 6.0)
    assert (closed.until if closed else None) == opens


NEWS = "The tall ships will race from Bergen again in August, for the first time in nine years."


@pytest.mark.parametrize(
    ("material", "is_open"),
    [
        (f"Ada: what about ships?\nClaude: {NEWS}", False),
        (f"Claude: {NEWS}\nAda: and who will sail in them, do you think, of the old crews?", True),
        ("", True),
    ],
)
def test_an_agent_does_not_follow_up_what_it_sent_unasked(material: str, is_open: bool) -> None:
    assert (gates.novel(material, [sent(50, text=NEWS)]) is None) is is_open


def test_topics_that_were_written_about_are_used_up() -> None:
    topics = ("tall ships", "bread", "the race from Bergen", "")
    assert gates.novel_topics(topics[:3], [sent(50, text=NEWS), sent(9)]) == ("bread",)
    assert gates.novel_topics(topics[:3], []) == topics[:3]
