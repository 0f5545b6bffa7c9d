"""How the bots stand, over all processes: what `/bots status` shows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from agent_cogs.services import AgentServices
from agent_cogs.slash.wording import counted, dollars, lasting, listed
from agent_protocol.coordination.conversations import Running

MOST_STOPS = 10  # channels that are named


@dataclass(frozen=True, slots=True)
class Row:
    """One agent today. `muted` and `rests`: seconds left, 0 for neither."""

    name: str
    online: bool
    turns: int = 0
    cost: float = 0.0
    muted: float = 0.0
    rests: float = 0.0

    @property
    def standing(self) -> str:
        """ "Claude", "Grok (muted for 5 minutes)" """
        why = [f"muted for {lasting(self.muted)}"] if self.muted > 0 else []
        why += [f"resting for {lasting(self.rests)}: its provider refuses it"] if self.rests > 0 else []
        return f"{self.name} ({', '.join(why)})" if why else self.name


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """`budget` in US dollars a day, None for any sum; `stops`: channel → seconds left. `disclosures`: what the
    bots' owner wants said of them, such as that they are AIs."""

    rows: tuple[Row, ...]
    budget: float | None
    talk: Running | None
    stops: Mapping[int, float] = field(default_factory=dict)
    disclosures: tuple[str, ...] = ()

    def text(self, channel_id: int, names: Mapping[str, str]) -> str:
        online = listed([row.standing for row in self.rows if row.online])
        lines = [f"**Online**: {online}"]
        if offline := [row.standing for row in self.rows if not row.online]:
            lines.append(f"**Offline**: {listed(offline)}")
        lines.append(f"**Today**: {self._today()}")
        lines.append(f"**Here**: {self._here(channel_id, names)}")
        others = [channel for channel in self.stops if channel != channel_id]
        if others:
            shown = [f"<#{channel}> for {lasting(self.stops[channel])}" for channel in others[:MOST_STOPS]]
            more = len(others) - MOST_STOPS
            lines.append(f"**Stopped elsewhere**: {listed([*shown, f'{more} more'] if more > 0 else shown)}")
        lines += [f"-# {disclosure}" for disclosure in self.disclosures]
        return "\n".join(lines)

    def _today(self) -> str:
        each = [f"{row.name} {counted(row.turns, 'turn')}, {dollars(row.cost)}" for row in self.rows]
        total = dollars(sum(row.cost for row in self.rows))
        return f"{'; '.join(each)}; together {total}" + (f" of {dollars(self.budget)}" if self.budget else "")

    def _here(self, channel_id: int, names: Mapping[str, str]) -> str:
        if channel_id in self.stops:
            return f"a person wants silence for {lasting(self.stops[channel_id])} more; /resume lifts it"
        if self.talk is None:
            return "no conversation runs"
        rules = f" by the rules of {self.talk.theme}" if self.talk.theme else ""
        who = f", it is {names.get(self.talk.speaker, self.talk.speaker)}'s turn" if self.talk.speaker else ""
        return f"a conversation runs{rules}, round {self.talk.round_number}{who}"


async def look(services: AgentServices, channel_id: int, parent_id: int | None = None) -> ServerStatus:
    """The board as seen from a channel, or from a thread of the channel `parent_id`. Raises RedisAway."""
    ledger, now = services.ledger, services.clock()
    date = f"{datetime.fromtimestamp(now, services.settings.timezone):%Y-%m-%d}"
    online, muted, rests, talk = await asyncio.gather(
        ledger.presence.online(services.names),
        ledger.mutes.read(services.names),
        ledger.backoffs.read(services.names),
        ledger.conversations.running(channel_id),
    )
    turns = await asyncio.gather(*(ledger.limits.all(agent, date) for agent in services.names))
    costs = await asyncio.gather(*(ledger.costs.read(agent, date) for agent in services.names))
    rows = tuple(
        Row(
            name=shown,
            online=agent in online,
            turns=turns[number],
            cost=costs[number].get("total_cost", 0.0),
            muted=max(0.0, muted.get(agent, 0.0) - now),
            rests=max(0.0, rests.get(agent, 0.0) - now),
        )
        for number, (agent, shown) in enumerate(services.names.items())
    )
    stops = {channel: until - now for channel, until in services.stops.held().items()}
    if parent_id in stops:  # a stop of a channel covers its threads
        stops[channel_id] = max(stops[parent_id], stops.get(channel_id, 0.0))
    said = (agent.front.disclosure for agent in services.settings.agents.values())
    return ServerStatus(rows, services.settings.budget_daily_usd, talk, stops, tuple(filter(None, said)))
