"""What an answer consumed where its server does not say so: estimated, since what is not known did cost something.

Tokens cannot be counted offline, so characters are: a token has about four; here three, since who counts instead of
the seller had better not count too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent_llm.types import Message, Prompt, Usage

CHARACTERS_A_TOKEN = 3
PICTURE_TOKENS = 1_500


def filled_in(usage: Usage, prompt: Prompt, history: Sequence[Message], answer: str) -> Usage:
    """The usage with estimates where it tells of no tokens. There is always something to read."""
    if not usage.input_tokens:
        usage = replace(usage, input_tokens=_read(prompt, history), cached_tokens=0, cache_write_tokens=0)
    if not usage.output_tokens and answer:
        usage = replace(usage, output_tokens=len(answer) // CHARACTERS_A_TOKEN + 1)
    return usage


def _read(prompt: Prompt, history: Sequence[Message]) -> int:
    texts = [prompt.system, prompt.text, prompt.prefill or "", *(message.text for message in history)]
    texts += [f"{tool.description}{tool.parameters}" for tool in prompt.tools]
    texts += [part for one in prompt.rounds for part in (f"{one.calls}", *(result.text for result in one.results))]
    results = [result for one in prompt.rounds for result in one.results]
    shown = [prompt.pictures, *(message.pictures for message in history), *(result.pictures for result in results)]
    pictures = sum(len(group) for group in shown)
    return sum(map(len, texts)) // CHARACTERS_A_TOKEN + 1 + pictures * PICTURE_TOKENS
