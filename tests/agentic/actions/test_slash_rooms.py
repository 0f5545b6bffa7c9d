"""`/room` in and about rooms that exist: which one is meant, what reaches the coordinator, what people read."""

from __future__ import annotations

import pytest

from agentic.actions.base import ActionRequest, refused
from agentic.actions.texts import Style
from agentic.chat.service import Person
from agentic.state.rooms import RoomMember
from agentic.state.silence import ChannelRef
from agentic.wire import keys
from agentic.wire.bus import NOBODY
from agentic.wire.messages import RoomOrder
from tests.support.coordinator_doubles import conversation
from tests.support.slash_scene import (
    ANN,
    DEBATE,
    ELSEWHERE,
    GUILD,
    LOUNGE,
    MANAGER,
    MEMBER,
    NOW,
    THREAD,
    a_place,
    a_room,
)

NO_ROOM = Style().text_of(refused("no_room"))
LINK = f"https://discord.com/channels/{GUILD}/{10**17}"


@pytest.mark.parametrize("room", [None, str(10**17), f"<#{10**17}>", LINK, "is p equal to np?", "equal"])
async def test_a_room_is_that_of_the_thread_or_the_one_that_is_named(room: str | None):
    async with a_place() as place:
        await place.has(a_room(10**17), a_room(10**17 + 1, "Cats or dogs?"))
        named = {"room": room} if room else {}
        where = {"channel": 10**17 if room is None else LOUNGE, "parent": LOUNGE if room is None else None}
        assert f"in <#{10**17}>" in await place.use("room status", MEMBER, **where, **named)


@pytest.mark.parametrize("room", [None, "12", str(10**16), "no such topic", "?"])
async def test_what_is_no_room_is_said_so(room: str | None):
    async with a_place() as place:
        await place.has(a_room(10**17), a_room(10**17 + 1, "Cats or dogs?"))
        named = {"room": room} if room else {}
        for command in ("status", "stop", "resume", "close", "export"):
            assert await place.use(f"room {command}", **named) == NO_ROOM
        assert await place.use("room next", agent="grok", **named) == NO_ROOM


async def test_a_room_of_another_server_is_none_here():
    async with a_place() as place:
        await place.has(a_room(10**17, guild_id=2))
        assert await place.use("room status", MEMBER, room=LINK) == NO_ROOM
        assert "no rooms yet" in await place.use("room list", MEMBER)


@pytest.mark.promise(504)
async def test_a_room_in_a_channel_of_few_is_named_there_and_to_managers_alone():
    async with a_place() as place:
        await place.has(a_room(10**17, channel_id=DEBATE))
        for room in (LINK, "equal"):
            assert f"in <#{10**17}>" in await place.use("room status", MEMBER, room=room)
        place.private.add(DEBATE)
        for room in (LINK, "equal"):
            assert await place.use("room status", MEMBER, room=room) == NO_ROOM
            assert f"in <#{10**17}>" in await place.use("room status", MANAGER, room=room)
        assert "no rooms yet" in await place.use("room list", MEMBER)
        assert await offered(place, "room status", "room", "equal", MEMBER) == []
        assert await offered(place, "room status", "room", "equal", MANAGER) == [str(10**17)]
        where = {"channel": 10**17, "parent": DEBATE}
        assert f"in <#{10**17}>" in await place.use("room status", MEMBER, **where)


@pytest.mark.parametrize(
    ("command", "values", "outcome", "order", "told"),
    [
        ("stop", {}, "room_paused", RoomOrder(reason="asked"), f"<#{THREAD}> is paused"),
        ("resume", {"turns": 5}, "room_resumed", RoomOrder(turns=5), f"<#{THREAD}> has resumed."),
        ("resume", {}, "room_resumed", RoomOrder(), f"<#{THREAD}> has resumed."),
        ("close", {}, "room_closed", RoomOrder(), f"<#{THREAD}> is closed"),
        ("next", {"agent": "GROK"}, "requested", RoomOrder(), f"Grok speaks next in <#{THREAD}>, after"),
        ("remove", {"agent": "grok"}, "removed_member", RoomOrder(), f"Grok was removed from <#{THREAD}>."),
        ("stop", {}, "not_active", RoomOrder(reason="asked"), "isn't running"),
        ("stop", {}, NOBODY, RoomOrder(reason="asked"), "The coordinator didn't answer"),
        ("close", {}, "something new", RoomOrder(), "The coordinator refused this: something new."),
    ],
)
async def test_a_command_reaches_the_coordinator_and_its_outcome_the_person(command, values, outcome, order, told):
    async with a_place() as place:
        await place.has(a_room())
        got = place.coordinator(outcome)
        assert told in await place.use(f"room {command}", channel=THREAD, parent=LOUNGE, **values)
        assert (got[0].command, got[0].channel_id, got[0].room) == (
            f"room-{'pause' if command == 'stop' else command}",
            THREAD,
            order,
        )
        assert got[0].agent_name == ("grok" if "agent" in values else None)


async def test_a_persona_joins_with_what_the_policies_need_to_know_of_it(tmp_path):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "identity.md").write_text("---\ndisplay_name: Ada\ninterests: proofs\n---\n")
    async with a_place(tmp_path) as place:
        await place.has(a_room())
        got = place.coordinator("added_member", "full")
        assert "Ada has joined" in await place.use("room add", channel=THREAD, parent=LOUNGE, agent="ada")
        assert RoomMember.model_validate_json(got[0].room.member) == RoomMember(
            name="ada", shown="Ada", interests=("proofs",)
        )
        assert "8 members, the most" in await place.use("room add", channel=THREAD, parent=LOUNGE, agent="ada")
        assert "Did you mean Ada?" in await place.use("room add", channel=THREAD, parent=LOUNGE, agent="Adda")


async def test_a_member_whose_persona_was_deleted_can_be_taken_out_and_nobody_else():
    async with a_place() as place:
        gone = RoomMember(name="hal", shown="Hal")
        await place.has(a_room(members=(gone, RoomMember(name="grok", shown="Grok"))))
        got = place.coordinator("removed_member")
        assert "Hal was removed" in await place.use("room remove", channel=THREAD, parent=LOUNGE, agent="hal")
        assert got[0].agent_name == "hal"
        told = await place.use("room remove", channel=THREAD, parent=LOUNGE, agent="claude")
        assert "Hal and Grok" in told


async def test_the_status_says_who_is_in_it_how_far_it_is_and_what_it_cost():
    async with a_place() as place:
        left = RoomMember(name="ada", shown="Ada")
        room = a_room(turn_number=7, cost_usd=0.0123, rules="Be *brief*.", left=(left,), audience_seconds=90)
        await place.has(room)
        state = conversation(THREAD, round=2, pending=("grok", "claude")).to_json()
        await place.link.commands.hset(keys.conversation_state(THREAD), "state", state)
        status = await place.use("room status", MEMBER, channel=THREAD, parent=LOUNGE)
        assert status.split("\n") == [
            f"**Is P equal to NP?** in <#{THREAD}>",
            "**Members**: Claude and Grok",
            "**Left**: Ada",
            "**Status**: running, turn 7 of 20",
            "**Theme**: debate",
            "**Who speaks next**: in turn, in the order given; now Grok",
            "**Audience**: 90 seconds after each round",
            "**Cost so far**: $0.0123",
            r"**Rules**: Be \*brief\*.",
            f"-# Opened by <@{ANN}> <t:{round(NOW)}:R>",
        ]


@pytest.mark.parametrize(
    ("status", "why", "said"),
    [
        ("paused", "archived", "paused after turn 3 of 20: its thread was archived"),
        ("closed", "turn_limit", "closed after turn 3 of 20: it used all of its turns"),
        ("closed", "a reason of another version", "closed after turn 3 of 20: a reason of another version"),
    ],
)
async def test_a_room_that_does_not_run_says_why(status: str, why: str, said: str):
    async with a_place() as place:
        await place.has(a_room(status=status, why=why, turn_number=3))
        assert f"**Status**: {said}" in await place.use("room status", MEMBER, channel=THREAD, parent=LOUNGE)


async def test_the_list_has_running_rooms_first_and_says_how_many_more_there_are():
    async with a_place() as place:
        await place.has(*(a_room(10**16 + number, f"Topic {number}", changed_at=NOW + number) for number in range(16)))
        await place.has(a_room(10**17, "Closed", status="closed", changed_at=NOW + 99))
        lines = (await place.use("room list", MEMBER)).split("\n")
        assert lines[0] == f"- <#{10**16 + 15}> Topic 15: running, turn 0 of 20"
        assert lines[-1] == "and 2 more"
        assert len(lines) == 16


async def test_of_a_room_that_is_not_recorded_nothing_is_exported(tmp_path):
    async with a_place(DATA_DIR=str(tmp_path)) as place:
        await place.has(a_room())
        assert "The history can't be read here" in await place.use("room export", channel=THREAD, parent=LOUNGE)
    async with a_place(DATA_DIR=str(tmp_path), RECORD_DAYS="0") as place:
        await place.has(a_room())
        assert "The history is off" in await place.use("room export", channel=THREAD, parent=LOUNGE)


# choices while an option is typed


async def offered(place, command: str, option: str, typed: str, who: Person = MANAGER) -> list[str]:
    used = ActionRequest(id=1, name=command, who=who, place=ChannelRef(LOUNGE, guild_id=GUILD))
    choices = await place.actions.complete(used, option, typed)
    return [choice.value for choice in choices]


async def test_rooms_and_agents_are_offered_while_their_names_are_typed(tmp_path):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "identity.md").write_text("---\ndisplay_name: Ada\n---\n")
    async with a_place(tmp_path) as place:
        await place.has(a_room(DEBATE), a_room(ELSEWHERE, "Elsewhere", guild_id=2))
        assert await offered(place, "room status", "room", "equal") == [str(DEBATE)]
        assert await offered(place, "room status", "room", "Else") == []
        assert await offered(place, "room next", "agent", "a") == ["ada", "claude"]
        assert await offered(place, "agent edit", "name", "a") == ["ada", "chatgpt"]
        assert await offered(place, "agent show", "name", "g") == ["grok", "gemini", "chatgpt"]
        assert await offered(place, "room create", "personas", "") == ["Claude", "Grok", "Ada"]
        assert await offered(place, "room create", "personas", "grok, cl") == ["grok, Claude"]
