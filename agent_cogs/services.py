"""The services that all agents of a process share; agent_runtime opens them and hands them down."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agent_chat.attachments import PictureReader
from agent_chat.directory import Directory
from agent_chat.transcript import Transcripts
from agent_cogs.events import MentionEvent
from agent_cogs.limits.cheap_model import CheapModel
from agent_cogs.persona.options import OptionBook
from agent_cogs.persona.persona import Personas
from agent_cogs.persona.roster import Roster
from agent_cogs.slash.forget import Forgetting
from agent_cogs.trace.gateway_notes import GatewayNotes
from agent_cogs.trace.person_notices import PersonNotices
from agent_cogs.trace.room_log import RoomLog
from agent_cogs.trace.watchers import Nobody, TurnWatcher
from agent_config import Settings
from agent_context.entries import Entry
from agent_discord.posting.webhooks import Webhooks
from agent_discord.reading.history import HistoryFetcher
from agent_discord.reading.history_cache import HistoryCache
from agent_discord.rest.outbound import OutboundShared
from agent_llm.prefill_support import PrefillMemory
from agent_protocol.ledger import Ledger
from agent_protocol.moderation.ignores import Ignores
from agent_protocol.moderation.stops import Stops
from agent_protocol.record.writer import NoRecord, Notes
from agent_protocol.state.once import Notices
from agent_protocol.state.sessions import Resets
from agent_protocol.wire.bus import Bus
from agent_protocol.wire.coordinator_commands import CoordinatorCommands
from agent_tools.toolset import Toolset


@dataclass(frozen=True, slots=True)
class Scope:
    """The channels, with their themes, and the guilds (empty: any) in which the program speaks. `direct` is the theme
    of direct messages, None where they are not answered."""

    channels: Mapping[int, str]
    guild_ids: frozenset[int] = frozenset()
    direct: str | None = None

    def theme(self, channel_id: int, parent_id: int | None, guild_id: int | None) -> str | None:
        """The theme of a channel or thread; None out of scope."""
        if guild_id is None:
            return self.direct
        if self.guild_ids and guild_id not in self.guild_ids:
            return None
        own = self.channels.get(channel_id)
        return own if own is not None or parent_id is None else self.channels.get(parent_id)


@dataclass(frozen=True, kw_only=True)
class AgentServices:
    """Shared by the agents of a process. `names` maps every bot's key to its shown name, `roster.names` every agent's,
    personas without a bot among them."""

    settings: Settings
    scope: Scope
    names: Mapping[str, str]
    roster: Roster
    bus: Bus
    ledger: Ledger
    stops: Stops
    ignores: Ignores
    forgetting: Forgetting
    orders: CoordinatorCommands
    directory: Directory
    transcripts: Transcripts
    fetcher: HistoryFetcher
    pictures: PictureReader
    history_cache: HistoryCache
    clock: Callable[[], float]
    rng: random.Random
    resets: Resets
    webhooks: Webhooks
    notices: Notices
    options: OptionBook
    outbound: OutboundShared = field(default_factory=OutboundShared)
    record: Notes = field(default_factory=NoRecord)
    watcher: TurnWatcher = field(default_factory=Nobody)
    tools: Toolset | None = None  # None: agents have no tools
    personas: Personas | None = None  # None: persona files are not read
    cheap: CheapModel | None = None  # None: there is none
    prefill: PrefillMemory = field(default_factory=PrefillMemory)

    @cached_property
    def gateway_notes(self) -> GatewayNotes:
        """The notes of what Discord reports."""
        return GatewayNotes(self.record, self.transcripts, self.clock, self.ledger.summaries.drop_covering)

    @cached_property
    def room_log(self) -> RoomLog:
        """The log of rooms' messages for the record."""
        return RoomLog(self.clock, self._ignores)

    def _ignores(self, user_id: int, roles: frozenset[int]) -> bool:
        settings = self.settings
        return (
            user_id in self.ignores
            or user_id in settings.ignore_user_ids
            or not roles.isdisjoint(settings.ignore_role_ids)
        )

    @cached_property
    def person_notices(self) -> PersonNotices:
        """The notices to the coordinator of what people write."""
        return PersonNotices(self.bus, self.directory, self.names)

    def mention(self, asked: Entry, channel_id: int, theme: str, *, to_all: bool = False, **more: Any) -> MentionEvent:
        """The event of a message that calls an agent, with TURN_TIMEOUT_SECONDS; `more` are further fields of it."""
        now, seconds = self.clock(), self.settings.turn_timeout_seconds
        return MentionEvent.of(
            asked, channel_id=channel_id, theme=theme, to_all=to_all, now=now, seconds=seconds, **more
        )
