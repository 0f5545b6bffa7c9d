"""What was said in a private chat is forgotten with its person, whoever said it, also after a restart."""

from __future__ import annotations

import asyncio
import base64
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agentic.runtime.process import Runtime
from tests.flows.test_signal_flow import told
from tests.support.asking import config
from tests.support.flow import decision, flow
from tests.support.recorded import recorded
from tests.support.redis_server import RedisServer, until
from tests.support.signal_flow import GROUP, signal_flow
from tests.support.signal_server import ANNA, BEN, group_id

LOGGED = "message_log: true\nrecall: true\n"
DISCORD_ID = 222222222222222222
OTHER_GROUP = "b3RoZXI="


class Answers:
    """A model whose answers nobody can guess, so that their bytes can be looked for."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def __call__(self, _: object) -> str:
        self.given.append(f"Hyperion {base64.b32encode(os.urandom(60)).decode()}")
        return decision(self.given[-1])


def found_in_files(record: Path, answer: str) -> bool:
    pieces = [answer[start : start + 16].encode() for start in range(10, len(answer) - 16, 16)]
    files = [path.read_bytes() for path in record.parent.glob(f"{record.name}*")]
    return any(piece in content for piece in pieces for content in files)


def is_recorded(record: Path, answers: list[str]) -> Callable[[], bool]:
    """Whether the record has these answers, as posts and in the log."""

    def look() -> bool:
        questions = ("SELECT text FROM posts", "SELECT text FROM message_log")
        texts = [{row[0] for row in recorded(record.parent, question)} for question in questions]
        return all(answer in found for found in texts for answer in answers)

    return look


async def recalled(runtime: Runtime) -> list[str]:
    found = await runtime.services.record.memory.recall("Hyperion", lambda _: True, 50)
    return [memory.text for memory in found]


@pytest.mark.promise(541)
@pytest.mark.parametrize("linked", [False, True], ids=["by a text", "by the Discord account they are linked to"])
async def test_after_a_restart_the_answers_in_a_private_chat_of_signal_are_forgotten(
    tmp_path: Path, linked: bool
) -> None:
    logged, answers = config(tmp_path, shared=LOGGED), Answers()
    with RedisServer() as redis:
        async with signal_flow(tmp_path, redis_url=redis.url, **logged) as f, f.running() as runtime:
            f.models.answer, record = answers, runtime.setup.settings.record_file
            await f.say("what is the tallest tree?")
            await f.answered(1)
            await f.say("and what is it called?")
            await f.answered(2)
            await f.say("@Claude which tree do we mean?", group=GROUP)
            await f.answered(1, group_id(GROUP))
            await f.say("which tree is it?", BEN)
            await f.answered(1, BEN)
            await until(is_recorded(record, answers.given))
            assert len(await recalled(runtime)) == 4
        settings = {**logged, "LINKED_PEOPLE": f"{ANNA}:{DISCORD_ID}"} if linked else logged
        async with signal_flow(tmp_path, redis_url=redis.url, **settings) as f, f.running() as runtime:
            if linked:
                await runtime.services.record.forgetting.forget(DISCORD_ID)
            else:
                await told(f, "/forget me yes")
            others = answers.given[2:]
            await until(lambda: not any(found_in_files(record, answer) for answer in answers.given[:2]))
            assert is_recorded(record, others)()
            assert sorted(await recalled(runtime)) == sorted(others)


@pytest.mark.promise(541)
async def test_after_a_restart_the_answers_in_direct_messages_are_forgotten(tmp_path: Path) -> None:
    logged, answers = {"ALLOW_DMS": "true", **config(tmp_path, shared=LOGGED)}, Answers()
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, **logged) as f:
            f.models.answer = answers
            direct = await f.discord.open_direct("Alice", "claude")
            async with f.running(agents=("claude",)) as runtime:
                record = runtime.setup.settings.record_file
                await f.discord.say("Alice", direct, "what is the tallest tree?")
                await f.discord.wait_for(lambda: len(f.said(direct, "claude")) == 1)
                await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> which tree do we mean?")
                await f.discord.wait_for(lambda: len(f.said("casual", "claude")) == 1)
                await until(is_recorded(record, answers.given))
            async with f.running(agents=("claude",)) as runtime:
                await runtime.services.record.forgetting.forget(f.world.user("Alice").id)
                await until(lambda: not found_in_files(record, answers.given[0]))
                assert is_recorded(record, answers.given[1:])()
                assert await recalled(runtime) == answers.given[1:]


@pytest.mark.promise(567)
async def test_a_server_channel_stays_whole_though_a_stop_ended_a_question_there(tmp_path: Path) -> None:
    logged, answers = config(tmp_path, shared=LOGGED), Answers()
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, **logged) as f:
            begun, go_on = asyncio.Event(), asyncio.Event()
            claude = f"<@{f.user_id('claude')}>"

            async def held(_: object) -> str:
                begun.set()
                await go_on.wait()
                return "too late"

            async with f.running(agents=("claude",)) as runtime:
                f.models.answer, record = answers, runtime.setup.settings.record_file
                await f.discord.say("Alice", "casual", f"{claude} which tree do we mean?")
                await f.discord.wait_for(lambda: len(f.said("casual", "claude")) == 1)
                await until(is_recorded(record, answers.given))
                f.models.answer = held
                await f.discord.say("Alice", "casual", f"{claude} and which forest?")
                await begun.wait()
                await f.discord.say("Bob", "casual", f"{claude} mine is taller")
                queue = runtime.host_of("claude").queue  # type: ignore[union-attr]
                await until(lambda: queue.inbox.waiting(f.channel("casual")))
                await f.discord.say("Alice", "casual", f"{claude} STOP")
                stopped = "SELECT count(*) FROM turns WHERE reason = 'stopped'"
                await until(lambda: recorded(record.parent, stopped) == [(2,)])
                go_on.set()
                await runtime.services.record.forgetting.forget(f.world.user("Bob").id)
                assert is_recorded(record, answers.given)()
                assert await recalled(runtime) == answers.given
                assert recorded(record.parent, "SELECT DISTINCT guild_id IS NULL FROM turns") == [(0,)]


@pytest.mark.promise(567)
async def test_a_member_of_a_group_who_is_forgotten_takes_nobody_else_along(tmp_path: Path) -> None:
    """Also by the record of an earlier version, which did not know groups as servers, and after a restart."""
    logged, answers = config(tmp_path, shared=LOGGED), Answers()
    with RedisServer() as redis:
        async with signal_flow(tmp_path, redis_url=redis.url, **logged) as f, f.running() as runtime:
            f.models.answer, record = answers, runtime.setup.settings.record_file
            for number, who in enumerate((ANNA, BEN), start=1):
                await f.say(f"@Claude which tree does {who} mean?", who, group=GROUP)
                await f.answered(number, group_id(GROUP))
            await f.say("@Claude which tree is it here?", group=OTHER_GROUP)
            await f.answered(1, group_id(OTHER_GROUP))
            await f.say("which tree is it?", BEN)
            await f.answered(1, BEN)
            await until(is_recorded(record, answers.given))
        with closing(sqlite3.connect(record)) as db:
            db.execute("UPDATE message_log SET guild_id = NULL")
            db.commit()
        async with signal_flow(tmp_path, redis_url=redis.url, **logged) as f, f.running() as runtime:
            await told(f, "/forget me yes")
            texts = "SELECT text FROM message_log WHERE author = 'person'"
            await until(lambda: len(recorded(record.parent, texts)) == 2)
            assert is_recorded(record, answers.given)()
            assert sorted(await recalled(runtime)) == sorted(answers.given)
