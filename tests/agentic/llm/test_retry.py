"""The retry ladder with a clock of its own."""

from __future__ import annotations

import random

import pytest

from agentic.llm import errors
from agentic.llm.errors import (
    BadKey,
    Final,
    ModelError,
    RateLimited,
    Retryable,
    ServerFailed,
    TimedOut,
    seconds_to_wait,
)
from agentic.llm.retry import Retrier


class Time:
    """A clock that only sleeping and working move."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sleeps: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds


class Work:
    """Attempts that take `seconds` each and raise what they are given, then succeed."""

    def __init__(self, time: Time, *errors: ModelError, seconds: float = 1.0) -> None:
        self.time, self.errors, self.seconds = time, list(errors), seconds
        self.left: list[float] = []
        self.heard: list[tuple[ModelError, int]] = []

    async def __call__(self, left: float) -> str:
        self.left.append(left)
        self.time.now += self.seconds
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    def failed(self, error: ModelError, number: int) -> None:
        self.heard.append((error, number))


def retrier(time: Time, **policy: float) -> Retrier:
    return Retrier(**policy, rng=random.Random(1), clock=time, sleep=time.sleep)  # type: ignore[arg-type]


async def test_each_attempt_gets_what_is_left_of_the_budget() -> None:
    time = Time()
    work = Work(time, ServerFailed(), ServerFailed())
    assert await retrier(time).run(work, seconds=30, failed=work.failed) == "done"
    assert work.left[0] == 30
    assert work.left[1] == pytest.approx(29 - time.sleeps[0])
    assert [number for _, number in work.heard] == [1, 2]


async def test_waits_grow_and_have_jitter() -> None:
    growing = Retrier(first_wait=1, longest_wait=4, rng=random.Random(1))
    for failed, most in [(1, 1), (2, 2), (3, 4), (4, 4), (9, 4)]:
        waits = {growing.wait(failed, ServerFailed()) for _ in range(20)}
        assert len(waits) > 1
        assert all(most / 2 <= wait <= most for wait in waits)


@pytest.mark.promise(54)
async def test_a_wait_that_would_pass_the_end_is_not_begun() -> None:
    time = Time()
    work = Work(time, ServerFailed(), seconds=9.9)
    with pytest.raises(ServerFailed):
        await retrier(time).run(work, seconds=10, failed=work.failed)
    assert not time.sleeps


async def test_final_errors_and_timeouts_are_not_tried_again() -> None:
    for error in (BadKey(), TimedOut()):
        time = Time()
        work = Work(time, error)
        with pytest.raises(type(error)):
            await retrier(time).run(work, seconds=60, failed=work.failed)
        assert len(work.left) == 1


async def test_the_number_of_attempts_is_a_setting() -> None:
    time = Time()
    work = Work(time, *(RateLimited() for _ in range(9)))
    with pytest.raises(RateLimited):
        await retrier(time, attempts=5).run(work, seconds=600, failed=work.failed)
    assert len(work.left) == 5


async def test_no_time_at_all_is_timed_out_without_an_attempt() -> None:
    time = Time()
    work = Work(time)
    with pytest.raises(TimedOut):
        await retrier(time).run(work, seconds=0, failed=work.failed)
    assert not work.left


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 40.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert seconds_to_wait(headers, now=60.0) == seconds


KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ModelError) and kind not in (ModelError, Retryable, Final)
]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_kind_of_error_is_tried_again_if_it_may_pass(kind: type[ModelError]) -> None:
    time = Time()
    work = Work(time, kind(), kind(), kind(), kind())
    with pytest.raises(kind):
        await retrier(time).run(work, seconds=30, failed=work.failed)
    assert len(work.left) == (3 if issubclass(kind, Retryable) else 1)


async def test_attempts_and_waits_can_be_set() -> None:
    time = Time()
    work = Work(time, *(ServerFailed() for _ in range(4)))
    patient = retrier(time, attempts=5, first_wait=2.0, longest_wait=3.0)
    assert await patient.run(work, seconds=60, failed=work.failed) == "done"
    assert len(time.sleeps) == 4
    assert all(1.0 <= wait <= 3.0 for wait in time.sleeps)


async def test_a_prompt_may_be_tried_less_often_than_the_policy_says() -> None:
    time = Time()
    work = Work(time, ServerFailed(), ServerFailed(), ServerFailed())
    with pytest.raises(ServerFailed):
        await retrier(time, attempts=3).run(work, seconds=60.0, failed=work.failed, attempts=2)
    assert len(work.left) == 2
