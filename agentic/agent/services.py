"""The services that all agents of a process share, opened by agentic.runtime."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from agent_config import AgentSettings, FrontMatter, Settings
from agentic.agent.events import MentionEvent
from agentic.agent.forgetting import Forgetting
from agentic.agent.notices import Cancels, PersonNotices
from agentic.agent.options import OptionBook
from agentic.agent.persona import Personas
from agentic.agent.privacy import OwnMemory, Privacy
from agentic.agent.roster import Roster
from agentic.agent.side_calls import CheapModel
from agentic.chat.service import Person, ServiceRegistry
from agentic.chat.transcript import Transcripts
from agentic.context.entries import Entry
from agentic.llm.provider_table import PrefillMemory
from agentic.record.embeddings import Embeddings
from agentic.record.memories import MemoryReader
from agentic.record.notes import ChannelReaders, Consents, GatewayNotes, MessageLog, RoomLog, TurnWatcher
from agentic.state.live_options import LiveOptions
from agentic.state.record_stream import Notes
from agentic.state.shared_state import SharedState
from agentic.state.silence import Silence
from agentic.tools.toolset import Toolset
from agentic.wire.bus import Bus
from agentic.wire.connection import or_default
from agentic.wire.entries import Entry as RecordEntry


@dataclass(frozen=True, slots=True)
class IgnoredPeople:
    """The people the bots ignore, because of the owner's settings or a manager's order."""

    settings: Settings
    silence: Silence

    def has(self, user_id: int, roles: frozenset[int], guild_id: int | None) -> bool:
        """Return whether the bots ignore a person with these roles in a server."""
        return (
            self.silence.is_ignored(user_id, guild_id)
            or user_id in self.settings.ignore_user_ids
            or not roles.isdisjoint(self.settings.ignore_role_ids)
        )

    def everybody(self, guild_id: int | None) -> frozenset[int]:
        """Return the people the bots ignore in a server regardless of their roles."""
        return self.silence.ignored_people(guild_id) | frozenset(self.settings.ignore_user_ids)


@dataclass(frozen=True, slots=True)
class Moderators:
    """The people who may act for everyone in a server's channels: stop the bots there, and run rooms."""

    settings: Settings
    options: OptionBook

    def has(self, who: Person, guild_id: int | None) -> bool:
        if who.manages_messages or who.manages_guild or who.user_id in self.settings.moderators:
            return True
        roles = self.settings.moderators.union(self.options.moderator_roles(guild_id))
        return not who.roles.isdisjoint(roles)


@dataclass(frozen=True, kw_only=True)
class AgentBook:
    """All agents. `names` maps the bots' keys to their display names; `roster.names` also has the personas without a
    bot."""

    names: Mapping[str, str]
    roster: Roster
    personas: Personas | None = None  # None: persona files aren't read
    options: OptionBook
    live_options: LiveOptions
    tools: Toolset | None = None  # None: agents have no tools
    ignored: IgnoredPeople
    moderators: Moderators
    person_notices: PersonNotices
    cancels: Cancels


@dataclass(frozen=True, kw_only=True)
class SharedModels:
    """The models that don't belong to one agent. `cheap` answers small questions, `make_judge` makes the model of a
    room's judge, `embeddings` turns texts into vectors, and `prefill` knows which models can continue a transcript."""

    cheap: CheapModel | None = None
    make_judge: Callable[[AgentSettings], CheapModel] | None = None
    embeddings: Embeddings | None = None
    prefill: PrefillMemory = field(default_factory=PrefillMemory)


@dataclass(frozen=True, kw_only=True)
class Record:
    """The record: `notes` takes new notes, `memory` reads this machine's record, `watcher` follows turns, `forgetting`
    deletes people's data, and `readers` are this process's agents that read channels."""

    notes: Notes
    memory: MemoryReader
    watcher: TurnWatcher
    forgetting: Forgetting
    settings: Settings
    clock: Callable[[], float]
    state: SharedState
    transcripts: Transcripts
    agents: AgentBook
    readers: ChannelReaders = field(default_factory=ChannelReaders)

    def note(self, entry: RecordEntry) -> None:
        self.notes.note(entry)

    @cached_property
    def gateway(self) -> GatewayNotes:
        return GatewayNotes(self.notes, self.transcripts, self.clock, self.state.context.summaries, self.memory)

    @cached_property
    def consents(self) -> Consents:
        return Consents(self.notes, self.state.posts.proactive, self.clock)

    @cached_property
    def rooms(self) -> RoomLog:
        return RoomLog(self.clock, self.agents.ignored.has)

    @cached_property
    def messages(self) -> MessageLog:
        return MessageLog(
            self.transcripts,
            self.readers,
            self.notes,
            self.clock,
            is_ignored=self.agents.ignored.has,
            late_seconds=self.settings.mention_catchup_seconds,
            deleted=self.gateway.deleted,
        )

    @cached_property
    def own_memory(self) -> OwnMemory:
        """The profiles and consents that people may see and change."""
        return OwnMemory(self.memory, self.notes, self.consents, self.clock, self.settings, self.forgetting)

    @cached_property
    def privacy(self) -> Privacy:
        """The answers to people who ask about their data."""
        acting, agents = self.settings.account_agents, self.agents

        @or_default((), "/privacy names only this process's bots")
        async def online() -> Collection[str]:
            return await self.state.coordination.presence.online(agents.names)

        def fronts() -> Mapping[str, FrontMatter]:
            return {entry.key: entry.front for entry in agents.roster if entry.is_bot or entry.key in acting}

        return Privacy(self.own_memory, self.readers, self.settings, agents.roster.names, online=online, fronts=fronts)


@dataclass(frozen=True, kw_only=True)
class Services:
    """Shared by the agents of a process."""

    settings: Settings
    clock: Callable[[], float]
    rng: random.Random
    state: SharedState
    bus: Bus
    silence: Silence
    chats: ServiceRegistry
    agents: AgentBook
    record: Record
    models: SharedModels

    def mention(self, asked: Entry, channel_id: int, theme: str, *, to_all: bool = False, **more: Any) -> MentionEvent:
        """Build the event for a message that calls an agent, with the time limit of TURN_TIMEOUT_SECONDS. `more` are
        further fields of the event."""
        now, seconds = self.clock(), self.settings.turn_timeout_seconds
        return MentionEvent.of(
            asked, channel_id=channel_id, theme=theme, to_all=to_all, now=now, seconds=seconds, **more
        )


def today_of(services: Services) -> str:
    """Return the owner's date, YYYY-MM-DD."""
    return f"{datetime.fromtimestamp(services.clock(), services.settings.timezone):%Y-%m-%d}"
