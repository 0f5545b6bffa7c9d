import re
from dataclasses import replace

import pytest

from agentic.agent.events import InstructionEvent, MentionEvent
from agentic.agent.limits import (
    OVERHEAD_TOKENS,
    ModelPrices,
    PromptOverhead,
    first_call_usage,
    prompt_tokens,
    read_under_way,
    under_way,
)
from agentic.chat.directory import Directory
from agentic.chat.transcript import Transcripts
from agentic.context.entries import Attachment, Entry, Speaker
from agentic.context.options import Options
from agentic.llm.pricing import PICTURE_TOKENS, SEARCH_TOKENS, tokens_of
from agentic.llm.types import Usage
from agentic.process.root import ROOT
from agentic.wire.messages import HistoryEntry, Instruction

ALICE = Speaker(11, "Alice", "person")
PLAIN = Options()
LUNA = ModelPrices("openai", "gpt-6-luna", "gpt-image-2.6-flare")


def entry(number, text="x" * 350, pictures=0):
    files = tuple(Attachment(n, "cat.png", "", 1, "image/png") for n in range(pictures))
    return Entry(number, ALICE, text, 0.0, attachments=files)


def transcript(*entries):
    made = Transcripts(Directory()).of(1)
    for each in entries:
        made.add(each)
    made.is_complete = True
    return made


def instruction(**fields):
    return InstructionEvent.of(Instruction(instruction_id="i1", channel_id=1, **fields), 0.0)


def tokens(shown=(), said=(), options=PLAIN, *, window=40, whole=True, overhead=OVERHEAD_TOKENS):
    return prompt_tokens(shown, said, options, window=window, whole=whole, overhead=overhead)


def most(event, trigger, *entries, prices=LUNA, options=PLAIN, window=40, overhead=OVERHEAD_TOKENS):
    return first_call_usage(event, trigger, prices, transcript(*entries), options, window=window, overhead=overhead)


def cost(read, *, output=4_000, searches=0):
    return pytest.approx((read * 0.1 + output * 0.5) / 1e6 + searches * 0.01)


def test_a_prompt_is_its_frame_and_the_messages_of_the_window():
    entries = [entry(n) for n in range(5)]
    assert tokens(entries, ["y" * 50], window=5) == OVERHEAD_TOKENS + tokens_of(5 * (350 + 100) + 150)


def test_the_persona_and_the_memory_count_in_full_once_they_were_seen_and_are_forgotten_slowly():
    overhead = PromptOverhead()
    overhead.note(20_000)
    assert tokens(overhead=overhead.tokens) == 20_000
    overhead.note(3_000)
    assert overhead.tokens == 18_000
    for _ in range(100):
        overhead.note(1)
    assert overhead.tokens == OVERHEAD_TOKENS


def test_of_a_long_channel_only_what_is_shown_counts():
    few, many = ([entry(n) for n in range(count)] for count in (5, 100))
    assert most(instruction(), "round", *many, window=5).cost_usd == most(instruction(), "round", *few).cost_usd > 0


def test_what_was_not_read_yet_counts_all_the_same():
    assert tokens(whole=False) == OVERHEAD_TOKENS + tokens_of(40 * 200)


def test_pictures_count_up_to_those_that_are_shown():
    entries = [entry(n, "", pictures=3) for n in range(3)]
    plain = tokens([entry(n, "") for n in range(3)])
    assert tokens(entries) == plain + PLAIN.max_images * PICTURE_TOKENS
    assert tokens(entries, options=Options(include_images=False)) == plain


@pytest.mark.promise(51)
def test_text_files_count_up_to_what_is_quoted_of_them():
    def with_file(size):
        return [Entry(1, ALICE, "", 0.0, attachments=(Attachment(1, "notes.txt", "", size, "text/plain"),))]

    plain = tokens([entry(1, "")])
    assert tokens(with_file(3_000)) == plain + 1_000
    assert tokens(with_file(900_000)) == plain + tokens_of(PLAIN.max_file_characters + 100) - tokens_of(100)
    assert tokens(with_file(3_000), options=Options(include_files=False)) == plain


def test_an_answer_to_a_question_counts_what_it_reads():
    event = MentionEvent.of(entry(5), channel_id=1, theme="casual", to_all=False, now=100.0)
    assert most(event, "mention", entry(5)).cost_usd == cost(OVERHEAD_TOKENS + 150)


@pytest.mark.parametrize(
    ("trigger", "theme", "searches"),
    [("starter", "casual", 3), ("round", "casual", 0), ("round", "debate", 3), ("reactive", "casual", 0)],
)
def test_a_scheduled_turn_counts_searches_if_it_may_search(trigger, theme, searches):
    assert most(instruction(channel_theme=theme), trigger).cost_usd == cost(
        OVERHEAD_TOKENS + searches * SEARCH_TOKENS, searches=searches
    )


@pytest.mark.parametrize(("prices", "searches"), [(LUNA, 3), (ModelPrices("compatible", "llama", None), 0)])
def test_with_always_search_the_answer_to_a_person_counts_the_searches_of_its_maker(prices, searches):
    event = MentionEvent.of(entry(5), channel_id=1, theme="casual", to_all=False, now=100.0)
    more = most(event, "mention", options=Options(always_search=True), prices=prices).cost_usd
    assert more - most(event, "mention", prices=prices).cost_usd == pytest.approx(
        prices.call(OVERHEAD_TOKENS + searches * SEARCH_TOKENS, output_tokens=4000, searches=searches)
        - prices.call(OVERHEAD_TOKENS, output_tokens=4000)
    )


@pytest.mark.promise(51)
def test_an_answer_counts_as_long_as_it_may_be():
    assert most(instruction(), "round", options=Options(max_output_tokens=64_000)).cost_usd == cost(
        OVERHEAD_TOKENS, output=64_000
    )


def test_the_conversation_that_an_instruction_brings_is_read_too():
    history = (HistoryEntry(agent="grok", text="z" * 90_000),)
    more = most(instruction(conversation_history=history), "round").cost_usd - most(instruction(), "round").cost_usd
    assert more == pytest.approx(tokens_of(90_100) * 0.1 / 1e6)


@pytest.mark.promise(51)
def test_the_dearest_of_an_agents_models_is_what_counts():
    opus = ModelPrices("anthropic", "claude-opus-5-5", None)
    both = most(instruction(), "round", prices=replace(LUNA, others=(opus,)))
    assert both.cost_usd == most(instruction(), "round", prices=opus).cost_usd > most(instruction(), "round").cost_usd
    assert both.model == "anthropic/claude-opus-5-5"


@pytest.mark.promise(51)
def test_a_coding_agents_turn_counts_what_its_steps_may_cost():
    coding = ModelPrices("anthropic", "claude-haiku-5-5", None, query=0.5)
    assert most(instruction(), "round", prices=coding).cost_usd == 0.5
    assert most(instruction(), "round", prices=replace(coding, free=True)).cost_usd == 0


def test_a_free_model_puts_nothing_aside():
    free = ModelPrices("nobody", "nothing", None, free=True)
    assert most(instruction(), "starter", prices=free).cost_usd == 0
    assert free.picture().cost_usd == 0


def test_what_is_under_way_comes_back_as_it_was_and_nonsense_is_nothing():
    usage = Usage(model="a/b", calls=2, input_tokens=7, text_cost_usd=0.25, picture_cost_usd=0.5)
    assert read_under_way(under_way(usage)) == usage
    assert [read_under_way(text) for text in (None, "", "{broken", '{"calls": "many"}')] == [None] * 4


def test_the_whole_program_counts_as_many_characters_to_a_token():
    names = re.compile(r"^\w*(CHARACTERS|CHARS)_?(A|PER)_TOKEN\w* *=", re.MULTILINE)

    sources = [path for folder in ROOT.glob("agent*") for path in folder.rglob("*.py")] + list(ROOT.glob("*.py"))
    assert [path.name for path in sources if names.search(path.read_text())] == ["pricing.py"]
