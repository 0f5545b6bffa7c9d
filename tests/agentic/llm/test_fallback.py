"""A list of models as one: who is asked, with how much time, and who is left alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pytest

from agentic.llm.errors import (
    BadAnswer,
    BadKey,
    BadRequest,
    CannotDraw,
    ConnectionFailed,
    ModelError,
    PrefillRefused,
    QuotaUsedUp,
    RateLimited,
    Refused,
    ServerFailed,
    TimedOut,
)
from agentic.llm.retry import SHARE, Fallbacks
from agentic.llm.types import Drawing, Message, Picture, Prompt, Reply, Usage


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Scripted:
    """Does what it is told, one after the other, and keeps the seconds that it was given; `takes` passes before."""

    def __init__(
        self, name: str, *does: str | ModelError, clock: Clock, takes: float = 0.0, draws: bool = True
    ) -> None:
        self.name, self.can_draw, self.free = name, draws, False
        self.given: list[float] = []
        self.closed = False
        self._does, self._clock, self._takes = list(does), clock, takes

    def _next(self, seconds: float) -> str:
        self.given.append(seconds)
        self._clock.now += min(self._takes, seconds)
        done = self._does.pop(0) if len(self._does) > 1 else self._does[0]
        if isinstance(done, ModelError):
            raise done
        return done

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        text = self._next(prompt.timeout)
        if prompt.on_text:
            prompt.on_text(text)
        return Reply(text=text, model=self.name, usage=Usage(model=self.name, calls=1, text_cost_usd=1.0))

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - the Model protocol's
        self._next(timeout)
        return Drawing(picture=Picture(b"x", "image/png"), model=self.name)

    async def aclose(self) -> None:
        self.closed = True


def limited(retry_after: float) -> RateLimited:
    error = RateLimited()
    error.retry_after = retry_after
    return error


@pytest.mark.parametrize(
    "error",
    [ServerFailed(), ConnectionFailed(), TimedOut(), QuotaUsedUp(), BadKey(), RateLimited(), limited(100.0)],
    ids=repr,
)
async def test_the_next_answers_when_one_is_down_or_out_of_quota(error: ModelError) -> None:
    clock = Clock()
    models = Fallbacks([Scripted("a/1", error, clock=clock), Scripted("b/2", "yes", clock=clock)], clock=clock)
    reply = await models.complete(Prompt(text="?"))
    assert (reply.text, reply.model, models.name) == ("yes", "b/2", "a/1")


@pytest.mark.parametrize("error", [BadRequest(), PrefillRefused(), Refused(), BadAnswer(), CannotDraw()], ids=repr)
async def test_what_was_refused_or_asked_wrongly_goes_no_further(error: ModelError) -> None:
    clock = Clock()
    second = Scripted("b/2", "yes", clock=clock)
    models = Fallbacks([Scripted("a/1", error, "yes", clock=clock), second], clock=clock)
    with pytest.raises(type(error)):
        await models.complete(Prompt(text="?"))
    assert not second.given
    assert (await models.complete(Prompt(text="?"))).model == "a/1"


async def test_one_that_is_down_is_left_alone_for_a_while() -> None:
    clock = Clock()
    first = Scripted("a/1", ServerFailed(), "back", clock=clock)
    models = Fallbacks([first, Scripted("b/2", "yes", clock=clock)], clock=clock)
    for _ in range(3):
        assert (await models.complete(Prompt(text="?"))).model == "b/2"
    assert len(first.given) == 1
    clock.now += 31
    assert (await models.complete(Prompt(text="?"))).model == "a/1"


async def test_a_rate_limit_rests_as_long_as_it_says() -> None:
    clock = Clock()
    first = Scripted("a/1", limited(200.0), "back", clock=clock)
    models = Fallbacks([first, Scripted("b/2", "yes", clock=clock)], clock=clock)
    await models.complete(Prompt(text="?"))
    clock.now += 199
    assert (await models.complete(Prompt(text="?"))).model == "b/2"
    clock.now += 2
    assert (await models.complete(Prompt(text="?"))).model == "a/1"


async def test_the_time_is_shared_and_the_last_gets_all_that_is_left() -> None:
    clock = Clock()
    first = Scripted("a/1", TimedOut(), clock=clock, takes=1000)
    second = Scripted("b/2", "yes", clock=clock)
    await Fallbacks([first, second], clock=clock).complete(Prompt(text="?", timeout=50.0))
    assert first.given == [pytest.approx(50 * SHARE)]
    assert second.given == [pytest.approx(50 * (1 - SHARE))]


async def test_one_that_rests_is_asked_last_and_the_others_need_not_leave_it_time() -> None:
    clock = Clock()
    first = Scripted("a/1", QuotaUsedUp(), "after all", clock=clock)
    second = Scripted("b/2", "yes", ServerFailed(), clock=clock)
    models = Fallbacks([first, second], clock=clock)
    await models.complete(Prompt(text="?"))
    assert (await models.complete(Prompt(text="?", timeout=40.0))).text == "after all"
    assert second.given[-1] == pytest.approx(40.0)


async def test_no_time_left_is_timed_out_without_a_call() -> None:
    clock = Clock()
    second = Scripted("b/2", "yes", clock=clock)
    models = Fallbacks([Scripted("a/1", TimedOut(), clock=clock), second], clock=clock)
    with pytest.raises(TimedOut):
        await models.complete(Prompt(text="?", timeout=0.0))
    assert not second.given


async def test_a_model_that_no_time_was_left_to_ask_is_not_avoided() -> None:
    clock = Clock()
    models = Fallbacks([Scripted("a/1", "yes", clock=clock), Scripted("b/2", "no", clock=clock)], clock=clock)
    with pytest.raises(TimedOut):
        await models.complete(Prompt(text="?", timeout=0.0))
    assert (await models.complete(Prompt(text="?"))).text == "yes"


async def test_the_last_error_is_told_with_what_all_of_them_cost() -> None:
    clock = Clock()
    cut, down = ConnectionFailed(), ServerFailed()
    cut.usage = Usage(calls=1, text_cost_usd=0.5)
    down.usage = Usage(calls=1, text_cost_usd=0.25)
    models = Fallbacks([Scripted("a/1", cut, clock=clock), Scripted("b/2", down, clock=clock)], clock=clock)
    with pytest.raises(ServerFailed) as caught:
        await models.complete(Prompt(text="?"))
    assert caught.value.usage is not None
    assert caught.value.usage.cost_usd == pytest.approx(0.75)


async def test_what_a_failed_one_cost_is_in_the_replys_usage() -> None:
    clock = Clock()
    cut = ConnectionFailed()
    cut.usage = Usage(calls=1, text_cost_usd=0.5)
    models = Fallbacks([Scripted("a/1", cut, clock=clock), Scripted("b/2", "yes", clock=clock)], clock=clock)
    usage = (await models.complete(Prompt(text="?"))).usage
    assert (usage.model, usage.calls, usage.cost_usd) == ("b/2", 2, pytest.approx(1.5))


async def test_a_listener_hears_that_it_begins_again() -> None:
    clock, heard = Clock(), list[str]()
    models = Fallbacks([Scripted("a/1", ServerFailed(), clock=clock), Scripted("b/2", "yes", clock=clock)], clock=clock)
    await models.complete(Prompt(text="?", on_text=heard.append))
    assert heard == ["", "yes"]


async def test_only_those_that_draw_are_asked_for_a_picture() -> None:
    clock = Clock()
    writer = Scripted("a/1", "yes", clock=clock, draws=False)
    models = Fallbacks([writer, Scripted("b/2", "yes", clock=clock)], clock=clock)
    assert models.can_draw
    assert (await models.draw("a cat")).model == "b/2"
    alone = Fallbacks([writer], clock=clock)
    with pytest.raises(CannotDraw):
        await alone.draw("a cat")
    assert not writer.given


async def test_each_step_is_one_line_and_all_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    clock = Clock()
    listed = [Scripted("a/1", ServerFailed(), clock=clock), Scripted("b/2", "yes", clock=clock)]
    models = Fallbacks(listed, clock=clock)
    for _ in range(2):
        await models.complete(Prompt(text="?"))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["a/1 failed, falling back to b/2"]
    await models.aclose()
    assert all(model.closed for model in listed)


def test_an_empty_list_is_refused() -> None:
    make: Callable[[list[Scripted]], Fallbacks] = Fallbacks
    with pytest.raises(ValueError, match="no model"):
        make([])


def test_a_list_costs_nothing_only_where_none_of_it_does() -> None:
    free, paid = Scripted("a", "x", clock=Clock()), Scripted("b", "x", clock=Clock())
    free.free = True
    assert [Fallbacks(models).free for models in ([free], [free, paid], [paid])] == [True, False, False]
