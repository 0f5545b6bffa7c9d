"""What all agents of a process share; opened by agent_runtime and handed down."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_cogs.events import MentionEvent
from agent_cogs.forgetting import Forgetting
from agent_cogs.option_book import OptionBook
from agent_cogs.persona import Personas
from agent_cogs.tool_house import ToolHouse
from agent_cogs.triggers import Scope
from agent_config import Settings
from agent_context.entries import Entry
from agent_discord.attachments import PictureReader
from agent_discord.directory import Directory
from agent_discord.fetching import Fetcher
from agent_discord.gate import WayOut
from agent_discord.pasts import Pasts
from agent_discord.transcript import Transcripts
from agent_discord.webhooks import Webhooks
from agent_llm.prefill import PrefillMemory
from agent_protocol.bus import Bus
from agent_protocol.ignores import Ignores
from agent_protocol.ledger import Ledger
from agent_protocol.notices import Notices
from agent_protocol.orders import Orders
from agent_protocol.sessions import Resets
from agent_protocol.stops import Stops


@dataclass(frozen=True, kw_only=True)
class House:
    """Shared by the cogs of a process. `names` maps every agent's key to its shown name."""

    settings: Settings
    scope: Scope
    names: Mapping[str, str]
    bus: Bus
    ledger: Ledger
    stops: Stops
    ignores: Ignores
    forgetting: Forgetting
    orders: Orders
    directory: Directory
    transcripts: Transcripts
    fetcher: Fetcher
    pictures: PictureReader
    clock: Callable[[], float]
    rng: random.Random
    resets: Resets | None = None
    way_out: WayOut = field(default_factory=WayOut)
    webhooks: Webhooks | None = None  # None: nothing is shown by webhook
    notices: Notices | None = None
    tools: ToolHouse | None = None  # None: no agent has any
    personas: Personas | None = None  # None: the agents are what the table of agents says
    prefill: PrefillMemory = field(default_factory=PrefillMemory)
    book: OptionBook | None = None  # None: what .env sets alone
    pasts: Pasts | None = None

    def mention(self, asked: Entry, channel_id: int, theme: str, *, to_all: bool = False, **more: Any) -> MentionEvent:
        """A message that speaks to an agent, as an event with the time that the owner gives a turn; `more` are further
        fields of it."""
        now, seconds = self.clock(), self.settings.turn_timeout_seconds
        return MentionEvent.of(
            asked, channel_id=channel_id, theme=theme, to_all=to_all, now=now, seconds=seconds, **more
        )
