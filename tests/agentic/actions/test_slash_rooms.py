"""`/room` in and about rooms that exist: which one is meant, what reaches the coordinator, what people read."""

from __future__ import annotations

from contextlib import closing

import pytest

from agentic.actions.base import ActionRequest, refused
from agentic.actions.texts import Style
from agentic.chat.service import Person
from agentic.record.database import connect_blocking, migrate
from agentic.record.rows import REACTION, post_statements
from agentic.rooms.room_bot import ThreadNow
from agentic.state.rooms import RoomMember
from agentic.state.silence import ChannelRef, Scope
from agentic.wire import keys
from agentic.wire.bus import NOBODY
from agentic.wire.entries import PostWords, ReactionNote
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


@pytest.mark.parametrize("command", ["resume", "close", "stop", "next", "add"])
async def test_nothing_is_ordered_of_a_room_whose_thread_was_deleted(command):
    async with a_place() as place:
        await place.has(a_room(10**17, status="paused", why="deleted"))
        got, agent = place.coordinator("room_resumed"), {"agent": "grok"} if command == "add" else {}
        told = await place.use(f"room {command}", room=LINK, **agent)
        assert told.startswith("The thread of the room “Is P equal to NP?” was deleted")
        assert got == []


@pytest.mark.parametrize(
    ("thread", "ours", "told"),
    [
        (ThreadNow(locked=True), False, "is still locked"),
        (ThreadNow(locked=True), True, "has resumed"),
        (ThreadNow(archived=True), False, "has resumed"),
        (None, False, "has resumed"),
    ],
)
async def test_a_room_is_resumed_only_once_a_person_s_lock_of_its_thread_is_gone(thread, ours, told):
    async with a_place() as place:
        await place.has(a_room(status="paused", why="locked"))
        place.channel.thread = thread
        await place.state.coordination.room_marks.set(THREAD, locked=ours)
        place.coordinator("room_resumed")
        assert told in await place.use("room resume", channel=THREAD, parent=LOUNGE)


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
        assert told == f"Claude isn't a member of this room. Members of <#{THREAD}>: Hal and Grok."
        told = await place.use("room next", channel=THREAD, parent=LOUNGE, agent="nobody")
        assert told == f"There's no bot or persona called “nobody”. Members of <#{THREAD}>: Hal and Grok."


@pytest.mark.parametrize(
    ("status", "seconds", "told"), [("active", 60, True), ("active", -60, False), ("paused", 60, False)]
)
async def test_the_status_says_when_the_next_turn_comes_only_if_one_is_coming(status, seconds, told):
    async with a_place() as place:
        await place.has(a_room(10**17, status=status, format="debate", pace="3600", next_turn_at=NOW + seconds))
        said = await place.use("room status", MEMBER, channel=10**17, parent=LOUNGE)
        assert "**Pace**: a turn every hour" in said
        assert (f"; the next turn is <t:{round(NOW + seconds)}:R>" in said) == told


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
            "**Who speaks next**: in turn, in the order given; next Grok",
            "**Audience**: 90 seconds after each round",
            "**Cost so far**: $0.0123",
            r"**Rules**: Be \*brief\*.",
            f"-# Opened by <@{ANN}> <t:{round(NOW)}:R>",
        ]


@pytest.mark.parametrize(
    ("room", "running", "now"),
    [
        ({}, {"pending": ("grok",), "asking": "i"}, "; now Grok, then Claude"),
        ({}, {"pending": ("claude", "grok"), "called": ("grok",)}, "; next Grok"),
        ({"turn_number": 19}, {"pending": ("grok",), "asking": "i"}, "; now Grok"),
        ({"policy": "pull"}, {"pending": ("grok",), "asking": "i"}, "; now Grok"),
        ({"policy": "moderated"}, {"waits_until": NOW}, f"; it waits for a person until <t:{NOW:.0f}:t>, then pauses"),
        ({"slot_until": NOW}, {"pending": ("grok",)}, f"; now people, until <t:{NOW:.0f}:t>"),
        (
            {"slot_until": NOW, "closing_because": "agreed"},
            {"pending": ("grok",)},
            f"; now people vote, until <t:{NOW:.0f}:t>",
        ),
        ({"status": "paused"}, {"pending": ("grok",)}, ""),
    ],
)
async def test_the_status_says_who_speaks_and_who_is_next(room: dict, running: dict, now: str):
    async with a_place() as place:
        kept = a_room(**room)
        await place.has(kept)
        state = conversation(THREAD, round=2, policy=kept.policy, room=kept, **running).to_json()
        await place.link.commands.hset(keys.conversation_state(THREAD), "state", state)
        status = await place.use("room status", MEMBER, channel=THREAD, parent=LOUNGE)
        (line,) = [line for line in status.split("\n") if line.startswith("**Who speaks next**")]
        assert line.partition(";")[1:] == (now[:1], now[1:])


async def test_the_status_of_a_debate_says_who_has_which_side_and_what_happens_now():
    async with a_place() as place:
        members = tuple(RoomMember(name=name, shown=name.title()) for name in ("claude", "grok", "gemini"))
        room = a_room(turn_number=7, format="debate", members=members, moderator="gemini").with_sides()
        await place.has(room)
        status = await place.use("room status", MEMBER, channel=THREAD, parent=LOUNGE)
        assert "**Members**: Claude (for), Grok (against), and Gemini (moderator)\n" in status
        assert (
            "**Format**: debate; now rebuttals, each member attacks the strongest claim of the other side\n" in status
        )


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


async def test_the_status_has_the_votes_so_far_and_the_judge(tmp_path):
    migrate(tmp_path / "record.db")
    post = PostWords(agent="grok", turn_id="t", message_id=9, channel_id=THREAD, at=1.0, text="Well.")
    votes = [ReactionNote(message_id=9, channel_id=THREAD, user_id=user, emoji="👍", at=1.0) for user in (71, 72)]
    with closing(connect_blocking(tmp_path / "record.db", writable=True)) as connection:
        for sql, values in (*post_statements(post), *(REACTION.of(vote) for vote in votes)):
            connection.executemany(sql, values)
    async with a_place(DATA_DIR=str(tmp_path)) as place:
        await place.has(a_room().model_copy(update={"judge": "google/gemini-4-argon"}))
        told = await place.use("room status", MEMBER, channel=THREAD, parent=LOUNGE)
        assert "**Votes so far**: Grok 2" in told
        assert "**Judge**: google/gemini-4-argon" in told
    async with a_place(DATA_DIR=str(tmp_path), RECORD_DAYS="0") as place:
        await place.has(a_room())
        assert "Votes so far" not in await place.use("room status", MEMBER, channel=THREAD, parent=LOUNGE)


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


@pytest.mark.parametrize(
    ("moderator", "told"),
    [("grok", "Grok names the next member"), ("hal", "whoever was silent for longest"), (None, "people name the next")],
)
async def test_the_status_says_who_names_the_next_speaker_even_if_the_moderator_left(moderator, told):
    async with a_place() as place:
        await place.has(a_room(policy="moderated", moderator=moderator))
        assert f"**Who speaks next**: {told}" in await place.use("room status", channel=THREAD, parent=LOUNGE)


@pytest.mark.parametrize(("stopped", "told"), [(THREAD, f"<#{THREAD}>"), (LOUNGE, f"<#{LOUNGE}>")])
async def test_a_stopped_room_that_is_to_be_resumed_says_which_stop_ends_first(stopped, told):
    async with a_place() as place:
        await place.has(a_room(status="paused", why="stopped"))
        await place.silence.stop(Scope.channel(stopped), source="m1")
        place.coordinator("stopped")
        assert f"The bots are stopped in {told}." in await place.use("room resume", channel=THREAD, parent=LOUNGE)
