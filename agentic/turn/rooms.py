"""The view of a turn in a room: its brief, its summary, and of the thread's messages those of its members and its
audience."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from agentic.agent.agent import Turn
from agentic.agent.events import InstructionEvent, TurnEvent
from agentic.chat.transcript import Transcript
from agentic.context.entries import Entry, is_visible
from agentic.context.prompt import Identity, RoomTurn
from agentic.state.context import Summary
from agentic.turn.schema import FORM, DecisionForm, room_form
from agentic.wire.link import RedisAway
from agentic.wire.messages import Instruction

log = logging.getLogger(__name__)


def in_room(event: TurnEvent) -> bool:
    return isinstance(event, InstructionEvent) and event.instruction.room is not None


def room_turn(
    given: Instruction | None, inner: Mapping[str, str], names: Mapping[str, str], *, reacts: bool = True
) -> RoomTurn | None:
    """The brief of a turn in a room; None outside of rooms. `names` maps agents' keys to shown names, and `inner` to
    those by which they go in this channel, which then is a member's name too. `reacts`: the agent may react."""
    brief = given.room if given is not None else None
    if given is None or brief is None:
        return None
    called = {names[key]: name for key, name in inner.items() if key in names}
    return RoomTurn(
        topic=given.topic or "",
        turn_number=brief.turn_number,
        turns=brief.turns,
        rules=brief.rules,
        members=tuple(called.get(name, name) for name in brief.members),
        names_next=brief.names_next,
        reacts=reacts,
        goodbye_ends=brief.goodbye_ends,
    )


def form_in(room: RoomTurn | None) -> DecisionForm:
    """The form of an answer, in a room or anywhere else."""
    return FORM if room is None else room_form(names_next=room.names_next, reacts=room.reacts)


def with_members(me: Identity, room: RoomTurn | None) -> Identity:
    """The identity of an agent that knows the members' names too: a person may not go by one of them."""
    if room is None:
        return me
    others = (*me.others, *(name for name in room.names if name != me.display_name))
    return replace(me, others=tuple(dict.fromkeys(others)))


def room_entries(entries: Iterable[Entry]) -> list[Entry]:
    """The messages of members and of people, who are the audience; those of other bots and foreign webhooks are left
    out."""
    return [_marked(entry) for entry in entries if entry.speaker.kind != "stranger"]


def _marked(entry: Entry) -> Entry:
    if entry.speaker.kind != "person":
        return entry
    return replace(entry, speaker=replace(entry.speaker, audience=True))


async def room_summary(turn: Turn, reset: int) -> Summary | None:
    """The summary that a turn in a room is shown; None for none, for one with messages from before the agent's last
    reset, and for one with a message that was deleted or hidden since, which is dropped."""
    summary = await turn.agent.summaries.read(turn.event.channel_id)
    if summary is None or summary.first <= reset:
        return None
    if not _is_outdated(summary, turn.outlet.view.transcript):
        return summary
    try:
        await turn.agent.summaries.drop(turn.event.channel_id)
    except RedisAway:
        log.info("room %d: its summary is dropped once Redis is back", turn.event.channel_id)
    return None


def _is_outdated(summary: Summary, transcript: Transcript) -> bool:
    """Whether one of its messages is no longer to be seen."""
    if any(map(summary.covers, transcript.deleted)):
        return True
    return any(not is_visible(entry) for entry in transcript.entries() if entry.id in summary.messages)
