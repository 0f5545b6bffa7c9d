"""/room over the whole program: from a person's command to a debate in a thread, and over a restart in between."""

import logging

import pytest

from agentic.local.discord.dialogs import EPHEMERAL
from agentic.local.discord.world import PUBLIC_THREAD
from agentic.wire import keys
from tests.flows.test_commands_flow import ready, told
from tests.support.discord.faults import RestFault
from tests.support.flow import flow
from tests.support.recorded import recorded
from tests.support.redis_server import RedisServer

TOPIC = "Is P equal to NP?"
BOTS = ("chatgpt", "claude")


def threads(f):
    return [channel for channel in f.world.guild.channels.values() if channel.type == PUBLIC_THREAD]


async def create(f, **options):
    return await f.discord.interact("Alice", "debate", "chatgpt", "room create", {"topic": TOPIC, **options})


@pytest.fixture
def two_bots():
    return {"agents": BOTS}


async def test_a_person_opens_a_room_from_the_menu_and_its_members_debate_until_its_limit(tmp_path, two_bots):
    async with flow(tmp_path) as f, f.running(**two_bots) as runtime:
        await ready(f)
        asked = await create(f, turns=3)
        await f.discord.wait_for(lambda: asked.menu)
        assert threads(f) == []
        chosen = await f.discord.choose(asked, "claude", "chatgpt")
        await f.discord.wait_for(lambda: chosen.answers and threads(f))
        (thread,) = threads(f)
        assert chosen.answers[0]["content"].startswith(f"The room is open: <#{thread.id}>")
        assert chosen.answers[0]["flags"] & EPHEMERAL
        (opening,) = f.said("debate", "chatgpt")
        assert opening.startswith(f"**{TOPIC}**: Claude and ChatGPT discuss this in the thread")
        assert thread.name == TOPIC
        said = lambda: [m for m in f.discord.messages(thread.id) if "saw" in m["content"]]  # noqa: E731
        await f.discord.wait_for(lambda: len(said()) == 3)
        assert [m["author"]["username"] for m in said()] == ["Claude", "ChatGPT", "Claude"]
        rooms = runtime.services.state.coordination.rooms
        status = await told(f, await f.discord.interact("Bob", thread.id, "chatgpt", "room status", {}))
        assert "**Members**: Claude and ChatGPT" in status
        assert (await rooms.read(thread.id)).turn_number == 3
        assert f"<#{thread.id}>" in await told(f, await f.discord.interact("Bob", "debate", "chatgpt", "room list", {}))


@pytest.mark.promise(270)
async def test_a_room_whose_thread_discord_refused_is_opened_by_the_next_start_once(tmp_path, two_bots):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            f.discord.faults.add(RestFault("POST", "/threads$", 400, times=None))
            async with f.running(**two_bots):
                await ready(f)
                answer = await told(f, await create(f, personas="ChatGPT, Claude", turns=2))
                assert "15 minutes" in answer
            assert threads(f) == []
            f.discord.faults.clear()
            async with f.running(**two_bots) as runtime:
                await f.discord.wait_for(lambda: threads(f))
                (thread,) = threads(f)
                await f.discord.wait_for(lambda: f.discord.messages(thread.id)[1:])
                assert len(f.said("debate", "chatgpt")) == 1
                assert await runtime.services.state.coordination.room_openings.of("chatgpt") == []


async def test_a_thread_that_a_moderator_archives_pauses_its_room(tmp_path, two_bots, caplog):
    caplog.set_level(logging.INFO)
    slow = {"COORDINATOR_TURN_DELAY_MIN": "60", "COORDINATOR_TURN_DELAY_MAX": "60"}
    async with flow(tmp_path, **slow) as f, f.running(**two_bots) as runtime:
        await ready(f)
        await told(f, await create(f, personas="claude, chatgpt", turns=100))
        (thread,) = threads(f)
        await f.discord.wait_for(lambda: f.said(thread.id, "claude"))  # a turn under way would fail
        await f.discord.change_channel(thread.id, archived=True, locked=True)
        await f.discord.wait_for(lambda: f"room {thread.id} is locked: room_paused" in caplog.text)
        room = await runtime.services.state.coordination.rooms.read(thread.id)
        assert (room.status, room.why) == ("paused", "locked")


@pytest.mark.promise(274)
async def test_a_room_whose_thread_was_archived_while_the_program_was_down_goes_on(tmp_path, two_bots):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            slow = f.settings.with_(turn_delay_min=60.0, turn_delay_max=60.0)
            async with f.running(settings=slow, **two_bots):
                await ready(f)
                await told(f, await create(f, personas="claude, chatgpt", turns=3))
                (thread,) = threads(f)
                await f.discord.wait_for(lambda: f.said(thread.id, "claude"))
            await f.discord.change_channel(thread.id, archived=True)
            async with f.running(**two_bots) as runtime:
                closed = lambda: any("This room is closed" in m["content"] for m in f.discord.messages(thread.id))  # noqa: E731
                await f.discord.wait_for(closed)
                room = await runtime.services.state.coordination.rooms.read(thread.id)
                assert (room.turn_number, room.why) == (3, "turn_limit")


ROOM_ROWS = {"conversations.channel_id", "rooms.thread_id", "room_messages.thread_id", "room_conclusions.thread_id"}


def rows_about(folder, channel_id):
    """The history's tables, with the column, that have rows about a channel."""
    columns = recorded(
        folder,
        "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND c.name IN ('thread_id', 'channel_id')",
    )
    found = {
        f"{table}.{key}": recorded(folder, f"SELECT 1 FROM {table} WHERE {key} = {channel_id}")  # noqa: S608
        for table, key in columns
    }
    return {name for name, rows in found.items() if rows}


async def room_keys_left(rooms, thread_id):
    """The keys about a room, of the coordinator and of agents."""
    kept = {keys.instructed(thread_id), *(keys.cooldown(agent, thread_id) for agent in ("chatgpt", "claude"))}
    return {key async for page in rooms._link.scan(f"*:{thread_id}*") for key in page} - kept


async def test_a_thread_becomes_a_room_that_is_deleted_with_its_record(tmp_path, two_bots):
    async with flow(tmp_path) as f, f.running(**two_bots) as runtime:
        await ready(f)
        rooms = runtime.services.state.coordination.rooms
        thread = await f.discord.create_thread("Bob", "debate", "Tea")
        thread_id = int(thread["id"])

        async def use(command, who="Alice", channel=thread_id, **values):
            return await f.discord.interact(who, channel, "chatgpt", command, values)

        members = {"personas": "ChatGPT, Claude", "turns": 2}
        assert "Use this command in a thread" in await told(f, await use("room here", channel="debate", topic=TOPIC))
        assert (await told(f, await use("room here", topic=TOPIC, **members))).startswith("The room is open: <#")
        await f.discord.wait_for(lambda: any("is closed" in m["content"] for m in f.discord.messages(thread_id)))
        texts = [m["content"] for m in f.discord.messages(thread_id)]
        assert any(text.startswith(f"**{TOPIC}**: ChatGPT and Claude") for text in texts)
        assert f.said("debate") == ["Tea"], "Discord's message about the thread"
        await f.discord.wait_for(lambda: f.world.channel(thread_id).archived)  # py-cord forgets such threads
        assert "is a room already" in await told(f, await use("room here", channel=thread_id, topic=TOPIC, **members))
        asked = await use("room delete")
        await f.discord.wait_for(lambda: asked.menu)
        assert await told(f, await f.discord.choose(asked, "no")) == "I kept the room."
        assert await rooms.read(thread_id) is not None
        await f.discord.wait_for(lambda: not ROOM_ROWS - rows_about(tmp_path, thread_id))
        assert recorded(tmp_path, "SELECT id FROM contests") == [(f"room-{thread_id}",)]
        windows = {keys.window(agent, thread_id, "room") for agent in ("chatgpt", "claude")}
        assert await room_keys_left(rooms, thread_id) == {keys.room(thread_id), keys.room_marks(thread_id)} | windows
        asked = await use("room delete")
        await f.discord.wait_for(lambda: asked.menu)
        assert (await told(f, await f.discord.choose(asked, "yes"))).startswith(f"I deleted the room “{TOPIC}”")
        assert await rooms.list(limit=None) == []
        await f.discord.wait_for(lambda: not ROOM_ROWS & rows_about(tmp_path, thread_id))
        assert "turns.channel_id" in rows_about(tmp_path, thread_id), "what it cost is still counted"
        assert recorded(tmp_path, "SELECT id FROM contests") == []
        assert await room_keys_left(rooms, thread_id) == set()
        assert "open" in await told(f, await use("room here", topic=TOPIC, **members)), "the thread can be a room again"
        assert await told(f, await use("room list")) == "This server has no rooms yet. Use /room create to open one."
