"""The tasks that agents have while nobody writes, and values that the coordinator reads of the record to decide on
them."""

from __future__ import annotations

from dataclasses import dataclass

TASKS: tuple[str, ...] = ("summarise", "profile", "follow_up", "discover")  # by priority
WRITTEN = frozenset({"summarise", "profile"})  # their text goes to the coordinator
UNASKED = frozenset({"follow_up", "discover"})  # they may post


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something that an idle task may be about: a reply chain, a person, a conversation that was left hanging.

    `message_id` is its newest message, `upto` the newest one of the material. `material` has a line a message,
    "Name: text", the newest last, of MOST_MATERIAL characters at most. `message_ids` are those that it is made of, and
    `people` their authors, as a SummaryNote has them. `topics` are those of the person's profile, `origins` the
    channels where they may have spoken of them, () where nobody else reads. `at` is the time of the newest message,
    unix seconds.
    """

    channel_id: int
    guild_id: int | None = None
    message_id: int
    person_id: int | None = None
    person_name: str = ""
    upto: int
    material: str = ""
    topics: tuple[str, ...] = ()
    origins: tuple[int, ...] = ()
    message_ids: tuple[int, ...] = ()
    people: tuple[int, ...] = ()
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message that an agent posted unasked. `answered`: the person, or without one anybody, wrote there since. `text`
    is "" where the message was deleted, or the person asked to be forgotten."""

    message_id: int
    agent: str
    task: str  # follow_up, discover
    channel_id: int
    person_id: int | None = None
    text: str = ""
    at: float
    answered: bool = False


MOST_MATERIAL = 8_000  # characters of a Candidate's material
