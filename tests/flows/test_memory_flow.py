"""What is said in a logged channel reaches the record, comes back in reply chains and by recall, and goes with its
message; over real sockets, with a real Redis and a real file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentic.record import notes as message_log
from tests.support.asking import config
from tests.support.flow import Flow, decision, flow
from tests.support.models.wire.values import Answer
from tests.support.recorded import recorded
from tests.support.redis_server import RedisServer, until

LOGGED = "message_log: true\nrecall: true\nmax_messages: 1\nrolling_threshold: 0\ntools: [recall]\n"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_log, "PAUSE", 0.05)


def logged(folder: Path) -> list[Any]:
    return recorded(folder, "SELECT name, text FROM message_log ORDER BY message_id")


async def ask(f: Flow, text: str, **more: Any) -> None:
    asked = len(f.said("debate", "chatgpt"))
    await f.discord.say("Alice", "debate", f"<@{f.user_id('chatgpt')}> {text}", **more)
    await f.discord.wait_for(lambda: len(f.said("debate", "chatgpt")) > asked)


async def test_what_is_said_is_logged_edited_and_deleted_with_its_message(tmp_path: Path) -> None:
    with RedisServer() as redis:
        settings = config(tmp_path, shared=LOGGED)
        async with flow(tmp_path, redis_url=redis.url, **settings) as f, f.running(agents=("chatgpt", "grok")):
            f.models.answer = lambda _: decision("Near the mill.")
            lake = await f.discord.say("Bob", "debate", "Where is the lake?")
            await f.discord.say("Bob", "debate", ".not for bots")
            gone = await f.discord.say("Bob", "debate", "My number is 12345.")
            await ask(f, "do you know?", reply_to=lake)
            await until(lambda: len(logged(tmp_path)) == 4)
            assert logged(tmp_path) == [
                ("Bob", "Where is the lake?"),
                ("Bob", "My number is 12345."),
                ("Alice", "@ChatGPT do you know?"),
                ("ChatGPT", "Near the mill."),
            ]
            parents = "SELECT reply_to FROM message_log WHERE author = 'person' AND reply_to IS NOT NULL"
            assert recorded(tmp_path, parents) == [(int(lake["id"]),)]
            await f.discord.edit("debate", lake, "Where is the pond?")
            await f.discord.delete("debate", gone["id"])
            await until(
                lambda: logged(tmp_path)[:2] == [("Bob", "Where is the pond?"), ("Alice", "@ChatGPT do you know?")]
            )


async def test_a_chain_that_the_program_has_forgotten_comes_from_the_log(tmp_path: Path) -> None:
    with RedisServer() as redis:
        settings = config(tmp_path, shared=LOGGED)
        async with flow(tmp_path, redis_url=redis.url, **settings) as f, f.running(agents=("chatgpt",)) as runtime:
            f.models.answer = lambda _: decision("At the river.")
            lake = await f.discord.say("Bob", "debate", "The lake is near the mill.")
            mill = await f.discord.say("Alice", "debate", "Which mill?", reply_to=lake)
            await until(lambda: len(logged(tmp_path)) == 2)
            runtime.services.chats.transcripts.of(f.channel("debate")).cut_back(int(mill["id"]) + 1)
            await ask(f, "do you know?", reply_to=mill)
            tail = f.models.requests[-1].tail
            assert f"[msg:{lake['id']}] Bob: The lake is near the mill." in tail
            assert f"[msg:{mill['id']}] Alice: Which mill?" in tail
            quoted = (int(lake["id"]), f.world.user("Bob").id)
            await until(lambda: quoted in recorded(tmp_path, "SELECT message_id, author_id FROM quotes"))
            await f.discord.delete("debate", lake["id"])
            await until(
                lambda: recorded(tmp_path, "SELECT removed FROM words WHERE removed IS NOT NULL") == [("deleted",)]
            )


async def test_recall_finds_what_is_older_than_a_window_full_of_the_same_words(tmp_path: Path) -> None:
    with RedisServer() as redis:
        settings = config(tmp_path, shared=LOGGED.replace("max_messages: 1", "max_messages: 60"))
        async with flow(tmp_path, redis_url=redis.url, **settings) as f, f.running(agents=("chatgpt",)) as runtime:

            def looks_back(request: Any) -> Any:
                if not request.results:
                    return Answer(text="", calls=(("recall", json.dumps({"query": "bees garden"})),))
                return decision("In May.")

            f.models.answer = looks_back
            old = await f.discord.say("Bob", "debate", "My bees in the garden swarm in May.")
            shown = [await f.discord.say("Bob", "debate", f"bees garden bees garden {number}") for number in range(20)]
            for number in range(80):  # a word in every fourth message is no subject
                await f.discord.say("Bob", "casual", f"something else, {number}")
            await until(lambda: len(logged(tmp_path)) == 101)
            runtime.services.chats.transcripts.of(f.channel("debate")).cut_back(int(shown[0]["id"]))
            await ask(f, "when do they swarm?")
            request = f.models.requests[-1]
            assert f"[msg:{old['id']}]" not in "".join(request.texts)
            ((_, found),) = request.results
            assert "My bees in the garden swarm in May." in found
            assert "bees garden bees garden" not in found


async def test_recall_finds_what_was_said_in_an_open_channel_and_leaves_it_in_no_log_of_tools(tmp_path: Path) -> None:
    with RedisServer() as redis:
        settings = config(tmp_path, shared=LOGGED)
        async with flow(tmp_path, redis_url=redis.url, **settings) as f, f.running(agents=("chatgpt",)) as runtime:

            def looks_back(request: Any) -> Any:
                if not request.results:
                    return Answer(text="", calls=(("recall", json.dumps({"query": "bees in the garden"})),))
                return decision("Bob keeps them.")

            f.models.answer = looks_back
            await f.discord.say("Bob", "casual", "My bees in the garden swarm in May.")
            await until(lambda: len(logged(tmp_path)) == 1)
            await ask(f, "who keeps bees?")
            ((_, found),) = f.models.requests[-1].results
            assert "in #casual, Bob: My bees in the garden swarm in May." in found
            person = f.world.user("Bob").id
            await until(lambda: (person,) in recorded(tmp_path, "SELECT author_id FROM quotes"))
            assert runtime.services.agents.tools is not None
            assert runtime.services.agents.tools.records.for_channel("chatgpt", f.channel("debate")) == ()
