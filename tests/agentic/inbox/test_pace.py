from __future__ import annotations

from agentic.inbox.inbox import PrivatePace


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_chat_waits_once_it_had_its_turns_of_a_minute_and_other_chats_do_not():
    clock = Clock()
    pace = PrivatePace(2, clock)
    pace.note(5)
    clock.now += 10
    assert pace.seconds_left(5) == 0
    pace.note(5)
    assert pace.seconds_left(5) == 50
    assert pace.seconds_left(6) == 0
    clock.now += 50
    assert pace.seconds_left(5) == 0


def test_a_clock_that_is_set_back_keeps_nobody_waiting():
    clock = Clock()
    pace = PrivatePace(1, clock)
    pace.note(5)
    clock.now -= 500
    assert pace.seconds_left(5) == 0
