"""Estimate the cost of a turn before its model is called. Pure.

The reservation is settled with the real cost when the turn ends, so the estimate is a high one: everything that is
read, the longest answer, searches, and the dearest of the agent's models. With the prompt at hand model_call.py
estimates again, and reserves more if needed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from agent_config import AgentSettings
from agentic.agent.calls import InstructionEvent, MentionEvent
from agentic.agent.event import TurnEvent
from agentic.agent.kinds import is_unasked, looks_things_up, searches_first
from agentic.agent.model_access import is_free, rates
from agentic.chat.transcript import Transcript
from agentic.context.attachment_choice import is_text
from agentic.context.build import Trigger
from agentic.context.entries import Entry
from agentic.context.options import Options
from agentic.llm.pricing import Rates, price
from agentic.llm.profiles import profile_of
from agentic.llm.types import Usage
from agentic.llm.usage_estimate import PICTURE_TOKENS, SEARCH_TOKENS, SEARCHES, tokens_of
from agentic.state.budget_rules import BudgetRequest, Kind
from agentic.themes import theme_named

FRAME_TOKENS = 2_700  # persona, rules, answer schema, time
ENTRY_CHARACTERS = 100  # a message's id, time and name
UNKNOWN_CHARACTERS = 200  # a message that is not read yet
AFTER_DEADLINE = 60.0  # seconds: a turn is settled by then, or its process is gone
KINDS: Mapping[Trigger, Kind] = {
    **dict.fromkeys(("mention", "continue"), "mention"),
    "starter": "opening",
    **dict.fromkeys(("reactive", "call"), "joining"),
    "round": "round",
    "errand": "joining",  # scheduled work: the last of the day's money is not for it
}

_USAGE: TypeAdapter[Usage] = TypeAdapter(Usage)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tariff:
    """Prices of an agent's calls in US dollars, by the first of its models that is not free. `free`: all are free.

    `rates` are prices set by the owner; `image_provider` draws pictures; `others` are the fallback models. `query`: the
    most that a coding agent's call may cost.
    """

    provider: str
    model: str
    image_model: str | None
    free: bool = False
    rates: Rates | None = None
    image_provider: str = ""
    others: tuple[Tariff, ...] = ()
    query: float | None = None

    @classmethod
    def of(cls, agent: AgentSettings, *, free: bool, query: float | None = None) -> Tariff:
        models = agent.usable or agent.models
        paid = [model for model in models if not is_free(model)] or models[:1]
        first, *others = [
            cls(m.provider, m.model, agent.image_model, free, rates(m), agent.image_provider) for m in paid
        ]
        return replace(first, others=tuple(others), query=query)

    def call(self, input_tokens: int, *, output_tokens: int, searches: int = 0) -> float:
        """US dollars for a text call."""
        return self._priced(
            Usage(calls=1, input_tokens=input_tokens, output_tokens=output_tokens, searches=searches)
        ).cost_usd

    def most(self, usage: Usage) -> Usage:
        """The usage priced by the dearest model that may answer."""
        if self.query is not None and not self.free:
            return replace(usage, model=f"{self.provider}/{self.model}", text_cost_usd=self.query)
        return max((each._priced(usage) for each in (self, *self.others)), key=lambda priced: priced.cost_usd)

    def picture(self) -> Usage:
        """The usage of drawing a picture."""
        seller, model = self.image_provider or self.provider, self.image_model or ""
        return price(seller, model, Usage(model=f"{seller}/{model}", calls=1, pictures=1), free=self.free)

    def _priced(self, usage: Usage) -> Usage:
        named = replace(usage, model=f"{self.provider}/{self.model}")
        return price(self.provider, self.model, named, free=self.free, rates=self.rates)


class Frame:
    """Tokens around the transcript in an agent's prompts, learned from recent prompts."""

    def __init__(self) -> None:
        self.tokens = FRAME_TOKENS

    def note(self, tokens: int) -> None:
        """Record a prompt's tokens; a high value decays slowly, since parts may be there only at times."""
        self.tokens = max(FRAME_TOKENS, tokens, self.tokens * 9 // 10)


def prompt_tokens(
    shown: Sequence[Entry], said: Iterable[str], options: Options, *, window: int, whole: bool, frame: int
) -> int:
    """Tokens of a prompt: the last `window` entries with their pictures and text files, the history of an instruction
    (`said`), and the `frame` around them.

    A transcript that is not whole counts as full: it may be completed before the call.
    """
    characters = sum([len(entry.text) + sum(map(len, entry.extras)) for entry in shown]) + len(shown) * ENTRY_CHARACTERS
    if not whole:
        characters = max(characters, window * UNKNOWN_CHARACTERS)
    characters += sum(len(text) + ENTRY_CHARACTERS for text in said)
    files = [file for entry in shown for file in entry.attachments]
    if options.include_files and files:
        characters += min(sum(file.size for file in files if is_text(file)), options.max_file_characters)
    pictures = sum(file.is_picture for file in files) if options.include_images and files else 0
    return frame + tokens_of(characters) + min(pictures, options.max_images) * PICTURE_TOKENS


def budget_request(
    event: TurnEvent,
    trigger: Trigger,
    tariff: Tariff,
    transcript: Transcript,
    options: Options,
    *,
    window: int,
    frame: int,
) -> BudgetRequest:
    """The budget to reserve for a turn's first call. `window`: messages that the agent sees."""
    said: tuple[str, ...] = ()
    if isinstance(event, InstructionEvent):
        said = tuple(entry.text for entry in event.instruction.conversation_history)
    may = trigger == "starter" or looks_things_up(event) or theme_named(event.theme).search
    by_maker = searches_first(event, options) and bool(profile_of(tariff.provider, tariff.model).search)
    searches = SEARCHES * (may or by_maker)
    shown, whole = transcript.last(window), transcript.whole
    tokens = prompt_tokens(shown, said, options, window=window, whole=whole, frame=frame) + searches * SEARCH_TOKENS
    usage = Usage(calls=1, input_tokens=tokens, output_tokens=options.max_output_tokens, searches=searches)
    most = tariff.most(usage)
    mention = event if isinstance(event, MentionEvent) else None
    return BudgetRequest(
        turn_id=event.id,
        estimate=most.cost_usd,
        until=event.deadline + AFTER_DEADLINE,
        kind=KINDS[trigger],
        person_id=event.person_id,
        message_id=mention.asked.id if mention and mention.by_person else None,
        under_way=under_way(most),
        idle=is_unasked(event),
    )


def under_way(usage: Usage) -> str:
    """Encode the turn's cost with the call under way, for its record until the call returns."""
    return _USAGE.dump_json(usage, exclude_defaults=True).decode()


def read_under_way(text: str | None) -> Usage | None:
    """Decode what `under_way` wrote; None if empty or unreadable."""
    try:
        return _USAGE.validate_json(text) if text else None
    except ValidationError as error:
        log.warning("cost of an unfinished call not read: %d errors; counted as none", error.error_count())
        return None
