"""A slow model shows who is thinking."""

import asyncio

from agent_config import load_settings
from agentic.llm.types import Prompt, Reply
from agentic.local.models import PAUSE, SLOW, Thinking, WatchedModel
from agentic.local.settings import SLOW_TURN, WATCHING, local_coordinator, local_settings, local_world


class SlowModel:
    name, can_draw, free = "ollama/x", False, True

    def __init__(self):
        self.go_on = asyncio.Event()

    async def complete(self, prompt, history=()):
        await self.go_on.wait()
        return Reply(text=prompt.text)


async def test_a_call_under_way_is_shown_with_its_bot_channel_and_seconds_until_it_ends():
    now = 100.0
    thinking, slow = Thinking(lambda: now, {7: "debate"}.__getitem__), SlowModel()
    claude = WatchedModel(slow, "Claude", thinking)
    assert thinking.render() == ""
    prompts = (Prompt(text="a", conversation=7), Prompt(text="b"))
    calls = [asyncio.create_task(claude.complete(prompt)) for prompt in prompts]
    await asyncio.sleep(0)
    now += 12
    assert thinking.render() == "Claude is thinking in #debate… 12 s, Claude is thinking… 12 s"
    calls.pop().cancel()
    slow.go_on.set()
    assert (await calls[0]).text == "a"
    assert thinking.render() == "", "also after a cancelled call"


async def test_a_person_who_waits_sees_how_many_answers_come_first():
    class BusyModel(SlowModel):
        async def complete(self, prompt, history=()):
            prompt.on_wait(2)
            return await super().complete(prompt, history)

    thinking, busy = Thinking(lambda: 5.0, str), BusyModel()
    heard: list[int] = []
    prompt = Prompt(text="a", priority="person", on_wait=heard.append)
    call = asyncio.create_task(WatchedModel(busy, "Claude", thinking).complete(prompt))
    await asyncio.sleep(0)
    assert thinking.render() == "Claude is thinking… 0 s (2 ahead)"
    assert heard == [2], "the turn says it elsewhere"
    busy.go_on.set()
    await call


def test_without_a_toolbar_there_is_a_line_after_ten_seconds_and_no_more_than_one_a_minute():
    now = 0.0
    thinking, lines = Thinking(lambda: now, str), []
    with thinking.of("Grok", 1), thinking.of("Claude", 2):
        while now < PAUSE + 2 * SLOW:
            lines += [(now, line)] if (line := thinking.slow_line()) else []
            now += 1
    assert [at for at, _ in lines] == [SLOW, SLOW + PAUSE]
    assert lines[0][1] == "Grok is thinking in #1… 10 s, Claude is thinking in #2… 10 s"


def seconds(folder, **environment):
    """The time for a scheduled turn, and that for an answer."""
    settings = load_settings({"DATA_DIR": str(folder), **environment}, env_file=None)
    local = local_settings(settings, local_world(settings), WATCHING)
    return local_coordinator(local, WATCHING).turn_seconds, local.turn_timeout_seconds


def test_a_model_on_the_owners_machines_has_time(tmp_path):
    assert seconds(tmp_path, OPENAI_API_KEY="k") == (120, 120)
    assert seconds(tmp_path, GROK_MODEL="ollama/x") == (SLOW_TURN, SLOW_TURN)
    assert seconds(tmp_path, GROK_MODEL="ollama/x", TURN_TIMEOUT_SECONDS="30") == (30, 30)
