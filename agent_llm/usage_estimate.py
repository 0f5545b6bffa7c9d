"""What a call consumes where nobody says so: before it is made, when it was cut off, when its server does not tell.

Tokens cannot be counted offline, so characters are: a token has about four; here three, since who counts instead of
the seller had better not count too little. The whole program counts so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent_llm.types import Message, Prompt, Usage

CHARACTERS_A_TOKEN = 3
PICTURE_TOKENS = 1_500
SEARCHES = (
    3  # of a call whose model searches by itself; as many as the providers are asked to keep to, where they can be
)
SEARCH_TOKENS = 4_000  # that a search gives the model to read


def tokens_of(characters: int) -> int:
    """Rounded up."""
    return -(-characters // CHARACTERS_A_TOKEN)


def expected(prompt: Prompt, history: Sequence[Message] = ()) -> Usage:
    """What a call consumes at most, as far as that is known before it is made: all that it reads, an answer as long as
    it may be, and some searches."""
    searches = SEARCHES if prompt.search else 0
    return Usage(
        calls=1,
        input_tokens=read(prompt, history) + searches * SEARCH_TOKENS,
        output_tokens=prompt.max_output_tokens,
        searches=searches,
    )


def filled_in(usage: Usage, prompt: Prompt, history: Sequence[Message], answer: str) -> Usage:
    """The usage with estimates where it tells of no tokens. There is always something to read."""
    if not usage.input_tokens:
        usage = replace(usage, input_tokens=read(prompt, history), cached_tokens=0, cache_write_tokens=0)
    if not usage.output_tokens and answer:
        usage = replace(usage, output_tokens=tokens_of(len(answer)))
    return usage


def read(prompt: Prompt, history: Sequence[Message]) -> int:
    """Tokens that a model reads."""
    texts = [prompt.system, prompt.text, prompt.prefill or "", *(message.text for message in history)]
    texts += [f"{tool.description}{tool.parameters}" for tool in prompt.tools]
    texts += [part for one in prompt.rounds for part in (f"{one.calls}", *(result.text for result in one.results))]
    results = [result for one in prompt.rounds for result in one.results]
    shown = [prompt.pictures, *(message.pictures for message in history), *(result.pictures for result in results)]
    pictures = sum(len(group) for group in shown)
    return tokens_of(sum(map(len, texts))) + pictures * PICTURE_TOKENS
