"""An evening of debates: two rooms in a channel at once, people who come and go, a member that fails, and what it
costs."""

import itertools
import json
from functools import partial

import pytest

from agentic.local.discord.world import PUBLIC_THREAD
from agentic.rooms.judge import CRITERIA
from agentic.runtime.services import cheap_model
from agentic.text import dollars
from agentic.wire import keys
from tests.flows.test_commands_flow import ready, told
from tests.flows.test_room_people_flow import lines
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.recorded import recorded
from tests.support.redis_server import until

JUDGE = "google/gemini-3.8-flash"
THREE = {"agents": ("chatgpt", "claude", "grok"), "make_cheap": partial(cheap_model, free_at_home=False)}
CHEAP = {"CHEAP_MODEL": "google/gemini-3.8-flash", "BUDGET_DAILY_USD": "10"}


def threads(f):
    return {place.name: place for place in f.world.guild.channels.values() if place.type == PUBLIC_THREAD}


def posts(f, thread):
    return [message for message in f.discord.messages(thread.id) if message["content"].startswith("Point ")]


def cards(f, thread):
    return [line for line in lines(f, thread) if "This room is closed" in line]


def debate(f, output_tokens=2000, failing=None):
    """All posts differ; `failing` is a provider that returns errors."""
    count = iter(range(1000))

    def answer(request):
        if "You report on a debate" in request.system:
            text = json.dumps({"positions": {}, "arguments": ["claude: seeds"], "agreed": [], "unsettled": []})
        elif "You judge a debate" in request.system:
            sides = ("for", "against")
            text = json.dumps({"scores": {s: dict.fromkeys(CRITERIA, 7) for s in sides}, "verdict": "Both were fair."})
        elif "You keep the list of arguments" in request.system:
            text = json.dumps({"arguments": [{"by": "Claude", "claim": "It has seeds", "answered_by": ""}]})
        elif request.provider == failing:
            return Answer(status=400)
        else:
            text = decision(f"Point {next(count)} of {request.provider}.")
        return Answer(text=text, output_tokens=output_tokens)

    f.models.answer = answer


@pytest.mark.promise(605)
async def test_two_rooms_in_one_channel_keep_their_turns_questions_votes_and_money_apart(tmp_path):
    slow = {"COORDINATOR_TURN_DELAY_MIN": "0.3", "COORDINATOR_TURN_DELAY_MAX": "0.3"}
    async with flow(tmp_path, **CHEAP, **slow) as f, f.running(**THREE) as runtime:
        await ready(f)
        debate(f, failing="xai")
        for topic, members, turns in (("Tea?", "Claude, ChatGPT", 8), ("Cars?", "ChatGPT, Grok, Claude", 9)):
            values = {"topic": topic, "personas": members, "turns": turns, "format": "debate", "judge": JUDGE}
            opened = await told(f, await f.discord.interact("Alice", "debate", "chatgpt", "room create", values))
            assert "The room is open" in opened
        tea, cars = threads(f)["Tea?"], threads(f)["Cars?"]
        await f.discord.wait_for(lambda: posts(f, tea) and posts(f, cars))
        await f.discord.say("Bob", tea.id, "ChatGPT, who pays for the milk?")
        await f.discord.say("Alice", cars.id, "lol")
        await f.discord.react("Bob", cars.id, int(posts(f, cars)[0]["id"]), "👍")
        await f.discord.wait_for(lambda: tea.archived and cars.archived, 90)

        texts = [post["content"] for thread in (tea, cars) for post in posts(f, thread)]
        assert len(texts) == len(set(texts))
        rooms = {room.topic: room for room in await runtime.services.state.coordination.rooms.list(limit=None)}
        for thread in (tea, cars):
            room = rooms[thread.name]
            assert (room.status, room.why, room.turn_number) == ("closed", "turn_limit", room.turns)
            assert len(posts(f, thread)) == room.turns
            assert len(cards(f, thread)) == 1
        asked = [request for request in f.models.requests if "who pays for the milk?" in request.tail]
        assert asked
        assert all("Tea?" in request.system for request in asked)
        assert "**Nobody voted**" in cards(f, tea)[0]
        assert "**Most convincing**: ChatGPT, 1 vote (Claude 0, Grok 0)" in cards(f, cars)[0]

        gone = next(line for line in lines(f, cars) if "has left the room" in line)
        assert gone.endswith("Nobody is against it now.")
        speakers = [post["author"]["username"] for post in posts(f, cars)]
        assert all(one != other for one, other in itertools.pairwise(speakers)), "the order continues after who left"

        calls = len(f.models.requests)
        await until(lambda: len(recorded(tmp_path, "SELECT 1 FROM calls")) == calls)
        ((whole,),) = recorded(tmp_path, "SELECT SUM(cost_usd) FROM turns")
        budgets = runtime.services.state.turns._link
        (day,) = await budgets.call(lambda redis: redis.keys(keys.budget("*")))
        spent = await budgets.call(lambda redis: redis.hgetall(day))
        held = await budgets.call(lambda redis: redis.hgetall(f"{day}:holds"))
        assert (int(spent["all"]), held) == (round(whole * 1_000_000), {})
        for thread in (tea, cars):
            ((cost,),) = recorded(tmp_path, f"SELECT SUM(cost_usd) FROM turns WHERE channel_id = {thread.id}")  # noqa: S608 - our own number
            status = await told(f, await f.discord.interact("Alice", thread.id, "chatgpt", "room status", {}))
            assert f"**Cost so far**: {dollars(cost)}" in status


async def test_a_question_that_its_author_deleted_before_the_turn_is_answered_by_nobody(tmp_path):
    slow = {"COORDINATOR_TURN_DELAY_MIN": "60", "COORDINATOR_TURN_DELAY_MAX": "60"}
    async with flow(tmp_path, **slow) as f, f.running(**THREE):
        await ready(f)
        debate(f)
        values = {"topic": "Tea?", "personas": "Claude, ChatGPT", "turns": 4, "audience": 60}
        await told(f, await f.discord.interact("Alice", "debate", "chatgpt", "room create", values))
        tea = threads(f)["Tea?"]
        await f.discord.wait_for(lambda: posts(f, tea))
        await told(f, await f.discord.interact("Alice", tea.id, "chatgpt", "room next", {}))
        await f.discord.wait_for(lambda: any("The floor is yours" in line for line in lines(f, tea)))
        left = await f.discord.say("Bob", tea.id, "ChatGPT, who pays for the milk?")
        await f.discord.say("Alice", tea.id, "And who pours it?")
        await f.discord.delete(tea.id, int(left["id"]))
        await told(f, await f.discord.interact("Alice", tea.id, "chatgpt", "room next", {}))
        await f.discord.wait_for(lambda: len(posts(f, tea)) == 3)
        assert "answer 1 message." in next(line for line in lines(f, tea) if "time is over" in line)
        assert "Alice (audience): And who pours it?" in f.models.requests[-1].tail
        assert not any("milk" in request.tail for request in f.models.requests)


async def test_why_explains_what_the_program_itself_posts_about_a_room(tmp_path):
    async with flow(tmp_path) as f, f.running(**THREE):
        await ready(f)
        debate(f)
        values = {"topic": "Tea?", "personas": "Claude, ChatGPT", "turns": 2}
        await told(f, await f.discord.interact("Alice", "debate", "chatgpt", "room create", values))
        tea = threads(f)["Tea?"]
        await f.discord.wait_for(lambda: cards(f, tea))

        async def why(message_id, channel=tea.id):
            return await told(
                f, await f.discord.interact("Bob", channel, "chatgpt", "why", {"message": f"{message_id}"})
            )

        alice = f.world.user("Alice").id
        opened = f"This message began the room “Tea?” opened by <@{alice}>. The program wrote it, without a model."
        assert await why(tea.id, "debate") == opened
        card = next(m for m in f.discord.messages(tea.id) if m["content"] == cards(f, tea)[0])
        assert (await why(card["id"])).startswith("That isn't a turn of this room.")
        assert "took turn 1 in a room" in await why(posts(f, tea)[0]["id"])


@pytest.mark.promise(624)
async def test_two_moderators_who_make_a_room_of_a_thread_at_the_same_moment_get_one_room(tmp_path):
    async with flow(tmp_path) as f, f.running(**THREE) as runtime:
        await ready(f)
        debate(f)
        thread = int((await f.discord.create_thread("Bob", "debate", "Tea"))["id"])
        values = {"personas": "Claude, ChatGPT", "turns": 2}
        orders = [
            await f.discord.interact("Alice", thread, "chatgpt", "room here", {"topic": topic, **values})
            for topic in ("Tea?", "Coffee?")
        ]
        answers = {await told(f, order) for order in orders}
        await f.discord.wait_for(lambda: f.world.channel(thread).archived)
        rooms = await runtime.services.state.coordination.rooms.list(limit=None)
        assert [room.turn_number for room in rooms] == [2]
        assert sorted(answer.split(":")[0] for answer in answers) in (
            ["No room was opened", "The room is open"],
            [f"<#{thread}> is a room already. Use /room resume to continue it.", "The room is open"],
        )


async def test_the_card_of_a_room_in_an_old_thread_has_only_what_its_members_said_in_it(tmp_path):
    async with flow(tmp_path) as f, f.running(**THREE):
        await ready(f)
        f.models.answer = lambda request: decision(f"Before of {request.provider}.")
        thread = f.world.channel(int((await f.discord.create_thread("Bob", "debate", "Tea"))["id"]))
        await f.discord.say("Bob", thread.id, f"<@{f.user_id('claude')}> hello")
        await f.discord.wait_for(lambda: f.discord.messages(thread.id)[-1]["author"]["username"] == "Claude")
        await f.discord.react("Bob", thread.id, int(f.discord.messages(thread.id)[-1]["id"]), "👍")
        debate(f)
        values = {"topic": "Tea?", "personas": "ChatGPT, Claude", "turns": 2, "format": "debate"}
        await told(f, await f.discord.interact("Alice", thread.id, "chatgpt", "room here", values))
        await f.discord.wait_for(lambda: cards(f, thread))
        (card,) = cards(f, thread)
        assert "**ChatGPT** (for): Point 0 of openai." in card
        assert "**Claude** (against): Point 1 of anthropic." in card
        assert "**Nobody voted**" in card
        await told(f, await f.discord.interact("Alice", thread.id, "chatgpt", "room remove", {"agent": "Claude"}))
        status = await told(f, await f.discord.interact("Bob", thread.id, "chatgpt", "room status", {}))
        assert [line.partition("**:")[0] for line in status.splitlines()[1:5]] == [
            *("**Members", "**Left", "**Status", "**Votes so far"),
        ]
        assert "**Votes so far**: none" in status


@pytest.mark.promise(626)
async def test_a_remark_that_is_edited_into_a_question_gets_one_answer(tmp_path):
    slow = {"COORDINATOR_TURN_DELAY_MIN": "60", "COORDINATOR_TURN_DELAY_MAX": "60"}
    async with flow(tmp_path, **slow) as f, f.running(**THREE) as runtime:
        await ready(f)
        debate(f)
        values = {"topic": "Tea?", "personas": "Claude, ChatGPT, Grok", "turns": 20}
        await told(f, await f.discord.interact("Alice", "debate", "chatgpt", "room create", values))
        tea = threads(f)["Tea?"]
        await f.discord.wait_for(lambda: posts(f, tea))
        said = int((await f.discord.say("Bob", tea.id, "I like milk"))["id"])
        await until(lambda: runtime.services.agents.person_notices.has_noted(said))
        await f.discord.edit(tea.id, said, "I like milk. Grok, do you?")
        await f.discord.wait_for(lambda: len(posts(f, tea)) == 2)
        assert posts(f, tea)[-1]["author"]["username"] == "Grok"
        assert "Bob (audience): I like milk. Grok, do you?" in f.models.requests[-1].tail
        await f.discord.edit(tea.id, said, "I love milk. Grok, do you?")
        await f.discord.say("Alice", tea.id, "ChatGPT, and you?")
        await f.discord.wait_for(lambda: len(posts(f, tea)) == 3)
        assert "Alice (audience): ChatGPT, and you?" in f.models.requests[-1].tail
        assert "do you?" not in f.models.requests[-1].tail
