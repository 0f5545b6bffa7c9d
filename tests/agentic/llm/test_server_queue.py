"""People's turns go first at a model server at home."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from agentic.llm.errors import ServerBusy
from agentic.llm.profiles import Endpoint
from agentic.llm.registry import build_model
from agentic.llm.server_queue import ServerQueue, queue_at
from agentic.llm.types import Model, Priority, Prompt, Reply
from tests.support.models.chat_api import ChatAnswer, ChatRequest, ChatServer
from tests.support.redis_server import until


class SlowServer:
    """Answers a request when it is released."""

    def __init__(self, server: ChatServer) -> None:
        self._server = server
        self._locks: dict[int, asyncio.Event] = {}
        server.answer = self._answer

    def _answer(self, _request: ChatRequest) -> ChatAnswer:
        lock = self._locks[len(self._server.requests)] = asyncio.Event()
        return ChatAnswer(after=lock.wait)

    @property
    def asked(self) -> list[str]:
        """The texts of the requests, in order."""
        return [request.messages[-1]["content"] for request in self._server.requests]

    async def wait_for(self, count: int) -> None:
        await until(lambda: len(self._server.requests) >= count)

    async def release(self, number: int) -> None:
        await self.wait_for(number)
        self._locks[number].set()


@asynccontextmanager
async def serving(bots: int = 2, slots: int = 1) -> AsyncIterator[tuple[SlowServer, list[Model]]]:
    async with ChatServer(lambda _: "unused") as server:
        home = Endpoint(name="home", base_url=server.base_url, slots=slots)
        models: list[Model] = [
            build_model("home", model=str(number), api_key="", endpoint=home) for number in range(bots)
        ]
        slow = SlowServer(server)
        try:
            yield slow, models
        finally:
            for model in models:
                await model.aclose()


def ask(
    model: Model,
    text: str,
    priority: Priority,
    on_wait: Callable[[int], None] | None = None,
    timeout: float = 5.0,
) -> asyncio.Task[Reply]:
    return asyncio.create_task(
        model.complete(Prompt(text=text, priority=priority, on_wait=on_wait, timeout=timeout, retries=0))
    )


async def test_a_persons_call_goes_before_the_calls_that_wait() -> None:
    async with serving(3) as (server, (one, two, three)):
        calls = [ask(one, "first", "usual")]
        await server.wait_for(1)
        calls += [ask(two, "conversation", "yield"), ask(three, "person", "person")]
        for number in (1, 2, 3):
            await server.release(number)
        await asyncio.gather(*calls)
    assert server.asked == ["first", "person", "conversation"]


@pytest.mark.promise(584)
async def test_a_conversations_call_without_an_answer_gives_way_and_is_made_again() -> None:
    async with serving() as (server, (one, two)):
        calls = [ask(one, "conversation", "yield")]
        await server.wait_for(1)
        calls.append(ask(two, "person", "person"))
        await server.release(2)
        await server.release(3)
        assert [reply.text for reply in await asyncio.gather(*calls)] == ["ok", "ok"]
    assert server.asked == ["conversation", "person", "conversation"]


async def test_a_call_that_has_produced_something_is_not_interrupted() -> None:
    queue, ended = ServerQueue(), list[str]()
    running, goes_on = queue.call(Prompt(text="", priority="yield")), asyncio.Event()

    async def write() -> None:
        running.begin()
        await goes_on.wait()
        ended.append("conversation")

    async def answer() -> None:
        ended.append("person")

    conversation = asyncio.create_task(running.run(write))
    await asyncio.sleep(0)
    person = asyncio.create_task(queue.call(Prompt(text="", priority="person")).run(answer))
    await asyncio.sleep(0)
    goes_on.set()
    await asyncio.gather(conversation, person)
    assert ended == ["conversation", "person"]


async def test_a_person_who_waits_learns_how_many_are_ahead() -> None:
    ahead: list[int] = []
    async with serving(3) as (server, (one, two, three)):
        calls = [ask(one, "first", "person")]
        await server.wait_for(1)
        calls += [ask(two, "second", "person"), ask(three, "third", "person", ahead.append)]
        for number in (1, 2, 3):
            await server.release(number)
        await asyncio.gather(*calls)
    assert ahead == [2, 1, 0]


@pytest.mark.parametrize("priority", ["person", "yield"])
async def test_a_call_that_got_no_place_in_time_says_that_the_server_was_busy(priority: Priority) -> None:
    async with serving() as (server, (one, two)):
        first = ask(one, "first", "person")
        await server.wait_for(1)
        with pytest.raises(ServerBusy):
            await ask(two, "second", priority, timeout=0.05)
        await server.release(1)
        await first
    assert server.asked == ["first"]


async def test_a_call_that_gave_way_and_ran_out_of_time_did_not_fail() -> None:
    async with serving() as (server, (one, two)):
        call = ask(one, "conversation", "yield", timeout=0.3)
        await server.wait_for(1)
        person = ask(two, "person", "person")
        with pytest.raises(ServerBusy):
            await call
        await server.release(2)
        await person


async def test_a_server_with_more_slots_answers_as_many_at_once() -> None:
    async with serving(slots=2) as (server, (one, two)):
        calls = [ask(one, "conversation", "yield"), ask(two, "person", "person")]
        await server.wait_for(2)
        await server.release(1)
        await server.release(2)
        await asyncio.gather(*calls)
    assert len(server.asked) == 2


def test_endpoints_with_the_same_address_share_a_queue() -> None:
    queue = queue_at("http://localhost:8080/v1", 1)
    assert queue_at("http://127.0.0.1:8080/v1", 4) is queue
    assert queue.slots == 4
    assert queue_at("http://127.0.0.1:8081/v1", 1) is not queue
