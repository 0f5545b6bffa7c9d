"""Positions on the closing card: one call, on the books; where it fails the first sentences stand for them."""

import asyncio
from dataclasses import replace
from datetime import UTC
from functools import partial
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from agentic.agent.limits import ModelPrices, ProviderBackoff
from agentic.agent.side_calls import CheapModel
from agentic.llm.errors import ServerFailed
from agentic.llm.pricing import expected
from agentic.llm.types import Reply, Usage
from agentic.rooms.closing import CardTexts, close_room, find_texts, page_line, prompt_of, texts_in
from agentic.rooms.room_bot import RoomPost, ThreadWords
from agentic.state.budgets import Caps
from agentic.state.rooms import Room, RoomMember
from agentic.wire.entries import ContestNote, RoomConclusion
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
    settings = SimpleNamespace(timezone=UTC, records=True, console=False)
    services = SimpleNamespace(state=state, clock=clock, settings=settings, record=KeptNotes())
    services.models = SimpleNamespace(cheap=made, make_judge=None)
    return partial(find_texts, services), model, state


async def test_one_call_gives_a_line_for_each_and_is_on_the_books():
    positions, model, state = cheap(
        '{"positions": {"ada": "It is a fruit.", "grok": "It is not.", "bob": "I win."},'
        ' "arguments": ["ada: it has *seeds*", 3, ""], "agreed": ["It is red.", "It is round.", "It is old."],'
        ' "unsettled": "nothing"}'
    )
    assert await positions(ROOM, POSTS) == CardTexts(
        {"ada": "It is a fruit.", "grok": "It is not."}, ("ada: it has seeds",), ("It is red.", "It is round.")
    )
    assert len(model.asked) == 1
    (record,) = state.recorded
    assert (record.agent, record.kind, record.asked_by, record.channel_id) == ("ada", "card", 71, 50)
    assert [(call.kind, call.model, call.cost_usd) for call in record.calls] == [("card", "cheap/one", 0.001)]


@pytest.mark.promise(601)
async def test_if_the_program_ended_before_it_used_the_answer_it_asks_once_more_and_not_again():
    positions, model, state = cheap('{"positions": {"ada": "It is a fruit."}}')
    for _ in range(2):
        assert await positions(ROOM, POSTS) == CardTexts({"ada": "It is a fruit."})
    assert await positions(ROOM, POSTS) == CardTexts()
    assert (len(model.asked), len(state.recorded)) == (2, 2)


@pytest.mark.parametrize("answer", [ServerFailed("down"), "no JSON", '{"positions": {"ada": 3}}', ""])
async def test_without_a_usable_answer_first_sentences_are_shown(answer):
    positions, _, state = cheap(answer)

    state.turns.records = SimpleNamespace(last=AsyncMock(return_value=[]))
    card = await close_room(positions.args[0], ROOM, ThreadWords(POSTS))
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
    assert await positions(ROOM, POSTS) == CardTexts()
    assert model.asked == []


async def test_where_nobody_posted_no_model_is_asked():
    positions, model, state = cheap("{}")
    assert await positions(ROOM, ()) == CardTexts()
    assert (model.asked, state.recorded) == ([], [])


def test_the_prompt_has_the_first_and_last_posts_of_each_and_only_so_much_of_them():
    posts = (POSTS[0], RoomPost(9, "ada", "Between."), *POSTS[1:])
    prompt = prompt_of(ROOM, posts)
    assert "Between." not in prompt.text
    assert "## ada\nFirst.\n\nSecond. More.\n\nThird." in prompt.text
    assert len(prompt.text) < 1000
    assert prompt.schema["properties"]["positions"]["required"] == ["ada", "grok"]
    assert "Arguments" not in prompt.text
    noted = ROOM.model_copy(update={"ledger": ("ada: seeds",)})
    assert "Arguments so far:\n- ada: seeds" in prompt_of(noted, posts).text


def test_only_members_have_positions():
    found = texts_in('Sure: {"positions": {"ada": "Yes.", "x": "No.", "grok": " "}}', ROOM)
    assert found == CardTexts({"ada": "Yes."})


async def test_what_came_of_the_room_is_recorded_with_its_card_its_posts_and_its_people():
    positions, _, state = cheap('{"positions": {}, "arguments": ["ada: seeds"], "agreed": [], "unsettled": ["Who?"]}')

    state.turns.records = SimpleNamespace(last=AsyncMock(return_value=[]))
    services = positions.args[0]
    card = await close_room(services, ROOM, ThreadWords(POSTS, frozenset({72, 71})))
    (noted,) = [note for note in services.record if isinstance(note, RoomConclusion)]
    assert (noted.arguments, noted.unsettled, noted.message_ids) == (("ada: seeds",), ("Who?",), (1, 2, 3, 4))
    assert (noted.people, noted.closed_at) == ((71, 72), ROOM.changed_at)
    without_page, _, page = card.rpartition("\n\n")
    assert f"🫥 {noted.card}" == without_page
    assert "/room export" in page


async def test_a_moderator_without_votes_is_no_contender():
    room = ROOM.model_copy(update={"format": "debate", "moderator": "ada", "turns": 30})
    for voters, names in (((), ["grok"]), ((71,), ["ada", "grok"])):
        positions, _, state = cheap("{}")
        state.turns.records = SimpleNamespace(last=AsyncMock(return_value=[]))
        services, liked = positions.args[0], replace(POSTS[0], voters=frozenset(voters))
        await close_room(services, room, ThreadWords((liked, *POSTS[1:])))
        (contest,) = [note for note in services.record if isinstance(note, ContestNote)]
        assert [one.agent for one in contest.contenders] == names


async def test_a_members_model_is_the_one_it_posted_with_not_one_that_was_asked_about_the_room():
    positions, _, state = cheap("{}")
    made = [("cheap/list", ()), ("", ()), ("anthropic/new", (8,)), ("anthropic/old", (7,))]
    turns = [SimpleNamespace(model=model, posted=posted) for model, posted in made]
    state.turns.records = SimpleNamespace(last=AsyncMock(return_value=turns))
    services = positions.args[0]
    await close_room(services, ROOM, ThreadWords((replace(POSTS[0], voters=frozenset({71})), *POSTS[1:])))
    (contest,) = [note for note in services.record if isinstance(note, ContestNote)]
    assert {one.model for one in contest.contenders} == {"anthropic/new"}


@pytest.mark.parametrize(
    ("console", "url", "token", "line"),
    [
        (True, "https://bots.example", "t0k", "**The whole debate**: <https://bots.example/shared/t0k>"),
        (True, "https://bots.example", None, "Use `/room export`"),
        (True, None, "t0k", "Use `/room export`"),
        (False, "https://bots.example", "t0k", "Use `/room export`"),
    ],
    ids=["shared", "not shared", "an address of this machine", "no console"],
)
async def test_the_card_has_a_link_only_if_the_page_is_shared_at_an_address_that_people_have(console, url, token, line):
    async def token_of(thread_id):
        return token

    settings = SimpleNamespace(records=True, console=console, console_url=url, console_link=url)
    shares = SimpleNamespace(token_of=token_of)
    state = SimpleNamespace(coordination=SimpleNamespace(room_shares=shares))
    assert (await page_line(SimpleNamespace(settings=settings, state=state), ROOM)).startswith(line)


@pytest.mark.promise(601)
async def test_a_call_during_which_the_program_was_killed_is_charged_when_it_is_made_again():
    positions, model, state = cheap("{}")
    under_way, answer = asyncio.Event(), model.complete

    async def hang(prompt, history=()):
        under_way.set()
        await asyncio.Event().wait()

    model.complete = hang
    killed = asyncio.create_task(positions(ROOM, POSTS))
    await under_way.wait()
    state.crash()
    model.complete = answer
    await positions(ROOM, POSTS)
    assert [(record.reason, record.calls[0].error) for record in state.recorded] == [
        ("interrupted", "cancelled"),
        (None, None),
    ]
    assert state.recorded[0].cost_usd > 0
    killed.cancel()
