"""Actions about existing rooms: pause, resume, close, steer, show, and export.

A room is named by its thread's link or id, or by its topic. By default it is the room of the current thread. The
coordinator carries out changes; everything else reads Redis or the record.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping

from agentic.actions.base import ActionContext, ActionRequest, File, Outcome, done, refused, report
from agentic.actions.values import Values, option
from agentic.agent.roster import AgentName, find
from agentic.policies import POLICY_TEXTS
from agentic.record.database import RecordError
from agentic.record.export.story import Look
from agentic.rooms.opening import escaped
from agentic.state.conversation_state import SpeakerQueue
from agentic.state.rooms import MAX_TURNS, Room
from agentic.text import counted, dollars, listed
from agentic.wire.messages import Command, RoomOrder
from agentic.wire.reasons import ENDINGS

SEEN = 200  # rooms among which a topic is looked for
MAX_LISTED = 15
MAX_BYTES = 8_000_000  # of a file, below Discord's limit for a server without boosts
CHANGED = frozenset({"room_paused", "room_resumed", "room_closed", "requested", "added_member", "removed_member"})
"""The outcomes of commands that were carried out."""

_THREAD = re.compile(r"(?:<#|.*/)?(\d{15,20})>?/?", re.DOTALL)


class OfRoom(Values):
    room: str = option("Which room, by link or topic (default: this thread)", "", kind="room", needed="console")


class Resume(OfRoom):
    turns: int | None = option("How many more turns", None, ge=1, le=MAX_TURNS)


class OfMember(OfRoom):
    agent: str = option("Which bot or persona", kind="agent")


async def pause(context: ActionContext, request: ActionRequest, values: OfRoom) -> Outcome:
    return await _order(context, await find_room(context, request, values), "room-pause", RoomOrder(reason="asked"))


async def close(context: ActionContext, request: ActionRequest, values: OfRoom) -> Outcome:
    return await _order(context, await find_room(context, request, values), "room-close", RoomOrder())


async def resume(context: ActionContext, request: ActionRequest, values: Resume) -> Outcome:
    room = await find_room(context, request, values)
    gone = context.services.agents.roster.gone(room.names) if room is not None else ()
    order = RoomOrder(turns=values.turns, gone=gone)
    return await _order(context, room, "room-resume", order, detail=f"+{values.turns} turns" if values.turns else "")


async def add(context: ActionContext, request: ActionRequest, values: OfMember) -> Outcome:
    entry = context.find_agent(values.agent)
    if isinstance(entry, str):
        return refused("no_such_agent", why=entry)
    if entry.why_not is not None:
        return refused("cannot_take_part", agent=entry.shown, reason=entry.why_not)
    room, order = await find_room(context, request, values), RoomOrder(member=entry.member.model_dump_json())
    return await _order(context, room, "room-add", order, AgentName(entry.key, entry.shown))


async def next_speaker(context: ActionContext, request: ActionRequest, values: OfMember) -> Outcome:
    return await _order_member(context, request, values, "room-next")


async def remove(context: ActionContext, request: ActionRequest, values: OfMember) -> Outcome:
    return await _order_member(context, request, values, "room-remove")


async def _order_member(context: ActionContext, request: ActionRequest, values: OfMember, name: str) -> Outcome:
    """Give an order about a member, even if its persona has been deleted since."""
    room = await find_room(context, request, values)
    members = [AgentName(one.name, one.shown) for one in room.members] if room is not None else []
    member = find(members, context.without_mentions(values.agent))
    if room is not None and isinstance(member, str):
        return refused(
            "no_such_member", why=member, channel=room.thread_id, members=listed([one.shown for one in members])
        )
    return await _order(context, room, name, RoomOrder(), None if isinstance(member, str) else member)


async def _order(
    context: ActionContext,
    room: Room | None,
    name: str,
    order: RoomOrder,
    agent: AgentName | None = None,
    detail: str = "",
) -> Outcome:
    if room is None:
        return refused("no_room")
    key, shown = (agent.key, agent.shown) if agent is not None else (None, "")
    command = Command(command=name, channel_id=room.thread_id, agent_name=key, room=order)
    outcome = await context.services.bus.orders.give(command)
    code = "room_busy" if outcome == "busy" else outcome
    return Outcome(code=code, ok=code in CHANGED, fields={"channel": room.thread_id, "agent": shown}, detail=detail)


async def find_room(context: ActionContext, request: ActionRequest, values: OfRoom) -> Room | None:
    """Return the named room, or the thread's room; None if there is none that may be named here."""
    wanted, rooms = values.room.strip(), context.services.state.coordination.rooms
    found = _THREAD.fullmatch(wanted)
    thread_id = found[1] if found is not None else wanted if request.place is None and wanted.isdecimal() else ""
    if wanted and not thread_id:
        named = [room for room in await rooms.list(limit=SEEN) if may_be_named(context, room, request)]
        topic = wanted.casefold()  # the newest room with that topic, or the only room with these words in its topic
        same = [room for room in named if room.topic.casefold() == topic]
        having = [room for room in named if topic in room.topic.casefold()]
        return same[0] if same else having[0] if len(having) == 1 else None
    room = await rooms.read(int(thread_id) if thread_id else request.channel_id)
    return room if room is not None and may_be_named(context, room, request) else None


def may_be_named(context: ActionContext, room: Room, request: ActionRequest) -> bool:
    """Return whether the room is in this server and, except for a manager, in a channel that everyone here can read."""
    if request.place is None:
        return True
    if room.guild_id != request.guild_id:
        return False
    here = request.channel_id
    return request.who.manages_guild or here == room.thread_id or context.place.may_see(here)(room.channel_id)


async def export(context: ActionContext, request: ActionRequest, values: OfRoom) -> Outcome:
    from agentic.record.export.render import room_page  # jinja2 takes 3 MB, and few export a room

    settings, room = context.services.settings, await find_room(context, request, values)
    if not settings.records:
        return refused("nothing_recorded")
    if room is None:
        return refused("no_room")
    entries = tuple(context.services.agents.roster)
    look = Look(
        names={entry.key: entry.shown for entry in entries},
        colours={entry.key: entry.settings.spec.colour for entry in entries if entry.settings is not None},
        zone=settings.timezone,
    )
    try:
        page = await room_page(settings.record_file, room.thread_id, look=look)
    except (RecordError, sqlite3.Error):
        return refused("record_elsewhere")
    if page is None:
        return refused("not_yet_recorded", channel=room.thread_id)
    if len(page.text.encode()) > MAX_BYTES:
        return refused("page_too_large")
    return Outcome(code="room_exported", fields={"topic": escaped(room.topic)}, reply=File(page.name, page.text))


async def status(context: ActionContext, request: ActionRequest, values: OfRoom) -> Outcome:
    services, room = context.services, await find_room(context, request, values)
    if room is None:
        return refused("no_room")
    running = await services.state.coordination.conversations.read(room.thread_id) if room.status == "active" else None
    return report("\n".join(_status_lines(room, running.queue if running else None, services.agents.roster.names)))


async def list_rooms(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    found = await context.services.state.coordination.rooms.list(limit=None)
    here = [room for room in found if may_be_named(context, room, request)]
    here.sort(key=lambda room: ("active", "paused", "closed").index(room.status))  # newest first in each
    lines = [f"- <#{room.thread_id}> {escaped(room.topic)}: {describe(room)}" for room in here[:MAX_LISTED]]
    if len(here) > MAX_LISTED:
        lines.append(f"and {len(here) - MAX_LISTED} more")
    return report("\n".join(lines)) if lines else done("no_rooms")


def describe(room: Room) -> str:
    """Return "running, turn 3 of 20" or "paused after turn 3 of 20: a person paused it"."""
    turns = f"turn {room.turn_number} of {room.turns}"
    if room.status == "active":
        return f"running, {turns}"
    why = ENDINGS.get(room.why, room.why) if room.why else ""  # type: ignore[call-overload]
    return f"{room.status} after {turns}{f': {why}' if why else ''}"


def _status_lines(room: Room, queue: SpeakerQueue | None, names: Mapping[str, str]) -> Iterator[str]:
    yield f"**{escaped(room.topic)}** in <#{room.thread_id}>"
    yield f"**Members**: {listed([member.shown for member in room.members])}"
    if room.left:
        yield f"**Left**: {listed([member.shown for member in room.left])}"
    yield f"**Status**: {describe(room)}"
    yield f"**Theme**: {room.theme}"
    policy, coming = POLICY_TEXTS[room.policy], ""
    if room.policy == "moderated":
        moderator = room.member(room.moderator) if room.moderator is not None else None
        policy = f"{moderator.shown} names the next member" if moderator is not None else "people name the next member"
    if queue is not None and queue.waits_until is not None:
        coming = f"; the room waits until <t:{round(queue.waits_until)}:t>, then pauses"
    elif queue is not None and (first := queue.speaker or next(iter(queue.coming), None)):
        member = room.member(first)
        coming = f"; now {member.shown if member is not None else names.get(first, first)}"
    yield f"**Who speaks next**: {policy}{coming}"
    if room.has_slots:
        now = f"; now until <t:{round(room.slot_until)}:t>" if room.slot_until is not None else ""
        yield f"**Audience**: {counted(round(room.audience_seconds), 'second')} after each round{now}"
    yield f"**Cost so far**: {dollars(room.cost_usd)}"
    if room.rules:
        yield f"**Rules**: {escaped(room.rules)}"
    if room.opened_by is not None:
        yield f"-# Opened by <@{room.opened_by}> <t:{round(room.opened_at)}:R>"
