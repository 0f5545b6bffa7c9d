"""What happens around a room and in an arena, over the whole program: said once, counted right, also over a restart."""

import json
import re
import time
from functools import partial

import pytest

from agentic.local.discord.world import PUBLIC_THREAD
from agentic.local.person import BrowserPerson
from agentic.rooms.judge import CRITERIA
from agentic.runtime.services import cheap_model
from tests.flows.test_commands_flow import ready
from tests.flows.test_room_people_flow import write_personas
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.recorded import recorded
from tests.support.redis_server import RedisServer, until

AS_A_SERVER = {"personas": True, "make_cheap": partial(cheap_model, free_at_home=False)}


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
        assert f"**Most votes**: {post['author']['username']}, 1 vote" in cards[0]
        assert len([text for text in texts(f, thread) if "This room is paused" in text]) == 1
        assert f.discord.unknown_requests == []


def report_or_point(f):
    """What the models say: the card's texts, the judge's verdict, or a post."""
    count = iter(range(1000))

    def answer(request):
        if "You report on a debate" in request.system:
            texts = {"arguments": ["claude: seeds"], "agreed": ["It is red."], "unsettled": ["Who decides?"]}
            return json.dumps({"positions": {"claude": "It is a fruit."}, **texts})
        if "You judge a debate" in request.system:
            points = {name: dict.fromkeys(CRITERIA, score) for name, score in (("claude", 8), ("sceptic", 6))}
            return json.dumps({"scores": points, "verdict": "Claude answered the seeds."})
        return decision(f"Point {next(count)}.")

    f.models.answer = answer


async def test_everybody_in_the_thread_can_save_a_page_with_the_last_post_the_votes_and_the_card(tmp_path):
    write_personas(tmp_path, {"sceptic": "Sceptic"})
    async with flow(tmp_path, CHEAP_MODEL="google/gemini-3.8-flash") as f, f.running(**AS_A_SERVER) as runtime:
        await ready(f)
        await f.discord.wait_for(lambda: "sceptic" in runtime.personas.names)
        report_or_point(f)
        options = {"topic": "Is a tomato a fruit?", "personas": "Claude, Sceptic", "turns": 4, "judge": "Gemini"}
        assert "The room is open" in await use(f, "room create", options)
        await f.discord.wait_for(lambda: thread_of(f) and any("Point 1." in text for text in texts(f, thread_of(f))))
        thread = thread_of(f)
        post = next(message for message in f.discord.messages(thread.id) if message["content"] == "Point 1.")
        await f.discord.react("Bob", thread.id, int(post["id"]), "👍")
        await f.discord.wait_for(lambda: any("This room is closed" in text for text in texts(f, thread)))
        used = await f.discord.interact("Bob", thread.id, "chatgpt", "room export", {"format": "md"})
        await f.discord.wait_for(lambda: used.answers)
        (file,) = used.answers[0]["attachments"]
        page = f.world.attachments[int(file["id"])].content.decode()
        card = next(text for text in texts(f, thread) if "This room is closed" in text)
        assert "**The judge**, Gemini (google/" in card
        assert "Claude 8, Sceptic 6. Claude answered the seeds." in card
        assert "**Agreed**: It is red.\n\n**Still open**: Who decides?" in card
        assert all(f"> Point {number}." in page for number in range(4))
        assert "- **Sceptic**: openai/gpt-5.4-nano, 1 vote" in page
        (claude,) = re.findall(r"- \*\*Claude\*\*: (.*)", page)
        assert claude == "anthropic/claude-haiku-5-5", "the cheap model wrote no post"
        assert "/room export" in card
        assert "/room export" not in page
        assert page.index("> Point 3.") < page.index("> **This room is closed** after 4 turns")
        assert "Claude answered the seeds." in page


def polls_in(f, thread):
    return [message for message in f.discord.messages(thread.id) if message.get("poll")]


async def test_people_answer_before_and_after_and_the_card_says_who_moved_them(tmp_path):
    async with flow(tmp_path, CHEAP_MODEL="google/gemini-3.8-flash") as f, f.running(**AS_A_SERVER):
        await ready(f)
        report_or_point(f)
        debate = {"topic": "Is a tomato a fruit?", "personas": "Claude, Grok", "turns": 2, "format": "debate"}
        assert "The room is open" in await use(f, "room create", {**debate, "poll": True, "pace": "slow"})
        await f.discord.wait_for(lambda: thread_of(f) and polls_in(f, thread_of(f)))
        thread = thread_of(f)
        await f.discord.wait_for(lambda: any("Point 0." in text for text in texts(f, thread)))
        (first,) = polls_in(f, thread)
        assert first["poll"]["question"]["text"] == "Is a tomato a fruit? Where do you stand?"
        for who, answer in (("Alice", "For"), ("Bob", "Undecided")):
            await f.discord.vote(who, thread.id, first, answer)
        await use(f, "room next", {}, channel=thread.id)
        await f.discord.wait_for(lambda: len(polls_in(f, thread)) == 2)
        assert polls_in(f, thread)[0]["poll"]["results"]["is_finalized"]
        second = int(polls_in(f, thread)[1]["id"])
        for who in ("Alice", "Bob"):  # as on the console's page in local mode
            await BrowserPerson(f.discord, who, (), {}, {}).vote(thread.id, second, "Against", given=True)
        await use(f, "room next", {}, channel=thread.id)
        await f.discord.wait_for(lambda: thread.archived)
        card = next(text for text in texts(f, thread) if "This room is closed" in text)
        assert "**Who moved the room**: against won over 2 people, for lost 1 (of 2 people who" in card
        await until(lambda: recorded(tmp_path, "SELECT 1 FROM contenders"))
        rows = recorded(tmp_path, "SELECT agent, side, moved FROM contenders ORDER BY agent")
        assert [tuple(row) for row in rows] == [("claude", "for", -1), ("grok", "against", 2)]
        assert len(polls_in(f, thread)) == 2
        assert all(each["poll"]["results"]["is_finalized"] for each in polls_in(f, thread))
        assert f.discord.unknown_requests == []


async def test_members_of_a_later_room_read_what_came_of_the_first(tmp_path):
    async with flow(tmp_path, CHEAP_MODEL="google/gemini-3.8-flash") as f, f.running(**AS_A_SERVER):
        await ready(f)
        report_or_point(f)
        options = {"topic": "Is a tomato a fruit?", "personas": "Claude, Grok", "turns": 2}
        assert "The room is open" in await use(f, "room create", options)
        await f.discord.wait_for(lambda: thread_of(f) and thread_of(f).archived)
        await until(lambda: recorded(tmp_path, "SELECT 1 FROM room_conclusions"))
        first, speak = thread_of(f), f.models.answer

        def look_first(request):
            if "thread_read" in request.tools and not request.results:
                return Answer(text="", calls=(("thread_read", json.dumps({"query": "tomatoes"})),))
            return speak(request)

        f.models.answer = look_first
        assert "The room is open" in await use(f, "room create", {**options, "topic": "Tomatoes, again?"})
        threads = [each for each in f.world.guild.channels.values() if each.type == PUBLIC_THREAD and each is not first]
        await f.discord.wait_for(lambda: any("Point 3." in text for text in texts(f, threads[0])))
        results = [text for request in f.models.requests for _, text in request.results]
        assert any(
            "Is a tomato a fruit?" in text and "- claude: seeds\n- Agreed: It is red." in text for text in results
        )


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
