"""An answer that is read while it is written, over real sockets: the provider's stream, and a post that grows."""

from __future__ import annotations

import asyncio

import pytest

from agentic.context.options import Options
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.redis_server import until
from tests.support.thinking_scene import let
from tests.support.tools.tool_doubles import FakeTool

STREAM = Options(stream=True)
LONG = " ".join(f"The {number}th word of an answer that takes its time." for number in range(30))
MARK = "▌"


def half(text=LONG):
    """The first half of an answer, then nothing for a long time."""
    return Answer(text=decision(text), cut=True, stalls=True)


async def ask(f, name="claude"):
    await f.discord.say("Alice", "debate", f"<@{f.user_id(name)}> tell me all of it")


def streamed(f):
    return [bool(r.raw.get("stream")) for r in f.models.requests if r.kind == "text"]


@pytest.mark.parametrize("name", ["chatgpt", "claude", "grok"])
async def test_an_answer_is_streamed_and_ends_whole(tmp_path, name):
    async with flow(tmp_path) as f, f.running(agents=(name,)) as runtime:
        f.models.answer = lambda r: decision(LONG)
        let(None, cog=runtime.bots[name].cog, options=STREAM)
        await ask(f, name)
        await f.discord.wait_for(lambda: f.said("debate", name) == [LONG])
        assert streamed(f) == [True]


@pytest.mark.promise(6)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", ["chatgpt", "claude", "gemini", "grok"])
async def test_plain_words_are_the_answer_at_the_first_call_of_every_provider(tmp_path, name, stream):
    async with flow(tmp_path) as f, f.running(agents=(name,)) as runtime:
        f.models.answer = lambda r: LONG
        let(None, cog=runtime.bots[name].cog, options=Options(stream=stream))
        await ask(f, name)
        await f.discord.wait_for(lambda: f.said("debate", name) == [LONG])
        assert len(f.models.requests) == 1


@pytest.mark.promise(514)
@pytest.mark.parametrize(
    "said",
    [
        "[THINK]Alice is rude.[/THINK]The answer is 4.",
        '[THINK]maybe {"skip": false, "text": "Alice is rude"}[/THINK]{"skip": false, "text": "The answer is 4."}',
        decision("<thought>Alice is rude.</thought>The answer is 4.</s>"),
        decision('The answer{render_inline_citation citation_id="17"} is 4.<｜DSML｜function_calls>Alice'),
        decision("The answer is 4.![](https://evil.example/p.png?Alice)"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_nothing_but_the_answer_is_ever_posted(tmp_path, said, stream):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        f.models.answer = lambda r: said
        let(None, cog=runtime.bots["claude"].cog, options=Options(stream=stream))
        await ask(f)
        await f.discord.wait_for(lambda: f.said("debate", "claude") == ["The answer is 4."])
        assert len(f.models.requests) == 1


@pytest.mark.promise(515)
async def test_a_picture_by_address_becomes_a_link_only_to_a_site_that_a_person_named(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        f.models.answer = lambda r: decision("![one](https://evil.example/1.png) ![two](https://good.example/2.png)")
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> show me https://good.example/cats")
        await f.discord.wait_for(lambda: f.said("debate", "claude") == ["one [two](<https://good.example/2.png>)"])


async def test_an_answer_after_a_call_of_a_tool_is_streamed_too(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        f.models.answer = lambda r: (
            decision(LONG) if r.results else Answer(text="Let me see.", calls=(("clock", "{}"),))
        )
        let(None, FakeTool("clock", lambda _: "noon"), cog=runtime.bots["claude"].cog, options=STREAM)
        await ask(f)
        await f.discord.wait_for(lambda: f.said("debate", "claude") == [LONG])
        assert streamed(f) == [True, True]


async def test_without_the_option_nothing_is_streamed(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        f.models.answer = lambda r: decision(LONG)
        await ask(f)
        await f.discord.wait_for(lambda: f.said("debate", "claude") == [LONG])
        assert streamed(f) == [False]


async def test_its_words_stand_while_it_is_written_and_never_the_form_around_them(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        f.models.answer = lambda r: half()
        let(None, cog=runtime.bots["claude"].cog, options=STREAM)
        await ask(f)
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        (standing,) = f.said("debate", "claude")
        assert standing.endswith(MARK)
        assert LONG.startswith(standing.removesuffix(MARK).strip())
        await f.discord.react("Alice", "debate", int(f.discord.messages("debate")[-1]["id"]), "🛑")
        await f.discord.wait_for(lambda: not f.said("debate", "claude"))


async def test_what_comes_to_nothing_is_taken_back_and_an_excuse_said(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        f.models.answer = lambda r: half()
        let(None, cog=runtime.bots["claude"].cog, options=STREAM)
        await ask(f)
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        f.models.answer = lambda r: Answer(status=401)
        f.models._closing.set()  # the stream breaks off
        await f.discord.wait_for(lambda: any("I can't answer right now" in text for text in f.said("debate", "claude")))
        assert not any(MARK in text for text in f.said("debate", "claude"))
        assert len(f.said("debate", "claude")) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [(decision(LONG), LONG), (Answer(status=401), "I can't answer right now: the API key was rejected")],
    ids=["with the answer", "with an excuse"],
)
async def test_what_a_process_left_half_written_is_ended_by_the_next(tmp_path, answer, said):
    async with flow(tmp_path, SHUTDOWN_GRACE_SECONDS="0") as f:
        f.models.answer = lambda r: half()
        async with f.running(agents=("claude",)) as runtime:
            let(None, cog=runtime.bots["claude"].cog, options=STREAM)
            await ask(f)
            await f.discord.wait_for(lambda: f.said("debate", "claude"))
        (left,) = f.said("debate", "claude")
        assert left.endswith(MARK)
        f.models.answer = lambda r: answer
        async with f.running(agents=("claude",)):
            await f.discord.wait_for(lambda: [text[: len(said)] for text in f.said("debate", "claude")] == [said])


@pytest.mark.promise(88)
async def test_what_was_shown_of_an_answer_to_a_question_that_changed_does_not_stay(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        me, asked = f.user_id("claude"), []

        async def answer(request):
            if len(f.models.requests) == 1:
                await f.discord.edit("debate", asked[0], f"<@{me}> and only the end of it")
                record = runtime.services.chats.transcripts.of(f.channel("debate"))
                await until(lambda: "only the end" in record.get(int(asked[0]["id"])).text)
                return decision(LONG)
            return decision("The end.")

        f.models.answer = answer
        let(None, cog=runtime.bots["claude"].cog, options=STREAM)
        async with asyncio.timeout(30):
            asked.append(await f.discord.say("Alice", "debate", f"<@{me}> tell me all of it"))
            await f.discord.wait_for(lambda: f.said("debate", "claude") == ["The end."], timeout=30)
        assert len(f.models.requests) == 2
