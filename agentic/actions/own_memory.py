"""Profiles and wishes, which their person alone may see and change: topics, and whether agents may write unasked. Texts
in and out, for any service.

A change travels to the recorder, in this process or another one, and is in the record seconds later; until then it is
shown from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from cachetools import TTLCache

from agentic.record.consents import Consents
from agentic.record.memory import Kept, Profile
from agentic.record.reading import MemoryReader
from agentic.state.writer import Notes
from agentic.wire.entries import ProfileNote
from agentic.wire.topics import MOST_TOPICS, TOPIC_CHARACTERS, topics_in

ON_THE_WAY_SECONDS = 60.0
MOST_ON_THE_WAY = 1_000

NO_RECORD = "This program keeps no record, so it notes nothing about you, and nobody writes to you unasked."
ELSEWHERE = (
    "The record is kept by a process on another machine, so it cannot be read here. `/profile delete` and `/forget me`"
    " reach it all the same."
)
NO_PROFILE = "No topics are noted of you."
DELETED = "Your profile is removed, and what you wrote before now makes no other one."


@dataclass(frozen=True, kw_only=True)
class RecordAccess:
    """`records`: there is a record at all. `agent`: in whose stream a person's profile travels."""

    memory: MemoryReader
    notes: Notes
    consents: Consents
    agent: str
    records: bool

    @property
    def problem(self) -> str:
        """Why nothing can be read; "" where it can."""
        if not self.records:
            return NO_RECORD
        return "" if self.memory.is_here else ELSEWHERE


class OwnMemory:
    """One a process. `clock` gives unix seconds."""

    def __init__(self, access: RecordAccess, clock: Callable[[], float], timezone: tzinfo) -> None:
        self._access, self._clock, self._timezone = access, clock, timezone
        self._profiles: TTLCache[int, Profile] = TTLCache(MOST_ON_THE_WAY, ON_THE_WAY_SECONDS, clock)
        self._consents: TTLCache[int, bool] = TTLCache(MOST_ON_THE_WAY, ON_THE_WAY_SECONDS, clock)

    @property
    def problem(self) -> str:
        """Why nothing can be read, a sentence for people; "" where it can."""
        return self._access.problem

    # -- the profile --------------------------------------------------------------------------------------------------

    async def topics(self, user_id: int) -> tuple[str, ...]:
        profile = await self._profile(user_id)
        return profile.topics if profile is not None else ()

    async def profile_text(self, user_id: int) -> str:
        """The person's profile with its origin."""
        if self.problem:
            return self.problem
        profile = await self._profile(user_id)
        if profile is None or not profile.topics:
            return NO_PROFILE
        by = "as you wrote them" if profile.by == "person" else "noted by a model from what you wrote"
        day = f"{datetime.fromtimestamp(profile.at, self._timezone):%Y-%m-%d}"
        lines = "\n".join(f"- {topic}" for topic in profile.topics)
        return (
            f"Topics that you talk about, {by} (last changed {day}):\n{lines}\n"
            "`/profile edit` changes them, `/profile delete` removes them."
        )

    def save_profile(self, user_id: int, text: str, name: str = "") -> str:
        """Keep these topics, one a line; none removes the profile."""
        if not self._access.records:
            return NO_RECORD
        found = topics_in(text)
        if not found:
            return self.delete_profile(user_id)
        topics = tuple(topic[:TOPIC_CHARACTERS].strip() for topic in found[:MOST_TOPICS])
        self._keep(ProfileNote(user_id=user_id, name=name, topics=topics, by="person", at=self._clock()))
        count = "1 topic is" if len(topics) == 1 else f"{len(topics)} topics are"
        left_out = len(found) - len(topics)
        more = f" {left_out} more were left out: a profile has {MOST_TOPICS} at most." if left_out else ""
        return f"Saved: {count} noted of you.{more}"

    def delete_profile(self, user_id: int) -> str:
        if not self._access.records:
            return NO_RECORD
        self._keep(ProfileNote(user_id=user_id, by="person", deleted=True, at=self._clock()))
        return DELETED

    async def _profile(self, user_id: int) -> Profile | None:
        if (new := self._profiles.get(user_id)) is not None:
            return new
        return await self._access.memory.profile(user_id)

    def _keep(self, note: ProfileNote) -> None:
        self._access.notes.log(self._access.agent, note)
        self._profiles[note.user_id] = Profile(note.user_id, note.name, note.topics, note.by, note.at)

    # -- unasked messages ---------------------------------------------------------------------------------------------

    async def consent(self, user_id: int) -> bool | None:
        """Whether the person wants messages that nobody asked for; None where they have not said."""
        if (new := self._consents.get(user_id)) is not None:
            return new
        return await self._access.memory.consent(user_id)

    async def set_unasked(self, user_id: int, wanted: bool, because: str = "command") -> str:
        """Raises RedisAway."""
        if not self._access.records:
            return NO_RECORD
        if wanted:
            await self._access.consents.allow(user_id, because=because)
        else:
            await self._access.consents.refuse(user_id, because=because)
        self._consents[user_id] = wanted
        if wanted:
            return "Agents that write by themselves may now write to you unasked. `/privacy unasked:off` ends it."
        return "No agent writes to you unasked any more. `/privacy unasked:on` allows it again."

    # -- all of it ----------------------------------------------------------------------------------------------------

    async def kept(self, user_id: int) -> Kept:
        """Counts of what is kept about the person."""
        return await self._access.memory.kept_about(user_id)

    def forget(self, user_id: int) -> None:
        """Drop what is shown from here: the person asked to be forgotten."""
        self._profiles.pop(user_id, None)
        self._consents.pop(user_id, None)
