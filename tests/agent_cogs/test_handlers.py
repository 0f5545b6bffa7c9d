"""What each command does and tells: on a Redis inside the process, without Discord."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent_cogs.slash_definitions import SUB_COMMAND, WHY, command_list
from agentic.actions.base import FORM, MENU, Form
from agentic.actions.texts import DELAYED, TEXTS
from agentic.agent.forgetting import ForgetOutcome
from agentic.chat.service import Person
from agentic.ids import id_at
from agentic.state.budgets import Caps
from agentic.state.idle import IdleState, TaskState
from agentic.state.limits import LimitRequest
from agentic.state.live_options import ALL, EVERYWHERE, in_channel, in_guild
from agentic.state.silence import ChannelRef, Scope, SilenceChange
from agentic.state.turn_records import TurnRecord
from agentic.wire import keys
from agentic.wire.connection import StateUnavailable
from agentic.wire.entries import UnaskedNote
from agentic.wire.messages import Command, CommandOutcome, read
from tests.support.coordinator_doubles import conversation
from tests.support.slash_scene import (
    ANN,
    BOB,
    DEBATE,
    DIRECT,
    ELSEWHERE,
    GUILD,
    LOUNGE,
    MANAGER,
    MEMBER,
    NAMES,
    NOW,
    THREAD,
    Place,
    Reply,
    a_place,
    a_room,
)

DAY = "2027-01-15"
OTHER_GUILD = 2
SAVED = f"{FORM} agent-file"
MESSAGE = id_at(NOW)


def every_command() -> list[str]:
    found = []
    for command in command_list(NAMES):
        parts = [option for option in command.get("options", ()) if option["type"] == SUB_COMMAND]
        found += [f"{command['name']} {part['name']}" for part in parts] or [command["name"]]
    return found


FILLED: Mapping[str, Any] = {
    "bot": "grok",
    "user": str(BOB),
    "message": str(MESSAGE),
    "minutes": 5,
    "agent": "grok",
    "prompt": "why?",
    "file": "soul.md",
    "name": "Grok",
    "option": "stream",
    "value": "true",
}
LOCAL = ("ask", "agent-file show", "agent-file edit", "room create", "room here", "config show")  # these need no Redis
LOCAL += tuple(f"agent {part}" for part in ("create", "edit", "show", "delete", "list"))  # of a bot
LOCAL += (*(f"profile {part}" for part in ("show", "edit", "delete")), "privacy")


@pytest.mark.parametrize("command", every_command())
async def test_every_command_that_discord_shows_is_known_and_answers_briefly(command: str):
    async with a_place() as place:
        answer = await place.use(command, **FILLED)
        told = answer if isinstance(answer, str) else getattr(answer, "text", "") or "a form"
        assert told not in (TEXTS["unknown_action"], TEXTS["redis_unavailable"], TEXTS["not_here"])
        assert 1 <= len(told) <= 2000


@pytest.mark.parametrize("command", every_command())
async def test_where_the_program_is_silent_no_command_does_anything(command: str):
    async with a_place() as place:
        assert await place.use(command, channel=ELSEWHERE, **FILLED) == TEXTS["not_here"]
        assert await place.use(command, guild=2, **FILLED) == TEXTS["not_here"]
        assert set(await place.link.commands.keys("*")) <= {keys.SILENCE}
        assert await place.use("bots status", channel=THREAD, parent=LOUNGE) != TEXTS["not_here"]


@pytest.fixture
def personas(tmp_path: Path) -> Path:
    (tmp_path / "grok").mkdir()
    (tmp_path / "grok" / "soul.md").write_text("old\n")
    return tmp_path


@pytest.mark.parametrize("command", ["agent-file show", "agent-file edit"])
async def test_a_mistyped_persona_file_is_answered_with_those_that_exist(personas: Path, command: str):
    async with a_place(personas) as place:
        told = await place.use(command, agent="grok", file="sole.md")
        assert "Did you mean soul.md" in told
        assert "heartbeat.md" in told
        for written in ("soul", " Soul.MD "):
            answer = await place.use(command, agent="grok", file=written)
            assert "old" in (answer if isinstance(answer, str) else answer.fields[0].text)


def may_edit(answer: Any) -> bool:
    return isinstance(answer, Form)


async def edited(place: Place, who: Person = MANAGER) -> Any:
    return await place.use("agent-file edit", who, agent="grok", file="soul.md")


async def test_who_manages_the_only_server_changes_the_bots_files(personas: Path):
    async with a_place(personas) as place:
        form = await edited(place)
        assert may_edit(form)
        assert "Saved" in await place.use(SAVED, id=form.id, part1="new")
        assert place.known.asked_discord == 0
    assert (personas / "grok" / "soul.md").read_text() == "new\n"


@pytest.mark.promise(38)
@pytest.mark.parametrize("seen", [{LOUNGE: GUILD, DEBATE: 2}, {LOUNGE: GUILD}, {}])
async def test_files_that_other_servers_share_are_the_owners_to_change(personas: Path, seen: dict[int, int]):
    async with a_place(personas) as place:
        form = await edited(place)
        place.guilds.clear()
        place.guilds.update(seen)
        told = await edited(place)
        assert f"OWNER_USER_IDS={ANN}" in told
        assert f"GUILD_IDS={GUILD}" in told
        assert await place.use(SAVED, id=form.id, part1="mine") == told, "nor with a form from before"
        assert "old" in await place.use("agent-file show", agent="grok", file="soul.md")
        assert (personas / "grok" / "soul.md").read_text() == "old\n"
        place.known.application_owners = {ANN}
        assert may_edit(await edited(place))
        assert await edited(place, MEMBER) == TEXTS["managers_only"]
    async with a_place(personas, OWNER_USER_IDS=str(BOB)) as place:
        place.guilds.clear()
        assert may_edit(await edited(place, MEMBER))


@pytest.mark.promise(38)
async def test_one_server_in_guild_ids_is_the_only_one_but_for_the_output_channel(personas: Path):
    async with a_place(personas, GUILD_IDS=str(GUILD)) as place:
        place.guilds.clear()
        assert may_edit(await edited(place))
    async with a_place(personas, GUILD_IDS=str(GUILD), OUTPUT_CHANNEL_ID=str(ELSEWHERE)) as place:
        assert "OWNER_USER_IDS" in await edited(place)
        place.guilds[ELSEWHERE] = GUILD
        assert may_edit(await edited(place))
    async with a_place(personas, GUILD_IDS=f"{GUILD},2") as place:
        assert may_edit(await edited(place)), "every channel is in one of them"


OWNERS = [f"bots {part}" for part in ("start", "mute", "unmute", "ignore", "unignore")]
OWNERS += ["agent-file show", "agent-file edit", SAVED, "form agent"]
OWNERS += [f"agent {part}" for part in ("create", "edit", "delete")]
MODERATORS = ["form room", "menu room", "agent show"]
MODERATORS += [f"room {part}" for part in ("create", "stop", "resume", "next", "close", "add", "remove")]


@pytest.mark.promise(271)
@pytest.mark.parametrize("part", OWNERS)
async def test_owners_commands_are_refused_to_others_and_do_nothing(part: str):
    async with a_place() as place:
        for who in (MEMBER, Person(BOB, manages_messages=True)):
            assert await place.use(part, who, **FILLED) == TEXTS["managers_only"]
        assert set(await place.link.commands.keys("*")) <= {keys.SILENCE}


@pytest.mark.parametrize("part", MODERATORS)
async def test_moderators_commands_are_refused_to_others_and_do_nothing(part: str):
    async with a_place() as place:
        assert await place.use(part, MEMBER, **FILLED) == TEXTS["moderators_only"]
        assert set(await place.link.commands.keys("*")) <= {keys.SILENCE}


NAMING_A_BOT = ["bots mute", "bots unmute", "bots next", "why-not", "agent-file show", "agent-file edit"]


@pytest.mark.parametrize("command", NAMING_A_BOT)
async def test_a_bot_that_does_not_exist_is_answered_with_those_that_do(command: str, personas: Path):
    async with a_place(personas) as place:
        option = "agent" if command.startswith("agent-file") else "bot"
        told = await place.use(command, **{option: "Cluade", "file": "soul.md"})
        assert "Did you mean Claude?" in told
        assert "Claude, Grok" in told


async def test_a_theme_that_does_not_exist_is_answered_with_those_that_do():
    async with a_place() as place:
        told = await place.use("bots start", theme="debat")
        assert "Did you mean debate?" in told
        assert "memes" in told


# orders of managers, with several servers

ORDERS = [("pause", "resume", "all", ""), ("mute", "unmute", "agent", "grok"), ("ignore", "unignore", "person", BOB)]


@asynccontextmanager
async def two_servers() -> AsyncIterator[Place]:
    """ANN manages GUILD, and somebody else manages OTHER_GUILD."""
    async with a_place() as place:
        place.guilds[DEBATE] = OTHER_GUILD
        place.services.chats.scope = replace(place.services.chats.scope, guild_ids=frozenset({GUILD, OTHER_GUILD}))
        yield place


@pytest.mark.promise(525)
@pytest.mark.parametrize(("give", "undo", "kind", "subject"), ORDERS, ids=[order[0] for order in ORDERS])
async def test_a_managers_order_applies_in_their_server_and_the_owners_everywhere(give, undo, kind, subject):
    async with two_servers() as place:
        here, everywhere = Scope(kind, subject, GUILD), Scope(kind, subject)
        given = {"bot": "grok", "user": str(BOB)}

        def orders() -> set[Scope]:
            return {order.scope for order in place.silence.active()}

        assert "in this server" in await place.use(f"bots {give}", **given)
        assert orders() == {here}
        told = await place.use(f"bots {undo}", guild=OTHER_GUILD, channel=DEBATE, **given)
        assert "n't" in told
        assert orders() == {here}, "a manager of another server"
        place.known.application_owners = {ANN}
        assert "in every channel" in await place.use(f"bots {give}", **given)
        assert orders() == {here, everywhere}
        place.known.application_owners = set()
        assert "only the owner" in await place.use(f"bots {undo}", **given)
        assert orders() == {everywhere}
        await place.use(f"bots {give}", **given)
        place.known.application_owners = {ANN}
        await place.use(f"bots {undo}", **given)
        assert orders() == set(), "the owner ends the order of the server too"


@pytest.mark.promise(525)
async def test_the_status_shows_managers_the_orders_of_their_own_server():
    async with two_servers() as place:
        ends = f"it's muted, which ends <t:{NOW + 3600:.0f}:R>"
        await place.use("bots mute", bot="grok")
        await place.use("bots ignore", user=str(BOB))
        told = await place.use("bots status")
        assert "Grok (muted in this server for 60 minutes)" in told
        assert f"**Ignored**: <@{BOB}>" in told
        assert ends in await place.use("why-not", MEMBER, bot="grok")
        assert str(BOB) not in await place.use("bots status", MEMBER)
        there = {"guild": OTHER_GUILD, "channel": DEBATE}
        for told in (await place.use("bots status", **there), await place.use("why-not", MEMBER, bot="grok", **there)):
            assert "muted" not in told
            assert str(BOB) not in told
        await place.silence.stop(Scope.person(7))
        assert "<@7>" not in await place.use("bots status")
        place.known.application_owners = {ANN}
        assert f"**Ignored**: <@{BOB}> and <@7>" in await place.use("bots status")
        place.known.application_owners = set()
        await place.use("bots pause")
        told = await place.use("bots status", MEMBER)
        assert "**All bots are paused in this server.** A server manager can use /bots resume." in told
        assert "**Here**: paused" in told
        assert "paused" not in await place.use("bots status", **there)
        assert "all bots are paused" in await place.use("why-not", MEMBER, bot="grok")
        assert await place.use("bots start") == "All bots are paused. Use /bots resume first."
        assert "paused" in await place.use("resume")


async def test_what_is_not_known_any_more_is_said_so():
    async with a_place() as place:
        assert await place.use("bots dance") == TEXTS["unknown_action"]


async def test_while_redis_is_away_every_command_says_so(monkeypatch: pytest.MonkeyPatch):
    async def away(*_: object, **__: object) -> Any:
        raise StateUnavailable("gone")

    async with a_place() as place:
        monkeypatch.setattr(place.link, "call", away)
        monkeypatch.setattr(place.link, "script", away)
        place.bus.ready.clear()
        for command in (one for one in every_command() if one not in LOCAL):
            told = await place.use(command, **{**FILLED, "channel_": str(LOUNGE), "topic": "Is tea better?"})
            assert told == TEXTS["redis_unavailable"] or told.endswith(DELAYED), command
        assert bool(place.silence.check(ChannelRef(LOUNGE))) is False  # stopped and resumed by the way


# status


async def test_the_status_tells_of_all_bots_of_the_day_and_of_this_channel():
    async with a_place(BUDGET_DAILY_USD="2") as place:
        await place.state.coordination.presence.renew("claude", "1")
        await place.silence.stop(Scope.agent("claude"), 300.0)
        await place.state.coordination.backoffs.put("grok", NOW + 600)
        await place.link.commands.set(keys.daily_count("claude", DAY), "12")
        await place.link.commands.hset(keys.cost("claude", DAY), "total_cost", "0.25")
        await place.link.commands.hset(keys.cost("grok", DAY), "total_cost", "0.0042")
        state = conversation(LOUNGE, round=3, theme="debate", pending=("grok",)).to_json()
        await place.link.commands.hset(keys.conversation_state(LOUNGE), mapping={"id": "c", "state": state})
        await place.silence.stop(Scope.channel(DEBATE), 7200.0, source="m1")
        assert await place.use("bots status", MEMBER) == (
            "**Online**: Claude (muted for 5 minutes)\n"
            "**Offline**: Grok (on a break for 10 minutes: its AI provider is rejecting its requests)\n"
            "**Today**: Claude 12 turns, $0.25; Grok 0 turns, $0.0042; total $0.25 of $2.00\n"
            "**Here**: a conversation is running, theme debate, round 3, Grok's turn\n"
            f"**Stopped elsewhere**: <#{DEBATE}> for 2 hours"
        )
        told = await place.use("bots status", channel=DEBATE)
        assert "**Here**: stopped (2 hours left; /resume ends that)" in told


async def test_a_quiet_day_has_a_status_too():
    async with a_place(BUDGET_DAILY_USD="none") as place:
        assert await place.use("bots status") == (
            "**Online**: nobody\n**Offline**: Claude and Grok\n"
            "**Today**: Claude 0 turns, $0.00; Grok 0 turns, $0.00; total $0.00\n"
            "**Here**: no conversation is running"
        )


async def test_the_status_says_when_bots_write_by_themselves_and_why_not():
    async with a_place() as place:
        tasks = {
            "follow_up:claude": TaskState(due=NOW + 2400),
            "discover:claude": TaskState(why="it's outside the active hours"),
        }
        await place.state.coordination.idle.write(IdleState(tasks=tasks), 0)
        assert (await place.use("bots status", MEMBER)).endswith(
            "**Background tasks**:\n"
            "- Claude: follow-ups (in 40 minutes at the earliest) and discoveries (it's outside the active hours)"
        )


@pytest.mark.promise(495)
async def test_the_status_names_a_persona_without_a_bot_as_people_know_it(tmp_path: Path):
    (tmp_path / "penny").mkdir()
    (tmp_path / "penny" / "identity.md").write_text("---\nname: Penny\n---\n")
    async with a_place(tmp_path) as place:
        await place.services.agents.roster.refresh()
        await place.state.coordination.idle.write(IdleState(tasks={"discover:penny": TaskState(why="it's muted")}), 0)
        assert "\n- Penny: discoveries (it's muted)" in await place.use("bots status", MEMBER)


# start


async def orders_of(place: Place, outcome: str) -> list[Command]:
    given: list[Command] = []

    async def obey(raw: str) -> None:
        command = read(Command, raw)
        assert command is not None
        assert command.command_id is not None
        given.append(command)
        await place.bus.publish(
            keys.COORDINATOR_OUTCOMES, CommandOutcome(command_id=command.command_id, outcome=outcome)
        )

    place.orders._patience = 10.0
    place.bus.subscribe(keys.COORDINATOR_COMMANDS, obey)
    await place.bus.ready.wait()
    return given


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ("started", f"A conversation is starting in <#{LOUNGE}>."),
        ("busy", f"A conversation is already running in <#{LOUNGE}>."),
        ("stopped", f"The bots are stopped in <#{LOUNGE}>. Use /resume there first."),
        ("something_new", "The coordinator refused this: something_new."),
    ],
)
async def test_whoever_starts_a_conversation_is_told_what_came_of_it(outcome: str, told: str):
    async with a_place() as place:
        given = await orders_of(place, outcome)
        assert await place.use("bots start", channel=THREAD, parent=LOUNGE) == told
        assert [(c.command, c.channel_id, c.theme) for c in given] == [("start", LOUNGE, None)]


async def test_a_start_goes_where_it_was_meant_to_and_nowhere_else():
    async with a_place() as place:
        given = await orders_of(place, "started")
        await place.use("bots start", channel_=str(DEBATE), theme="roast")
        assert [(c.channel_id, c.theme) for c in given] == [(DEBATE, "roast")]
        await place.silence.stop(Scope.channel(LOUNGE), source="m1")
        assert "stopped" in await place.use("bots start")
        assert "a channel of the bots" in await place.use("bots start", channel_=str(ELSEWHERE))
        assert len(given) == 1


@pytest.mark.parametrize(
    ("command", "values", "outcome", "told"),
    [
        ("next", {"bot": "grok"}, "requested", "Grok speaks next in {here}, after the current turn."),
        ("next", {"bot": "grok"}, "started", "Grok is taking a turn in {here}."),
        ("next", {"bot": "grok"}, "offline", "Grok is offline."),
        ("end", {}, "none_running", "No conversation is running in {here}."),
        ("start", {"starter": "grok", "topic": "tea"}, "started", "A conversation is starting in {here}."),
    ],
)
async def test_a_conversation_is_steered_by_the_coordinator_and_noted(command, values, outcome, told):
    async with a_place() as place:
        given = await orders_of(place, outcome)
        told = told.format(here=f"<#{LOUNGE}>")
        assert await place.use(f"bots {command}", **values) == told
        agent = values.get("bot") or values.get("starter")
        assert [(c.command, c.channel_id, c.agent_name) for c in given] == [(command, LOUNGE, agent)]
        (note,) = place.notes
        assert (note.by, note.action, note.channel_id, note.agent) == (str(ANN), command, LOUNGE, agent)
        word = "next_started" if (command, outcome) == ("next", "started") else outcome
        assert (note.at, note.outcome, note.detail) == (NOW, word, values.get("topic", ""))


async def test_a_muted_bot_is_not_asked_to_speak():
    async with a_place() as place:
        given = await orders_of(place, "requested")
        await place.use("bots mute", bot="grok")
        assert await place.use("bots next", bot="grok") == "Grok is muted. Use /bots unmute first."
        assert given == []


async def test_all_bots_are_paused_until_a_manager_lets_them_go_on():
    async with a_place() as place:
        await place.silence.stop(Scope.channel(LOUNGE), source="m1")
        assert await place.use("bots pause") == (
            "All bots are paused in every channel. Use /bots resume to let them speak again."
        )
        assert "**All bots are paused everywhere.**" in await place.use("bots status", MEMBER)
        assert "all bots are paused" in await place.use("why-not", MEMBER, bot="grok")
        for command in ("bots start", "bots next", "ask"):
            reply = await place.use(command, bot="grok", agent="grok", prompt="hello")
            assert reply == "All bots are paused. Use /bots resume first.", command
        told = await place.use("resume")
        assert told == f"<#{LOUNGE}> is no longer stopped, but all bots are paused. Use /bots resume."
        assert await place.use("bots resume") == "The pause is over. All bots can speak again."
        assert await place.use("bots resume") == "The bots weren't paused."
        assert not place.silence.check(ChannelRef(LOUNGE)), "its own stop was lifted"


async def test_the_record_has_who_acted_and_nobody_else():
    async with a_place() as place:
        await place.use("bots ignore", user=str(BOB))
        await place.use("stop", MEMBER)
        await place.use("bots status")
        await place.use("stop")
        assert [(note.by, note.action) for note in place.notes] == [(str(ANN), "ignore"), (str(ANN), "stop")]
        assert str(BOB) not in place.notes[0].to_json()


async def test_the_status_shows_a_budget_that_was_raised():
    async with a_place(BUDGET_DAILY_USD="5") as place:
        place.state.limits.budgets.caps = Caps(all=5.0)
        await place.state.limits.budgets.raise_cap("all", 2.5, DAY, "x")
        assert "of $7.50 ($2.50 added today)" in await place.use("bots status")


async def test_without_a_coordinator_the_person_is_told():
    async with a_place() as place:
        assert "The coordinator didn't answer" in await place.use("bots start")


# mute and ignore


async def test_a_muted_bot_takes_no_turn_until_it_is_unmuted():
    rules = {"cooldown": 0.0, "daily_max": 9, "date": DAY}
    async with a_place() as place:
        assert "Grok is muted in every channel for 60 minutes" in await place.use("bots mute", bot="grok")
        assert await place.state.limits.take(LimitRequest(agent="grok", channel_id=LOUNGE, **rules)) == "muted"
        assert "Grok is muted in every channel for 5 minutes" in await place.use("bots mute", bot="grok", minutes=5)
        assert await place.use("bots unmute", bot="grok") == "Grok can speak again."
        assert await place.use("bots unmute", bot="grok") == "Grok wasn't muted."
        assert await place.state.limits.take(LimitRequest(agent="grok", channel_id=LOUNGE, **rules)) == "ok"


async def test_a_person_is_ignored_until_that_is_lifted():
    async with a_place(IGNORE_USER_IDS="7") as place:
        assert "The bots now ignore <@101>" in await place.use("bots ignore", user=str(BOB))
        assert place.silence.is_ignored(BOB)
        assert "already" in await place.use("bots ignore", user=str(BOB))
        assert "again" in await place.use("bots unignore", user=str(BOB))
        assert "weren't ignoring" in await place.use("bots unignore", user=str(BOB))
        assert "IGNORE_USER_IDS" in await place.use("bots unignore", user="7")


# stop and resume


@pytest.mark.parametrize(
    "who",
    [Person(BOB, manages_messages=True), Person(7), Person(BOB, roles=frozenset({8}))],
    ids=["right", "person", "role"],
)
async def test_who_may_stops_the_channel_for_a_time_and_lifts_it(who: Person):
    async with a_place(MODERATOR_IDS="7,8") as place:
        assert (
            await place.use("stop", who, minutes=30)
            == f"The bots are stopped in <#{LOUNGE}> for 30 minutes. Use /resume to let them speak again."
        )
        assert place.silence.stopped_channels() == {LOUNGE: NOW + 1800}
        assert (
            await place.use("stop", who)
            == f"The bots are stopped in <#{LOUNGE}> for 24 hours. Use /resume to let them speak again."
        )
        assert place.silence.stopped_channels() == {LOUNGE: NOW + 86400}
        assert await place.use("resume", who) == f"The bots can speak in <#{LOUNGE}> again."
        assert await place.use("resume", who) == f"The bots weren't stopped in <#{LOUNGE}>."


async def test_who_may_not_ends_only_what_answers_them():
    async with a_place() as place:
        changes: list[SilenceChange] = []

        async def note(change: SilenceChange) -> None:
            changes.append(change)

        place.silence.on_change(note)
        told = await place.use("stop", MEMBER, minutes=30)
        assert "canceled the bots' answers to you" in told
        assert SilenceChange(Scope.channel(LOUNGE), BOB) in changes
        assert not place.silence.check(ChannelRef(LOUNGE))
        await place.silence.stop(Scope.channel(LOUNGE), source="m1")
        assert "Only moderators" in await place.use("resume", MEMBER)
        assert place.silence.check(ChannelRef(LOUNGE))


async def test_what_lifts_a_channels_stop_lifts_its_threads_and_not_the_other_way_round():
    async with a_place() as place:
        place.parents[THREAD] = LOUNGE
        await place.use("stop", channel=THREAD, parent=LOUNGE)
        await place.use("stop", channel=LOUNGE)
        await place.use("stop", channel=DEBATE)
        told = await place.use("resume", channel=THREAD, parent=LOUNGE)
        assert told == f"The bots are stopped in all of <#{LOUNGE}>. Use /resume there."
        assert await place.use("resume", channel=LOUNGE) == f"The bots can speak in <#{LOUNGE}> again."
        assert list(place.silence.stopped_channels()) == [DEBATE]
        await place.use("stop", channel=THREAD, parent=LOUNGE)
        assert await place.use("resume", channel=THREAD, parent=LOUNGE) == f"The bots can speak in <#{THREAD}> again."


async def test_the_status_in_a_thread_of_a_stopped_channel_says_so():
    async with a_place() as place:
        await place.silence.stop(Scope.channel(LOUNGE), 600.0, source="m1")
        told = await place.use("bots status", channel=THREAD, parent=LOUNGE)
        assert "**Here**: stopped (10 minutes left" in told


# forget me


async def test_who_asks_to_be_forgotten_is_told_what_came_of_it():
    async with a_place() as place:
        outcome, asked = ForgetOutcome(Counter(records=2, notes=1)), list[int]()

        async def forget(user_id: int) -> ForgetOutcome:
            asked.append(user_id)
            return outcome

        place.services.record.forgetting = SimpleNamespace(forget=forget)
        assert await place.use("forget me", MEMBER) == outcome.text
        outcome = ForgetOutcome(Counter(failed=1))
        assert await place.use("forget me", MEMBER) == TEXTS["not_all_forgotten"]
        assert asked == [BOB, BOB]


# why


async def spoke(place: Place, message_id: int, guild_id: int | None, channel_id: int = LOUNGE) -> None:
    record = TurnRecord(id="m1", agent="grok", at=NOW, kind="mention", trigger="mention", channel_id=channel_id)
    where = {"asked_by": BOB, "posted": (message_id,), "guild_id": guild_id}
    await place.state.turns.settle("grok", record.id, "{}", NOW + 90, record=record.model_copy(update=where))


@pytest.mark.parametrize("form", ["{id}", " {id} ", "https://discord.com/channels/1/10/{id}"])
async def test_why_takes_a_link_or_an_id_of_this_server(form: str):
    async with a_place() as place:
        place.now = time.time()  # Redis stamps records with its own clock
        just_now = id_at(place.now)
        text = form.format(id=just_now)
        await spoke(place, just_now, GUILD)
        for command in ("why", WHY):
            assert (await place.use(command, MEMBER, message=text)).startswith("**Grok** answered <@101>")


async def test_moderators_get_a_link_to_the_turn_in_the_console():
    async with a_place(CONSOLE="true", CONSOLE_URL="https://bots.example.org/", MODERATOR_IDS="103") as place:
        place.now = time.time()
        just_now = id_at(place.now)
        await spoke(place, just_now, GUILD)
        link = "In the console: <https://bots.example.org/#/turn/grok/m1>"
        assert (await place.use("why", Person(103), message=str(just_now))).endswith(f"\n{link}")
        assert link not in await place.use("why", MEMBER, message=str(just_now))


async def test_what_was_said_in_another_server_is_not_told():
    async with a_place() as place:
        place.now = time.time()
        just_now = id_at(place.now)
        await spoke(place, just_now, 2)
        assert await place.use("why", MEMBER, message=str(just_now)) == TEXTS["no_record"]


@pytest.mark.promise(506)
async def test_what_was_said_to_one_person_alone_is_not_told_to_others():
    async with a_place() as place:
        place.now = time.time()
        just_now = id_at(place.now)
        await spoke(place, just_now, None, channel_id=4711)
        place.private.add(4711)
        assert await place.use("why", MEMBER, message=str(just_now)) == TEXTS["no_record"]


@pytest.mark.promise(504)
async def test_what_was_said_in_a_channel_of_few_is_told_there_alone():
    async with a_place() as place:
        place.now = time.time()
        just_now = id_at(place.now)
        await spoke(place, just_now, GUILD, channel_id=DEBATE)
        assert (await place.use("why", MEMBER, message=str(just_now))).startswith("**Grok**")
        place.private.add(DEBATE)
        assert await place.use("why", MEMBER, message=str(just_now)) == TEXTS["no_record"]
        assert (await place.use("why", MEMBER, channel=DEBATE, message=str(just_now))).startswith("**Grok**")


@pytest.mark.promise(504)
async def test_the_status_names_a_stopped_channel_of_few_to_managers_alone():
    async with a_place() as place:
        await place.use("stop", MANAGER, channel=DEBATE)
        assert f"<#{DEBATE}>" in await place.use("bots status", MEMBER)
        place.private.add(DEBATE)
        assert f"<#{DEBATE}>" not in await place.use("bots status", MEMBER)
        assert f"<#{DEBATE}>" in await place.use("bots status", MANAGER)


@pytest.mark.promise(493)
@pytest.mark.parametrize("old", [0, 8 * 86400])
async def test_of_a_message_that_nobody_asked_for_the_record_knows_why_where_redis_does_not(old: int):
    async with a_place() as place:
        place.now = time.time()
        message_id = id_at(place.now - old)
        sent = UnaskedNote(
            message_id=message_id,
            agent="grok",
            task="follow_up",
            channel_id=LOUNGE,
            person_id=BOB,
            cause="Ada was not answered",
            at=place.now - old,
        )
        place.memory.sent = {message_id: sent}
        said = await place.use("why", MEMBER, message=str(message_id))
        because = "Why: Ada was not answered."
        assert said.startswith(f"**Grok** followed up on a conversation while nobody was writing. {because}\n")
        assert "🔕" in said
        place.private.add(LOUNGE)
        assert (await place.use("why", MEMBER, message=str(message_id))) == said, "there itself"
        assert await place.use("why", MEMBER, message=str(message_id), channel=DEBATE) == TEXTS["no_record"]
        place.private.clear()
        place.guilds[LOUNGE] = ELSEWHERE
        assert await place.use("why", MEMBER, message=str(message_id), channel=DEBATE) == TEXTS["no_record"]


@pytest.mark.parametrize("text", ["", "hello", "12", "https://discord.com/channels/1/10/", "1" * 30])
async def test_what_is_no_message_is_said_so(text: str):
    async with a_place() as place:
        assert "isn't a message link" in await place.use("why", MEMBER, message=text)
        assert await place.use(WHY, MEMBER, message=str(MESSAGE)) == TEXTS["no_record"]


async def test_why_not_names_the_mute():
    async with a_place() as place:
        await place.state.coordination.presence.renew("grok", "1")
        await place.silence.stop(Scope.agent("grok"), 600.0)
        assert (await place.use("why-not", MEMBER, bot="grok")).startswith(
            "**Grok** is silent here: it's muted, which ends"
        )


# ask


async def test_a_question_is_shown_to_all_as_it_was_given():
    async with a_place() as place:
        told = await place.use("ask", MEMBER, agent="grok", prompt="  is *this* <b>right</b>?")
        assert told == Reply("<@501>   is *this* <b>right</b>?", public=True)


async def test_nobody_is_asked_where_nobody_may_answer():
    async with a_place(IGNORE_ROLE_IDS="7") as place:
        assert not isinstance(await place.use("ask", Person(BOB, frozenset({7})), agent="grok", prompt="x"), Reply)
        assert not isinstance(await place.use("ask", agent="grok", prompt="  "), Reply)
        assert "Choose from: Claude, Grok" in await place.use("ask", agent="hal", prompt="x")
        await place.silence.stop(Scope.channel(LOUNGE), source="m1")
        assert not isinstance(await place.use("ask", agent="grok", prompt="x"), Reply)
        assert not isinstance(await place.use("ask", agent="grok", prompt="x", channel=THREAD, parent=LOUNGE), Reply)


# arena


async def test_an_arena_is_opened_once_a_channel_by_the_process_that_runs_arenas():
    async with a_place() as place:
        assert "run_all.py" in await place.use("arena", MEMBER, prompt="why?")
        await place.link.commands.set(keys.PERSONAS_OWNER, "here")
        assert "from 1 to 60" in await place.use("arena", MEMBER, prompt="why?", minutes=900)
        assert "Two hidden bots are answering" in await place.use("arena", MEMBER, prompt=" why? ", minutes=60)
        assert "already running in this channel" in await place.use("arena", MEMBER, prompt="why not?")
        (arena,) = await place.state.coordination.arenas.all()
        assert (arena.channel_id, arena.question, arena.minutes, arena.asked_by) == (LOUNGE, "why?", 60, BOB)


async def test_no_arena_is_opened_where_nobody_may_answer():
    async with a_place(IGNORE_ROLE_IDS="7") as place:
        await place.link.commands.set(keys.PERSONAS_OWNER, "here")
        assert "ignore you" in await place.use("arena", Person(BOB, frozenset({7})), prompt="x")
        assert "empty" in await place.use("arena", prompt="  ")
        await place.silence.stop(Scope.channel(LOUNGE), source="m1")
        assert "are stopped in" in await place.use("arena", prompt="x")
        assert "are stopped in" in await place.use("arena", prompt="x", channel=THREAD, parent=LOUNGE)
        assert await place.state.coordination.arenas.all() == []


# other servers


async def test_what_happens_in_another_server_is_neither_shown_nor_begun_from_here():
    async with a_place() as place:
        place.guilds[DEBATE] = 2
        await place.silence.stop(Scope.channel(DEBATE), 7200.0, source="m1")
        assert f"<#{DEBATE}>" not in await place.use("bots status")
        assert "isn't a channel of the bots" in await place.use("bots start", channel_=str(DEBATE))
        place.guilds.clear()  # what this bot does not see is this server's where the owner named no other
        assert f"<#{DEBATE}>" in await place.use("bots status")
        place.services.chats.scope = replace(place.services.chats.scope, guild_ids=frozenset({GUILD, 2}))
        assert f"<#{DEBATE}>" not in await place.use("bots status")


A_ROOM = 10**17


def files_in(folder: Path) -> dict[str, Any]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


async def everything_kept(place: Place, folder: Path) -> dict[str, Any]:
    """Return all of Redis, and all files of personas."""
    redis = place.link.commands
    read_as = {b"string": redis.get, b"hash": redis.hgetall, b"set": redis.smembers}
    kept: dict[str, Any] = files_in(folder)
    for key in await redis.keys("*"):
        kind = await redis.type(key)
        reading = read_as.get(kind.encode() if isinstance(kind, str) else kind)
        kept[key] = await (reading(key) if reading else redis.zrange(key, 0, -1, withscores=True))
    kept |= {f"{keys.SILENCE}:{field}": order for field, order in kept.pop(keys.SILENCE, {}).items()}
    return kept


@pytest.mark.promise(552)
@pytest.mark.parametrize("reach", ["channel", "server", "everywhere"])
async def test_a_manager_of_another_server_changes_nothing_in_this_one(personas: Path, reach: str):
    (personas / "ada").mkdir()
    (personas / "ada" / "soul.md").write_text("Ada\n")
    forms = (SAVED, f"{FORM} agent", f"{FORM} room", f"{MENU} room")
    aimed_here = {**FILLED, "name": "Ada", "room": str(A_ROOM), "channel_": str(LOUNGE), "place": reach}
    aimed_here |= {"topic": "t", "personas": "Claude, Grok", "turns": 3, "id": "agent:ada:x"}
    own = (
        f":{DEBATE}",
        f"{keys.SILENCE}:-",
        "coordinator:forgotten",
    )  # the channel of the command, and who wants to be forgotten
    async with a_place(personas) as place:
        place.guilds[DEBATE] = 2
        place.services.chats.scope = replace(place.services.chats.scope, guild_ids=frozenset({GUILD, 2}))
        await place.has(a_room(A_ROOM))
        await place.silence.stop(Scope.channel(LOUNGE), 7200.0, source="m1")
        await place.silence.stop(Scope.agent("grok"), 600.0)
        await place.silence.stop(Scope.person(BOB))
        await place.live.set(in_guild(GUILD), ALL, "stream", False)
        orders = place.coordinator("done")
        before = await everything_kept(place, personas)
        for command in (*every_command(), *forms):
            await place.use(command, MANAGER, channel=DEBATE, guild=2, **aimed_here)
            after = await everything_kept(place, personas)
            changed = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
            changed = [key for key in changed if not str(key).startswith(f"{keys.SILENCE}:g:2/")]
            ours = [key for key in changed if not str(key).endswith(own)]
            assert ours == [] or (command == "config set" and ours == ["coordinator:live_options"]), command
            before = after
        assert orders == []
        assert place.live.layer(in_guild(GUILD), ALL) == {"stream": False}
        assert not place.live.layer(in_channel(LOUNGE), "grok")
        assert not place.live.layer(EVERYWHERE, "grok")


# reset


@pytest.mark.promise(41)
async def test_what_everybody_said_is_cleared_by_who_may_manage_messages_alone():
    async with a_place() as place:
        assert await place.use("reset", MEMBER) == TEXTS["message_managers_only"]
        assert await place.use("reset", MEMBER, agent="grok") == TEXTS["message_managers_only"]
        assert await place.services.state.context.resets.since("grok", LOUNGE) == 0
        assert "starts fresh" in await place.use("reset", Person(BOB, manages_messages=True))


async def test_anybody_may_reset_what_is_theirs():
    async with a_place(ALLOW_DMS="true") as place:
        assert "I'm starting fresh" in await place.use("reset", MEMBER, channel=DIRECT, guild=None)
        assert await place.services.state.context.resets.since("grok", DIRECT) > 0


async def test_a_reset_is_for_one_agent_or_all_and_for_this_channel_alone():
    async with a_place() as place:
        for name in NAMES:
            await place.state.context.sessions.keep(name, LOUNGE, {"id": "s"})
            await place.state.context.sessions.keep(name, DEBATE, {"id": "d"})
        await place.use("reset", agent="grok")
        resets = place.services.state.context.resets
        assert (await resets.since("grok", LOUNGE), await resets.since("claude", LOUNGE)) == (1, 0)
        assert await place.state.context.sessions.read("grok", LOUNGE) is None
        assert await place.state.context.sessions.read("claude", LOUNGE) == {"id": "s"}
        await place.use("reset")
        assert (await resets.since("grok", LOUNGE), await resets.since("claude", LOUNGE)) == (2, 2)
        assert await resets.since("claude", DEBATE) == 0
        assert await place.state.context.sessions.read("claude", DEBATE) == {"id": "d"}
