"""Scripted agents: what they talk about, to whom they turn, when they have nothing to say, and what their models cost.

They know nothing of the policies that ask them. A message is an agent's business when it names the agent, when it is
about one of the agent's subjects, or when it comes back to the agent's last message with a question or a contradiction.
An instruction that asks for something in particular is a reason too. Of the turns for which they have a reason agents
skip few; of the others they skip half, as models do.
A policy sees texts alone, and in texts a subject is words that people use for it: some are forms of the word that the
persona's file has, others are not; and only some of the contradictions use phrases that a list could know.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentic.wire.messages import Instruction, TurnUsage
from tests.benchmarks.texts import Chat

PROMPT_TOKENS, MESSAGE_TOKENS, ANSWER_TOKENS, SKIP_TOKENS = 1_400, 40, 60, 12
IDLE_SILENCE, OWN_SILENCE = 0.5, 0.05  # shares of the turns that are not, and that are, their business
MEDIAN_SECONDS, SPREAD = 3.0, 0.5  # of a model call: log-normal
CHARACTERS = 90  # of a message, besides its subject

NAMES, BRINGS_UP, COMES_BACK = 0.35, 0.35, 0.2  # shares of the messages that do so; the rest turn to nobody
TO_THE_LAST = 0.5  # of those that name somebody: the author of the newest message

SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "plans": ("plan", "planning", "plans", "deadline", "milestone", "schedule"),
    "work": ("work", "working", "worker", "salary", "meeting", "office"),
    "money": ("money", "moneyed", "price", "budget", "savings", "moneys"),
    "tools": ("tool", "tools", "toolbox", "hammer", "software", "spreadsheet"),
    "books": ("book", "books", "bookshop", "novel", "author", "chapter"),
    "ethics": ("ethics", "ethical", "duty", "fairness", "conscience", "ethically"),
    "language": ("language", "languages", "grammar", "dialect", "translation", "languages"),
    "history": ("history", "historical", "empire", "archive", "century", "historian"),
    "space": ("space", "spaceship", "orbit", "telescope", "planet", "rocket"),
    "cooking": ("cooking", "cook", "cooks", "recipe", "oven", "spices"),
    "animals": ("animal", "animals", "whale", "zoology", "habitat", "birds"),
    "maps": ("maps", "mapped", "atlas", "coastline", "compass", "mapping"),
    "sport": ("sport", "sports", "football", "training", "stadium", "sporting"),
    "politics": ("politics", "political", "election", "parliament", "minister", "politician"),
    "jokes": ("joke", "jokes", "punchline", "comedy", "irony", "joking"),
    "cities": ("city", "cities", "traffic", "square", "suburb", "housing"),
}
CONTRADICTIONS = (
    *("I disagree", "On the contrary", "You're wrong there", "I doubt that"),
    *("I see it the other way round", "No, that does not follow", "It was not like that", "Come on, that cannot be"),
)


@dataclass(frozen=True)
class Line:
    """A message in a channel. `agent`: None where a person wrote it; `names` and `subject` are in its text; `back_to`:
    the agent to whose last message it comes back; `talk`: the conversation that it belongs to."""

    number: int
    at: float
    text: str
    subject: str
    agent: str | None = None
    names: tuple[str, ...] = ()
    asks: bool = False
    back_to: str | None = None
    talk: str = ""


@dataclass(frozen=True)
class Words:
    """A message before it is in a channel."""

    text: str
    subject: str
    names: tuple[str, ...] = ()
    asks: bool = False
    back_to: str | None = None


@dataclass(frozen=True)
class Scripted:
    """An agent. Prices are those of its model, in dollars per million tokens."""

    name: str
    subjects: tuple[str, ...]
    talkativeness: float
    price_in: float
    price_out: float

    def speaks(
        self, instruction: Instruction, lines: Sequence[Line], rng: random.Random, silence: float = IDLE_SILENCE
    ) -> bool:
        forced = instruction.requested or instruction.take_up is not None or instruction.is_conversation_starter
        has_reason = instruction.angle is not None or self.is_business(lines)
        return forced or rng.random() >= (OWN_SILENCE if has_reason else silence)

    def is_business(self, lines: Sequence[Line]) -> bool:
        """Whether these messages, oldest first, are its business: the newest one, or its name since its own last."""
        if not lines or lines[-1].agent == self.name:
            return False
        newest = lines[-1]
        return newest.subject in self.subjects or newest.back_to == self.name or self._is_named(lines)

    def _is_named(self, lines: Sequence[Line]) -> bool:
        for line in reversed(lines):
            if line.agent == self.name:
                return False
            if self.name in line.names:
                return True
        return False

    def words(self, newest: Line | None, others: Sequence[str], chat: Chat, rng: random.Random) -> Words:
        """A message of its own, after the newest one in the channel."""
        last, kind = newest.agent if newest is not None else None, rng.random()
        if kind < NAMES:
            answers = last in others and rng.random() < TO_THE_LAST
            name = last if last is not None and answers else rng.choice(others)
            return worded(rng.choice(self.subjects), chat, rng, names=(name,), asks=rng.random() < 0.5)
        if kind < NAMES + BRINGS_UP:
            return worded(rng.choice(tuple(SUBJECTS)), chat, rng, asks=rng.random() < 0.3)
        if kind < NAMES + BRINGS_UP + COMES_BACK and newest is not None and last in others:
            return worded(newest.subject, chat, rng, asks=rng.random() < 0.5, back_to=last)
        return worded(rng.choice(self.subjects), chat, rng)

    def usage(self, messages: int, speaks: bool) -> TurnUsage:
        """The usage of a call that reads so many messages; nothing is cached."""
        read, written = PROMPT_TOKENS + MESSAGE_TOKENS * messages, ANSWER_TOKENS if speaks else SKIP_TOKENS
        cost = (read * self.price_in + written * self.price_out) / 1_000_000
        return TurnUsage(calls=1, input_tokens=read, output_tokens=written, cost_usd=cost)


def worded(
    subject: str,
    chat: Chat,
    rng: random.Random,
    *,
    names: tuple[str, ...] = (),
    asks: bool = False,
    back_to: str | None = None,
) -> Words:
    """The text of a message: its names, or a contradiction, then talk with two words of its subject."""
    contradicts = (rng.choice(CONTRADICTIONS),) if back_to is not None and not asks else ()
    parts = (*names, *contradicts, chat.text(CHARACTERS), *rng.sample(SUBJECTS[subject], 2))
    return Words(", ".join(parts) + ("?" if asks else "."), subject, names, asks, back_to)


AGENTS = (
    Scripted("chatgpt", ("plans", "work", "money", "tools"), 0.6, 1.0, 5.0),
    Scripted("claude", ("books", "ethics", "language", "history"), 0.55, 2.0, 10.0),
    Scripted("gemini", ("space", "cooking", "animals", "maps"), 0.65, 2.0, 10.0),
    Scripted("grok", ("sport", "politics", "jokes", "cities"), 0.5, 2.0, 6.0),
)


def model_seconds(rng: random.Random) -> float:
    return MEDIAN_SECONDS * rng.lognormvariate(0.0, SPREAD)
