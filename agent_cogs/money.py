"""What a turn will cost, estimated before its model is called. Pure.

Tokens cannot be counted offline, so characters are: a token has about four. What is put aside is replaced by the real
cost when the turn ends; here it is better to be a little above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_cogs.events import InstructionEvent, MentionEvent, TurnEvent, looks_things_up
from agent_cogs.reach import is_free, rates
from agent_config import AgentSettings
from agent_context.build import Trigger
from agent_context.entries import Entry
from agent_discord.transcript import Transcript
from agent_llm.pricing import Rates, price
from agent_llm.types import Usage
from agent_protocol.money import Kind, Wish
from agent_themes import theme_named

CHARACTERS_A_TOKEN = 4
FRAME_CHARACTERS = 8_000  # persona, rules, the answer's form, the present
ENTRY_CHARACTERS = 60  # id, time and name of a message
UNKNOWN_CHARACTERS = 200  # of a message that was not read yet
OUTPUT_TOKENS = 1_000  # a quarter of what a model may write: decisions are short, reasoning is not
MAX_PICTURES = 4
PICTURE_TOKENS = 1_500
AFTER_DEADLINE = 60.0  # seconds: a turn is settled by then, or its process is gone
KINDS: Mapping[Trigger, Kind] = {
    **dict.fromkeys(("mention", "continue"), "mention"),
    "starter": "opening",
    **dict.fromkeys(("reactive", "call"), "joining"),
    "round": "round",
    "errand": "joining",  # scheduled work: the last of the day's money is not for it
}


@dataclass(frozen=True, slots=True)
class Tariff:
    """What an agent's calls cost, in US dollars, by the first of its models that costs something. `free`: nothing.

    `rates` are its owner's prices, where one has set some; `image_provider` sells the pictures.
    """

    provider: str
    model: str
    image_model: str | None
    free: bool = False
    rates: Rates | None = None
    image_provider: str = ""

    @classmethod
    def of(cls, agent: AgentSettings, *, free: bool) -> Tariff:
        models = agent.usable or agent.models
        paid = next((model for model in models if not is_free(model)), models[0])
        return cls(paid.provider, paid.model, agent.image_model, free, rates(paid), agent.image_provider)

    def call(self, input_tokens: int, *, output_tokens: int = OUTPUT_TOKENS, searches: int = 0) -> float:
        """One call of the model for text."""
        usage = Usage(calls=1, input_tokens=input_tokens, output_tokens=output_tokens, searches=searches)
        return price(self.provider, self.model, usage, free=self.free, rates=self.rates).cost_usd

    def picture(self) -> float:
        """One picture."""
        seller = self.image_provider or self.provider
        return price(seller, self.image_model or "", Usage(calls=1, pictures=1), free=self.free).cost_usd


def prompt_tokens(shown: Sequence[Entry], said: Iterable[str], *, window: int, whole: bool) -> int:
    """What the model will read: the last `window` entries of the transcript and what an instruction brings along.

    A transcript that is not whole may become so before the call.
    """
    characters = sum(len(entry.text) + ENTRY_CHARACTERS for entry in shown)
    if not whole:
        characters = max(characters, window * UNKNOWN_CHARACTERS)
    characters += FRAME_CHARACTERS + sum(len(text) + ENTRY_CHARACTERS for text in said)
    pictures = sum(attachment.is_picture for entry in shown for attachment in entry.attachments)
    return characters // CHARACTERS_A_TOKEN + min(pictures, MAX_PICTURES) * PICTURE_TOKENS


def wish_of(event: TurnEvent, trigger: Trigger, tariff: Tariff, transcript: Transcript, window: int) -> Wish:
    """What the turn asks to have put aside for its first call. `window`: the messages that the agent sees."""
    said: tuple[str, ...] = ()
    if isinstance(event, InstructionEvent):
        said = tuple(entry.text for entry in event.instruction.conversation_history)
    searches = int(trigger == "starter" or looks_things_up(event) or theme_named(event.theme).search)
    estimate = 0.0
    if not tariff.free:
        tokens = prompt_tokens(transcript.last(window), said, window=window, whole=transcript.whole)
        estimate = tariff.call(tokens, searches=searches)
    mention = event if isinstance(event, MentionEvent) else None
    return Wish(
        turn_id=event.id,
        estimate=estimate,
        until=event.deadline + AFTER_DEADLINE,
        kind=KINDS[trigger],
        person_id=mention.person_id if mention else None,
        message_id=mention.asked.id if mention and mention.by_person else None,
    )
