"""The Rooms and Season pages: what they show, and what an owner does with a room."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.console import FakeChannels, ListedAgents, client_of, console_parts, csrf

from agent_config import FrontMatter
from agentic.agent.roster import RosterEntry
from agentic.console.parts import Channel, RecordFile
from agentic.rooms.opening import RoomOpener
from agentic.state.budgets import Caps
from agentic.state.conversations import ScorePart, SpeakerChoice, SpeakerScore
from agentic.state.leases import ALWAYS_HELD
from agentic.state.rooms import Room, RoomMember
from agentic.state.shared_state import SharedState
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection
from agentic.wire.entries import ActionNote
from agentic.wire.messages import Command, CommandOutcome, RoomOrder, read
from tests.agentic.conftest import running
from tests.support.coordinator_doubles import conversation
from tests.support.records import fill
from tests.support.redis_server import PATIENT, empty_redis
from tests.support.slash_scene import Channel as Threads
from tests.support.slash_scene import KnownPlaces

MEMBERS = (RoomMember(name="ada", shown="Ada"), RoomMember(name="claude", shown="Claude"))
ROOM = Room(
    thread_id=21, channel_id=11, conversation_id="c", topic="Tea?", members=MEMBERS, turn_number=3, opened_at=5.0,
    changed_at=9.0, cost_usd=0.02,
)  # fmt: skip
BOB = RoomMember(name="bob", shown="Bob", interests=("tea", "law"))
SEATS = (
    RosterEntry(key="claude", shown="Claude", is_bot=True, front=FrontMatter()),
    RosterEntry(key="bob", shown="Bob", is_bot=False, front=FrontMatter(interests=("tea", "law"))),
    RosterEntry(key="eve", shown="Eve", is_bot=False, front=FrontMatter(), why_not="EVE_KEY is not set"),
)


CHANNELS = (
    Channel(id=11, name="debate", theme="debate"),
    Channel(id=21, name="Tea?", theme="debate", parent_id=11),
)
COMMANDS = {
    "pause_room": "room-pause",
    "resume_room": "room-resume",
    "close_room": "room-close",
    "next_in_room": "room-next",
    "remove_from_room": "room-remove",
    "add_to_room": "room-add",
}


class Page:
    """A console with a room, a coordinator that gives one outcome, and what was noted and ordered."""

    def __init__(self, client: Any, link: RedisConnection, commands: list[Command], notes: list[ActionNote]) -> None:
        self.client, self.link, self.commands, self.notes = client, link, commands, notes
        self._clicks = 0

    async def get(self, path: str) -> dict[str, Any]:
        body: dict[str, Any] = await (await self.client.get(path)).json()
        return body

    async def act(self, name: str, **fields: Any) -> tuple[int, str]:
        self._clicks += 1
        body = {"id": f"click-{self._clicks:04}", **fields}
        answer = await self.client.post(f"/api/actions/{name}", json=body, headers=await csrf(self.client))
        told = await answer.json()
        return answer.status, told.get("text") or told["error"]


@asynccontextmanager
async def page(
    outcome: str = "room_paused",
    room: Room = ROOM,
    *,
    has_bot: bool = True,
    deleted: tuple[str, ...] = (),
    caps: Caps | None = None,
    **changes: Any,
) -> AsyncIterator[Page]:
    async with RedisConnection(empty_redis(), command_timeout=PATIENT) as link:
        bus, notes, commands = Bus(link), list[ActionNote](), list[Command]()

        async def obey(raw: str) -> None:
            command = read(Command, raw)
            assert command is not None
            commands.append(command)
            done = CommandOutcome(command_id=command.command_id or "", outcome=outcome)
            await bus.publish(keys.COORDINATOR_OUTCOMES, done)

        roster, bots, threads = ListedAgents(SEATS), list[KnownPlaces](), Threads()
        roster.deleted = deleted
        parts = console_parts(
            link,
            roster=roster,
            bots=bots,
            bus=bus,
            state=SharedState(link, caps=caps),
            live=FakeChannels(*CHANNELS),
            notes=SimpleNamespace(note=notes.append),
            **changes,
        )
        if has_bot:
            opener = RoomOpener("claude", parts.actions.context.services, threads, lease=ALWAYS_HELD)
            bots.append(KnownPlaces(opener))
        await parts.state.coordination.presence.renew("claude", "")
        bus.orders.start()
        bus.subscribe(keys.COORDINATOR_COMMANDS, obey)
        await link.call(lambda redis: redis.set(keys.room(room.thread_id), room.model_dump_json()))
        await link.call(lambda redis: redis.zadd(keys.COORDINATOR_ROOMS, {str(room.thread_id): room.changed_at}))
        async with running(bus), client_of(parts) as client:
            yield Page(client, link, commands, notes)


async def test_the_rooms_are_listed_with_their_standing_and_their_cost() -> None:
    async with page() as console:
        listed = await console.get("/api/rooms")
        (room,) = listed["items"]
        assert listed["why_not"] is None
        assert (room["id"], room["topic"], room["status"]) == ("21", "Tea?", "active")
        assert (room["turn"], room["turns"], room["cost_usd"]) == (3, 20, 0.02)
        assert room["channel"] == {"id": "11", "name": "debate"}
        assert [member["shown"] for member in room["members"]] == ["Ada", "Claude"]


async def test_a_persona_is_shown_as_one_and_not_as_a_bot_that_is_offline() -> None:
    async with page() as console:
        cards = {card["agent"]: card for card in (await console.get("/api/agents"))["items"]}
    shown = {key: (card["persona"], card["online"], card["why_not"]) for key, card in cards.items()}
    assert shown == {
        "claude": (False, True, None),
        "bob": (True, False, None),
        "eve": (True, False, "EVE_KEY is not set"),
    }


async def test_a_room_says_who_speaks_and_who_is_next() -> None:
    async with page() as console:
        assert "speaking" not in await console.get("/api/rooms/21")
        running = conversation(21, policy=ROOM.policy, room=ROOM, pending=("claude",), asking="i")
        await console.link.call(lambda redis: redis.hset(keys.conversation_state(21), "state", running.to_json()))
        room = await console.get("/api/rooms/21")
        assert (room["speaking"], room["next_speaker"], room["waits_until"]) == ("claude", "ada", None)


async def test_one_room_says_why_it_stands_still_and_who_could_join() -> None:
    closed = ROOM.model_copy(update={"status": "closed", "why": "turn_limit"})
    async with page(room=closed) as console:
        room = await console.get("/api/rooms/21")
        assert (room["status"], room["why"], room["messages"]) == ("closed", "it used all of its turns", [])
        assert [seat["shown"] for seat in room["others"]] == ["Bob", "Eve"]
        assert (await console.client.get("/api/rooms/99")).status == 404


@pytest.mark.parametrize(
    ("name", "fields", "order", "outcome", "text"),
    [
        ("pause_room", {}, RoomOrder(reason="asked"), "room_paused", "#Tea? is paused"),
        ("resume_room", {"turns": 5}, RoomOrder(turns=5), "room_resumed", "#Tea? has resumed"),
        ("close_room", {}, RoomOrder(), "room_closed", "#Tea? is closed"),
        ("next_in_room", {"agent": "ada"}, RoomOrder(), "requested", "Ada speaks next in #Tea?"),
        ("remove_from_room", {"agent": "ada"}, RoomOrder(), "removed_member", "Ada was removed"),
        (
            "add_to_room",
            {"agent": "bob"},
            RoomOrder(member=SEATS[1].member.model_dump_json()),
            "added_member",
            "Bob has joined",
        ),
    ],
)
async def test_an_owner_steers_a_room_by_the_orders_of_slash_room(
    name: str, fields: dict[str, Any], order: RoomOrder, outcome: str, text: str
) -> None:
    async with page(outcome) as console:
        status, told = await console.act(name, room="21", **fields)
        assert (status, text in told) == (200, True), told
        (command,) = console.commands
        assert (command.command, command.channel_id) == (COMMANDS[name], 21)
        assert (command.agent_name, command.room) == (fields.get("agent"), order)
        assert [(note.action, note.by, note.outcome) for note in console.notes] == [(name, "console", outcome)]


async def test_a_refusal_is_told_in_one_line() -> None:
    async with page("not_active") as console:
        refused = (409, "#Tea? isn't running. Use “Resume” first.")
        assert await console.act("next_in_room", room="21", agent="ada") == refused
        assert (await console.act("pause_room", room="99"))[0] == 404
        assert (await console.act("resume_room", room="21", turns=500))[0] == 400
        status, told = await console.act("add_to_room", room="21", agent="eve")
        assert (status, told) == (409, "Eve can't take part: EVE_KEY is not set.")


async def test_a_room_is_opened_by_a_bot_of_this_process_with_what_was_chosen() -> None:
    async with page("opened") as console:
        chosen = {
            "channel": "11",
            "topic": " Is  tea good? ",
            "personas": "bob, claude",
            "policy": "pull",
            "turns": 8,
        }
        more = {"archive": "60", "audience": 30, "goodbye_ends": True, "rules": "Be brief.", "theme": "science"}
        status, told = await console.act("open_room", **chosen, **more)
        assert (status, told) == (200, "The room is open: “Is tea good?”")
        (command,) = console.commands
        assert command.room is not None
        room = Room.model_validate_json(command.room.room or "")
        assert (room.topic, room.policy, room.turns, room.archive_minutes) == ("Is tea good?", "pull", 8, 60)
        assert (room.audience_seconds, room.goodbye_ends, room.rules, room.theme) == (30, True, "Be brief.", "science")
        assert ([member.name for member in room.members], room.opened_by) == (["bob", "claude"], None)
        assert [(note.action, note.detail) for note in console.notes] == [("open_room", "Is tea good?")]
        for wrong in ({"topic": " "}, {"personas": "bob"}, {"policy": "chaos"}, {"turns": 1}, {"theme": "tea"}):
            assert (await console.act("open_room", **{**chosen, **wrong}))[0] in (400, 409), wrong
        assert (await console.act("open_room", **{**chosen, "channel": "99"}))[0] == 404
        assert len(console.commands) == 1


async def test_a_room_that_is_resumed_here_loses_the_personas_that_were_deleted() -> None:
    async with page("room_resumed", deleted=("ada",)) as console:
        await console.act("resume_room", room="21")
        assert console.commands[-1].room == RoomOrder(gone=("ada",))


async def test_where_no_bot_can_make_a_thread_the_page_says_so() -> None:
    chosen = {"channel": "11", "topic": "Tea?", "personas": "bob, claude"}
    async with page(has_bot=False) as console:
        assert "No bot is online here" in (await console.get("/api/rooms"))["why_not"]
        status, told = await console.act("open_room", **chosen)
        assert (status, "none is online here" in told) == (409, True)
    async with page(caps=Caps(all=0.0)) as console:
        assert await console.act("open_room", **chosen) == (
            409,
            "Today's budget for all bots is used up. Try again tomorrow.",
        )


async def test_a_new_room_offers_who_is_there_and_says_who_cannot_take_part() -> None:
    async with page() as console:
        offered = await console.get("/api/new-room")
        assert [(seat["key"], seat["bot"], seat["about"], seat["why_not"]) for seat in offered["seats"]] == [
            ("claude", True, "", None),
            ("bob", False, "tea, law", None),
            ("eve", False, "", "EVE_KEY is not set"),
        ]
        assert (offered["fewest"], offered["most"], offered["policy"]) == (2, 8, "round-robin")


async def test_the_last_choice_by_pulls_is_explained() -> None:
    async with page() as console:
        assert await console.get("/api/pulls/11") == {"choice": None}
    pull = SpeakerScore(agent="claude", strength=1.2, parts=(ScorePart(why="was named", amount=1.0),), channel=0.8)
    last = SpeakerChoice(
        channel_id=11, conversation_id="c", at=5.0, chosen="claude", because="was named", pulls=(pull,)
    )
    async with RedisConnection(empty_redis(), command_timeout=PATIENT) as link:
        parts = console_parts(link)
        await parts.state.coordination.scores.keep(last)
        async with client_of(parts) as client:
            choice = (await (await client.get("/api/pulls/11")).json())["choice"]
    assert (choice["chosen"], choice["because"]) == ("claude", "was named")
    assert choice["pulls"][0]["parts"] == [{"why": "was named", "amount": 1.0}]


async def test_the_season_gives_every_share_with_its_count_and_interval(tmp_path: Path) -> None:
    file = tmp_path / "record.sqlite"
    fill(file, 5)
    with closing(sqlite3.connect(file)) as db, db:
        for contest, kind in (("1", "arena"), ("2", "room")):
            db.execute(
                "INSERT INTO contests (id, kind, at, channel_id, question) VALUES (?, ?, 1, 11, '')", (contest, kind)
            )
            votes = [(contest, "ada", "x/one", 3), (contest, "claude", "x/two", 1)]
            db.executemany("INSERT INTO contenders (contest_id, agent, model, votes) VALUES (?, ?, ?, ?)", votes)
    async with page(store=RecordFile(file)) as console:
        first = (await console.get("/api/arena"))["items"][0]
        assert (first["agent"], first["model"], first["contests"]) == ("ada", "x/one", 2)
        assert (first["wins"]["count"], first["wins"]["of"]) == (2, 2)
        assert 0 < first["wins"]["low"] < first["wins"]["high"] <= 1
        assert first["fair_share"] == 0.5
        (only, _) = (await console.get("/api/arena?kind=room"))["items"]
        assert only["contests"] == 1
        assert [type(only["wins"]["count"]), type(only["ties"])] == [int, int]  # of a single contest too, never true
        assert (await console.client.get("/api/arena?kind=war")).status == 400
        own = await console.get("/api/arena/claude")
        assert [(one["agent"], one["contests"]) for one in own["standings"]] == [("claude", 2)]
        assert [[(each["agent"], each["votes"]) for each in one["contenders"]] for one in own["contests"]] == [
            [("ada", 3), ("claude", 1)]
        ] * 2
        assert await console.get("/api/arena/nobody") == {"standings": [], "contests": []}
