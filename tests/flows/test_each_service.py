"""The same flows over Discord, Signal, and a third service that only tests have, in the whole program."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentic.llm.errors import ServerFailed
from agentic.record import notes as message_log
from agentic.turn.result import error_line
from agentic.wire.messages import Instruction, Reflection
from tests.support.asking import config
from tests.support.each_service import Service, on
from tests.support.flow import decision
from tests.support.models.wire.values import SMALL_PNG, Answer
from tests.support.recorded import recorded
from tests.support.redis_server import RedisServer
from tests.support.tools.search_web import search_web

CHAIN = """
WITH RECURSIVE chain (id) AS (
    SELECT max(message_id) FROM message_log
    UNION ALL SELECT reply_to FROM chain JOIN message_log ON message_id = id WHERE reply_to IS NOT NULL
)
SELECT text FROM message_log JOIN chain ON message_id = id ORDER BY message_id
"""

everywhere = pytest.mark.parametrize("service", ["discord", "signal", "lines"])
on_both = pytest.mark.parametrize("service", ["discord", "signal"])  # needs what lines lack: pictures, reactions


@asynccontextmanager
async def at_work(service: str, folder: Path, **settings: str) -> AsyncIterator[Service]:
    async with on(service, folder, **settings) as s, s.running():
        yield s


class Held:
    """The model's answers, the first of which waits until it may go on."""

    def __init__(self, *texts: str) -> None:
        self.texts, self.thinking, self.go_on, self.asked = texts, asyncio.Event(), asyncio.Event(), 0

    async def __call__(self, _: object) -> str:
        self.asked += 1
        number = self.asked
        self.thinking.set()
        await self.go_on.wait()
        return decision(self.texts[min(number, len(self.texts)) - 1])


@everywhere
@pytest.mark.promise(470)
async def test_a_question_is_answered_and_the_model_reads_who_asked(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path) as s:
        s.models.answer = lambda _: decision("Blue light scatters.")
        await s.ask("why is the sky blue?")
        assert await s.answered() == ["Blue light scatters."]
        (request,) = s.models.requests
        assert "why is the sky blue?" in request.tail
        assert any("@Claude why is the sky blue?" in text for text in request.texts)
        assert ("Discord" in request.system) == (service == "discord")
        assert ("Signal" in request.system) == (service == "signal")
        assert ("a chat of lines" in request.system) == (service == "lines")


@everywhere
async def test_a_reply_to_an_answer_calls_the_agent_and_shows_what_it_answers(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path) as s:
        s.models.answer = lambda r: decision("At night too." if "and at night" in r.tail else "It scatters.")
        await s.ask("why is the sky blue?")
        await s.answered()
        await s.say("and at night?", reply_to=s.posts()[0])
        assert await s.answered(2) == ["It scatters.", "At night too."]
        shown = "\n".join(s.models.requests[-1].texts)
        assert "It scatters." in shown
        assert shown.index("It scatters.") < shown.index("and at night?")


@everywhere
async def test_a_long_answer_comes_whole_in_several_messages(tmp_path: Path, service: str) -> None:
    words = [f"word{number}" for number in range(700)]
    async with at_work(service, tmp_path) as s:
        s.models.answer = lambda _: decision(" ".join(words))
        await s.ask("tell me all")
        await s.wait(lambda: sum(len(post.text.split()) for post in s.posts()) >= len(words))
        assert len(s.posts()) > 1
        assert " ".join(post.text for post in s.posts()).split() == words
        assert max(len(post.text) for post in s.posts()) <= 2000


@on_both
async def test_a_picture_that_a_person_sends_is_shown_to_the_model(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path) as s:
        s.models.answer = lambda _: decision("A cat.")
        await s.ask("what is this?", picture=SMALL_PNG)
        assert await s.answered() == ["A cat."]
        assert s.models.requests[0].pictures == 1


@on_both
async def test_a_reaction_of_the_model_is_given_to_the_question(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path) as s:
        s.models.answer = lambda _: decision("Nice!", react_emoji="🔥")
        await s.ask("look what I made")
        await s.answered()
        await s.signed("🔥")


@everywhere
@pytest.mark.promise(470)
async def test_a_question_that_is_edited_meanwhile_is_answered_as_it_reads_now(tmp_path: Path, service: str) -> None:
    async with on(service, tmp_path) as s, s.running() as runtime:
        s.models.answer = held = Held("Blue.", "Red.")
        asked = await s.ask("what color is the sky?")
        await held.thinking.wait()
        await s.edit(asked, "@Claude what color is Mars?")
        read = runtime.services.chats.transcripts.of(s.channel_id())
        await s.wait(lambda: any("Mars" in entry.text for entry in read.entries()))
        held.go_on.set()
        assert await s.answered() == ["Red."]
        assert "what color is Mars?" in s.models.requests[-1].tail


@everywhere
@pytest.mark.promise(470)
async def test_a_question_that_is_deleted_meanwhile_gets_no_answer(tmp_path: Path, service: str) -> None:
    async with on(service, tmp_path) as s, s.running() as runtime:
        s.models.answer = held = Held("Never mind.", "Hello Ben.")
        asked = await s.ask("forget it")
        await held.thinking.wait()
        await s.delete(asked)
        await s.wait(lambda: runtime.services.chats.transcripts.of(s.channel_id()).deleted)
        await s.ask("hello", "Ben")
        held.go_on.set()
        await s.answered()
        await s.wait(lambda: held.asked == 2)
        assert await s.answered() == ["Hello Ben."]


@everywhere
@pytest.mark.promise(492)
@pytest.mark.parametrize("how", ["edited", "deleted"])
async def test_a_follow_up_to_a_message_that_is_changed_meanwhile_is_not_posted(
    tmp_path: Path, service: str, how: str
) -> None:
    async with on(service, tmp_path) as s, s.running() as runtime:
        s.models.answer = held = Held("Your code 4711 was in the news.")
        said = await s.say("my code is 4711, is that safe?")
        read = runtime.services.chats.transcripts.of(s.channel_id())
        await s.wait(lambda: any("4711" in entry.text for entry in read.entries()))
        entry = next(entry for entry in read.entries() if "4711" in entry.text)
        given = Reflection(
            task="follow_up", person_id=entry.speaker.id, person_name="Anna", message_id=entry.id, material=entry.text
        )
        task = Instruction(
            instruction_id="r1",
            action="reflect",
            channel_id=s.channel_id(),
            channel_theme="casual",
            deadline=time.time() + 90,
            reflection=given,
        )
        asking = asyncio.create_task(runtime.services.bus.ask("claude", task))
        await s.wait(held.thinking.is_set)
        await (s.edit(said, "never mind") if how == "edited" else s.delete(said))
        await s.wait(lambda: not any("4711" in entry.text for entry in read.entries()))
        held.go_on.set()
        result = await asking
        assert (result.reason, s.posts()) == ("edited" if how == "edited" else "withdrawn", [])


@everywhere
@pytest.mark.promise(470)
async def test_stop_ends_the_answer_and_resume_lets_the_agent_speak_again(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path) as s:
        s.models.answer = held = Held("Too late.", "Here again.")
        await s.ask("a long story")
        await held.thinking.wait()
        await s.ask("STOP")
        await s.signed("✅")
        held.go_on.set()
        await s.ask("are you there?")
        await s.signed("🛑")
        assert s.posts() == []
        await s.ask("RESUME")
        await s.wait(lambda: list(s.signs()).count("✅") == 2)
        await s.ask("and now?")
        assert await s.answered() == ["Here again."]


@on_both
async def test_a_stop_sign_at_an_answer_silences_the_agent(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path) as s:
        s.models.answer = lambda _: decision("Hello.")
        await s.ask("hello")
        await s.answered()
        await s.react(s.posts()[0], "🛑")
        await s.signed("✅")
        await s.ask("hello?")
        await s.signed("🛑")
        assert len(s.models.requests) == 1


@everywhere
@pytest.mark.promise(470)
async def test_who_asks_too_often_gets_a_sign_that_is_explained(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path, MENTIONS_PER_MINUTE="1") as s:
        s.models.answer = lambda _: decision("Hello.")
        await s.ask("one")
        await s.answered()
        await s.ask("two")
        if service != "lines":  # without reactions the words come alone
            await s.signed("⏳")
        texts = await s.answered(2)
        assert "You've asked me a lot in the last minute." in texts[1]
        await s.ask("three", "Ben")
        assert (await s.answered(3))[2] == "Hello."


@everywhere
@pytest.mark.promise(470)
async def test_beyond_the_budget_no_model_is_asked(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path, BUDGET_DAILY_USD="0.003", BUDGET_USER_DAILY_USD="1") as s:
        s.models.answer = lambda _: Answer(text=decision("hello"), output_tokens=4000)
        await s.ask("hello")
        await s.answered()
        await s.ask("hello", "Ben")
        await s.signed("💤")
        assert len(s.models.requests) == 1


@everywhere
async def test_a_model_that_fails_is_reported_in_one_line(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path, MODEL_RETRIES="0") as s:
        s.models.answer = lambda _: Answer(status=500)
        await s.ask("hello")
        (line,) = await s.answered()
        assert error_line(ServerFailed()).partition("(")[0].strip(". ") in line
        assert "\n" not in line


@everywhere
async def test_two_people_in_one_place_are_told_apart(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path) as s:
        s.models.answer = lambda r: decision(f"answer {len(s.models.requests)}")
        await s.ask("I am for tea")
        await s.answered()
        await s.ask("I am for coffee", "Ben")
        await s.answered(2)
        shown = "\n".join(s.models.requests[-1].texts)
        names = ("Alice", "Bob") if service == "discord" else ("Anna", "Ben")
        assert f"{names[0]}: @Claude I am for tea" in shown
        assert f"{names[1]}: @Claude I am for coffee" in shown


@on_both
async def test_a_stranger_is_not_answered(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path) as s:
        s.models.answer = lambda _: decision("Hello.")
        await s.stranger("@Claude let me in")
        await s.ask("hello")
        assert await s.answered() == ["Hello."]
        assert len(s.models.requests) == 1


@everywhere
@pytest.mark.promise(470)
async def test_why_explains_a_post_and_is_no_context(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path) as s:
        s.models.answer = lambda _: decision("Hello.")
        await s.ask("hello")
        await s.answered()
        told = await s.command("why", s.posts()[0])
        assert told.startswith("**Claude** answered " + ("<@" if service == "discord" else "Anna."))
        assert "It used anthropic/" in told
        await s.ask("again")
        await s.wait(lambda: len(s.models.requests) == 2)
        assert not any("answered" in text or "/why" in text for text in s.models.requests[-1].texts)


@everywhere
async def test_forget_me_removes_the_records_of_who_asks(tmp_path: Path, service: str) -> None:
    async with on(service, tmp_path) as s, s.running() as runtime:
        s.models.answer = lambda _: decision("Hello.")
        await s.ask("hello")
        await s.answered()
        records = runtime.services.state.turns.records
        async with asyncio.timeout(30):
            while not await records.last("claude", s.channel_id()):  # noqa: ASYNC110 - it is written behind the post
                await asyncio.sleep(0.01)
        told = await s.command("forget me" if service == "discord" else "forget me yes")
        assert told.startswith("Done. I deleted 1 turn record")


@everywhere
async def test_a_table_becomes_bullets(tmp_path: Path, service: str) -> None:
    async with at_work(service, tmp_path) as s:
        s.models.answer = lambda _: decision("| City | Year |\n| --- | --- |\n| Bonn | 1949 |\n| Berlin | 1990 |")
        await s.ask("capitals?")
        (text,) = await s.answered()
        assert "|" not in text
        assert "Bonn" in text
        assert "1990" in text


@everywhere
@pytest.mark.promise(471)
async def test_a_turn_that_a_restart_cut_off_is_posted_once(tmp_path: Path, service: str) -> None:
    with RedisServer() as redis:
        async with on(service, tmp_path, redis_url=redis.url) as s:
            s.models.answer = held = Held("Late, but here.")
            async with s.running():
                await s.ask("are you there?")
                await held.thinking.wait()
            held.go_on.set()
            async with s.running():
                assert await s.answered() == ["Late, but here."]
                await s.ask("and now?")
                assert len(await s.answered(2)) == 2
            assert [post.text for post in s.posts()] == ["Late, but here."] * 2


@everywhere
@pytest.mark.promise(485)
async def test_a_reply_to_an_answer_carries_the_chain_that_the_window_lacks(tmp_path: Path, service: str) -> None:
    files = config(tmp_path, shared="message_log: true\nmax_messages: 3\nrolling_threshold: 0")
    async with at_work(service, tmp_path / "data", **files) as s:
        s.models.answer = lambda r: decision("It scatters.")
        await s.ask("why is the sky blue?")
        await s.answered()
        first = s.posts()[0]
        for number in range(5):
            await s.say(f"something else {number}", "Ben")
        await s.ask("and at night?", reply_to=first)
        await s.answered(2)
        shown = "\n".join((*s.models.requests[-1].texts, s.models.requests[-1].tail))
        assert "something else 0" not in shown
        assert shown.index("why is the sky blue?") < shown.index("It scatters.") < shown.rindex("and at night?")

        def logged() -> list[tuple[object, ...]]:
            return recorded(tmp_path / "data", CHAIN)

        await s.wait(lambda: len(logged()) == 4)
        for (text,), words in zip(logged(), ("sky blue", "It scatters", "at night", "It scatters"), strict=True):
            assert words in str(text)


@everywhere
async def test_what_is_said_just_before_the_end_is_in_the_log(
    tmp_path: Path, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_log, "PAUSE", 3600.0)  # nothing is logged by itself
    files = config(tmp_path, shared="message_log: true\n")
    with RedisServer() as redis:
        async with on(service, tmp_path, redis_url=redis.url, **files) as s:
            s.models.answer = lambda _: decision("I see.")
            async with s.running() as runtime:
                await s.ask("my tomatoes are ripe")
                await s.answered()
                await runtime.drain()
            async with s.running():  # whose recorder has the rest
                await s.wait(lambda: len(recorded(tmp_path, "SELECT 1 FROM message_log")) == 2)


@on_both
async def test_an_answer_that_was_searched_for_has_a_source_and_a_picture(tmp_path: Path, service: str) -> None:
    files = config(tmp_path, shared="always_search: true\nsearch_pictures: true")
    async with search_web() as web, on(service, tmp_path / "data", TAVILY_API_KEY="tavily-key-1", **files) as s:
        s.models.answer = lambda r: decision("Hyperion!" if "Hyperion" in "".join(r.texts) else "From memory.")
        async with s.running(**web.setup):
            await s.ask("which tree is the tallest?")
            (text,) = await s.answered()
        assert text.startswith("Hyperion!")
        assert "https://trees.example/tall" in text
        assert s.posts()[0].pictures == 1
        assert len(web.queries) == 1
