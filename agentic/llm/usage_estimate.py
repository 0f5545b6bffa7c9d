"""Estimate what a call consumes: before it is made, when it was cut off, and when its server does not report usage.

Tokens cannot be counted offline, so characters are. A token has about four; this counts three, to overestimate rather
than underestimate. The whole program uses this rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentic.llm.types import Message, Prompt, Usage

CHARACTERS_A_TOKEN = 3
PICTURE_TOKENS = 1_500
SEARCHES = 3  # of a call with web search: the limit that providers are asked to keep, where they have one
SEARCH_TOKENS = 4_000  # the input that a search adds


def tokens_of(characters: int) -> int:
    """Convert characters to tokens, rounded up."""
    return -(-characters // CHARACTERS_A_TOKEN)


def expected(prompt: Prompt, history: Sequence[Message] = ()) -> Usage:
    """The most that a call consumes, as far as known in advance: the whole input, the longest answer, some searches."""
    searches = (prompt.max_searches or SEARCHES) if prompt.search else 0
    return Usage(
        calls=1,
        input_tokens=input_tokens(prompt, history) + searches * SEARCH_TOKENS,
        output_tokens=prompt.max_output_tokens,
        searches=searches,
    )


def filled_in(usage: Usage, prompt: Prompt, history: Sequence[Message], answer: str) -> Usage:
    """Fill in estimates where the usage reports no tokens. There is always input."""
    if not usage.input_tokens:
        usage = replace(usage, input_tokens=input_tokens(prompt, history), cached_tokens=0, cache_write_tokens=0)
    if not usage.output_tokens and answer:
        usage = replace(usage, output_tokens=tokens_of(len(answer)))
    return usage


def input_tokens(prompt: Prompt, history: Sequence[Message]) -> int:
    """The tokens of a call's input."""
    texts = [prompt.system, prompt.text, prompt.prefill or "", *(message.text for message in history)]
    texts += [f"{tool.description}{tool.parameters}" for tool in prompt.tools]
    texts += [part for one in prompt.rounds for part in (f"{one.calls}", *(result.text for result in one.results))]
    results = [result for one in prompt.rounds for result in one.results]
    shown = [prompt.pictures, *(message.pictures for message in history), *(result.pictures for result in results)]
    pictures = sum(len(group) for group in shown)
    return tokens_of(sum(map(len, texts))) + pictures * PICTURE_TOKENS
