"""Actions about existing rooms: pause, resume, close, steer, show, and export.

A room is named by its thread's link or id, or by its topic. By default it is the room of the current thread. The
coordinator carries out changes; everything else reads Redis or the record.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import replace

from agentic.actions.base import (
    MENU,
    ActionContext,
    ActionRefused,
    ActionRequest,
    Choice,
    File,
    Menu,
    Outcome,
    done,
    report,
)
from agentic.actions.conversations import silenced_refusal
from agentic.actions.values import Values, option
from agentic.agent.roster import AgentName, find
from agentic.pace import LIVE, describe_pace
from agentic.policies import POLICY_TEXTS
from agentic.record.database import RecordError, connect
from agentic.record.export.story import Look, Progress
from agentic.record.queries.posts import room_of, votes_in_room
from agentic.rooms.opening import escaped, seated_names
from agentic.state.conversation_state import ConversationState
from agentic.state.rooms import MAX_TURNS, Room
from agentic.text import counted, dollars, listed
from agentic.wire.messages import Command, RoomOrder
from agentic.wire.reasons import ENDINGS

PAGE_FORMATS = {"html": "web page", "md": "Markdown"}
SEEN = 200  # rooms among which a topic is looked for
MAX_LISTED = 15
MAX_BYTES = 8_000_000  # of a file, below Discord's limit for a server without boosts
CHANGED = frozenset(
    {"room_paused", "room_resumed", "room_extended", "room_closed", "requested", "added_member", "removed_member"}
)
"""The outcomes of commands that were carried out."""

_THREAD = re.compile(r"(?:<#|.*/)?(\d{15,20})>?/?", re.DOTALL)


WHICH_ROOM = "Which room, by link or topic (default: this thread)"


class OfRoom(Values):
    room: str = option(WHICH_ROOM, "", kind="room", needed="console")


class Export(Values):
    """In this order, a topic that is typed takes all words that follow."""

    format: str = option("A web page or Markdown (default: web page)", "html", choices=PAGE_FORMATS)
    room: str = option(WHICH_ROOM, "", kind="room", needed="console")


class Resume(OfRoom):
    turns: int | None = option("How many more turns", None, ge=1, le=MAX_TURNS)


DELETE = "delete-room"  # the menu, as its id begins
DELETE_NAME = f"{MENU} {DELETE}"
YES, NO = "yes", "no"


class OfMember(OfRoom):
    agent: str = option("Which bot or persona", kind="agent")


class MaybeMember(Values):
    agent: str = option("Which bot or persona (default: whose turn it is)", "", kind="agent")


class Next(OfRoom, MaybeMember):
    pass


async def pause(context: ActionContext, request: ActionRequest, values: OfRoom) -> Outcome:
    return await _order(context, await find_room(context, request, values), "room-pause", RoomOrder(reason="asked"))


async def close(context: ActionContext, request: ActionRequest, values: OfRoom) -> Outcome:
    return await _order(context, await find_room(context, request, values), "room-close", RoomOrder())


async def resume(context: ActionContext, request: ActionRequest, values: Resume) -> Outcome:
    room = await find_room(context, request, values)
    if room.status != "active" and await _is_locked(context, room):
        raise ActionRefused("room_locked", channel=room.thread_id)
    order = RoomOrder(turns=values.turns, gone=context.services.agents.roster.gone(room.names))
    return await _order(context, room, "room-resume", order, detail=f"+{values.turns} turns" if values.turns else "")


async def _is_locked(context: ActionContext, room: Room) -> bool:
    """Whether a person locked the thread. Our own lock, which is about to end, doesn't count."""
    opener = context.place.opener
    marks = await context.services.state.coordination.room_marks.read(room.thread_id)
    if opener is None or marks.locked:
        return False
    thread = await opener.bot.read_thread(room.channel_id, room.thread_id)
    return thread is not None and thread.locked


async def delete(context: ActionContext, request: ActionRequest, values: OfRoom) -> Outcome:
    """Ask whether to delete a room that doesn't run."""
    room = await find_room(context, request, values)
    if room.status == "active":
        raise ActionRefused("room_runs", channel=room.thread_id)
    menu = Menu(
        id=f"{DELETE}:{room.thread_id}",
        text=f"Delete the room “{escaped(room.topic)}” (<#{room.thread_id}>) with its record? You can't undo this.",
        choices=(Choice(YES, "Delete it", "its card, votes, arguments, messages, and page"), Choice(NO, "Keep it")),
    )
    return report(reply=menu)


async def delete_chosen(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    rooms, number = context.services.state.coordination.rooms, str(request.values.get("id", "")).partition(":")[2]
    room = await rooms.read(int(number)) if number.isdecimal() else None
    if room is None or not may_be_named(context, room, request):
        raise ActionRefused("no_room")
    if request.chosen != (YES,):
        return done("room_kept")
    if room.status == "active":
        raise ActionRefused("room_runs", channel=room.thread_id)
    agents = {*context.services.agents.roster.names, *(member.name for member in room.everyone)}
    await rooms.delete(room.thread_id, agents)
    await context.services.state.coordination.room_shares.revoke(room.thread_id)
    context.services.record.gateway.room_deleted(room.thread_id)
    return done("room_deleted", topic=escaped(room.topic), detail=room.topic)


async def add(context: ActionContext, request: ActionRequest, values: OfMember) -> Outcome:
    entry = context.agent(values.agent)
    if entry.why_not is not None:
        raise ActionRefused("cannot_take_part", agent=entry.shown, reason=entry.why_not)
    room, order = await find_room(context, request, values), RoomOrder(member=entry.member.model_dump_json())
    return await _order(context, room, "room-add", order, AgentName(entry.key, entry.shown))


async def next_speaker(context: ActionContext, request: ActionRequest, values: Next) -> Outcome:
    """Let a member speak next, or let whose turn it is begin right away."""
    if values.agent:
        return await _order_member(context, request, values, "room-next")
    outcome = await _order(context, await find_room(context, request, values), "room-next", RoomOrder())
    return replace(outcome, code="next_begins") if outcome.ok else outcome


async def remove(context: ActionContext, request: ActionRequest, values: OfMember) -> Outcome:
    return await _order_member(context, request, values, "room-remove")


async def _order_member(context: ActionContext, request: ActionRequest, values: OfMember | Next, name: str) -> Outcome:
    """Give an order about a member, even if its persona has been deleted since."""
    room = await find_room(context, request, values)
    members = [AgentName(one.name, one.shown) for one in room.members]
    member = find(members, context.without_mentions(values.agent))
    if isinstance(member, str):
        other, shown = context.find_agent(values.agent), listed([one.shown for one in members])
        why = member if isinstance(other, str) else f"{other.shown} isn't a member of this room."
        raise ActionRefused("no_such_member", why=why, channel=room.thread_id, members=shown)
    return await _order(context, room, name, RoomOrder(), member)


async def _order(
    context: ActionContext, room: Room, name: str, order: RoomOrder, agent: AgentName | None = None, detail: str = ""
) -> Outcome:
    if room.why == "deleted":
        raise ActionRefused("room_gone", topic=escaped(room.topic))
    key, shown = (agent.key, agent.shown) if agent is not None else (None, "")
    command = Command(command=name, channel_id=room.thread_id, agent_name=key, room=order)
    outcome = await context.services.bus.orders.give(command)
    if outcome in ("stopped", "paused") and (silenced := context.services.silence.check(room.place)) is not None:
        raise silenced_refusal(silenced, room.thread_id)
    code = "room_busy" if outcome == "busy" else outcome
    return Outcome(code=code, ok=code in CHANGED, fields={"channel": room.thread_id, "agent": shown}, detail=detail)


async def find_room(context: ActionContext, request: ActionRequest, values: OfRoom | Export) -> Room:
    """Return the named room, or the thread's room. Raises ActionRefused if there is none that may be named here."""
    wanted, rooms = values.room.strip(), context.services.state.coordination.rooms
    found = _THREAD.fullmatch(wanted)
    thread_id = found[1] if found is not None else wanted if request.place is None and wanted.isdecimal() else ""
    if wanted and not thread_id:
        named = [room for room in await rooms.list(limit=SEEN) if may_be_named(context, room, request)]
        topic = wanted.casefold()  # the newest room with that topic, or the only room with these words in its topic
        same = [room for room in named if room.topic.casefold() == topic]
        having = [room for room in named if topic in room.topic.casefold()]
        room = same[0] if same else having[0] if len(having) == 1 else None
    else:
        room = await rooms.read(int(thread_id) if thread_id else request.channel_id)
    if room is None or not may_be_named(context, room, request):
        raise ActionRefused("no_room")
    return room


def may_be_named(context: ActionContext, room: Room, request: ActionRequest) -> bool:
    """Return whether the room is in this server and, except for a manager, in a channel that everyone here can read."""
    if request.place is None:
        return True
    if room.guild_id != request.guild_id:
        return False
    here = request.channel_id
    return request.who.manages_guild or here == room.thread_id or context.place.may_see(here)(room.channel_id)


async def export(context: ActionContext, request: ActionRequest, values: Export) -> Outcome:
    """Save the room as a page. Everyone may who can read it, since the page has nothing that the thread doesn't show,
    besides the models."""
    from agentic.record.export.render import room_page  # jinja2 takes 3 MB, and few export a room

    settings = context.services.settings
    if not settings.records:
        raise ActionRefused("nothing_recorded")
    room = await find_room(context, request, values)
    entries = tuple(context.services.agents.roster)
    look = Look(
        names={entry.key: entry.shown for entry in entries},
        colors={entry.key: entry.settings.spec.color for entry in entries if entry.settings is not None},
        zone=settings.timezone,
        bots=context.services.chats.directory.ids,
    )
    marks = await context.services.state.coordination.room_marks.read(room.thread_id)
    try:
        page = await room_page(settings.record_file, room.thread_id, values.format, look, Progress.of(room, marks))
    except (RecordError, sqlite3.Error):
        raise ActionRefused("record_elsewhere") from None
    if page is None:
        raise ActionRefused("not_yet_recorded", channel=room.thread_id)
    if len(page.text.encode()) > MAX_BYTES:
        raise ActionRefused("page_too_large")
    return Outcome(code="room_exported", fields={"topic": escaped(room.topic)}, reply=File(page.name, page.text))


async def share(context: ActionContext, request: ActionRequest, values: OfRoom) -> Outcome:
    """Let anyone with the link read the room's page in the console."""
    room = await find_room(context, request, values)
    if not context.services.settings.records:
        raise ActionRefused("nothing_recorded")
    await context.services.state.coordination.room_shares.share(room.thread_id)
    return done("room_shared", topic=escaped(room.topic))


async def unshare(context: ActionContext, request: ActionRequest, values: OfRoom) -> Outcome:
    room = await find_room(context, request, values)
    if not await context.services.state.coordination.room_shares.revoke(room.thread_id):
        raise ActionRefused("room_not_shared")
    return done("room_unshared", topic=escaped(room.topic))


async def status(context: ActionContext, request: ActionRequest, values: OfRoom) -> Outcome:
    services, room = context.services, await find_room(context, request, values)
    running = await services.state.coordination.conversations.read(room.thread_id) if room.status == "active" else None
    votes, cost = await _read_record(context, room)
    room = room.model_copy(update={"cost_usd": max(room.cost_usd, cost)})
    return report("\n".join(_status_lines(room, running, votes, services.agents.roster.names, services.clock())))


async def _read_record(context: ActionContext, room: Room) -> tuple[str | None, float]:
    """Return a line with people's votes so far (None without a history), and what the room has cost in US dollars with
    the calls besides its turns, such as for its list of arguments."""
    settings, bots = context.services.settings, context.services.chats.directory.ids
    if not settings.records:
        return None, 0.0
    try:
        async with connect(settings.record_file) as db:
            votes, recorded = await votes_in_room(db, room.thread_id, bots), await room_of(db, room.thread_id)
    except (RecordError, sqlite3.Error):
        return None, 0.0
    names = context.services.agents.roster.names | {member.name: member.shown for member in room.everyone}
    counts = [f"{escaped(names.get(agent, agent))} {count}" for agent, count in votes.items()]
    cost = recorded.cost_usd if recorded is not None else 0.0
    return f"**Votes so far**: {', '.join(counts) or 'none'}", cost


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


def _now(room: Room, running: ConversationState | None) -> str:
    """Return "; now Claude, then Grok", or whom the room waits for."""
    if room.status != "active":
        return ""
    if room.slot_until is not None:
        people = "people vote" if room.closing_because is not None else "people"
        return f"; now {people}, until <t:{round(room.slot_until)}:t>"
    if running is None:
        return ""
    if (until := running.queue.waits_until) is not None:
        return f"; it waits for a person until <t:{round(until)}:t>, then pauses"
    running = replace(running, room=room)
    turns = (("now", running.speaking), ("then" if running.speaking else "next", running.next_speaker))
    said = [f"{when} {escaped(member.shown)}" for when, name in turns if name and (member := room.member(name))]
    return f"; {', '.join(said)}" if said else ""


def _status_lines(
    room: Room, running: ConversationState | None, votes: str | None, names: Mapping[str, str], now: float
) -> Iterator[str]:
    yield f"**{escaped(room.topic)}** in <#{room.thread_id}>"
    yield f"**Members**: {listed(seated_names(room))}"
    if room.left:
        yield f"**Left**: {listed([member.shown for member in room.left])}"
    yield f"**Status**: {describe(room)}"
    if votes is not None:
        yield votes
    if room.judge:
        yield f"**Judge**: {escaped(names.get(room.judge, room.judge))}"
    yield f"**Theme**: {room.theme}"
    if (phase := room.next_phase()) is not None:
        begun = f"; now {phase.name}, {phase.about}" if room.status != "closed" else ""
        yield f"**Format**: {room.format}{begun}"
    policy = POLICY_TEXTS[room.policy]
    if room.policy == "moderated":
        moderator = room.member(room.moderator or "")
        if room.people_choose:
            policy = "people name the next member"
        elif moderator is not None:
            policy = f"{moderator.shown} names the next member"
        else:  # it has left
            policy = "whoever was silent for longest"
    yield f"**Who speaks next**: {policy}{_now(room, running)}"
    if room.pace != LIVE:
        at = room.next_turn_at if room.status == "active" else None
        turn_at = f"; the next turn is <t:{round(at)}:R>" if at is not None and at > now else ""
        yield f"**Pace**: {describe_pace(room.pace)}{turn_at}"
    if room.has_slots:
        yield f"**Audience**: {counted(round(room.audience_seconds), 'second')} after each round"
    yield f"**Cost so far**: {dollars(room.cost_usd)}"
    if room.rules:
        yield f"**Rules**: {escaped(room.rules)}"
    if room.opened_by is not None:
        yield f"-# {'Proposed' if room.proposed else 'Opened'} by <@{room.opened_by}> <t:{round(room.opened_at)}:R>"
