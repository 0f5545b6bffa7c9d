"""The parts of a conversation's state, as frozen values: messages of agents and of people, and the agents' counts; and
how they come out of JSON again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

from agentic.state.rooms import Room
from agentic.wire.endings import EndReason
from agentic.wire.messages import HistoryEntry, Result

MAX_ENTRY_CHARACTERS = 8_000
MAX_LINE_CHARACTERS = 2_000  # of an address, a picture's prompt


@dataclass(frozen=True, slots=True)
class AgentReaction:
    emoji: str
    agent: str


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the conversation, with the agents' reactions to it. `answers`: a person's newest message that it
    answers."""

    agent: str
    text: str
    message_id: int | None = None
    reactions: tuple[AgentReaction, ...] = ()
    answers: int | None = None

    def to_history(self) -> HistoryEntry:
        marks = " ".join(f"{reaction.emoji} ({reaction.agent})" for reaction in self.reactions)
        text = f"{self.text}  [reactions: {marks}]" if marks else self.text
        return HistoryEntry(agent=self.agent, text=text, message_id=self.message_id, answers_message_id=self.answers)


@dataclass(frozen=True, slots=True)
class Heard:
    """A person's message during the conversation. `after`: how many messages the conversation had by then. `names`: the
    agents named in it; `calls`: it calls an agent, which answers it outside the conversation; `called`: the members of
    a room that it calls, each of which has its next turn for it."""

    message_id: int
    text: str = ""
    names: tuple[str, ...] = ()
    replied_to: str | None = None
    calls: bool = False
    after: int = 0
    called: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tally:
    """An agent's counts in a conversation. Money in US dollars."""

    messages: int = 0
    skips: int = 0
    timeouts: int = 0
    absences: int = 0
    reactions: int = 0
    pictures: int = 0
    calls: int = 0
    searches: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(**{name: getattr(self, name) + getattr(other, name) for name in Tally.__slots__})


def is_post(result: Result) -> bool:
    """Whether there is a new message in the channel."""
    return not result.skipped and bool(result.text or result.image_url)


def is_skip(result: Result) -> bool:
    return result.skipped or not (result.text or result.image_url or result.emoji_reacted)


def entry_text(result: Result) -> str:
    text = result.text or ""
    if len(text) > MAX_ENTRY_CHARACTERS:
        text = text[:MAX_ENTRY_CHARACTERS] + " […]"
    if not result.image_url:
        return text
    prompt = " ".join((result.image_prompt or "").replace('"', "'").split())
    url = result.image_url[:MAX_LINE_CHARACTERS]
    picture = f'[posted image: "{prompt[:MAX_LINE_CHARACTERS]}" → {url}]'
    return f"{text}\n{picture}" if text else picture


def tally_of(result: Result) -> Tally:
    """Usage counts even for a skip: the model was asked."""
    usage, skip = result.usage, is_skip(result)
    done = Tally(
        messages=int(is_post(result)),
        skips=int(skip),
        reactions=int(bool(result.emoji_reacted) and not skip),
        pictures=int(bool(result.image_url) and not skip),
    )
    if usage is None:
        return done
    return replace(
        done,
        calls=usage.calls,
        searches=usage.searches,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cost_usd=usage.cost_usd,
    )


def to_plain(value: Any) -> Any:
    """One of our values for JSON; asdict() would copy the whole history at each step."""
    if isinstance(value, Room):
        return value.model_dump(mode="json")
    return {name: getattr(value, name) for name in value.__slots__}


def from_plain(data: dict[str, Any]) -> dict[str, Any]:
    """Turn JSON's lists and objects back into tuples and dataclasses."""
    data = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    data["history"] = tuple(
        Said(**{**said, "reactions": tuple(AgentReaction(**reaction) for reaction in said["reactions"])})
        for said in data["history"]
    )
    data["heard"] = tuple(
        Heard(**{**heard, "names": tuple(heard["names"]), "called": tuple(heard.get("called", ()))})
        for heard in data.get("heard", ())
    )
    data["tallies"] = {agent: Tally(**tally) for agent, tally in data["tallies"].items()}
    if data.get("room") is not None:
        data["room"] = Room.model_validate(data["room"])
        data["theme"] = data["room"].theme  # an older version stored the channel's
    if data["ended_because"] is not None and data["ended_because"] not in get_args(EndReason):
        raise ValueError("not a conversation's state: unknown end reason")
    return data
