"""What happens around a room and in an arena, over the whole program: said once, counted right, also over a restart."""

import time

import pytest

from agentic.local.discord.world import PUBLIC_THREAD
from tests.flows.test_commands_flow import ready
from tests.support.flow import decision, flow
from tests.support.redis_server import RedisServer


async def use(f, command, values, who="Alice", channel="debate"):
    """The line that the person sees."""
    used = await f.discord.interact(who, channel, "chatgpt", command, values)
    await f.discord.wait_for(lambda: used.answers)
    return used.answers[0]["content"]


def thread_of(f):
    """The thread of the room, None before there is one."""
    places = f.world.guild.channels.values()
    return next((place for place in places if place.type == PUBLIC_THREAD), None)


def texts(f, thread):
    return [message["content"] for message in f.discord.messages(thread.id)]


def offered(f):
    """How many reactions the newest message has."""
    return len(f.discord.messages("debate")[-1].get("reactions", ())) if f.said("debate") else 0


@pytest.mark.promise(230)
async def test_a_room_that_is_closed_gets_its_card_with_people_s_votes_and_is_archived(tmp_path):
    async with flow(tmp_path) as f, f.running():
        await ready(f)
        f.models.answer = lambda request: decision(f"{request.provider} has a point, number {len(f.models.requests)}.")
        await use(f, "room create", {"topic": "Is P equal to NP?", "personas": "Claude, Grok", "turns": 200})
        await f.discord.wait_for(lambda: thread_of(f) and any("has a point" in text for text in texts(f, thread_of(f))))
        thread = thread_of(f)
        await use(f, "room stop", {}, channel=thread.id)
        await f.discord.wait_for(lambda: any("This room is paused" in text for text in texts(f, thread)))
        assert not thread.archived
        post = next(message for message in f.discord.messages(thread.id) if "has a point" in message["content"])
        await f.discord.react("Alice", thread.id, int(post["id"]), "👍")
        await use(f, "room close", {}, channel=thread.id)
        await f.discord.wait_for(lambda: thread.archived)
        cards = [text for text in texts(f, thread) if "This room is closed" in text]
        assert len(cards) == 1
        assert f"👍 1, {post['author']['username']}" in cards[0]
        assert f"**Most convincing**: {post['author']['username']}, 1 vote" in cards[0]
        assert len([text for text in texts(f, thread) if "This room is paused" in text]) == 1
        assert f.discord.unknown_requests == []


@pytest.mark.promise(232)
async def test_an_arena_shows_its_names_after_the_time_also_over_a_restart(tmp_path):
    later = [0.0]
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            f.models.answer = lambda request: decision("It scatters.")
            async with f.running():
                await ready(f)
                assert "Two hidden bots" in await use(f, "arena", {"prompt": "Why is the sky blue?", "minutes": 1})
                assert "already running in this channel" in await use(f, "arena", {"prompt": "And the sea?"})
                await f.discord.wait_for(lambda: offered(f) == 2)
            shown = f.said("debate")
            assert [text.split("\n")[0] for text in shown[:2]] == ["🫥 🅰️", "🫥 🅱️"]
            assert all("It scatters." in text for text in shown[:2])
            await f.discord.react("Alice", "debate", f.discord.messages("debate")[-1]["id"], "🅱️")
            later[0] = 61.0
            async with f.running(clock=lambda: time.time() + later[0]):
                await f.discord.wait_for(lambda: "The arena is over" in f.said("debate")[-1])
            result = f.said("debate")[-1]
            assert len(f.said("debate")) == 4
            assert "wins" in result
            assert "): 0 votes\n🅱️" in result
            assert "): 1 vote\n" in result
