"""Why a bot spoke, and why it did not: texts for whoever asks, from the turns' records and what is kept of the present.

What is read comes first (`why`, `why_not`, which raise RedisAway), the texts are pure. None is over 2,000 characters,
none holds a word that anybody said. People are named by mentions: who posts a text switches pings off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agent_cogs.events import REASONS
from agent_config import Settings
from agent_protocol.coordination.conversations import Running
from agent_protocol.ledger import Ledger
from agent_protocol.moderation.stops import Stops
from agent_protocol.turns.records import KEEP_SECONDS, TurnRecord, sent_at

NO_RECORD = f"I have no record of that message: it is not one of ours, or older than {KEEP_SECONDS // 86400} days."
MAX_CHARACTERS = 2_000
ERRANDS: Mapping[str, str] = {
    "heartbeat": "looked at something by itself, a check of its heartbeat.md",
    "cron": "did what its calendar says, a job of its agents.md",
    "hook": "did what its agents.md says for this moment, a hook",
    "webhook": "was told news from outside, by a webhook",
}
MAX_WORD = 100  # a model's name, an unknown trigger: what a record holds may come from another program

BUDGETS: Mapping[str, str] = {
    "all": "the day's money for all bots is used up, or nearly so",
    "agent": "its money of the day is used up, or nearly so",
    "channel": "the day's money for this channel is used up, or nearly so",
}


# -- why it spoke -----------------------------------------------------------------------------------------------------


async def why(ledger: Ledger, names: Mapping[str, str], message_id: int, now: float) -> str:
    """Why a message was posted, in two or three lines; `names` maps agents' keys to shown names, `now` in unix seconds.

    Redis is not asked for what is too old.
    """
    if now - sent_at(message_id) > KEEP_SECONDS:
        return NO_RECORD
    record = await ledger.records.of_message(message_id, names)
    return NO_RECORD if record is None else why_text(record, names)


def why_text(record: TurnRecord, names: Mapping[str, str]) -> str:
    name = names.get(record.agent, record.agent)
    lines = [f"**{name}** {_called(record)}.", _spent(record)]
    if record.reason is not None:
        lines.append(f"It did less than was wanted: {_reason(record.reason)}.")
    return "\n".join(lines)[:MAX_CHARACTERS]


def _called(record: TurnRecord) -> str:
    person = f"<@{record.asked_by}>" if record.asked_by else "a person"
    if record.trigger == "mention":
        return f"was called by {person}"
    if record.trigger == "call":
        return f"was called by another bot, in what {person} had begun"
    if record.trigger == "continue":
        return f"was told by {person} to go on"
    if record.trigger == "reactive":
        return f"joined in after another bot had answered {person}"
    if record.trigger == "starter":
        return "opened a conversation of the bots"
    if record.trigger == "round":
        return f"had its turn in round {record.round_number or 1} of a conversation of the bots"
    if record.trigger == "errand":
        return ERRANDS.get(record.kind, "did an errand of its own")
    return f"was called by: {_word(record.trigger)}"


def _spent(record: TurnRecord) -> str:
    messages = "1 message" if record.entries == 1 else f"{record.entries:,} messages"
    cached = f" ({record.cached_tokens:,} of them cached)" if record.cached_tokens else ""
    tokens = f"{record.input_tokens:,} tokens in{cached}, {record.output_tokens:,} out"
    model = _word(record.model) or "unknown"
    return f"Model {model}, {messages} read, {record.seconds:.1f} s, {record.cost_usd:.4f} USD: {tokens}."


# -- why it did not ---------------------------------------------------------------------------------------------------


class Readers(Protocol):
    """Where it is looked for; agent_cogs.services.House is one."""

    @property
    def ledger(self) -> Ledger: ...
    @property
    def stops(self) -> Stops: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def names(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """How it stands with an agent in a channel. Times in unix seconds."""

    name: str
    now: float
    online: bool = True
    muted_until: float | None = None
    rests_until: float | None = None
    stopped: bool = False
    used_up: tuple[str, ...] = ()  # budgets, as BUDGETS names them
    turns: int = 0  # of today
    most_turns: int = 0
    cooldown: float = 0.0  # seconds left
    running: Running | None = None  # the channel's conversation
    speaker: str | None = None  # whose turn it is in it, as people know it
    last: TurnRecord | None = None  # its last turn in the channel


async def why_not(
    services: Readers,
    agent: str,
    channel_id: int,
    now: float,
    *,
    muted_until: Callable[[str], float | None] = lambda _: None,
) -> str:
    """Why an agent is silent in a channel, the decisive reason first. `muted_until` tells an agent's mute's end."""
    ledger, settings, names = services.ledger, services.settings, services.names
    date = f"{datetime.fromtimestamp(now, settings.timezone):%Y-%m-%d}"
    running = await ledger.conversations.running(channel_id)
    present = Present(
        name=names.get(agent, agent),
        now=now,
        online=agent in await ledger.presence.online([agent]),
        muted_until=muted_until(agent),
        rests_until=await ledger.backoffs.until(agent),
        stopped=services.stops.holds(channel_id),
        used_up=tuple(await ledger.budgets.used_up(agent, channel_id, date)),
        turns=await ledger.limits.count(agent, date),
        most_turns=settings.agent_max_daily,
        cooldown=await ledger.limits.cooldown_left(agent, channel_id),
        running=running,
        speaker=names.get(running.speaker, running.speaker) if running and running.speaker else None,
        last=next(iter(await ledger.records.last(agent, channel_id)), None),
    )
    return why_not_text(present)


def why_not_text(present: Present) -> str:
    first, *others = [*_hindrances(present), *_last_turn(present), *_nobody_asked(present)]
    lines = [f"**{present.name}** is silent here: {first}."]
    if others:
        lines += ["Besides:", *(f"- {other}" for other in others)]
    return "\n".join(lines)[:MAX_CHARACTERS]


def _hindrances(present: Present) -> list[str]:
    """What keeps it from speaking now, what nothing else helps against first."""
    found = [] if present.online else ["it is offline"]
    if present.muted_until is not None and present.muted_until > present.now:
        found.append(f"it is muted until {_when(present.muted_until)}")
    if present.stopped:
        found.append("a person has stopped the channel")
    if present.rests_until is not None:
        found.append(f"its provider refuses it (a refused key, no quota), it rests until {_when(present.rests_until)}")
    found += [BUDGETS[budget] for budget in present.used_up]
    if present.turns >= present.most_turns:
        found.append(f"its {present.most_turns} turns of the day are used up")
    if present.cooldown > 0:
        found.append(f"it has just spoken here, and waits {present.cooldown:.0f} s more")
    return found + _conversation(present)


def _conversation(present: Present) -> list[str]:
    if present.running is None:
        return []
    where = f"round {present.running.round_number}"
    if present.speaker is None:
        return [f"a conversation runs here, between two turns of {where}"]
    if present.speaker == present.name:
        return [f"it is its turn right now, in {where}"]
    return [f"a conversation runs here, and in {where} it is {present.speaker}'s turn"]


def _last_turn(present: Present) -> list[str]:
    last = present.last
    if last is None or last.reason is None:
        return []
    return [f"when it had its last turn here, {_when(last.at)}, {_reason(last.reason)}"]


def _nobody_asked(present: Present) -> list[str]:
    """Only where nothing else is known."""
    if _hindrances(present) or _last_turn(present):
        return []
    if present.last is None:
        return ["nobody has called it here for a week, and no conversation runs"]
    return [f"nobody has called it since it had its last turn here, {_when(present.last.at)}"]


def _reason(reason: str) -> str:
    return REASONS.get(reason) or _word(reason)


def _word(text: str) -> str:
    """A word of a record, so that it cannot look like anything else."""
    return "".join(letter for letter in text if letter.isalnum() or letter in "-_./: ")[:MAX_WORD]


def _when(at: float) -> str:
    """Discord shows it as "3 minutes ago" or "in 3 minutes"."""
    return f"<t:{at:.0f}:R>"
