"""`/profile` and `/privacy`: the data stored about the person who asks, and who reads a channel.

Only the person can see and change their profile (topics) and their consent to unprompted messages. A change reaches the
record within seconds, perhaps in another process; until then it's shown from here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cachetools import TTLCache

from agent_config import FrontMatter, Settings
from agentic.agent.forgetting import Forgetting, PersonalStore
from agentic.background_tasks import PROACTIVE
from agentic.record.memories import Kept, MemoryReader, Profile
from agentic.record.notes import ChannelReaders, Consents
from agentic.record.personal_data import STORED, inventory
from agentic.state.record_stream import Notes
from agentic.text import counted, listed
from agentic.wire.entries import MAX_TOPICS, TOPIC_CHARACTERS, ProfileNote, topics_in

ON_THE_WAY_SECONDS = 60.0
MAX_ON_THE_WAY = 1_000

NO_RECORD = "The history is off here, so there's no profile of you, and no bot writes to you on its own."
ELSEWHERE = "The history is on another machine, so I can't read it here. `/profile delete` and `/forget me` still work."
NO_PROFILE = "The bots haven't noted any topics about you."
DELETED = "Your profile is deleted. Nothing you wrote before now will be used to make a new one."
MORE = "`/privacy export` sends you a copy of your data, `/forget me` deletes it, and `/profile` shows your topics."
EXPORT_FILE = "my-data.json"
MAX_EXPORT = 8_000_000  # bytes; Discord takes 10 MB
EXPORTED = (
    "Here's everything the bots have stored about you, except other people's words. The file says what's left out."
)
EXPORT_FAILED = "Your data can't be read right now. Try again in a few minutes."

Exported = Mapping[str, list[dict[str, Any]]]  # by table or store

log = logging.getLogger(__name__)


class OwnMemory:
    """People's profiles, consents, and exports. A process has one. `clock` returns unix seconds."""

    def __init__(
        self,
        memory: MemoryReader,
        notes: Notes,
        consents: Consents,
        clock: Callable[[], float],
        settings: Settings,
        forgetting: Forgetting,
    ) -> None:
        self._memory, self._notes, self._consents, self._clock = memory, notes, consents, clock
        self._forgetting = forgetting
        forgetting.stores["changes"] = PersonalStore(self._forget)
        self._settings = settings
        self._agent = next(iter(settings.agents), "")  # profiles are sent in this agent's stream
        self._new_profiles: TTLCache[int, Profile] = TTLCache(MAX_ON_THE_WAY, ON_THE_WAY_SECONDS, clock)
        self._new_consents: TTLCache[int, bool] = TTLCache(MAX_ON_THE_WAY, ON_THE_WAY_SECONDS, clock)

    @property
    def problem(self) -> str:
        """The reason why nothing can be read, as a sentence for people; "" if it can."""
        if not self._settings.records:
            return NO_RECORD
        return "" if self._memory.is_here else ELSEWHERE

    async def topics(self, user_id: int) -> tuple[str, ...]:
        profile = await self._profile(user_id)
        return profile.topics if profile is not None else ()

    async def profile_text(self, user_id: int) -> str:
        if self.problem:
            return self.problem
        profile = await self._profile(user_id)
        if profile is None or not profile.topics:
            return NO_PROFILE
        by = "as you wrote them" if profile.by == "person" else "noted by a model from what you wrote"
        day = f"{datetime.fromtimestamp(profile.at, self._settings.timezone):%Y-%m-%d}"
        lines = "\n".join(f"- {topic}" for topic in profile.topics)
        return (
            f"Topics you talk about, {by} (last changed {day}):\n{lines}\n"
            "Change them with `/profile edit`, or delete them with `/profile delete`."
        )

    def save_profile(self, user_id: int, text: str, name: str = "") -> str:
        """Save these topics, one per line, and return the reply; without topics, delete the profile."""
        if not self._settings.records:
            return NO_RECORD
        found = topics_in(text)
        if not found:
            return self.delete_profile(user_id)
        topics = tuple(topic[:TOPIC_CHARACTERS].strip() for topic in found[:MAX_TOPICS])
        self._keep(ProfileNote(user_id=user_id, name=name, topics=topics, by="person", at=self._clock()))
        left_out = len(found) - len(topics)
        more = f" {left_out} more didn't fit: a profile can have at most {MAX_TOPICS}." if left_out else ""
        return f"Saved. Your profile now has {counted(len(topics), 'topic')}.{more}"

    def delete_profile(self, user_id: int) -> str:
        if not self._settings.records:
            return NO_RECORD
        self._keep(ProfileNote(user_id=user_id, by="person", deleted=True, at=self._clock()))
        return DELETED

    async def _profile(self, user_id: int) -> Profile | None:
        if (new := self._new_profiles.get(user_id)) is not None:
            return new
        return await self._memory.profile(user_id)

    def _keep(self, note: ProfileNote) -> None:
        self._notes.log(self._agent, note)
        self._new_profiles[note.user_id] = Profile(note.user_id, note.name, note.topics, note.by, note.at)

    async def consent(self, user_id: int) -> bool | None:
        """Return whether the person wants unprompted messages; None if they didn't say."""
        if (new := self._new_consents.get(user_id)) is not None:
            return new
        return await self._memory.consent(user_id)

    async def set_unprompted(self, user_id: int, wanted: bool, because: str = "command") -> str:
        """Save the consent, and return the reply. Raises StateUnavailable."""
        if not self._settings.records:
            return NO_RECORD
        await (self._consents.allow if wanted else self._consents.refuse)(user_id, because=because)
        self._new_consents[user_id] = wanted
        if wanted:
            return "Bots may now write to you on their own. Turn this off with `/privacy unprompted:off`."
        return "Bots no longer write to you on their own. Turn this back on with `/privacy unprompted:on`."

    async def kept(self, user_id: int) -> Kept:
        return await self._memory.kept_about(user_id)

    async def export(self, user_id: int) -> tuple[str, str]:
        """Return a text for the person, and their data as JSON, or "" if it can't be read. Raises StateUnavailable."""
        record = await self._memory.export(self._forgetting.ids_of(user_id))
        if record is None and not self.problem:
            return EXPORT_FAILED, ""
        try:
            stores = await self._forgetting.export(user_id)
        except OSError as error:
            log.error("/privacy export: cannot read files: %s", error)
            return EXPORT_FAILED, ""
        return await asyncio.to_thread(self._format_export, record or {}, stores)  # it may be large

    def _format_export(self, record: Exported, stores: Exported) -> tuple[str, str]:
        sent, withheld = list[dict[str, Any]](), list[dict[str, str]]()
        for kind in inventory(self._settings):
            row = kind.table
            about = {"what": row.name, "where": kind.where, "how long": kind.expires}
            rows = record.get(row.table) if row.place == "sqlite" else stores.get(row.store)
            if kind.exported == "yes" and rows is not None:
                columns = [name for each in STORED if each.table == row.table for name in each.export.split()]
                found = [{name: _readable(name, each.get(name)) for name in dict.fromkeys(columns)} for each in rows]
                sent.append({**about, "rows": found})
            elif why := self.problem if kind.exported == "yes" else row.why_withheld:
                withheld.append({**about, "why": why})
        left_out = _shorten([each["rows"] for each in sent])
        made = datetime.fromtimestamp(self._clock(), UTC).isoformat()
        file = {"made": made, "stored about you": sent, "stored, but not in this file": withheld}
        too_large = f"The file would be too large, so the {left_out} oldest entries are left out."
        lines = [EXPORTED, self.problem, too_large if left_out else ""]
        return "\n".join(filter(None, lines)), json.dumps(file, ensure_ascii=False, indent=1)

    async def _forget(self, user_id: int) -> int:
        """Drop the person's recent changes, which are only here."""
        self._new_profiles.pop(user_id, None)
        self._new_consents.pop(user_id, None)
        return 0


def _readable(name: str, value: object) -> object:
    """Return a value as people read it: times as dates, and ids as texts, since JSON readers round large numbers."""
    if name.endswith("at") and isinstance(value, float):
        return datetime.fromtimestamp(value, UTC).isoformat()
    if name == "topics":
        return json.loads(str(value))
    return str(value) if isinstance(value, int) and value > 2**53 else value


def _shorten(lists: Sequence[list[Any]]) -> int:
    """Remove the oldest rows, which come last, from the longest lists until all fit; return how many."""
    removed = 0
    while (excess := sum(sizes := [len(json.dumps(each, indent=1)) for each in lists]) - MAX_EXPORT) > 0:
        longest = lists[sizes.index(max(sizes))]
        count = min(len(longest), len(longest) * excess // max(sizes) + 1)
        del longest[-count:]
        removed += count
    return removed


class Privacy:
    """Answer people who ask about their data. `names` maps agents to display names; `online` returns the bots that run
    in any process; `fronts` returns the front matter of agents that act on their own."""

    def __init__(
        self,
        own: OwnMemory,
        channel_readers: ChannelReaders,
        settings: Settings,
        names: Mapping[str, str],
        *,
        online: Callable[[], Awaitable[Collection[str]]],
        fronts: Callable[[], Mapping[str, FrontMatter]],
    ) -> None:
        self._own, self._channel_readers, self._settings, self._names = own, channel_readers, settings, names
        self._online, self._fronts = online, fronts

    def log_line(self, channel_id: int) -> str:
        """Return the line that says how long the channel's messages are logged; "" if they aren't."""
        bounds = (self._settings.message_log_days, self._settings.record_days)
        days = min((days for days in bounds if days is not None), default=None)
        if days == 0 or self._channel_readers.logging(channel_id) is None:
            return ""
        lasting = "without a time limit" if days is None else "for a day" if days == 1 else f"for {days} days"
        return f"messages here are stored {lasting}, with names"

    async def text(self, user_id: int, channel_id: int) -> str:
        online = await self._online()
        readers = self._shown(hearing.agent for hearing in self._channel_readers.of(channel_id))
        elsewhere = self._shown(
            agent for agent in self._names if agent in online and agent not in self._channel_readers
        )
        said = f"{listed(readers)}. Messages here can be sent to their AI providers." if readers else "no bot here."
        more = f" {listed(elsewhere)} may read it, too." if elsewhere else ""
        return "\n".join(
            (
                f"**Who reads this channel**: {said}{more}",
                f"**Message log**: {self.log_line(channel_id) or 'off in this channel'}.",
                await self._kept_line(user_id),
                await self._unprompted_line(user_id),
                MORE,
            )
        )

    async def _kept_line(self, user_id: int) -> str:
        if self._own.problem:
            return f"**Stored about you**: {self._own.problem}"
        kept = await self._own.kept(user_id)
        counts = [counted(number, noun) for noun, number in kept.counts.items() if number]
        counts += [f"a profile of {counted(kept.topics, 'topic')}"] if kept.topics else []
        since = ""
        if kept.since is not None:
            oldest = datetime.fromtimestamp(kept.since, self._settings.timezone)
            since = f". Your oldest logged message is from {oldest:%Y-%m-%d}"
        return f"**Stored about you** in all channels: {listed(counts, 'nothing')}{since}."

    async def _unprompted_line(self, user_id: int) -> str:
        consent = None if self._own.problem else await self._own.consent(user_id)
        writers = unprompted_writers(self._fronts(), self._settings)
        if not writers:
            return "**Unprompted messages**: none. No bot here writes on its own."
        writing = self._shown(agent for agent, everyone in writers.items() if consent or everyone)
        if consent is False or not writing:
            why = "as you chose" if consent is False else "because you haven't turned them on"
            return f"**Unprompted messages**: off, {why}. Turn them on with `/privacy unprompted:on`."
        why = "as you chose" if consent else "as the owner chose"
        return (
            f"**Unprompted messages**: {listed(writing)} may write to you, {why}. Turn this off with"
            " `/privacy unprompted:off`."
        )

    def _shown(self, agents: Iterable[str]) -> list[str]:
        return [self._names.get(agent, agent) for agent in agents]


def unprompted_writers(fronts: Mapping[str, FrontMatter], settings: Settings) -> dict[str, bool]:
    """Return the agents whose background tasks post, by key; True if they write to everybody who didn't refuse."""
    found = {}
    for agent, front in fronts.items():
        tasks = front.idle_tasks if front.idle_tasks is not None else settings.idle_tasks
        if not PROACTIVE.isdisjoint(tasks):
            found[agent] = (front.unprompted or settings.unprompted) == "everyone"
    return found
