"""What an owner does from the console: said in one line, noted in the record, once a click."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from support.console import NOWHERE, FakeChannels, client_of, console_client, console_parts, csrf
from support.records import fill

from agentic.actions.texts import DELAYED, TEXTS
from agentic.console.parts import Channel, ConsoleContext, RecordFile
from agentic.state.budgets import Caps
from agentic.state.schedule import Slot
from agentic.state.shared_state import SharedState
from agentic.state.silence import EVERYTHING, ChannelRef, Scope
from agentic.wire import keys
from agentic.wire.bus import Bus, CoordinatorCommands
from agentic.wire.connection import RedisConnection
from agentic.wire.entries import ActionNote
from agentic.wire.messages import Command, CommandOutcome, read
from tests.agentic.conftest import running
from tests.support.redis_server import PATIENT, empty_redis, until

NOON = datetime(2027, 1, 15, 12, 0, tzinfo=UTC).timestamp()
TODAY = "2027-01-15"
NO_AGENT = "There's no bot called “nobody”. Choose from: ChatGPT, Claude, Gemini, Grok."
CHANNELS = (
    Channel(id=11, name="debate", theme="debate", guild="Home", guild_id=7),
    Channel(id=21, name="aside", theme="debate", parent_id=11),
)


class Console:
    """A console with its Redis, and a coordinator that answers as the test says (None: there is no coordinator)."""

    def __init__(self, link: RedisConnection, answers: str | None) -> None:
        self.bus, self.notes, self.commands = Bus(link), list[ActionNote](), list[Command]()
        self.answers = answers
        self.parts: ConsoleContext = console_parts(
            link,
            {"TIMEZONE": "UTC"},
            bus=self.bus,
            state=SharedState(link, lambda: NOON, caps=Caps(all=5.0)),
            live=FakeChannels(*CHANNELS),
            notes=SimpleNamespace(note=self.notes.append),
            clock=lambda: NOON,
        )
        self.bus.orders = CoordinatorCommands(self.bus, patience=0.01 if answers is None else 5.0)
        self.bus.orders.start()
        if answers is not None:
            self.bus.subscribe(keys.COORDINATOR_COMMANDS, self._obey)
        self.clicks = 0

    async def _obey(self, raw: str) -> None:
        command = read(Command, raw)
        assert command is not None
        self.commands.append(command)
        assert self.answers is not None
        await self.bus.publish(
            keys.COORDINATOR_OUTCOMES, CommandOutcome(command_id=command.command_id or "", outcome=self.answers)
        )

    async def act(self, name: str, **fields: Any) -> tuple[int, str]:
        self.clicks += 1
        body = {"id": f"click-{self.clicks:04}", **fields}
        response = await self.client.post(f"/api/actions/{name}", json=body, headers=await csrf(self.client))
        answer = await response.json()
        return response.status, answer.get("text") or answer["error"]

    def noted(self) -> list[tuple[str, str, str]]:
        return [(note.by, note.action, note.outcome) for note in self.notes]


@asynccontextmanager
async def console(answers: str | None = "started", address: Any = None) -> AsyncIterator[Console]:
    async with RedisConnection(address or empty_redis(), command_timeout=PATIENT) as link:
        here = Console(link, answers)
        async with running(here.bus), client_of(here.parts) as here.client:
            yield here


async def test_a_conversation_begins_with_what_the_owner_chose():
    async with console() as here:
        chosen = {"channel": "11", "agent": "claude", "topic": " tabs  or\nspaces ", "theme": "debate"}
        assert await here.act("start", **chosen) == (200, "A conversation is starting in #debate.")
        (command,) = here.commands
        assert (command.command, command.channel_id, command.agent_name) == ("start", 11, "claude")
        assert (command.topic, command.theme) == ("tabs or spaces", "debate")
        (note,) = here.notes
        assert (note.by, note.action, note.outcome, note.detail) == ("console", "start", "started", "tabs or spaces")
        assert (note.channel_id, note.agent, note.at) == (11, "claude", NOON)


@pytest.mark.promise(127)
@pytest.mark.parametrize(
    ("outcome", "status", "line"),
    [
        ("busy", 409, "A conversation is already running in #debate."),
        ("offline", 409, "Claude is offline."),
        ("unknown_channel", 404, "#debate isn't a channel of the bots."),
        ("something new", 409, "The coordinator refused this: something new."),
        (None, 503, "The coordinator didn't answer, so this probably wasn't done. Try again in a minute."),
    ],
)
async def test_what_really_happened_is_said_and_noted(outcome, status, line):
    async with console(outcome) as here:
        assert await here.act("next", channel="11", agent="claude") == (status, line)
        assert [note.outcome for note in here.notes] == [outcome or "nobody"]


@pytest.mark.parametrize(
    ("name", "fields", "line"),
    [
        ("start", {"channel": "x"}, "channel must be a Discord ID."),
        ("start", {"channel": "99"}, "#99 isn't a channel of the bots."),
        ("start", {"topic": "x" * 201}, "topic must be a text of at most 200 characters."),
        ("start", {"agent": "nobody"}, NO_AGENT),
        ("next", {"channel": "11"}, "bot is missing."),
        ("stop", {"channel": "11", "minutes": 1441}, "minutes must be a whole number from 1 to 1440."),
        ("mute", {"agent": "grok", "minutes": 0}, "minutes must be a whole number from 1 to 10080."),
        ("mute", {"agent": "grok", "minutes": "5"}, "minutes must be a whole number from 1 to 10080."),
        ("stop", {"channel": "9" * 5000}, "channel must be a Discord ID."),
        ("raise_budget", {"dollars": 25.5}, "dollars must be a number from 0 to 25."),
        ("raise_budget", {"dollars": -1}, "dollars must be a number from 0 to 25."),
        (
            "raise_budget",
            {"dollars": 1, "scope": "person:5"},
            "“person:5” isn't a budget. Write all, agent:NAME, or channel:ID.",
        ),
        (
            "raise_budget",
            {"dollars": 1, "scope": "agent:grok"},
            "There's no limit to raise here. To set one, see docs/costs.md.",
        ),
        ("add", {"time": "25:00"}, "time must be written as HH:MM."),
        ("move", {"time": "13:00"}, "at is missing."),
        ("dance", {}, "This action doesn't exist."),
        ("pause", {"id": "short"}, "id: expected 8 to 64 letters and digits, new for each click"),
        ("pause", {"whole": True}, "There's no option called whole."),
    ],
)
async def test_what_is_wrong_is_one_plain_line_and_nothing_is_done(name, fields, line):
    async with console() as here:
        status, said = await here.act(name, **fields)
        assert (400 <= status < 500, said) == (True, line)
        assert here.commands == []
        assert not here.parts.silence.is_paused


async def test_a_theme_is_one_of_those_there_are():
    async with console() as here:
        assert (await here.act("start", theme="opera"))[1].startswith(
            "There's no theme called “opera”. Choose from: casual, "
        )


async def test_a_channel_is_stopped_and_speaks_again_and_a_pause_is_over_all():
    async with console() as here:
        assert await here.act("stop", channel="11", minutes=30) == (
            200,
            "The bots are stopped in #debate for 30 minutes. Use “Resume” to let them speak again.",
        )
        assert here.parts.silence.check(ChannelRef(11))
        refused = (409, "The bots are stopped in #debate. Use “Resume” there first.")
        assert await here.act("start", channel="11") == refused
        assert await here.act("resume", channel="11") == (200, "The bots can speak in #debate again.")
        assert await here.act("pause") == (
            200,
            "All bots are paused in every channel. Use “Resume all bots” to let them speak again.",
        )
        assert await (await here.client.get("/api/pause")).json() == {"paused": True}
        assert await here.act("next", channel="11", agent="claude") == (
            409,
            "All bots are paused. Use “Resume all bots” first.",
        )
        assert here.commands == [], "nobody was asked"
        assert await here.act("resume_all") == (200, "The pause is over. All bots can speak again.")
        assert await here.act("resume_all") == (200, "The bots weren't paused.")
        assert [action for _, action, _ in here.noted()] == [
            "stop", "start", "resume", "pause", "next", "resume_all", "resume_all"
        ]  # fmt: skip


@pytest.mark.promise(525)
async def test_the_orders_of_all_servers_are_listed_and_each_can_be_undone():
    given = {
        "*": Scope("all"),
        "a:grok": Scope.agent("grok"),
        "c:11": Scope.channel(11),
        "g:7/*": Scope("all", guild=7),
        "g:8/u:42": Scope.person(42, 8),
    }
    async with console() as here:
        silence = here.parts.silence

        async def listed() -> list[Any]:
            return (await (await here.client.get("/api/orders")).json())["items"]

        for scope in given.values():
            await silence.stop(scope, 600.0)
        shown = [(one["order"], one["kind"], one["name"], one["server"]) for one in await listed()]
        assert shown == [
            ("*", "all", None, None),
            ("a:grok", "agent", "Grok", None),
            ("c:11", "channel", "debate", None),
            ("g:7/*", "all", None, "Home"),
            ("g:8/u:42", "person", None, "server 8"),
        ]
        for order, scope in given.items():
            assert await here.act("end_order", order=order) == (200, "Undone.")
            assert scope not in {one.scope for one in silence.active()}
        assert await listed() == []
        assert await here.act("end_order", order="*") == (200, "That was already over.")
        assert (await here.act("end_order", order="everything"))[0] == 400
        assert [note.detail for note in here.notes[:5]] == ["*", "a:grok", "c:11", "g:7/*", ""], "no id of a person"


async def test_a_stop_of_a_thread_is_lifted_with_its_channels_and_not_against_it():
    async with console() as here:
        assert await here.act("stop", channel="21") == (
            200,
            "The bots are stopped in #aside for 24 hours. Use “Resume” to let them speak again.",
        )
        assert not here.parts.silence.check(ChannelRef(11))
        assert await here.act("stop", channel="11", minutes=5) == (
            200,
            "The bots are stopped in #debate for 5 minutes. Use “Resume” to let them speak again.",
        )
        refused = (409, "The bots are stopped in all of #debate. Use “Resume” there.")
        assert await here.act("resume", channel="21") == refused
        assert await here.act("resume", channel="11") == (200, "The bots can speak in #debate again.")
        assert here.parts.silence.stopped_channels() == {}


async def test_an_agent_is_muted_and_is_not_asked_to_speak_meanwhile():
    async with console() as here:
        line = (
            "Grok is muted in every channel for 60 minutes. It may still finish the message it's writing. Use “Unmute”"
            " to let it speak again."
        )
        assert await here.act("mute", agent="grok") == (200, line)
        assert await here.act("next", channel="11", agent="grok") == (409, "Grok is muted. Use “Unmute” first.")
        assert await here.act("unmute", agent="grok") == (200, "Grok can speak again.")
        assert await here.act("unmute", agent="grok") == (200, "Grok wasn't muted.")


@pytest.mark.promise(125)
async def test_a_budget_is_raised_once_by_a_click_that_comes_twice_and_from_two_consoles():
    server = empty_redis()
    async with console(address=server) as here, console(address=server) as there:
        line = "Today's limit is now $6.50. Tomorrow it's back to normal."
        both = await asyncio.gather(*(here.act("raise_budget", id="the-same-click", dollars=1.5) for _ in range(2)))
        assert both == [(200, line)] * 2
        assert await there.act("raise_budget", id="the-same-click", dollars=1.5) == (200, line)
        assert (await here.parts.state.limits.budgets.uses(TODAY, ["all"]))["all"].raised == 1.5
        assert [note.detail for note in here.notes] == ["all +$1.50"]
        assert (await there.act("raise_budget", dollars=1))[1].startswith("Today's limit is now $7.50")


@pytest.mark.parametrize(
    ("time", "at", "noted"),
    [
        ("13:30", NOON + 5400, "13:30"),
        ("12:00", NOON + 86400, "Saturday 12:00"),
        ("00:30", NOON + 45000, "Saturday 00:30"),
        ("23:59", NOON + 43140, "23:59"),
    ],
)
async def test_a_time_is_the_next_moment_when_the_owners_clock_shows_it(time, at, noted):
    async with console("moved") as here:
        status, _ = await here.act("move", at=NOON + 60, time=time)
        assert (status, here.commands[0].at, here.commands[0].to) == (200, NOON + 60, at)
        await here.act("add", time=time)
        await here.act("skip", at=at)
        assert [note.detail for note in here.notes] == [f"12:01 to {noted}", noted, noted]


@pytest.mark.promise(127)
async def test_a_click_is_carried_out_although_its_browser_is_gone():
    async with console() as here:
        begun, go_on = asyncio.Event(), asyncio.Event()
        resume = here.parts.silence.resume_all

        async def slow(scopes: Sequence[Scope]) -> bool:
            begun.set()
            await go_on.wait()
            return await resume(scopes)

        here.parts.silence.resume_all = slow  # type: ignore[method-assign]
        asking = asyncio.create_task(here.act("unmute", agent="grok"))
        await begun.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        go_on.set()
        await until(lambda: here.notes)
        assert here.noted() == [("console", "unmute", "not_muted")]


@pytest.mark.promise(127)
async def test_while_redis_is_away_nothing_is_half_done_and_a_stop_counts_here():
    async with RedisConnection(NOWHERE) as link:
        here = Console(link, "started")  # with time for Redis to refuse
        async with client_of(here.parts) as here.client:
            away = (503, TEXTS["redis_unavailable"])
            for name, fields in (
                ("start", {}),
                ("raise_budget", {"dollars": 1.0}),
                ("add", {"time": "13:00"}),
            ):
                assert await here.act(name, **fields) == away
            assert here.notes == []
            status, line = await here.act("stop", channel="11")
            assert (status, bool(here.parts.silence.check(ChannelRef(11)))) == (200, True)
            assert line.endswith(DELAYED)
            status, line = await here.act("mute", agent="grok")
            assert (status, set(here.parts.silence.muted_agents())) == (200, {"grok"})
            assert line.endswith(DELAYED)
            await here.parts.silence.stop(EVERYTHING, source="x")


async def test_an_action_needs_the_token_of_the_page():
    async with console() as here:
        response = await here.client.post("/api/actions/pause", json={"id": "click-0001"})
        assert response.status == 403
        assert not here.parts.silence.is_paused


async def test_the_schedule_of_today_is_shown_with_what_is_over_and_what_was_added():
    async with console() as here:
        schedule = here.parts.state.coordination.schedule
        hours = {"2027-01-14": (-13, -11), TODAY: (-1, 2)}
        for date, slots in hours.items():
            await schedule.save_schedule(date, [Slot(NOON + hour * 3600) for hour in slots])
        await schedule.change_schedule(TODAY, lambda slots: [*slots, Slot(NOON + 3600, added=True, planned=NOON)])
        day = await (await here.client.get("/api/schedule")).json()
        assert (day["from"] - NOON, day["until"] - NOON, day["conversations"]) == (-12 * 3600, 12 * 3600, [])
        shown = day["items"]
        assert [one["planned"] for one in shown] == [None, None, NOON, None]
        assert [((one["at"] - NOON) / 3600, one["done"], one["added"]) for one in shown] == [
            (-11, True, False),
            (-1, True, False),
            (1, False, True),
            (2, False, False),
        ]


async def test_what_was_done_is_listed_from_the_record(tmp_path):
    path = tmp_path / "record.db"
    fill(path, 200)
    with closing(sqlite3.connect(path)) as db, db:
        rows = [(name, name, 4e9) for name in ("replay", "go_on")]
        db.executemany("INSERT INTO actions (id, action, at, by) VALUES (?, ?, ?, 'console')", rows)
    async with console_client(store=RecordFile(path)) as client:
        first = await (await client.get("/api/actions")).json()
        assert first["items"]
        assert {"by", "action", "what", "outcome", "detail", "at", "agent", "channel"} <= first["items"][0].keys()
        assert {one["what"] for one in first["items"][:2]} == {
            "Replay a turn",
            "Let all bots speak again after a pause",
        }
        assert first["items"] == sorted(first["items"], key=lambda one: -one["at"])
        refused = await client.get("/api/actions", params={"before": "yesterday"})
        assert (await refused.json())["error"] == "before: expected the `next` of another page"


async def test_an_owner_starts_an_arena_that_counts_toward_nobodys_limits():
    question = {"channel": "11", "prompt": " Is tea good? ", "minutes": 15}
    async with console() as here:
        status, told = await here.act("arena", **question)
        assert (status, "run_all.py" in told) == (409, True)  # no process runs arenas
        await here.parts.state.link.call(lambda redis: redis.set(keys.PERSONAS_OWNER, "here"))
        assert (await here.act("arena", **question))[0] == 200
        (arena,) = await here.parts.state.coordination.arenas.all()
        assert (arena.channel_id, arena.question, arena.minutes, arena.asked_by) == (11, "Is tea good?", 15, 0)
        assert (await here.act("arena", **question))[0] == 409  # one is running there
        assert (await here.act("arena", **{**question, "channel": "99"}))[0] == 404
        assert (await here.act("arena", prompt="Why?"))[0] == 400
        assert here.noted()[:2] == [("console", "arena", "no_arena_host"), ("console", "arena", "arena_opened")]
        assert await here.act("stop", channel="11", minutes=30)
        assert (await here.act("arena", **question))[0] == 409
