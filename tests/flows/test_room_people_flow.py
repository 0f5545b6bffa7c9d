"""People in a room, over the whole program: whom they name, whom they call, what the thread tells them."""

import asyncio
import shutil

import pytest

from agentic.local.discord.world import PUBLIC_THREAD
from tests.flows.test_commands_flow import ready, told
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.redis_server import RedisServer

BOTS = ("chatgpt", "claude")
TOPIC = "Is P equal to NP?"
SCEPTICS = {"sceptic": "Sceptic", "the-sceptic": "The Sceptic"}


def write_personas(tmp_path, names=SCEPTICS):
    for key, shown in names.items():
        folder = tmp_path / "personas" / key
        folder.mkdir(parents=True)
        (folder / "identity.md").write_text(
            f"---\ndisplay_name: {shown}\nmodel: openai/gpt-5.4-nano\n---\nYou doubt.\n"
        )


async def opened(f, channel="debate", **options):
    """The thread of a new room, whose posts all differ."""
    count = iter(range(1000))
    f.models.answer = lambda request: decision(f"Point {next(count)} of {request.provider}.")
    values = {"topic": TOPIC, **options}
    answer = await told(f, await f.discord.interact("Alice", channel, "chatgpt", "room create", values))
    assert "The room is open" in answer, answer
    return next(place for place in f.world.guild.channels.values() if place.type == PUBLIC_THREAD)


def lines(f, thread):
    """What the program says in a thread."""
    return [message["content"] for message in f.discord.messages(thread.id) if message["content"].startswith("🫥")]


def speakers(f, thread):
    posts = [message for message in f.discord.messages(thread.id) if message["content"].startswith("Point ")]
    return [message["author"]["username"] for message in posts]


async def room_is(runtime, thread, condition):
    """Wait until the room is so."""
    async with asyncio.timeout(60):
        while not condition(await runtime.services.state.coordination.rooms.read(thread.id)):  # noqa: ASYNC110 - Redis knows
            await asyncio.sleep(0.02)


async def test_people_name_the_next_speaker_of_their_room_in_every_way_that_they_would_try(tmp_path):
    write_personas(tmp_path)
    async with flow(tmp_path) as f, f.running(agents=BOTS, personas=True) as runtime:
        await ready(f)
        await f.discord.wait_for(lambda: set(SCEPTICS) <= set(runtime.personas.names))
        thread = await opened(f, personas="Claude, ChatGPT, Sceptic, The Sceptic", policy="moderated", turns=50)

        async def spoke(*names):
            await f.discord.wait_for(lambda: len(speakers(f, thread)) == len(names))
            assert speakers(f, thread) == list(names)

        said = ["Claude"]
        await spoke(*said)
        await f.discord.wait_for(lambda: lines(f, thread))
        role = next(role.id for role in f.world.guild.roles.values() if role.name == "ChatGPT")
        newest = lambda: int([m for m in f.discord.messages(thread.id) if m["content"].startswith("Point")][-1]["id"])  # noqa: E731
        for text, reply_to, speaker in (
            ("the sceptic, what do you say?", None, "The Sceptic"),
            ("And SCEPTIC?", None, "Sceptic"),
            (f"<@{f.user_id('claude')}> go on", None, "Claude"),
            (f"<@&{role}> your turn", None, "ChatGPT"),
            ("chat-gpt again, please", None, "ChatGPT"),
            ("the-sceptic", None, "The Sceptic"),
            ("why?", newest, "The Sceptic"),
            (f"<@{f.user_id('claude')}>", None, "Claude"),
            ("how so?", newest, "Claude"),
        ):
            await f.discord.say("Bob", thread.id, text, reply_to=reply_to() if reply_to else None)
            said.append(speaker)
            await spoke(*said)
        notice = next(message for message in f.discord.messages(thread.id) if message["content"].startswith("🫥"))
        await f.discord.say("Bob", thread.id, "sceptic then", reply_to=int(notice["id"]))
        await spoke(*said, "Sceptic")
        assert len(lines(f, thread)) == 1, "the room says once that it waits"
        assert "next" in lines(f, thread)[0]


async def test_a_name_that_fits_two_members_is_asked_for_in_full(tmp_path):
    write_personas(tmp_path, {"ada": "The Sceptic", "bea": "A Sceptic"})
    async with flow(tmp_path) as f, f.running(agents=BOTS, personas=True) as runtime:
        await ready(f)
        await f.discord.wait_for(lambda: {"ada", "bea"} <= set(runtime.personas.names))
        thread = await opened(f, personas="Claude, ada, bea", policy="moderated")
        await f.discord.wait_for(lambda: lines(f, thread))
        await f.discord.say("Bob", thread.id, "sceptic?")
        await f.discord.wait_for(lambda: len(lines(f, thread)) == 2)
        assert "The Sceptic" in lines(f, thread)[1]
        assert "A Sceptic" in lines(f, thread)[1]
        assert speakers(f, thread) == ["Claude"]


@pytest.mark.promise(546)
async def test_a_member_that_is_mentioned_answers_once_with_its_next_turn(tmp_path):
    slow = {"COORDINATOR_TURN_DELAY_MIN": "60", "COORDINATOR_TURN_DELAY_MAX": "60"}
    async with flow(tmp_path, **slow) as f, f.running(agents=(*BOTS, "grok", "gemini")) as runtime:
        await ready(f)
        thread = await opened(f, personas="Claude, ChatGPT, Grok", turns=50)
        await f.discord.wait_for(lambda: speakers(f, thread) == ["Claude"])
        await f.discord.say("Alice", thread.id, f"<@{f.user_id('grok')}> is that so?")
        await f.discord.wait_for(lambda: len(speakers(f, thread)) == 2)
        await room_is(runtime, thread, lambda room: room.turn_number == 2)
        assert speakers(f, thread) == ["Claude", "Grok"]
        await f.discord.say("Alice", thread.id, f"<@{f.user_id('gemini')}> and you, who are no member?")
        await f.discord.wait_for(lambda: "Gemini" in speakers(f, thread))
        room = await runtime.services.state.coordination.rooms.read(thread.id)
        assert speakers(f, thread).count("Grok") == 1
        assert (speakers(f, thread)[2:], room.turn_number) == (["Gemini"], 2)


@pytest.mark.promise(546)
async def test_a_member_that_was_mentioned_while_the_program_was_down_answers_once(tmp_path):
    slow = {"COORDINATOR_TURN_DELAY_MIN": "60", "COORDINATOR_TURN_DELAY_MAX": "60"}
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, **slow) as f:
            async with f.running(agents=BOTS):
                await ready(f)
                thread = await opened(f, personas="Claude, ChatGPT", turns=50)
                await f.discord.wait_for(lambda: speakers(f, thread) == ["Claude"])
            await f.discord.say("Alice", thread.id, f"<@{f.user_id('claude')}> still there?")
            for _ in range(2):
                async with f.running(agents=BOTS) as runtime:
                    await f.discord.wait_for(lambda: len(speakers(f, thread)) == 2)
                    await room_is(runtime, thread, lambda room: room.turn_number == 2)
                    assert speakers(f, thread) == ["Claude", "Claude"]


async def test_a_room_in_a_channel_of_pictures_is_a_debate_of_words_and_its_members_know_how_it_ends(tmp_path):
    async with flow(tmp_path, channels={"memes": "memes"}) as f, f.running(agents=BOTS):
        await ready(f)
        thread = await opened(f, "memes", personas="Claude, ChatGPT", turns=2, **{"goodbye-ends": True})
        await f.discord.wait_for(lambda: len(speakers(f, thread)) == 2)
        asked = [request for request in f.models.requests if TOPIC in request.system]
        assert asked
        for request in asked:
            assert "Theme: debate." in request.system
            assert "memes" not in request.system
            assert "Goodbye" in request.system


async def test_a_room_has_the_theme_that_it_was_opened_with(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=BOTS) as runtime:
        await ready(f)
        thread = await opened(f, personas="Claude, ChatGPT", turns=2, theme="science")
        await f.discord.wait_for(lambda: len(speakers(f, thread)) == 2)
        assert any("Theme: science." in request.system for request in f.models.requests)
        assert (await runtime.services.state.coordination.rooms.read(thread.id)).theme == "science"


@pytest.mark.promise(545)
async def test_a_member_whose_model_fails_is_named_once_and_once_more_when_it_leaves(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            async with f.running(agents=(*BOTS, "grok")) as runtime:
                await ready(f)
                thread = await opened(f, personas="Claude, ChatGPT, Grok", turns=10)
                plain = f.models.answer
                f.models.answer = lambda r: Answer(status=400) if r.provider == "xai" else plain(r)
                await f.discord.wait_for(lambda: any("/room add" in line for line in lines(f, thread)), 60)
                room = await runtime.services.state.coordination.rooms.read(thread.id)
                assert "grok" not in room.names
            async with f.running(agents=(*BOTS, "grok")):
                await f.discord.wait_for(lambda: any("closed" in line for line in lines(f, thread)), 60)
            about = [line for line in lines(f, thread) if "Grok" in line and "is closed" not in line]
            assert len(about) == 2, about


@pytest.mark.promise(547)
async def test_a_persona_that_was_deleted_while_its_room_was_paused_is_gone_with_one_line(tmp_path):
    write_personas(tmp_path)
    async with flow(tmp_path) as f, f.running(agents=BOTS, personas=True) as runtime:
        await ready(f)
        await f.discord.wait_for(lambda: set(SCEPTICS) <= set(runtime.personas.names))
        thread = await opened(f, personas="Sceptic, The Sceptic, Claude", turns=50)

        async def use(command):
            return await told(f, await f.discord.interact("Alice", thread.id, "chatgpt", command, {}))

        async def pause():
            assert "paused" in await use("room stop")
            await f.discord.wait_for(
                lambda: "This room is paused" in lines(f, thread)[-1] if lines(f, thread) else False
            )

        await f.discord.wait_for(lambda: speakers(f, thread))
        await pause()
        shutil.rmtree(tmp_path / "personas" / "the-sceptic")
        await f.discord.wait_for(lambda: "the-sceptic" not in runtime.personas.names, 30)
        assert "has resumed" in await use("room resume")
        await f.discord.wait_for(lambda: any("The Sceptic" in line for line in lines(f, thread)))
        assert (await runtime.services.state.coordination.rooms.read(thread.id)).names == ("sceptic", "claude")
        await pause()
        shutil.rmtree(tmp_path / "personas" / "sceptic")
        await f.discord.wait_for(lambda: "sceptic" not in runtime.personas.names, 30)
        assert "fewer than two" in await use("room resume")
        await f.discord.wait_for(lambda: "/room add" in lines(f, thread)[-1])
        assert len([line for line in lines(f, thread) if "deleted" in line]) == 2


@pytest.mark.promise(565)
async def test_a_member_whose_folder_is_deleted_leaves_its_running_room_at_once(tmp_path):
    write_personas(tmp_path)
    async with flow(tmp_path) as f, f.running(agents=BOTS, personas=True) as runtime:
        await ready(f)
        await f.discord.wait_for(lambda: set(SCEPTICS) <= set(runtime.personas.names))
        thread = await opened(f, personas="Sceptic, The Sceptic, Claude", turns=200)
        await f.discord.wait_for(lambda: len(speakers(f, thread)) > 3)
        shutil.rmtree(tmp_path / "personas" / "the-sceptic")
        await room_is(runtime, thread, lambda room: room.names == ("sceptic", "claude"))
        await f.discord.wait_for(lambda: lines(f, thread))
        (line,) = lines(f, thread)
        assert "The Sceptic" in line
        assert "deleted" in line


async def test_a_room_that_waits_for_a_name_says_until_when_in_its_status(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=BOTS) as runtime:
        await ready(f)
        thread = await opened(f, personas="Claude, ChatGPT", policy="moderated")
        await f.discord.wait_for(lambda: lines(f, thread))
        until = (await runtime.services.state.coordination.conversations.read(thread.id)).queue.waits_until
        status = await told(f, await f.discord.interact("Bob", thread.id, "chatgpt", "room status", {}))
        assert f"<t:{round(until)}:t>" in status


async def test_a_member_that_is_called_in_a_paused_room_answers_with_the_rooms_theme(tmp_path):
    slow = {"COORDINATOR_TURN_DELAY_MIN": "60", "COORDINATOR_TURN_DELAY_MAX": "60"}
    async with flow(tmp_path, channels={"memes": "memes"}, **slow) as f, f.running(agents=BOTS):
        await ready(f)
        thread = await opened(f, "memes", personas="Claude, ChatGPT")
        await f.discord.wait_for(lambda: speakers(f, thread) == ["Claude"])
        await told(f, await f.discord.interact("Alice", thread.id, "chatgpt", "room stop", {}))
        await f.discord.wait_for(lambda: lines(f, thread))
        await f.discord.say("Alice", thread.id, f"<@{f.user_id('claude')}> and now?")
        await f.discord.wait_for(lambda: speakers(f, thread) == ["Claude", "Claude"])
        assert "Theme: debate." in f.models.requests[-1].system


async def test_a_topic_names_the_bots_that_it_mentions(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=BOTS) as runtime:
        await ready(f)
        thread = await opened(f, topic=f"Is <@{f.user_id('claude')}> right?", personas="Claude, ChatGPT", turns=2)
        assert (
            (await runtime.services.state.coordination.rooms.read(thread.id)).topic == thread.name == "Is Claude right?"
        )


@pytest.mark.promise(529)
async def test_a_thread_that_was_deleted_while_the_program_was_down_is_said_to_be_deleted(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            async with f.running(agents=BOTS):
                await ready(f)
                thread = await opened(f, personas="Claude, ChatGPT", turns=200)
                await f.discord.wait_for(lambda: speakers(f, thread))
            await f.discord.delete_channel(thread.id)
            async with f.running(agents=BOTS) as runtime:
                await room_is(runtime, thread, lambda room: room.why == "deleted")
                await f.discord.wait_for(lambda: any("deleted" in text for text in f.said("debate")), 30)
            assert not any("can no longer write" in text for text in f.said("debate"))


async def test_closing_a_closed_room_says_that_it_is_closed(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=BOTS):
        await ready(f)
        thread = await opened(f, personas="Claude, ChatGPT", turns=2)
        await f.discord.wait_for(lambda: thread.archived)
        answer = await told(f, await f.discord.interact("Alice", thread.id, "chatgpt", "room close", {}))
        assert "already closed" in answer
        assert "first" not in answer
