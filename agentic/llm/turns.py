"""Turn a Prompt and a history into the turns that every provider's request is made of.

Pure functions. A part is a text or a picture; `cache` marks the last part of what does not change between calls.
"""

from __future__ import annotations

import base64
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace

from agentic.llm.profiles import Profile
from agentic.llm.schemas import tail_of
from agentic.llm.types import Message, Picture, Prompt, Role, Source

# Inserted where a conversation must begin with the user but begins with the model's own words.
OPENING = "[the conversation so far]"


@dataclass(frozen=True, slots=True)
class Part:
    """A text, or a picture."""

    text: str = ""
    picture: Picture | None = None
    cache: bool = False


@dataclass(slots=True)
class Turn:
    """The parts of one message to the provider."""

    role: Role
    parts: list[Part] = field(default_factory=list)


def turns_of(prompt: Prompt, history: Sequence[Message], profile: Profile) -> list[Turn]:
    """Return the history's turns, then the prompt's text as the last user turn.

    If the profile says so, roles alternate and the user comes first. A prefilled answer comes last, without trailing
    whitespace, which providers refuse.
    """
    turns: list[Turn] = []
    for message in (*history, *_last(prompt, profile)):
        for turn in _turns_of_message(message, profile):
            if profile.alternate and turns and turns[-1].role == turn.role:
                turns[-1].parts.extend(turn.parts)
            else:
                turns.append(turn)
    if profile.alternate and turns and turns[0].role == "assistant":
        turns.insert(0, Turn("user", [Part(OPENING)]))
    if prompt.prefill is not None and turns and turns[-1].role == "assistant":
        last = turns[-1].parts[-1]
        turns[-1].parts[-1] = replace(last, text=last.text.rstrip())
    return turns


def _last(prompt: Prompt, profile: Profile) -> list[Message]:
    """Return the messages after the history: the text, or pictures and the prefilled answer."""
    if prompt.prefill is None:
        return [Message("user", tail_of(prompt, profile), prompt.pictures)]
    seen = [Message("user", tail_of(prompt, profile), prompt.pictures)] if prompt.text or prompt.pictures else []
    return [*seen, Message("assistant", prompt.prefill)]


def _turns_of_message(message: Message, profile: Profile) -> list[Turn]:
    """Return one turn, or two: no provider takes pictures from the assistant, so they follow as the user's."""
    seen = [picture for picture in message.pictures if is_seen(picture, profile)]
    text = [Part(message.text, cache=message.cache and not seen)] if message.text.strip() else []
    last = len(seen) - 1
    pictures = [Part(picture=picture, cache=message.cache and number == last) for number, picture in enumerate(seen)]
    if message.role == "user":
        return [Turn("user", text + pictures)] if text or pictures else []
    turns = [Turn("assistant", text)] if text else []
    return turns + ([Turn("user", pictures)] if pictures else [])


def is_seen(picture: Picture, profile: Profile) -> bool:
    """Whether the model can see a picture. One that it cannot see fails the whole request."""
    return picture.media_type in profile.sees and len(picture.data) <= profile.picture_bytes


def has_pictures(prompt: Prompt, history: Sequence[Message]) -> bool:
    in_results = any(result.pictures for step in prompt.rounds for result in step.results)
    return bool(prompt.pictures) or in_results or any(message.pictures for message in history)


def with_newest_pictures(prompt: Prompt, history: Sequence[Message], most: int) -> tuple[Prompt, Sequence[Message]]:
    """Drop the oldest pictures until `most` are left."""
    results = [result.pictures for step in prompt.rounds for result in step.results]
    too_many = sum(map(len, (*(message.pictures for message in history), prompt.pictures, *results))) - most
    if too_many <= 0:
        return prompt, history

    def left(pictures: tuple[Picture, ...]) -> tuple[Picture, ...]:
        nonlocal too_many
        kept = pictures[max(0, too_many) :]
        too_many -= len(pictures) - len(kept)
        return kept

    kept = [replace(message, pictures=left(message.pictures)) for message in history]
    prompt = replace(prompt, pictures=left(prompt.pictures))
    rounds = tuple(
        replace(step, results=tuple(replace(result, pictures=left(result.pictures)) for result in step.results))
        for step in prompt.rounds
    )
    return replace(prompt, rounds=rounds), kept


def without_pictures(prompt: Prompt, history: Sequence[Message]) -> tuple[Prompt, list[Message]]:
    """Drop all pictures."""
    rounds = tuple(
        replace(step, results=tuple(replace(result, pictures=()) for result in step.results)) for step in prompt.rounds
    )
    return replace(prompt, pictures=(), rounds=rounds), [replace(message, pictures=()) for message in history]


def cache_marks(turns: Sequence[Turn], limit: int, *, roles: Container[Role] = ("user", "assistant")) -> frozenset[int]:
    """Return the ids of the last `limit` parts that end a cacheable prefix.

    If a role cannot carry a mark, the mark moves back to the last part that can.
    """
    marks: list[int] = []
    carrier: int | None = None
    for turn in turns:
        for piece in turn.parts:
            carrier = id(piece) if turn.role in roles else carrier
            if piece.cache and carrier is not None and carrier not in marks:
                marks.append(carrier)
    return frozenset(marks[-limit:] if limit > 0 else ())


def system_parts(prompt: Prompt) -> tuple[str, ...]:
    """Split the system prompt after each part where a cache may end: none, one or two pieces."""
    whole, stable = prompt.system, prompt.stable
    pieces = (whole[:stable], whole[stable:]) if 0 < stable < len(whole) else (whole,)
    return pieces if whole else ()


def base64_of(picture: Picture) -> str:
    return base64.b64encode(picture.data).decode("ascii")


def data_url(picture: Picture) -> str:
    return f"data:{picture.media_type};base64,{base64_of(picture)}"


def unique_sources(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Keep each address once, in order, with its first non-empty title."""
    found: dict[str, Source] = {}
    for source in sources:
        if source.url and (source.url not in found or (source.title and not found[source.url].title)):
            found[source.url] = source
    return tuple(found.values())
