"""A persona that lives, in one story: its files alone say who it is, what it does by itself and what it remembers."""

import json
import os
import shutil
import time

from agentic.process.root import ROOT
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.redis_server import RedisServer

MINUTE = 61.0  # seconds
HEARTBEAT = "## Build\n- interval: 60\n- channel: casual\n\nLook at the BUILD.\n"
AGENTS = (
    "## Cron Jobs\n### Plan\n- cron: `* * * * *`\n- channel: debate\n\nMake a PLAN.\n"
    "## Hooks\n### startup\n- channel: debate\n\nSay HELLO.\n"
)
ORDERS = ("BUILD", "PLAN", "HELLO")


class Shifted:
    """The machine's clock, as far ahead as a test says: a minute passes without anybody waiting for it."""

    ahead = 0.0

    def __call__(self):
        return time.time() + self.ahead


def answer(request):
    """Orders are obeyed, and whoever says "note" is noted."""
    task = request.texts[-1]
    if "note" in task and not request.results:
        return Answer(text="", calls=(("memory", json.dumps({"action": "append", "text": "Ann keeps bees"})),))
    return decision(next((f"did: {order}" for order in ORDERS if order in task), "answered"))


async def asked(f, words):
    before = len(f.said("casual", "claude"))
    await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> {words}")
    await f.discord.wait_for(lambda: f.said("casual", "claude")[before:].count("answered"))
    return [r for r in f.models.requests if r.kind == "text" and words in r.texts[-1]][-1].system


async def test_it_wakes_works_by_the_clock_changes_with_its_files_and_remembers(tmp_path, monkeypatch):
    monkeypatch.setattr("agentic.agent.persona.READ_SECONDS", 0.0)
    folder = tmp_path / "who" / "claude"
    folder.mkdir(parents=True)
    (folder / "heartbeat.md").write_text(HEARTBEAT)
    (folder / "agents.md").write_text(AGENTS)
    (folder / "soul.md").write_text("You are terse.")
    os.utime(folder / "soul.md", (time.time() - 60,) * 2)
    clock = Shifted()
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, PERSONAS_DIR=str(folder.parent)) as f:
            f.models.answer = answer
            async with f.running(agents=("claude",), personas=True, coordinator=False, clock=clock):
                await f.discord.wait_for(lambda: "did: HELLO" in f.said("debate", "claude"))
                assert "did: BUILD" not in f.said("casual"), "first after its interval"
                assert "You are terse." in await asked(f, "who are you?")
                (folder / "soul.md").write_text("You speak in rhymes.")
                system = await asked(f, "please note that Ann keeps bees")
                assert "You speak in rhymes." in system
                assert "terse" not in system
                assert "- Ann keeps bees" in await asked(f, "who keeps bees?")
            for minute in (1, 2):  # two restarts, each a minute later
                clock.ahead = minute * MINUTE
                async with f.running(agents=("claude",), personas=True, coordinator=False, clock=clock):
                    await f.discord.wait_for(lambda n=minute: f.said("casual", "claude").count("did: BUILD") == n)
                    await f.discord.wait_for(lambda n=minute: f.said("debate", "claude").count("did: PLAN") >= n)
                    await f.discord.wait_for(lambda n=minute: f.said("debate", "claude").count("did: HELLO") == n + 1)
                    assert "- Ann keeps bees" in await asked(f, f"and {minute}?")
    assert "Ann keeps bees" in (folder / "memory.md").read_text()


async def test_the_personas_that_ship_call_no_model_by_themselves(tmp_path):
    shipped, clock = ROOT / "personas", Shifted()
    shutil.copytree(shipped, tmp_path / "personas", ignore=shutil.ignore_patterns(".*"))
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            for days in (0, 8):  # over every hour of a week
                clock.ahead = days * 86_400.0
                async with f.running(personas=True, coordinator=False, clock=clock) as runtime:
                    f.models.answer = answer
                    assert "## Personality" in await asked(f, "hello?")
                    await runtime.drain()
            assert len(f.models.requests) == 2, "what a person asked, and nothing else"


async def test_in_prefill_mode_it_notes_by_a_call_in_words_and_reads_its_files(tmp_path):
    folder = tmp_path / "personas" / "claude"
    (folder / "workspace").mkdir(parents=True)
    (folder / "workspace" / "plan.md").write_text("Plant basil.")
    (folder / "identity.md").write_text("---\nmode: prefill\n---\nYou are Claude.\n")
    calls = [
        ("memory", {"action": "append", "text": "Ann keeps bees"}),
        ("files_read", {"path": "plan.md"}),
        ("files_read", {"path": "../soul.md"}),
    ]
    completions = [f'<call name="{name}">\n{json.dumps(arguments)}' for name, arguments in calls]
    async with flow(tmp_path, CLAUDE_MODEL="claude-sonnet-4-5") as f:
        answers = iter([*completions, "Noted.", "Ann does."])
        f.models.answer = lambda _: Answer(text=next(answers))
        async with f.running(agents=("claude",), personas=True):
            for words, said in (("note that Ann keeps bees", "Noted."), ("who keeps bees?", "Ann does.")):
                await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> {words}")
                await f.discord.wait_for(lambda said=said: said in f.said("debate", "claude"))
    *_, told, last = (request.system + "\n".join(request.texts) for request in f.models.requests)
    assert '<result name="memory">\n  noted\n</result>' in told
    assert '<result name="files_read">\n  Plant basil.\n</result>' in told
    assert '<error name="files_read">' in told
    assert "- Ann keeps bees" in last
    assert "files_write" not in told
