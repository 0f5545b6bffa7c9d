"""Signal's server restarts while the program runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentic.state.shared_state import SharedState
from agentic.wire.connection import RedisConnection
from tests.support.flow import decision
from tests.support.program import Program
from tests.support.redis_server import RedisServer, until
from tests.support.signal_flow import signal_flow
from tests.support.signal_server import ANNA, refused

LONG = "\n\n".join(f"part {number} {'la ' * 600}." for number in range(3))


@pytest.mark.parametrize("status", [None, 400, 404, 500])
async def test_an_answer_waits_for_a_server_that_restarts_while_it_is_written(
    tmp_path: Path, status: int | None
) -> None:
    async with signal_flow(tmp_path) as f, f.running() as runtime:

        async def answer(_: object) -> str:
            await f.signal.stop()
            return decision(LONG)

        async def come_back() -> None:
            if status is not None:
                f.signal.fail("send", *[lambda: refused("not started yet", status)] * 2)
                f.signal.fail("about", *[lambda: refused("not started yet", status)] * 2)
                f.signal.fail("receive", *[lambda: refused("not started yet", status)] * 2)
            await f.signal.start()

        f.models.answer = answer
        await f.say("why is the sky blue?")
        await until(lambda: f.signal.is_stopped and not runtime.health().accounts["signal"]["claude"])
        await come_back()
        said = await f.answered(3)
        assert [text[:6] for text in said] == ["part 0", "part 1", "part 2"]
        await f.signal.connected()
        f.models.answer = lambda _: decision("Because of Rayleigh.")
        await f.say("and at night?")
        assert (await f.answered(4))[3:] == ["Because of Rayleigh."]


@pytest.mark.promise(563)
@pytest.mark.parametrize("status", [400, 503])
async def test_an_answer_waits_for_a_server_that_lost_its_signal_cli(tmp_path: Path, status: int) -> None:
    async with signal_flow(tmp_path) as f, f.running():
        f.models.answer = lambda _: decision("Because of Rayleigh.")
        f.signal.fail("send", *[lambda: refused("write tcp 127.0.0.1:6001: broken pipe", status)] * 5)
        await f.say("why is the sky blue?")
        assert await f.answered() == ["Because of Rayleigh."]


@pytest.mark.promise(563)
async def test_a_person_is_told_if_it_is_unknown_whether_the_server_sent_the_answer(tmp_path: Path) -> None:
    async with signal_flow(tmp_path) as f, f.running():
        f.models.answer = lambda _: decision("Because of Rayleigh.")
        f.signal.fail("send", *[lambda: refused("", 500)] * 5)
        await f.say("why is the sky blue?")
        said = await f.answered()
        assert said[0].startswith("I lost the connection")


@pytest.mark.promise(538)
@pytest.mark.parametrize("taken", [True, False])
async def test_a_person_is_told_if_the_connection_broke_while_the_answer_was_sent(tmp_path: Path, taken: bool) -> None:
    async with signal_flow(tmp_path) as f, f.running():
        f.models.answer = lambda _: decision("The sky is blue.")
        f.signal.hold_send(0, taken=taken, until=f.signal.hanging)
        await f.say("why is the sky blue?")
        await f.signal.until(lambda: f.signal.holds)
        f.signal.cut()
        said = await f.answered(2 if taken else 1)
        assert said.count("The sky is blue.") == taken
        assert said[-1].startswith("I lost the connection")


async def test_a_part_that_broke_on_its_way_is_not_sent_again_and_the_others_come(tmp_path: Path) -> None:
    async with signal_flow(tmp_path) as f, f.running():
        f.models.answer = lambda _: decision(LONG)
        f.signal.hold_send(1, taken=False, until=f.signal.hanging)
        await f.say("why is the sky blue?")
        await f.signal.until(lambda: f.signal.holds)
        f.signal.cut()
        said = await f.answered(3)
        assert [text[:6] for text in said[:2]] == ["part 0", "part 2"]
        assert "may be missing" in said[2]


@pytest.mark.promise(562)
async def test_what_is_written_while_the_program_stops_is_answered_by_its_next_run(tmp_path: Path) -> None:
    async with signal_flow(tmp_path) as f:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def answer(_: object) -> str:
            begun.set()
            await go_on.wait()
            return decision("The first answer.")

        f.models.answer = answer
        async with f.running() as runtime:
            host = runtime.host_of("claude")
            assert host is not None
            await f.say("first?")
            await begun.wait()
            drained = asyncio.create_task(runtime.drain())
            await until(lambda: not host.acts)
            await f.say("second?")
            await f.say("/status")
            assert "Today" in (await f.answered())[0]
            go_on.set()
            await drained
            assert f.said()[1:] == ["The first answer."]
        f.models.answer = lambda request: decision("The next answer." if "second?" in request.tail else "wrong")
        async with f.running():
            assert (await f.answered(3))[2:] == ["The next answer."]


@pytest.mark.promise(561)
async def test_after_a_crash_the_next_run_answers_what_waited_in_a_private_chat(tmp_path: Path) -> None:
    with RedisServer() as redis:
        async with signal_flow(tmp_path, redis_url=redis.url) as f, RedisConnection(redis.url) as link:
            begun, go_on, turns = asyncio.Event(), asyncio.Event(), SharedState(link).turns

            async def answer(_: object) -> str:
                begun.set()
                await go_on.wait()
                return "too late"

            async def kept() -> list[str]:
                events = [await turns.left("claude", turn_id) for turn_id in await turns.open_ids("claude")]
                return [event for event in events if event and "second?" in event]

            f.models.answer = answer
            with Program(tmp_path, environment=f.environ) as program:
                await f.signal.connected()
                await f.say("first?")
                await begun.wait()
                await f.say("second?")
                await f.say("third?")
                async with asyncio.timeout(30):
                    while not (len(events := await kept()) == 1 and "third?" in events[0]):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                program.kill()
            go_on.set()
            f.models.answer = lambda request: decision("Both." if "third?" in request.tail else "The first.")
            with Program(tmp_path, environment=f.environ):
                assert await f.answered(2) == ["The first.", "Both."]


async def test_reactions_and_typing_come_after_a_restart(tmp_path: Path) -> None:
    async with signal_flow(tmp_path) as f, f.running():

        async def answer(_: Any) -> str:
            await f.signal.stop()
            await f.signal.start()
            return decision("You are welcome.", react_emoji="👍")

        f.models.answer = answer
        await f.say("thanks!", ANNA)
        await f.signal.until(lambda: any(one["reaction"] == "👍" for one in f.signal.reactions))
