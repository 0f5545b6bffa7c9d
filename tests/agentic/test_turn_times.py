"""When the next turn of a room comes."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from agentic.pace import archive_minutes, is_pace, longest_gap, next_turn_at, parse_pace, reading_seconds
from agentic.state.rooms import ARCHIVE_MINUTES

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("", "live"),
        (" Live ", "live"),
        ("SLOW", "slow"),
        ("90", "90"),
        ("90 s", "90"),
        ("5m", "300"),
        ("2h", "7200"),
        ("9:00", "09:00"),
        ("18:30, 9h00", "09:00 18:30"),
        ("09.00 09:00", "09:00"),
    ],
)
def test_people_write_a_pace_in_several_ways(written: str, stored: str) -> None:
    assert parse_pace(written) == stored == parse_pace(stored)


@pytest.mark.parametrize("written", ["fast", "0", "-5", "25h", "24:00", "9:60", "9:00 noon", "1:00 2:00 3:00 4:00"])
def test_anything_else_is_no_pace(written: str) -> None:
    assert not is_pace(written)


@pytest.mark.parametrize(
    ("pace", "now", "then"),
    [
        ("slow", "2026-06-10 12:00", "2026-06-10 13:00"),
        ("90", "2026-06-10 12:00", "2026-06-10 12:01:30"),
        ("09:00 18:00", "2026-06-10 12:00", "2026-06-10 18:00"),
        ("09:00 18:00", "2026-06-10 18:00", "2026-06-11 09:00"),
        ("09:00", "2026-10-24 10:00", "2026-10-25 09:00"),  # the clocks change in between
    ],
)
def test_the_next_turn_comes_after_so_many_seconds_or_at_the_next_time_of_day(pace: str, now: str, then: str) -> None:
    assert next_turn_at(pace, at(now), BERLIN) == at(then)
    assert next_turn_at("live", at(now), BERLIN) is None
    assert at(then) - at(now) <= longest_gap(pace)


def test_a_post_is_read_for_as_long_as_it_is_long_within_bounds() -> None:
    assert [reading_seconds(characters, 15, 45) for characters in (0, 100, 600, 5_000)] == [15, 15, 30, 45]
    assert reading_seconds(5_000, 0, 0) == 0


@pytest.mark.parametrize(
    ("pace", "wanted", "given"),
    [("live", 60, 60), ("slow", 60, 1440), ("slow", 4320, 4320), ("300", 60, 60), ("09:00", 1440, 4320)],
)
def test_the_thread_is_not_archived_between_two_turns(pace: str, wanted: int, given: int) -> None:
    assert archive_minutes(pace, wanted, ARCHIVE_MINUTES) == given
