"""The whole program with a real, small model. What it says is poor; that it is read, posted, and counted is what counts
here. A model of the owner's (MODEL) also shows its share of good turns."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from agentic.llm.types import Model, Priority, Prompt, Reply
from agentic.local.models import verdict_on
from agentic.quality.__main__ import rows, written
from agentic.quality.turns import Side, Turn, hold
from agentic.runtime.services import provider_model
from agentic.turn.cleaning import begins_a_form
from tests.models.conftest import SECONDS, ServedModel

TURNS, ROOM_TURNS = 4, 1
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 60}, "skip": {"type": "boolean"}},
    "required": ["text", "skip"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def turns(side: Side, model: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> list[Turn]:
    """The turns of a conversation and of a room. The owner's own model takes more of them."""
    count = 4 * TURNS if model.file else TURNS
    folder = tmp_path_factory.mktemp("data")
    return asyncio.run(hold(side, folder, count, ROOM_TURNS, SECONDS / 3, lambda _: None))


@pytest.fixture
async def asked(side: Side):
    made = provider_model(next(iter(side.settings.agents.values())))
    yield made
    await made.aclose()


async def test_the_model_passes_the_check_of_the_start(side: Side) -> None:
    verdict = await verdict_on(side.settings, "llamacpp/small")
    assert (verdict.problem, verdict.warning) == ("", "")


async def test_structured_output_is_accepted(asked: Model) -> None:
    prompt = Prompt(text="Say something about bees.", schema=SCHEMA, max_output_tokens=200, timeout=120.0)
    fields = json.loads((await asked.complete(prompt)).text)
    assert fields.keys() == {"text", "skip"}
    assert len(fields["text"]) <= 60


async def test_usage_is_read_with_the_reused_part(asked: Model) -> None:
    long = "Bees count flowers on their way home. " * 40
    first = await asked.complete(Prompt(text="How many?", system=long, max_output_tokens=10, timeout=120.0))
    second = await asked.complete(Prompt(text="How far?", system=long, max_output_tokens=10, timeout=120.0))
    assert first.usage.input_tokens > 200
    assert 0 < first.usage.output_tokens <= 10
    assert second.usage.cached_tokens > 200


async def test_a_canceled_call_frees_the_server(asked: Model) -> None:
    heard = asyncio.Event()
    endless = Prompt(
        text="Count to ten thousand in words.",
        max_output_tokens=4000,
        timeout=300.0,
        on_text=lambda text: heard.set() if text else None,
    )
    call = asyncio.create_task(asked.complete(endless))
    await asyncio.wait_for(heard.wait(), 60)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    brief = await asked.complete(Prompt(text="Hello", max_output_tokens=4, timeout=60.0))
    assert brief.usage.output_tokens <= 4


class Calls:
    """Calls of the bots' models, which share one server. `begun` and `ended` name them in order."""

    def __init__(self, models: list[Model]) -> None:
        self._models, self.begun, self.ended = models, list[str](), list[str]()
        self._heard: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def ask(self, bot: int, name: str, priority: Priority, text: str, tokens: int = 8) -> asyncio.Task[Reply]:
        def listen(written: str) -> None:
            if written and not self._heard[name].is_set():
                self.begun.append(name)
                self._heard[name].set()

        async def call() -> Reply:
            prompt = Prompt(text=text, priority=priority, on_text=listen, max_output_tokens=tokens, timeout=300.0)
            reply = await self._models[bot].complete(prompt)
            self.ended.append(name)
            return reply

        return asyncio.create_task(call(), name=name)

    async def wait_for(self, name: str) -> None:
        await asyncio.wait_for(self._heard[name].wait(), 120)


@pytest.fixture
async def calls(side: Side):
    models = [provider_model(agent) for agent in side.settings.agents.values()]
    yield Calls(models)
    for each in models:
        await each.aclose()


async def test_a_persons_call_goes_before_a_conversations_call_that_waits(calls: Calls) -> None:
    first = calls.ask(0, "first", "usual", "Count to one hundred in words.", tokens=60)
    await calls.wait_for("first")
    conversation = calls.ask(1, "conversation", "yield", "Say something about bees.")
    person = calls.ask(2, "person", "person", "What do bees eat?")
    await asyncio.gather(first, conversation, person)
    assert calls.begun == calls.ended == ["first", "person", "conversation"]


async def test_a_conversations_call_that_has_produced_nothing_is_canceled_for_a_person_and_made_again(
    calls: Calls, model: ServedModel
) -> None:
    long = "Bees count flowers on their way home. " * 400  # the model reads this for seconds
    conversation = calls.ask(0, "conversation", "yield", long)
    await model.wait_until_busy()
    person = calls.ask(1, "person", "person", "What do bees eat?")
    replies = await asyncio.gather(conversation, person)
    assert calls.begun == calls.ended == ["person", "conversation"]
    assert all(reply.usage.output_tokens for reply in replies)


def test_each_turn_has_one_result(turns: list[Turn]) -> None:
    assert turns
    assert set(Counter(turn.record.id for turn in turns).values()) == {1}
    assert all(turn.record.outcome for turn in turns)
    assert not [turn for turn in turns if turn.record.reason in ("internal_error", "discord_failed")]
    assert all(bool(turn.text) == bool(turn.record.posted) for turn in turns)


def test_no_post_has_a_form(turns: list[Turn]) -> None:
    assert [turn.text for turn in turns if turn.text and begins_a_form(turn.text)] == []


def test_turns_count_their_tokens(turns: list[Turn]) -> None:
    answered = [turn.record for turn in turns if turn.text]
    assert all(record.input_tokens > 0 and record.output_tokens > 0 for record in answered)


def test_a_larger_model_makes_good_turns(turns: list[Turn], model: ServedModel, capsys, tmp_path: Path) -> None:
    if not model.file:
        pytest.skip("only with MODEL=path.gguf: the small model can't hold a conversation")
    page = tmp_path / "conversations.md"
    page.write_text(written([Path(model.file).name], [turns]), encoding="utf-8")
    with capsys.disabled():
        print("", *("{:<40}{:>16}".format(*row) for row in rows([turns])), f"The conversations: {page}", sep="\n")
    assert any(turn.is_good for turn in turns)
