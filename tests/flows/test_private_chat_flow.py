"""What a person's own chat with an agent has that a group has not: no limits but the budgets, no marks, no blanks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentic.runtime.process import Runtime
from tests.support.flow import decision, flow
from tests.support.models.wire.values import ModelRequest
from tests.support.signal_flow import GROUP, signal_flow
from tests.support.signal_server import ANNA, BEN, group_id, quoting

LIMITS = {"AGENT_COOLDOWN_SECONDS": "15", "AGENT_DAILY_MAX": "1", "MENTIONS_PER_MINUTE": "6"}


async def settled(runtime: Runtime) -> None:
    """Returns when no turn waits or runs."""
    queue = runtime.host_of("claude").queue  # type: ignore[union-attr]
    async with asyncio.timeout(30):
        while queue.channels:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_in_a_private_chat_no_question_waits_for_a_cooldown_or_the_next_day(tmp_path: Path) -> None:
    async with signal_flow(tmp_path, **LIMITS) as f, f.running():
        f.models.answer = lambda _: decision("I see.")
        for number in range(1, 9):  # more than MENTIONS_PER_MINUTE allows in a channel, unless they are joined
            await f.say(f"question {number}?")
            if number < 6:
                await f.answered(number)
        assert f.said() == ["I see."] * 5
        assert f.signal.reactions == []


@pytest.mark.promise(539)
async def test_what_is_written_during_an_answer_is_answered_with_what_follows_it(tmp_path: Path) -> None:
    async with signal_flow(tmp_path, **LIMITS) as f, f.running() as runtime:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def answer(request: ModelRequest) -> str:
            begun.set()
            await go_on.wait()
            return decision("both" if "third?" in request.tail and "second?" in request.tail else "one")

        f.models.answer = answer
        await f.say("first?")
        await begun.wait()
        await f.say("second?")
        await f.say("third?")
        go_on.set()
        assert await f.answered(2) == ["one", "both"]
        await settled(runtime)
        assert len(f.said()) == 2
        assert f.signal.reactions == []


@pytest.mark.promise(560)
async def test_a_burst_into_a_full_queue_is_answered_as_a_whole(tmp_path: Path) -> None:
    more = {"MENTIONS_PER_MINUTE": "none", "MAX_QUEUE_DEPTH": "1"}
    async with signal_flow(tmp_path, **{**LIMITS, **more}) as f, f.running() as runtime:
        go_on = asyncio.Event()

        async def answer(_: object) -> str:
            await go_on.wait()
            return decision("I see.")

        f.models.answer = answer
        for number in range(70):
            await f.say(f"fact {number}.")
        await f.say("is somebody there?", BEN)
        await f.signal.until(lambda: any("somebody" in request.tail for request in f.models.requests))
        go_on.set()
        await settled(runtime)
        shown = "\n".join(request.tail for request in f.models.requests)
        assert [number for number in range(70) if f"fact {number}." not in shown] == []
        assert set(f.said(ANNA)) == set(f.said(BEN)) == {"I see."}
        assert f.signal.reactions == []


async def test_a_group_keeps_its_limits(tmp_path: Path) -> None:
    async with signal_flow(tmp_path, **LIMITS) as f, f.running():
        f.models.answer = lambda _: decision("I see.")
        await f.say("and in private?")
        await f.answered(1)
        await f.say("@Claude one?", group=GROUP)
        await f.answered(1, group_id(GROUP))
        await f.say("@Claude two?", group=GROUP)
        await f.signal.until(lambda: f.signal.reactions)
        assert f.signal.reactions[0]["reaction"] == "⏳"
        assert len(f.models.requests) == 2


@pytest.mark.parametrize(
    "text",
    [
        ".5 miles in km?",
        ".history of Rome, please",
        "m ok tell me about elms",
        "m context of this?",
        "🙃 what is a yew?",
        "🫥",
        "/etc hosts",
        "/why is the sky blue",
        "!help me",
        "// is that a comment",
        "stop words are what",
    ],
)
async def test_in_a_private_chat_only_a_whole_command_is_one(tmp_path: Path, text: str) -> None:
    async with signal_flow(tmp_path) as f, f.running():
        f.models.answer = lambda _: decision("I see.")
        await f.say(text)
        assert await f.answered() == ["I see."]
        assert text.lstrip("/") in f.models.requests[0].tail


@pytest.mark.parametrize("text", [".not for you", "m not for you", "🙃 not for you"])
async def test_in_a_group_a_mark_still_hides_a_message(tmp_path: Path, text: str) -> None:
    async with signal_flow(tmp_path) as f, f.running() as runtime:
        f.models.answer = lambda _: decision("I see.")
        await f.say(text, group=GROUP)
        await f.say("@Claude hello", group=GROUP)
        await f.answered(1, group_id(GROUP))
        await settled(runtime)
        assert "not for you" not in f.models.requests[0].tail


async def test_commands_still_work_in_a_private_chat(tmp_path: Path) -> None:
    async with signal_flow(tmp_path) as f, f.running():
        f.models.answer = lambda _: decision("I see.")
        await f.say("/forget everything about me")
        told = (await f.answered(1))[0]
        assert told.startswith("I didn't understand that")
        assert "/forget me [yes]" in told
        await f.say("/help")
        await f.answered(2)
        assert f.models.requests == []
        await f.say("hello")
        await f.answered(3)
        await f.say("m continue")
        await f.answered(4)
        assert len(f.models.requests) == 2


@pytest.mark.parametrize(
    "text",
    [
        "/forget me.",
        "/FORGET ME!",
        "／forget me",
        "`/forget me`",
        "/forget-me",
        "/forgetme",
        "@claude /forget me\u200b",
    ],
)
async def test_forgetting_works_however_it_is_written(tmp_path: Path, text: str) -> None:
    async with signal_flow(tmp_path) as f, f.running():
        f.models.answer = lambda _: decision("I see.")
        await f.say(text)
        assert (await f.answered(1))[0].startswith("This deletes everything I've stored about you")
        await f.say("> /forget me yes")  # somebody else's words
        assert (await f.answered(2))[1] == "I see."
        await f.say("/forget me, yes!")
        assert (await f.answered(3))[2].startswith("Done")


async def test_a_person_stops_the_bot_in_direct_messages_of_discord_and_lifts_it(tmp_path: Path) -> None:
    async with flow(tmp_path, ALLOW_DMS="true") as f, f.running(agents=("claude",)):
        f.models.answer = lambda _: decision("I see.")
        direct = await f.discord.open_direct("Alice", "claude")

        async def signs(count: int) -> list[str]:
            def given() -> list[str]:
                found = (message.get("reactions", ()) for message in f.discord.messages(direct))
                return [str(one["emoji"]["name"]) for reactions in found for one in reactions]

            await f.discord.wait_for(lambda: len(given()) == count)
            return given()

        await f.discord.say("Alice", direct, "Stop.")
        assert await signs(1) == ["✅"]
        await f.discord.say("Alice", direct, "hello?")
        assert await signs(2) == ["✅", "🛑"]
        await f.discord.say("Alice", direct, "RESUME!")
        assert await signs(3) == ["✅", "🛑", "✅"]
        await f.discord.say("Alice", direct, "are you there?")
        await f.discord.wait_for(lambda: f.said(direct, "claude") == ["I see."])
        assert len(f.models.requests) == 1


@pytest.mark.promise(562)
async def test_what_waits_in_direct_messages_of_discord_is_answered_by_the_next_run(tmp_path: Path) -> None:
    async with flow(tmp_path, ALLOW_DMS="true") as f:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def answer(_: object) -> str:
            begun.set()
            await go_on.wait()
            return decision("The first.")

        f.models.answer = answer
        direct = await f.discord.open_direct("Alice", "claude")
        async with f.running(agents=("claude",)) as runtime:
            await f.discord.say("Alice", direct, "first?")
            await begun.wait()
            await f.discord.say("Alice", direct, "second?")
            drained = asyncio.create_task(runtime.drain())
            go_on.set()
            await drained
            assert f.said(direct, "claude") == ["The first."]
        f.models.answer = lambda request: decision("The second." if "second?" in request.tail else "wrong")
        async with f.running(agents=("claude",)):
            await f.discord.wait_for(lambda: f.said(direct, "claude") == ["The first.", "The second."])


@pytest.mark.parametrize("text", ["/Privacy?", "/forget everything that you know about me", "/status…"])
async def test_what_begins_as_a_command_about_a_persons_data_is_not_left_to_the_model(
    tmp_path: Path, text: str
) -> None:
    async with signal_flow(tmp_path) as f, f.running():
        await f.say(text)
        await f.answered(1)
        assert f.models.requests == []


@pytest.mark.parametrize(
    "message",
    [
        {"text": "   \n "},
        {"text": "\u200b\u2060\ufeff"},
        {"text": "\u2800\u3164\u115f"},
        {"text": ">"},
        {"text": "> \n>"},
        {"text": "", "quote": quoting(ANNA, 1_795_000_000_000, "words")},
        {"text": " ", "quote": quoting(ANNA, 1_795_000_000_000, "words")},
    ],
)
async def test_a_blank_message_is_neither_searched_nor_answered(tmp_path: Path, message: dict[str, Any]) -> None:
    async with signal_flow(tmp_path) as f, f.running() as runtime:
        f.models.answer = lambda _: decision("I see.")
        await f.say(**message)
        await settled(runtime)
        await f.say("hello?", BEN)
        await f.answered(1, BEN)
        await settled(runtime)
        assert f.said(ANNA) == []
        assert len(f.models.requests) == 1


async def test_a_failure_right_after_another_says_that_it_failed_again(tmp_path: Path) -> None:
    async with signal_flow(tmp_path, **LIMITS) as f, f.running():
        f.models.answer = lambda _: "no decision {"
        for number, where in enumerate((ANNA, group_id(GROUP)), start=1):
            more = {} if where == ANNA else {"group": GROUP}
            await f.say("@Claude one?", **more)
            await f.answered(1, where)
            await f.say("@Claude two?", **more)
            assert "failed again" in (await f.answered(2, where))[1]
            assert len(f.signal.sent) == 2 * number
        assert f.signal.reactions == []


async def test_in_a_group_the_reply_quotes_the_question_and_not_what_the_person_wrote_since(tmp_path: Path) -> None:
    async with signal_flow(tmp_path) as f, f.running():

        async def answer(_: object) -> str:
            await f.say("by the way, Ben, lunch?", group=GROUP, quote=quoting(BEN, 1_795_000_000_000))
            return decision("Because of Rayleigh.")

        f.models.answer = answer
        asked = await f.say("@Claude why is the sky blue?", group=GROUP)
        await f.answered(1, group_id(GROUP))
        assert f.signal.sent[0].quotes == (ANNA, asked)


async def test_in_a_group_a_failure_quotes_the_question_too(tmp_path: Path) -> None:
    async with signal_flow(tmp_path) as f, f.running():

        async def answer(_: object) -> str:
            await f.say("by the way, Ben, lunch?", group=GROUP, quote=quoting(BEN, 1_795_000_000_000))
            return "no decision {"

        f.models.answer = answer
        asked = await f.say("@Claude why is the sky blue?", group=GROUP)
        await f.answered(1, group_id(GROUP))
        assert f.signal.sent[0].quotes == (ANNA, asked)
