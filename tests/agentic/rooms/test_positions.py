"""Positions on the closing card: one call, on the books; where it fails the first sentences stand for them."""

import asyncio
from datetime import UTC
from functools import partial
from types import SimpleNamespace

import pytest

from agentic.agent.limits import ModelPrices, ProviderBackoff
from agentic.agent.side_calls import CheapModel
from agentic.llm.errors import ServerFailed
from agentic.llm.pricing import expected
from agentic.llm.types import Reply, Usage
from agentic.rooms.closing import close_room, find_positions, positions_in, prompt_of
from agentic.rooms.room_bot import RoomPost
from agentic.state.budgets import Caps
from agentic.state.rooms import Room, RoomMember
from tests.support.agent_scene import KeptNotes
from tests.support.doubles import Clock, SceneState

ROOM = Room(
    thread_id=50,
    channel_id=5,
    conversation_id="c",
    topic="tomatoes",
    members=(RoomMember(name="ada", shown="Ada"), RoomMember(name="grok", shown="Grok")),
    status="closed",
    why="agreed",
    opened_by=71,
)
POSTS = (
    RoomPost(1, "ada", "First."),
    RoomPost(2, "grok", "No. Never."),
    RoomPost(3, "ada", "Second. More."),
    RoomPost(4, "ada", "Third. " + "x" * 2000),
)
COST = Usage(model="cheap/one", calls=1, input_tokens=100, output_tokens=20, text_cost_usd=0.001)


class Model:
    name, free = "cheap/one", False

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    async def complete(self, prompt, history=()):
        self.asked.append(prompt)
        if isinstance(self.answer, Exception):
            raise self.answer
        return Reply(text=self.answer, usage=COST)


def prices():
    return ModelPrices("openai", "gpt-6-luna", None)


def cheap(answer, caps=None):
    clock = Clock()
    model = Model(answer)
    backoff = ProviderBackoff("cheap", clock)
    made = CheapModel(model=model, prices=prices(), redact=str, backoff=backoff)
    state = SceneState(clock, caps=caps)
    settings = SimpleNamespace(timezone=UTC)
    services = SimpleNamespace(state=state, clock=clock, settings=settings, record=KeptNotes())
    services.models = SimpleNamespace(cheap=made)
    return partial(find_positions, services), model, state


async def test_one_call_gives_a_line_for_each_and_is_on_the_books():
    positions, model, state = cheap('{"ada": "It is a fruit.", "grok": "It is not.", "bob": "I win."}')
    assert await positions(ROOM, POSTS) == {"ada": "It is a fruit.", "grok": "It is not."}
    assert len(model.asked) == 1
    (record,) = state.recorded
    assert (record.agent, record.kind, record.asked_by, record.channel_id) == ("ada", "card", 71, 50)
    assert [(call.kind, call.model, call.cost_usd) for call in record.calls] == [("card", "cheap/one", 0.001)]


async def test_the_same_end_is_paid_once():
    positions, model, _ = cheap('{"ada": "It is a fruit."}')
    await positions(ROOM, POSTS)
    assert await positions(ROOM, POSTS) == {}
    assert len(model.asked) == 1


@pytest.mark.parametrize("answer", [ServerFailed("down"), "no JSON", '{"ada": 3}', ""])
async def test_without_a_usable_answer_first_sentences_are_shown(answer):
    positions, _, state = cheap(answer)

    async def last(agent, thread_id):
        return []

    state.turns.records = SimpleNamespace(last=last)
    card = await close_room(positions.args[0], ROOM, POSTS)
    assert "**Ada**: Third.\n**Grok**: No." in card
    assert len(state.recorded) == 1


async def test_a_call_that_is_cut_off_is_charged_as_it_was_expected():
    positions, model, state = cheap("{}")
    under_way = asyncio.Event()

    async def hang(prompt, history=()):
        under_way.set()
        await asyncio.Event().wait()

    model.complete = hang
    asking = asyncio.create_task(positions(ROOM, POSTS))
    await under_way.wait()
    asking.cancel()
    await asyncio.wait((asking,))
    (record,) = state.recorded
    assert (record.reason, record.calls[0].error) == ("interrupted", "cancelled")
    expectation = prices().worst_case(expected(prompt_of(ROOM, POSTS))).cost_usd
    assert 0 < expectation == pytest.approx(record.cost_usd) == pytest.approx(record.calls[0].cost_usd)


async def test_over_the_budget_no_model_is_asked():
    positions, model, _ = cheap("{}", Caps(person=0.0))
    assert await positions(ROOM, POSTS) == {}
    assert model.asked == []


async def test_where_nobody_posted_no_model_is_asked():
    positions, model, state = cheap("{}")
    assert await positions(ROOM, ()) == {}
    assert (model.asked, state.recorded) == ([], [])


def test_the_prompt_has_the_last_posts_of_each_and_only_so_much_of_them():
    prompt = prompt_of(ROOM, POSTS)
    assert "First." not in prompt.text
    assert "## ada\nSecond. More.\n\nThird." in prompt.text
    assert len(prompt.text) < 1000
    assert prompt.schema["required"] == ["ada", "grok"]


def test_only_members_have_positions():
    assert positions_in('Sure: {"ada": "Yes.", "x": "No.", "grok": " "}', ROOM) == {"ada": "Yes."}
