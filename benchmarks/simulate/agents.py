"""Scripted agents: what they talk about, what their models cost, and when they have nothing to say.

They skip half of the turns that are not their business, without a reason, as models do, and few of those that are: they
are named, their subject came up, or somebody asks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from agent_protocol.wire.messages import Instruction, TurnUsage

PROMPT_TOKENS, MESSAGE_TOKENS, ANSWER_TOKENS, SKIP_TOKENS = 1_400, 40, 60, 12
IDLE_SILENCE, OWN_SILENCE = 0.5, 0.05  # shares of the turns that are not, and that are, their business
MEDIAN_SECONDS, SPREAD = 3.0, 0.5  # of a model call: log-normal


@dataclass(frozen=True)
class Line:
    """A message in a channel. `agent`: None where a person wrote it; `names` and `subject` are in its text; `talk`: the
    conversation that it belongs to."""

    number: int
    at: float
    text: str
    subject: str
    agent: str | None = None
    names: tuple[str, ...] = ()
    asks: bool = False
    talk: str = ""


@dataclass(frozen=True)
class Scripted:
    """An agent. Prices are those of its model, in dollars per million tokens."""

    name: str
    subjects: tuple[str, ...]
    talkativeness: float
    price_in: float
    price_out: float

    def speaks(self, instruction: Instruction, newest: Line | None, rng: random.Random) -> bool:
        forced = instruction.requested or instruction.take_up is not None or instruction.is_conversation_starter
        return forced or rng.random() >= (OWN_SILENCE if self._concerns(newest) else IDLE_SILENCE)

    def _concerns(self, line: Line | None) -> bool:
        return line is not None and (self.name in line.names or line.subject in self.subjects or line.asks)

    def usage(self, messages: int, speaks: bool) -> TurnUsage:
        """The usage of a call that reads so many messages; nothing is cached."""
        read, written = PROMPT_TOKENS + MESSAGE_TOKENS * messages, ANSWER_TOKENS if speaks else SKIP_TOKENS
        cost = (read * self.price_in + written * self.price_out) / 1_000_000
        return TurnUsage(calls=1, input_tokens=read, output_tokens=written, cost_usd=cost)


AGENTS = (
    Scripted("chatgpt", ("plans", "work"), 0.6, 1.0, 5.0),
    Scripted("claude", ("books", "ethics"), 0.55, 2.0, 10.0),
    Scripted("gemini", ("space", "cooking"), 0.65, 2.0, 10.0),
    Scripted("grok", ("sport", "politics"), 0.5, 2.0, 6.0),
)
SUBJECTS = tuple(subject for agent in AGENTS for subject in agent.subjects)


def model_seconds(rng: random.Random) -> float:
    return MEDIAN_SECONDS * rng.lognormvariate(0.0, SPREAD)
