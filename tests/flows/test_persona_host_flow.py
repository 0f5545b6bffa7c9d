"""Personas without a bot over the whole program: an instruction becomes a post under the persona's name."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web

from agentic.state.rooms import Room
from agentic.wire.messages import Command, Instruction, RoomOrder
from tests.support.flow import decision, flow
from tests.support.recorded import recorded
from tests.support.redis_server import until

HISTORIAN = "---\ndisplay_name: Clio\nmodel: google/{}\n---\nYou are Clio.\n"


def write(folder, key="historian", model="gemini-3.8-flash", text=HISTORIAN):
    (folder / key).mkdir(parents=True, exist_ok=True)
    (folder / key / "identity.md").write_text(text.format(model))
    (folder / key / "soul.md").write_text("You remember the Congress of Vienna.")


def order(thread, number=1):
    return Instruction(
        instruction_id=f"turn-{number}",
        channel_id=thread,
        channel_theme="debate",
        deadline=time.time() + 40,
        requested=True,
    )


@asynccontextmanager
async def world(tmp_path):
    """A server with a thread, and the folder of a historian."""
    write(tmp_path / "who")
    async with flow(tmp_path, PERSONAS_DIR=str(tmp_path / "who")) as f:
        yield f, int((await f.discord.create_thread("Alice", "debate", "Was Metternich right?"))["id"])


@asynccontextmanager
async def debate(tmp_path):
    """The program with that historian."""
    async with world(tmp_path) as (f, thread), f.running(agents=("gemini",), personas=True) as runtime:
        await hosted(f, runtime, "historian")
        yield f, runtime, thread


async def hosted(f, runtime, *names):
    await f.discord.wait_for(lambda: set(names) <= set(runtime.personas.names))


def posts(f, thread):
    found = f.world.channel(thread).messages.values()
    return [(message.author.username, message.content) for message in found if message.webhook_id]


async def test_an_instruction_ends_as_a_post_under_the_personas_name_and_a_result(tmp_path):
    async with debate(tmp_path) as (f, runtime, thread):
        ask = runtime.services.bus.ask
        f.models.answer = lambda r: decision("He feared everything that moved.")
        await f.discord.say("Bob", thread, "Was he?")
        result = await ask("historian", order(thread))
        assert (result.agent_name, result.text, result.skipped) == ("historian", posts(f, thread)[0][1], False)
        assert posts(f, thread) == [("Clio", "He feared everything that moved.")]
        assert result.message_id in f.world.channel(thread).messages
        (request,) = f.models.requests
        assert "Congress of Vienna" in request.system
        assert "Bob: Was he?" in "\n".join(request.texts)
        await ask("historian", order(thread, 2))
        assert "Clio (you): He feared" in "\n".join(f.models.requests[-1].texts)
        await f.discord.say("Alice", thread, f"<@{f.user_id('gemini')}> do you agree?")
        await f.discord.wait_for(lambda: len(f.models.requests) == 3)
        assert "] Clio: He feared" in "\n".join(f.models.requests[-1].texts), "a bot knows it by its name"
        outside = await ask("historian", order(f.channel("debate"), 3))
        assert (outside.skipped, outside.reason) == (True, "unknown_channel"), "it speaks in threads alone"


async def test_what_a_persona_posts_and_what_it_costs_is_in_the_record(tmp_path):
    async with debate(tmp_path) as (f, runtime, thread):
        f.models.answer = lambda r: decision("He feared everything that moved.")
        await runtime.services.bus.ask("historian", order(thread))
        await until(
            lambda: recorded(tmp_path, "SELECT 1 FROM posts WHERE text != ''")
        )  # its words come a moment after it
        assert recorded(tmp_path, "SELECT agent, outcome, cost_usd > 0 FROM turns") == [("historian", "posted", 1)]
        assert recorded(tmp_path, "SELECT agent, text FROM posts") == [
            ("historian", "He feared everything that moved.")
        ]


@pytest.mark.promise(162)
async def test_folders_are_followed_while_the_program_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("agentic.agent.roster.LOOK_EVERY", 0.05)
    async with debate(tmp_path) as (f, runtime, thread):
        personas, roster = tmp_path / "who", runtime.services.agents.roster
        write(personas, model="gemini-4-argon")
        write(personas, "poet", text="You rhyme.")
        write(personas, "shadow", text="---\ndisplay_name: Claude\n---\n")
        await hosted(f, runtime, "poet", "historian")
        await f.discord.wait_for(lambda: roster.of("historian").model == "google/gemini-4-argon")
        await hosted(f, runtime, "historian")
        for name in ("historian", "poet"):
            await runtime.services.bus.ask(name, order(thread, name))
        assert f.models.requests[0].model == "gemini-4-argon"
        assert [name for name, _ in posts(f, thread)] == ["Clio", "Poet"]
        assert "shadow" not in runtime.personas.names
        shutil.rmtree(personas / "poet")
        await f.discord.wait_for(lambda: "poet" not in runtime.personas.names)


async def test_a_room_of_personas_and_a_bot_goes_on_by_itself_to_its_end(tmp_path):
    write(tmp_path / "who", "sceptic", text="---\ndisplay_name: Sextus\nmodel: google/gemini-3.8-flash\n---\n")
    async with debate(tmp_path) as (f, runtime, thread):
        await hosted(f, runtime, "sceptic")
        f.models.answer = lambda r: decision(f"{'abcd'[len(f.models.requests) % 4] * 9} is my point.")
        members = tuple(runtime.services.agents.roster.of(key).member for key in ("historian", "sceptic", "gemini"))
        room = Room(
            thread_id=thread,
            channel_id=f.channel("debate"),
            conversation_id="a debate",
            topic="Was Metternich right?",
            members=members,
            turns=4,
        )
        order = RoomOrder(room=room.model_dump_json())
        assert (
            await runtime.services.bus.orders.give(Command(command="room-open", channel_id=thread, room=order))
            == "opened"
        )
        said = f.world.channel(thread).messages
        await f.discord.wait_for(lambda: len(said) > room.turns, timeout=30)
        assert [message.author.username for message in said.values()][: room.turns] == [
            "Clio",
            "Sextus",
            "Gemini",
            "Clio",
        ]
        kept = await runtime.services.state.coordination.rooms.read(thread)
        assert (kept.status, kept.why, kept.turn_number) == ("closed", "turn_limit", 4)
        offers = ["react_" in str(each.raw) for each in f.models.requests if "end_conversation" in str(each.raw)]
        assert offers == [False, False, True, False], "a persona gives no reactions"


class Held:
    """Requests to webhooks wait until `go_on`, and are then carried out, or not."""

    def __init__(self, *, arrives):
        self.waiting, self.go_on, self._arrives = asyncio.Event(), asyncio.Event(), arrives
        self.made = 0

    async def __call__(self, request):
        if request.method != "POST" or not request.path.startswith("/webhooks/"):
            return None
        self.made += 1
        if self.go_on.is_set():
            return None
        self.waiting.set()
        await self.go_on.wait()
        return None if self._arrives else web.Response(status=500)


@pytest.mark.promise(160)
@pytest.mark.parametrize("arrives", [True, False])
async def test_a_turn_whose_process_ends_at_the_post_is_finished_by_the_next_one_and_posted_once(
    tmp_path, arrives, monkeypatch
):
    monkeypatch.setattr("agentic.inbox.catch_up.ROUND_SECONDS", 0.2)
    async with world(tmp_path) as (f, thread), AsyncExitStack() as later:
        f.models.answer = lambda r: decision("Once.")
        f.discord.faults.on_request = held = Held(arrives=arrives)
        async with f.running(agents=("gemini",), personas=True) as first:
            await hosted(f, first, "historian")
            second = await later.enter_async_context(f.running(agents=("grok",), personas=True, holder="another"))
            await hosted(f, second, "historian")
            asked = asyncio.create_task(second.services.bus.ask("historian", order(thread)))
            await held.waiting.wait()
        held.go_on.set()
        result = await asked
        assert posts(f, thread) == [("Clio", "Once.")]
        assert held.made == (1 if arrives else 2), "what has arrived is found, not made again"
        assert (result.skipped, result.message_id) == (False, f.world.channel(thread).last_message_id)
        assert len(f.models.requests) == 1, "its answer was kept"
