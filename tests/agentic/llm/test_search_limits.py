"""How many searches a call may make, as far as its maker takes a limit."""

from __future__ import annotations

import pytest

from agentic.llm.pricing import SEARCHES, expected
from agentic.llm.profiles import limits_searches, with_max_searches
from agentic.llm.provider_table import profile_of
from agentic.llm.types import Prompt

LIMITED = [("openai", "gpt-6-luna"), ("anthropic", "claude-haiku-5-5"), ("anthropic", "claude-sonnet-4-5")]


@pytest.mark.parametrize(("provider", "model"), LIMITED)
def test_a_limit_replaces_the_usual_one_and_leaves_everything_else(provider, model):
    usual = profile_of(provider, model)
    one = with_max_searches(usual, 1)
    assert limits_searches(usual)
    before, after = {**usual.search, **usual.search_extra}, {**one.search, **one.search_extra}
    assert [(before[key], after[key]) for key in before if before[key] != after[key]] == [(3, 1)]
    assert with_max_searches(usual, None) is usual


@pytest.mark.parametrize(
    ("provider", "model"), [("google", "gemini-3.8-flash"), ("xai", "grok-4.7"), ("compatible", "x")]
)
def test_a_maker_without_a_limit_is_asked_as_ever(provider, model):
    usual = profile_of(provider, model)
    assert not limits_searches(usual)
    assert with_max_searches(usual, 1) == usual


def test_a_call_is_expected_to_search_as_often_as_it_may():
    prompts = (
        Prompt(text="a", search=True),
        Prompt(text="a", search=True, max_searches=1),
        Prompt(text="a", max_searches=1),
    )
    assert [expected(prompt).searches for prompt in prompts] == [SEARCHES, 1, 0]
