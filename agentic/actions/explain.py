"""/why and /why-not: explain why a bot posted a message, or why it is silent, from turn records and current state.

The texts have at most 2,000 characters and quote nobody. They mention people, so a caller must post them with pings
off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from agentic.actions.base import (
    REPLY_CHARACTERS,
    ActionContext,
    ActionRefused,
    ActionRequest,
    Outcome,
    report,
)
from agentic.actions.rights import may_moderate
from agentic.actions.rooms import may_be_named
from agentic.actions.silence import OfBot
from agentic.actions.status import proactive_waits
from agentic.actions.values import Values, option
from agentic.agent.services import Services, today_of
from agentic.background_tasks import BACKGROUND_TASKS, PROACTIVE
from agentic.ids import MAX_ID, sent_at
from agentic.rooms.opening import escaped
from agentic.state.conversations import SpeakerScore
from agentic.state.shared_state import SharedState
from agentic.state.silence import ChannelRef
from agentic.state.turn_records import KEEP_SECONDS, TurnRecord
from agentic.text import dollars, listed
from agentic.wire.entries import UnaskedNote
from agentic.wire.reasons import REASONS

AUTOMATION: Mapping[str, str] = {
    "heartbeat": "ran a check from its heartbeat.md",
    "cron": "ran a cron job from its agents.md",
    "hook": "ran a hook from its agents.md",
    "webhook": "handled a webhook event",
}
UNASKED_END = "The bot wrote this on its own. React to it with 🔕 and no bot will send you messages like this again."
NO_TURN = (
    "That isn't a turn of this room. If a bot posted it, the program wrote it without a model: the room's first"
    " message, its closing card, and all lines that begin with 🫥."
)
MAX_WORD = 100  # characters of a model name or an unknown trigger: another program may have written the record

_MESSAGE_ID = re.compile(r"(?:.*/)?(\d{15,20})/?", re.DOTALL)

SILENCE_REASONS: Mapping[str, str] = {
    "paused": "all bots are paused (/bots resume ends that)",
    "stopped": "the bots are stopped in this channel (/resume ends that)",
    "muted": "it's muted, which ends {when}",
}
BUDGETS: Mapping[str, str] = {
    "all": "today's budget for all bots is used up, or nearly so",
    "agent": "its budget for today is used up, or nearly so",
    "channel": "today's budget for this channel is used up, or nearly so",
}


class OfMessage(Values):
    message: str = option("Link or ID of the message", kind="message")


async def explain_post(context: ActionContext, request: ActionRequest, values: OfMessage) -> Outcome:
    written = values.message.strip()
    if not written and request.surface == "text":
        raise ActionRefused("nothing_posted")
    found = _MESSAGE_ID.fullmatch(written)
    if found is None or int(found[1]) > MAX_ID:
        raise ActionRefused("no_message")
    services, message_id, here = context.services, int(found[1]), request.channel_id
    names, may_see = services.agents.roster.names, context.place.may_see(here)
    record = await find_turn(services.state, names, message_id, services.clock())
    if record is None:  # Redis no longer has its turn
        sent = await services.record.memory.unasked(message_id)
        if sent is None and (about := await _about_room(context, request, message_id)) is not None:
            return report(about)
        if sent is None or not context.is_here(sent.channel_id, request) or not may_see(sent.channel_id):
            raise ActionRefused("no_record")
        return report(unasked_text(sent, names))
    if record.guild_id not in (None, request.guild_id) or not may_see(record.channel_id):
        raise ActionRefused("no_record")
    text = why_text(record, names)
    base = services.settings.console_link
    if base is None or request.surface == "text" or not may_moderate(context, request):
        return report(text)
    address = f"{base}/#/turn/{quote(record.agent, safe='')}/{quote(record.id, safe='')}"
    return report(f"{text}\nIn the console: <{address}>")


async def explain_silence(context: ActionContext, request: ActionRequest, values: OfBot) -> Outcome:
    services = context.services
    assert request.place is not None
    return report(await why_not(services, values.agent, request.place, services.clock()))


async def _about_room(context: ActionContext, request: ActionRequest, message_id: int) -> str | None:
    """Explain a message that the program wrote about a room: its first message, or a recent line in its thread."""
    rooms = context.services.state.coordination.rooms
    room = await rooms.read(message_id) or await rooms.read(request.channel_id)
    if room is None or not may_be_named(context, room, request):
        return None
    if room.thread_id == message_id:  # a thread has the id of its first message
        how = "proposed" if room.proposed else "opened"
        by = f" {how} by <@{room.opened_by}>" if room.opened_by is not None else ""
        return f"This message began the room “{escaped(room.topic)}”{by}. The program wrote it, without a model."
    is_recent = context.services.clock() - sent_at(message_id) < KEEP_SECONDS
    return NO_TURN if is_recent and sent_at(message_id) >= room.opened_at - 1 else None


async def find_turn(state: SharedState, agents: Iterable[str], message_id: int, now: float) -> TurnRecord | None:
    """Return the turn of one of these agents that posted a message; None if there is none, or the message is older than
    any record. `now` in unix seconds. Raises StateUnavailable."""
    if now - sent_at(message_id) > KEEP_SECONDS:
        return None
    return await state.turns.records.of_message(message_id, agents)


def why_text(record: TurnRecord, names: Mapping[str, str]) -> str:
    """Say why a message was posted, in two or three lines. `names` maps agents' keys to shown names."""
    name = names.get(record.agent, record.agent)
    because = "Why" if record.kind == "reflection" else "Why this bot"
    chosen = f" {because}: {_word(record.chosen_because)}." if record.chosen_because else ""
    messages = "1 message" if record.entries == 1 else f"{record.entries:,} messages"
    cached = f" ({record.cached_tokens:,} of them cached)" if record.cached_tokens else ""
    tokens = f"{record.input_tokens:,} tokens in{cached}, {record.output_tokens:,} out"
    lines = [
        f"**{name}** {_called(record)}.{chosen}",
        f"It used {_word(record.model) or 'an unknown model'}, read {messages}, and took {record.seconds:.1f} s."
        f" Cost: {dollars(record.cost_usd)} for {tokens}.",
    ]
    if record.kind == "reflection":
        lines.append(UNASKED_END)
    if record.reason is not None:
        lines.append(f"It couldn't do everything it was asked to: {_reason(record.reason)}.")
    return "\n".join(lines)[:REPLY_CHARACTERS]


def unasked_text(sent: UnaskedNote, names: Mapping[str, str]) -> str:
    """Explain an unprompted message from the history, which outlives the turn's record in Redis."""
    because = f" Why: {_word(sent.cause)}." if sent.cause else ""
    first = f"**{names.get(sent.agent, sent.agent)}** {_unasked(sent.task, sent.person_id)}.{because}"
    return f"{first}\n{UNASKED_END}"[:REPLY_CHARACTERS]


def _called(record: TurnRecord) -> str:
    person = _person(record.asked_by)
    if record.room_turn is not None:
        return f"took turn {record.room_turn} in a room"
    if record.trigger in PROACTIVE:
        return _unasked(record.trigger, record.asked_by)
    called = {
        "mention": f"answered {person}",
        "call": f"was mentioned by another bot, in a chain that {person} started",
        "continue": f"was asked by {person} to continue",
        "reactive": f"joined in after another bot answered {person}",
        "starter": "started a conversation among the bots",
        "round": f"took its turn in round {record.round_number or 1} of a conversation among the bots",
        "errand": AUTOMATION.get(record.kind, "ran an automation task"),
    }
    return called.get(record.trigger, f"was triggered by: {_word(record.trigger)}")


def _unasked(task: str, person_id: int | None) -> str:
    did = {name: task.did for name, task in BACKGROUND_TASKS.items() if task.did}
    return did.get(task, did["discover"]).format(person=_person(person_id))


def _person(user_id: int | None) -> str:
    return f"<@{user_id}>" if user_id else "a person"


async def why_not(services: Services, agent: str, place: ChannelRef, now: float) -> str:
    """Say why an agent is silent in a channel, the most decisive reason first. Raises StateUnavailable."""
    room = await services.state.coordination.rooms.read(place.channel_id)
    members = {member.name: member.shown for member in room.members} if room is not None else {}
    names = {**services.agents.names, **members}
    outside = room is not None and agent not in room.names
    found = ["it isn't a member of this room (/room add adds it)"] if outside else []
    found += await _obstacles(services, agent, place)
    found += await _conversation(services, agent, place.channel_id, names, is_member=not outside)
    last = next(iter(await services.state.turns.records.last(agent, place.channel_id)), None)
    if last is not None and last.reason is not None:
        found.append(f"in its last turn here ({_when(last.at)}), {_reason(last.reason)}")
    if not found and last is None:
        found = ["nobody has mentioned it here in the last week, and no conversation is running"]
    elif not found and last is not None:
        found = [f"nobody has mentioned it since its last turn here ({_when(last.at)})"]
    idle = await services.state.coordination.idle.read()
    if idle is not None and (waits := proactive_waits(idle, agent, now)):
        found.append(f"its unprompted messages have to wait: {listed(waits)}")
    lines = [f"**{names.get(agent, agent)}** is silent here: {found[0]}."]
    if len(found) > 1:
        lines += ["Also:", *(f"- {reason}" for reason in found[1:])]
    return "\n".join(lines)[:REPLY_CHARACTERS]


async def _obstacles(services: Services, agent: str, place: ChannelRef) -> list[str]:
    """Return what keeps the agent from taking any turn in the channel now."""
    state, found = services.state, list[str]()
    date = today_of(services)
    if agent not in await state.coordination.presence.online([agent]):
        found.append("it's offline")
    reasons = services.silence.reasons(place, agent)
    found += dict.fromkeys(SILENCE_REASONS[each.kind].format(when=_when(each.until)) for each in reasons)
    if (backoff_until := await state.coordination.backoffs.until(agent)) is not None:
        found.append(f"its AI provider is rejecting requests (key or quota), and it tries again {_when(backoff_until)}")
    found += [BUDGETS[budget] for budget in await state.limits.budgets.used_up(agent, place.channel_id, date)]
    most = services.settings.agent_max_daily
    if await state.limits.count(agent, date) >= most:
        found.append(f"its {most} turns for today are used up")
    if (cooldown := await state.limits.cooldown_left(agent, place.channel_id)) > 0:
        found.append(f"it just spoke here and can speak again in {cooldown:.0f} s")
    return found


async def _conversation(
    services: Services, agent: str, channel_id: int, names: Mapping[str, str], *, is_member: bool
) -> list[str]:
    """Return what the running conversation says about the agent, and why another agent was chosen last, if one was."""
    coordination, found = services.state.coordination, list[str]()
    running, scores = await coordination.conversations.read(channel_id), await coordination.scores.last(channel_id)
    if running is not None:
        where, speaker = f"a conversation is running here (round {running.counts.round})", running.queue.speaker
        if speaker is None:
            found.append(f"{where}, and the next turn hasn't started yet")
        elif speaker == agent:
            found.append(f"{where}, and it's taking its turn right now")
        else:
            found.append(f"{where}, and it's {names.get(speaker, speaker)}'s turn")
    chosen = scores.of(scores.chosen) if scores is not None and is_member and scores.chosen != agent else None
    if scores is not None and chosen is not None:
        other, own = names.get(scores.chosen, scores.chosen), scores.of(agent)
        why = "it had just had a turn itself" if own is None else f"its own score was {_score(own)}"
        found.append(f"{_when(scores.at)}, {other} got the turn with a score of {_score(chosen)}, and {why}")
    return found


def _score(score: SpeakerScore) -> str:
    """Return its strength and parts: 1.24 (named by Ada 1.00, has said less than its share 0.24)."""
    parts = sorted(score.parts, key=lambda part: -part.amount)
    shown = ", ".join(f"{_word(part.why)} {part.amount:.2f}" for part in parts)
    weakened = f", times {score.channel:.2f} after silence" if score.channel < 1 else ""
    return f"{score.strength:.2f} ({shown}{weakened})"


def _reason(reason: str) -> str:
    return REASONS.get(reason) or _word(reason)


def _word(text: str) -> str:
    """Return a value of a record without characters that Discord would format."""
    return "".join(letter for letter in text if letter.isalnum() or letter in "-_./:, '’")[:MAX_WORD]


def _when(at: float) -> str:
    """Return a Discord timestamp, shown as "3 minutes ago" or "in 3 minutes"."""
    return f"<t:{at:.0f}:R>"
