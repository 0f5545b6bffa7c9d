"""People in a room, over the whole program: whom they name, whom they call, what the thread tells them."""

import asyncio
import shutil
from datetime import datetime

import pytest

from agentic.local.discord.world import PUBLIC_THREAD
from tests.flows.test_commands_flow import ready, told
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.redis_server import RedisServer, until

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


@pytest.mark.promise(631)
async def test_a_reply_to_a_notice_calls_nobody_even_after_an_edit(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=BOTS) as runtime:
        await ready(f)
        thread = await opened(f, personas="Claude, ChatGPT", policy="moderated", turns=50)
        await f.discord.wait_for(lambda: lines(f, thread))
        notice = next(message for message in f.discord.messages(thread.id) if message["content"].startswith("🫥"))
        said = int((await f.discord.say("Bob", thread.id, "Milk matters.", reply_to=int(notice["id"])))["id"])
        await until(lambda: runtime.services.agents.person_notices.has_noted(said))
        await f.discord.edit(thread.id, said, "Milk matters most.")
        other = next(name for name in ("Claude", "ChatGPT") if name != notice["author"]["username"])
        for number, question in enumerate(("what do you say?", "and why?"), 2):
            await f.discord.say("Alice", thread.id, f"{other}, {question}")
            await f.discord.wait_for(lambda number=number: len(speakers(f, thread)) == number)
        assert speakers(f, thread) == ["Claude", other, other]


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


@pytest.mark.promise(600)
async def test_what_people_asked_a_room_while_the_program_was_down_is_answered_once(tmp_path):
    slow = {"COORDINATOR_TURN_DELAY_MIN": "60", "COORDINATOR_TURN_DELAY_MAX": "60"}
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, **slow) as f:
            async with f.running(agents=BOTS):
                await ready(f)
                thread = await opened(f, personas="Claude, ChatGPT", turns=50)
                await f.discord.wait_for(lambda: speakers(f, thread) == ["Claude"])
            for text in ("lol", "Who pays for it?", "ChatGPT, since when?"):
                await f.discord.say("Bob", thread.id, text)
            for _ in range(2):
                async with f.running(agents=BOTS) as runtime:
                    await f.discord.wait_for(lambda: len(speakers(f, thread)) == 2)
                    await room_is(runtime, thread, lambda room: room.turn_number == 2)
                    assert speakers(f, thread) == ["Claude", "ChatGPT"]
            (asked,) = [r for r in f.models.requests if TOPIC in r.system and "since when" in r.tail]
            assert "Who pays for it?" in asked.tail


@pytest.mark.promise(604)
async def test_what_a_room_has_answered_stays_answered_after_its_end_and_a_restart(tmp_path):
    slow = {"COORDINATOR_TURN_DELAY_MIN": "60", "COORDINATOR_TURN_DELAY_MAX": "60"}
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, **slow) as f:
            async with f.running(agents=BOTS) as runtime:
                await ready(f)
                thread = await opened(f, personas="Claude, ChatGPT", turns=50)
                await f.discord.wait_for(lambda: speakers(f, thread) == ["Claude"])
                asked = int((await f.discord.say("Bob", thread.id, "Who pays for it?"))["id"])
                await room_is(runtime, thread, lambda room: room.turn_number == 2)
                await told(f, await f.discord.interact("Alice", thread.id, "chatgpt", "room close", {}))
                await f.discord.wait_for(lambda: thread.archived)
                await told(f, await f.discord.interact("Alice", thread.id, "chatgpt", "room resume", {}))
                await f.discord.wait_for(lambda: not thread.archived)
            async with f.running(agents=BOTS) as runtime:
                await ready(f)
                conversations = runtime.services.state.coordination.conversations
                async with asyncio.timeout(30):
                    while (running := await conversations.read(thread.id)) is None or not running.talk.known(asked):  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
                turns = len(speakers(f, thread))
                await told(f, await f.discord.interact("Alice", thread.id, "chatgpt", "room next", {}))
                await f.discord.wait_for(lambda: len(speakers(f, thread)) > turns)
            requests = [r for r in f.models.requests if TOPIC in r.system and "Who pays for it?" in r.tail]
            assert len(requests) == 1, [r.tail for r in requests]


@pytest.mark.promise(588)
async def test_hecklers_take_no_turn_and_what_people_ask_or_like_gets_an_answer_by_name(tmp_path):
    slow = {"COORDINATOR_TURN_DELAY_MIN": "60", "COORDINATOR_TURN_DELAY_MAX": "60"}
    async with flow(tmp_path, **slow) as f, f.running(agents=(*BOTS, "grok")) as runtime:
        await ready(f)
        await f.discord.add_person("Carol")
        thread = await opened(f, personas="Claude, ChatGPT, Grok", turns=50)
        await f.discord.wait_for(lambda: speakers(f, thread) == ["Claude"])
        for text in ("hi", "lol", "pizza"):
            await f.discord.say("Bob", thread.id, text)
        remark = await f.discord.say("Bob", thread.id, "Sorting is easy, though.")
        await f.discord.say("Alice", thread.id, "grok, since when")
        await f.discord.say("Alice", thread.id, "And Grok, who says so?")
        await f.discord.wait_for(lambda: len(speakers(f, thread)) == 2)
        await room_is(runtime, thread, lambda room: room.turn_number == 2)
        assert speakers(f, thread) == ["Claude", "Grok"]
        for person in ("Bob", "Alice"):
            await f.discord.react(person, thread.id, int(remark["id"]), "👍")
        await f.discord.react("Carol", thread.id, int(remark["id"]), "🔥")
        await f.discord.wait_for(lambda: len(speakers(f, thread)) == 3)
        await room_is(runtime, thread, lambda room: room.turn_number == 3)
        asked = [request for request in f.models.requests if TOPIC in request.system]
        assert len(asked) == 3
        assert "Bob (audience): Sorting is easy, though." in asked[-1].tail
        assert "pizza" not in asked[-1].tail


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


async def test_a_member_whose_persona_is_renamed_answers_to_its_new_name(tmp_path):
    slow = {"COORDINATOR_TURN_DELAY_MIN": "60", "COORDINATOR_TURN_DELAY_MAX": "60"}
    write_personas(tmp_path)
    async with flow(tmp_path, **slow) as f, f.running(agents=BOTS, personas=True) as runtime:
        await ready(f)
        await f.discord.wait_for(lambda: set(SCEPTICS) <= set(runtime.personas.names))
        thread = await opened(f, personas="Claude, The Sceptic, Sceptic", turns=50)
        await f.discord.wait_for(lambda: speakers(f, thread) == ["Claude"])
        identity = tmp_path / "personas" / "sceptic" / "identity.md"
        identity.write_text(identity.read_text().replace("Sceptic", "Doubter"))
        await room_is(runtime, thread, lambda room: room.member("sceptic").shown == "Doubter")
        await f.discord.say("Bob", thread.id, "Doubter, how so?")
        await f.discord.wait_for(lambda: speakers(f, thread) == ["Claude", "Doubter"])


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


async def test_a_topic_has_names_for_what_it_mentions_and_its_links_lead_where_they_should(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=BOTS) as runtime:
        await ready(f)
        role = next(role.id for role in f.world.guild.roles.values() if role.name == "ChatGPT")
        bob, alice = f.world.user("Bob").id, f.world.user("Alice").id
        users = f"<@{f.user_id('claude')}>, <@{bob}>, <@!{alice}>, or <@12345678901234567>"
        link = "https://example.com/a_b_c"
        topic = f"{users}? <@&{role}> <#{f.channel('casual')}> <#1234567890123456> <a:hm:123456789012345> {link} a_b"
        thread = await opened(f, topic=topic, personas="Claude, ChatGPT", turns=2)
        named = f"Claude, Bob, Alice, or @someone? @ChatGPT #casual #channel :hm: {link} a_b"
        assert (await runtime.services.state.coordination.rooms.read(thread.id)).topic == thread.name == named
        await f.discord.wait_for(lambda: thread.archived)
        shown = named.replace("#", "\\#").replace("a_b_c a_b", "a_b_c a\\_b")
        assert f.said("debate")[0].startswith(f"**{shown}**: Claude and ChatGPT discuss this")
        assert f"**{shown}**" in lines(f, thread)[-1]
        proposed = {"topic": f"Is <@{bob}> or <@{f.user_id('claude')}> right?"}
        await told(f, await f.discord.interact("Bob", "debate", "chatgpt", "debate", proposed))
        await f.discord.wait_for(lambda: any("Is Bob or Claude right?" in text for text in f.said("debate")))


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


async def test_the_bot_that_posts_for_a_persona_types_while_it_thinks(tmp_path):
    write_personas(tmp_path, {"sceptic": "Sceptic", "poet": "Poet"})
    async with flow(tmp_path) as f, f.running(agents=BOTS, personas=True) as runtime:
        await ready(f)
        await f.discord.wait_for(lambda: {"sceptic", "poet"} <= set(runtime.personas.names))
        thinks = asyncio.Event()

        async def after_a_while(request):
            await thinks.wait()
            return plain(request)

        thread = await opened(f, personas="Sceptic, Poet", turns=2)
        plain, f.models.answer = f.models.answer, after_a_while
        typing = f"/channels/{thread.id}/typing"
        await f.discord.wait_for(lambda: any(typing in request.path for request in f.discord.requests))
        thinks.set()
        await f.discord.wait_for(lambda: len(speakers(f, thread)) == 2)


async def test_a_room_s_pace_is_the_time_between_two_turns(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=BOTS) as runtime:
        await ready(f)
        thread = await opened(f, personas="Claude, ChatGPT", turns=4, pace="1h")
        await f.discord.wait_for(lambda: lines(f, thread))
        (line,) = lines(f, thread)
        room = await runtime.services.state.coordination.rooms.read(thread.id)
        assert line.startswith(f"🫥 ChatGPT speaks next, <t:{round(room.next_turn_at)}:R>")
        posted = datetime.fromisoformat(
            next(m["timestamp"] for m in f.discord.messages(thread.id) if "Point" in m["content"])
        )
        assert 3590 < room.next_turn_at - posted.timestamp() < 3660
        status = await told(f, await f.discord.interact("Bob", thread.id, "chatgpt", "room status", {}))
        assert f"the next turn is <t:{round(room.next_turn_at)}:R>" in status
        assert speakers(f, thread) == ["Claude"]
        await told(f, await f.discord.interact("Alice", thread.id, "chatgpt", "room next", {}))
        await f.discord.wait_for(lambda: speakers(f, thread) == ["Claude", "ChatGPT"])


async def test_a_pace_in_seconds_is_kept(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=BOTS):
        await ready(f)
        thread = await opened(f, personas="Claude, ChatGPT", turns=2, pace="2")
        await f.discord.wait_for(lambda: len(speakers(f, thread)) == 2)
        at = [datetime.fromisoformat(m["timestamp"]) for m in f.discord.messages(thread.id) if "Point" in m["content"]]
        assert (at[1] - at[0]).total_seconds() >= 1.9
