"""People who leave the server or are banned while a debate runs: the room goes on, and what they deleted is gone. Bots
have no intent for members, so they aren't told."""

import asyncio

import pytest

from agentic.local.discord.world import PUBLIC_THREAD
from tests.flows.test_commands_flow import ready, told
from tests.flows.test_proposals_flow import TOPIC, proposed
from tests.flows.test_room_evening_flow import cards, debate, posts
from tests.flows.test_room_people_flow import lines, room_is
from tests.flows.test_rooms_flow import thread_of, use
from tests.support.flow import decision, flow
from tests.support.redis_server import RedisServer

BOTS = {"agents": ("chatgpt", "claude", "grok")}
SLOW = {"COORDINATOR_TURN_DELAY_MIN": "60", "COORDINATOR_TURN_DELAY_MAX": "60"}


async def next_turn(f, thread):
    await told(f, await f.discord.interact("Alice", thread.id, "chatgpt", "room next", {}))


async def opened(f, who="Alice", **options):
    """A room about tea, whose first post is out."""
    debate(f)
    values = {"topic": "Tea?", "personas": "Claude, ChatGPT", **options}
    assert "The room is open" in await told(
        f, await f.discord.interact(who, "debate", "chatgpt", "room create", values)
    )
    thread = next(place for place in f.world.guild.channels.values() if place.type == PUBLIC_THREAD)
    await f.discord.wait_for(lambda: posts(f, thread))
    return thread


async def slot_of(f, thread):
    """Wait for the audience's time, which comes after each member has spoken."""
    await next_turn(f, thread)
    await f.discord.wait_for(lambda: any("The floor is yours" in line for line in lines(f, thread)))


@pytest.mark.promise(613)
async def test_a_room_goes_on_when_people_who_asked_voted_or_opened_it_leave_and_one_is_banned(tmp_path):
    async with flow(tmp_path, **SLOW) as f:
        for name in ("Carol", "Dave"):
            await f.discord.add_person(name)
        settings = f.settings.with_(moderator_ids=(f.world.user("Bob").id,))
        async with f.running(settings=settings, **BOTS) as runtime:
            await ready(f)
            tea = await opened(f, who="Bob", turns=3, audience=60)
            for person in ("Bob", "Carol", "Dave"):
                await f.discord.react(person, tea.id, int(posts(f, tea)[0]["id"]), "👍")
            await slot_of(f, tea)
            await f.discord.say("Carol", tea.id, "ChatGPT, who pays for the milk?")
            for text in ("Claude, who buys the sugar?", "ChatGPT, since when?"):
                await f.discord.say("Dave", tea.id, text)
            await f.discord.leave("Bob")
            await f.discord.leave("Carol")
            await f.discord.leave("Dave", banned=True)

            await next_turn(f, tea)
            await f.discord.wait_for(lambda: len(posts(f, tea)) == 3)
            over = next(line for line in lines(f, tea) if "time is over" in line)
            assert "answer 1 message." in over
            asked = f.models.requests[-1]
            assert asked.provider == "openai"
            assert "Carol (audience): ChatGPT, who pays for the milk?" in asked.tail
            assert not any("sugar" in request.tail for request in f.models.requests)

            await f.discord.wait_for(lambda: any("to vote" in line for line in lines(f, tea)))
            await next_turn(f, tea)
            await f.discord.wait_for(lambda: tea.archived)
            (card,) = cards(f, tea)
            assert "**Most votes**: Claude, 3 votes (ChatGPT 0)" in card
            room = await runtime.services.state.coordination.rooms.read(tea.id)
            assert (room.status, room.why, room.turn_number) == ("closed", "turn_limit", 3)
            assert not any("couldn't take its turn" in line for line in lines(f, tea))
            said = [message for place in ("debate", tea.id) for message in f.discord.messages(place)]
            assert not any(message["mentions"] for message in said), "nobody is pinged"


@pytest.mark.promise(614)
@pytest.mark.parametrize("banned", [False, True])
async def test_a_question_deleted_while_a_member_thinks_isnt_answered_and_the_others_are(tmp_path, banned: bool):
    async with flow(tmp_path, **SLOW) as f, f.running(**BOTS) as runtime:
        await ready(f)
        tea = await opened(f, turns=3, audience=60)
        await slot_of(f, tea)
        removed = [await f.discord.say("Bob", tea.id, text) for text in ("Who buys the sugar?", "And since when?")]
        await f.discord.say("Alice", tea.id, "And who pours it?")
        thinking, may_answer, plain = asyncio.Event(), asyncio.Event(), f.models.answer

        async def think(request):
            thinking.set()
            await may_answer.wait()
            return plain(request)

        f.models.answer = think
        await next_turn(f, tea)
        await asyncio.wait_for(thinking.wait(), 30)
        assert "Who buys the sugar?" in f.models.requests[-1].tail
        if banned:
            await f.discord.leave("Bob", banned=True)
        else:
            await f.discord.delete(tea.id, int(removed[0]["id"]))
        transcript = runtime.services.chats.transcripts.of(tea.id)
        await f.discord.wait_for(lambda: int(removed[0]["id"]) in transcript.deleted)
        may_answer.set()
        await f.discord.wait_for(lambda: len(posts(f, tea)) == 3)
        asked = f.models.requests[-1].tail
        assert "Alice (audience): And who pours it?" in asked
        assert "sugar" not in asked
        assert ("And since when?" in asked) != banned


@pytest.mark.promise(614)
async def test_a_question_deleted_while_the_program_was_down_is_answered_and_counted_by_nobody(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, **SLOW) as f:
            async with f.running(**BOTS) as runtime:
                await ready(f)
                tea = await opened(f, turns=3, audience=60)
                await slot_of(f, tea)
                asked = await f.discord.say("Bob", tea.id, "Who buys the sugar?")
                conversations = runtime.services.state.coordination.conversations
                async with asyncio.timeout(30):
                    while not (await conversations.read(tea.id)).talk.known(int(asked["id"])):  # noqa: ASYNC110 - Redis knows
                        await asyncio.sleep(0.02)
            await f.discord.delete(tea.id, int(asked["id"]))
            async with f.running(**BOTS) as runtime:
                await ready(f)
                conversations = runtime.services.state.coordination.conversations
                async with asyncio.timeout(30):
                    while (await conversations.read(tea.id)).talk.heard:  # noqa: ASYNC110 - Redis knows
                        await asyncio.sleep(0.02)
                await next_turn(f, tea)
                await f.discord.wait_for(lambda: len(posts(f, tea)) == 3)
                await room_is(runtime, tea, lambda room: room.turn_number == 3)
            assert "A person has spoken" not in f.models.requests[-1].tail
            assert any("Nobody asked anything." in line for line in lines(f, tea))
            assert not any("couldn't take its turn" in line for line in lines(f, tea))


@pytest.mark.promise(615)
async def test_a_proposed_debate_begins_without_its_proposer_and_who_left_doesnt_count_as_wanting_it(tmp_path):
    async with flow(tmp_path, DEBATE_SUPPORTERS="2") as f, f.running():
        await ready(f)
        f.models.answer = lambda request: decision(f"Point {len(f.models.requests)} of {request.provider}.")
        for name in ("Carol", "Dave", "Erin"):
            await f.discord.add_person(name)
        await use(f, "debate", {"topic": TOPIC, "personas": "Claude, Grok"}, "Bob")
        message = await proposed(f)
        await f.discord.react("Bob", "debate", message["id"], "🎤")
        await f.discord.leave("Bob")
        looked = f.discord.counts["GET /guilds/{guild_id}/members/{user_id}"]
        await f.discord.react("Carol", "debate", message["id"], "🎤")
        await f.discord.wait_for(lambda: f.discord.counts["GET /guilds/{guild_id}/members/{user_id}"] >= looked + 2)
        await f.discord.leave("Carol", banned=True)
        await f.discord.react("Dave", "debate", message["id"], "🎤")
        await f.discord.wait_for(lambda: f.discord.counts["GET /guilds/{guild_id}/members/{user_id}"] >= looked + 5)
        assert thread_of(f) is None
        await f.discord.react("Erin", "debate", message["id"], "🎤")
        await f.discord.wait_for(lambda: thread_of(f))
        await f.discord.wait_for(lambda: posts(f, thread_of(f)))
        assert "Bob proposed this debate, and 2 people wanted it." in f.said("debate")[-1]
