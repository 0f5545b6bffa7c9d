"""What the options say, from files and pins to the request and the post; over real sockets."""

from __future__ import annotations

import io
import json
import sys

import pytest
from PIL import Image

from agentic.context.options import Options
from agentic.local.discord.world import Role
from agentic.process.root import ROOT
from agentic.runtime.services import provider_model
from tests.support.asking import ask, config, picture, pictures_in, shown
from tests.support.flow import decision, flow
from tests.support.models.chat_api import ChatServer
from tests.support.models.wire.values import Answer
from tests.support.redis_server import until

MCP_SERVER = ROOT / "tests/support/tools/mcp_server.py"
ADD = Options(tools=("lab__add",))

TEXT_FILE = "text/plain"


async def test_a_context_is_bounded_by_characters(tmp_path):
    async with flow(tmp_path, **config(tmp_path, shared="max_characters: 1000\n")) as f:
        for number in range(20):
            await f.discord.say("Bob", "debate", f"remark {number} " + "x" * 190)
        async with f.running(agents=("claude",)):
            seen = shown(await ask(f))
            assert [f"remark {n} " in seen for n in (15, 16, 17, 19)] == [False, False, True, True]


async def test_late_edits_and_reactions_are_notes_until_the_cut(tmp_path):
    async with flow(tmp_path, **config(tmp_path, shared="max_messages: 6\nrolling_threshold: 4\n")) as f:
        said = [await f.discord.say("Bob", "debate", f"remark {n}") for n in range(4)]
        async with f.running(agents=("claude",)):
            first = await ask(f)
            await f.discord.edit("debate", said[1], "remark one")
            await f.discord.react("Alice", "debate", said[2], "🔥")
            second = await ask(f)
            assert f"[note: msg:{said[1]['id']} by Bob now reads] remark one" in shown(second)
            assert f"[note: msg:{said[2]['id']} by Bob now has] 🔥" in shown(second)
            assert "Bob: remark 1" in shown(second)
            window = "\n".join(first.texts[:-1])
            assert shown(second).startswith(window)
            for _ in range(3):
                last = await ask(f)
            assert "[note:" not in shown(last)


async def test_what_is_left_of_the_room_for_files_is_kept(tmp_path):
    async with (
        flow(tmp_path, **config(tmp_path, shared="max_file_characters: 1000\n")) as f,
        f.running(agents=("claude",)),
    ):

        def file(letter):
            return (f"{letter}.txt", (letter * 20 + "\n").encode() * 38, TEXT_FILE)

        for number in range(6):
            await f.discord.say("Bob", "debate", f"remark {number}")
        await f.discord.say("Bob", "debate", "see", attachments=[file("a")])
        first = shown(await ask(f))
        assert first.count("a" * 20) == 38
        for number in range(8):
            await f.discord.say("Bob", "debate", f"remark {number}")
        second = shown(await ask(f))
        assert second.count("a" * 20) == 38
        await f.discord.say("Bob", "debate", "and see", attachments=[file("b")])
        third = shown(await ask(f))
        assert (third.count("b" * 20), third.count("a" * 20)) == (38, 0)


async def test_two_posts_of_one_bot_are_one_message(tmp_path):
    async with flow(tmp_path, **config(tmp_path, shared="split_at: 200\n")) as f, f.running(agents=("claude",)):
        words = " ".join(f"word{number}" for number in range(60))
        f.models.answer = lambda r: decision(words)
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> talk")
        await f.discord.wait_for(lambda: "word59" in "".join(f.said("debate", "claude")))
        assert len(f.said("debate", "claude")) > 1
        assert max(map(len, f.said("debate", "claude"))) <= 200
        f.models.answer = lambda r: decision("ok")
        seen = shown(await ask(f))
        assert words in seen


@pytest.mark.parametrize("pinned", [True, False])
async def test_a_pinned_config_reaches_the_request_and_one_that_is_not_pinned_does_not(tmp_path, pinned):
    async with flow(tmp_path) as f, f.running(agents=("claude", "gemini")):
        text = ".config\n---\nmax_output_tokens: 321\ntemperature: 0.3\nthinking: high\ncache_ttl: 1h\ntools: []"
        pin = await f.discord.say("Alice", "debate", text)
        if pinned:
            await f.discord.pin("Alice", "debate", pin)
        request = await ask(f)
        assert (request.raw["max_tokens"] == 321) is pinned
        assert (request.tools == ()) is pinned
        assert ('"ttl": "1h"' in json.dumps(request.raw)) is pinned
        assert (request.raw.get("output_config", {}).get("effort") == "high") is pinned
        other = await ask(f, bot="gemini")
        assert (other.raw["generationConfig"].get("temperature") == 0.3) is pinned
        assert (other.raw["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "HIGH") is pinned


async def test_a_threads_config_is_its_parents_and_then_its_own(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        for place, text in (("debate", "max_messages: 3"), (None, "rolling_threshold: 0")):
            if place is None:
                start = await f.discord.say("Bob", "debate", "the branch")
                thread = int((await f.discord.create_thread("Alice", "debate", "side", start["id"]))["id"])
                place = thread
            pin = await f.discord.say("Alice", place, f".config claude\n---\n{text}")
            await f.discord.pin("Alice", place, pin)
        for number in range(6):
            await f.discord.say("Bob", thread, f"remark {number}")
        seen = shown(await ask(f, thread))
        assert [f"remark {n}" in seen for n in (2, 3, 4, 5)] == [False, False, True, True]


async def test_pictures_are_shown_as_many_and_as_large_as_wanted(tmp_path):
    async with flow(tmp_path, **config(tmp_path, shared="max_images: 2\n")) as f, f.running(agents=("claude",)):
        for number, color in enumerate(("red", "green", "blue")):
            await f.discord.say("Bob", "debate", f"picture {number}", attachments=[picture(f"{number}.png", color)])
        request = await ask(f)
        found = [Image.open(io.BytesIO(data)).convert("RGB") for data in pictures_in(request)]
        assert [image.getpixel((1, 1)).index(max(image.getpixel((1, 1)))) for image in found] == [1, 2]
        assert all(max(image.size) < 2000 for image in found)
        pin = await f.discord.say("Alice", "debate", ".config\n---\ninclude_images: false\ninclude_files: false")
        await f.discord.pin("Alice", "debate", pin)
        await f.discord.say("Bob", "debate", "read", attachments=[("a.txt", b"words of a file", TEXT_FILE)])
        request = await ask(f)
        assert (request.pictures, "words of a file" in shown(request)) == (0, False)
        await f.discord.pin("Alice", "debate", pin, False)
        request = await ask(f)
        assert (request.pictures, shown(request).count("words of a file")) == (2, 1)


async def test_roles_say_who_may_write_config_and_history(tmp_path):
    async with flow(tmp_path) as f:
        guild = f.world.guild
        role = Role(f.world.new_id(), "steerers")
        guild.roles[role.id] = role
        guild.members[f.world.user("Bob").id].roles.append(role.id)
        roles = f"history_roles: {role.id}\nconfig_roles: [{role.id}]\n"
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "shared.yaml").write_text(roles)
        settings = f.settings.model_copy(update={"config_files_dir": tmp_path / "config"})
        await f.discord.say("Bob", "debate", "long ago")
        async with f.running(agents=("claude",), settings=settings):
            await f.discord.say("Alice", "debate", ".history")
            assert "long ago" in shown(await ask(f))
            await f.discord.say("Bob", "debate", ".history")
            pin = await f.discord.say("Bob", "debate", ".config claude\n---\nmax_output_tokens: 100")
            await f.discord.pin("Bob", "debate", pin)
            request = await ask(f)
            assert "long ago" not in shown(request)
            assert request.raw["max_tokens"] == 100


async def test_a_longer_chain_is_a_matter_of_the_option(tmp_path):
    async with flow(tmp_path, **config(tmp_path, shared="max_bot_chain: 1\n")) as f, f.running():
        claude, grok = f.user_id("claude"), f.user_id("grok")
        f.models.answer = lambda r: decision("@Grok" if r.provider == "anthropic" else "@Claude")
        await f.discord.say("Alice", "debate", f"<@{claude}> talk to Grok")
        await f.discord.wait_for(lambda: any(m.get("reactions") for m in f.discord.messages("debate")))
        assert f.said("debate")[1:] == [f"<@{grok}>", f"<@{claude}>"]


async def test_calls_are_shown_run_once_and_streamed_as_the_files_say(tmp_path):
    options = "tool_output_visible: true\nstream: true\ntools: [lab__add]\nmax_tool_depth: 2\n"
    server = f"servers:\n  lab:\n    command: {sys.executable}\n    args: ['{MCP_SERVER}']\n"
    files = config(tmp_path, shared=options, mcp=server)
    async with flow(tmp_path / "data", **files) as f, f.running(agents=("claude",)) as runtime:
        await until(lambda: "lab__add" in runtime.bots["claude"].cog.host.agent.toolbox(ADD.tools))

        def answer(request):
            if "lab__add" in request.tools:
                twice = (("lab__add", '{"a": 20, "b": 22}'), ("lab__add", '{"b": 22, "a": 20}'))
                return Answer(text="", calls=(*twice, ("lab__add", f'{{"a": {len(f.models.requests)}, "b": 2}}')))
            return decision(f"Asked {len(f.models.requests)} times.")

        f.models.answer = answer
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> add")
        await f.discord.wait_for(lambda: "Asked 3 times." in f.said("debate", "claude"))
        assert [r.tools for r in f.models.requests] == [("lab__add",), ("lab__add",), ()]
        assert all(r.raw["stream"] for r in f.models.requests)
        await f.discord.wait_for(lambda: "".join(f.said("debate", "claude")).count("<[lab__add]") == 3)
        assert [text for text in f.said("debate", "claude") if text.startswith(".claude>")] == [
            f".claude>[lab__add]: a: {a}\n  b: {b}\nclaude<[lab__add]: {a + b}" for a, b in ((20, 22), (1, 2), (2, 2))
        ]


async def test_a_call_is_tried_again_as_often_as_a_pin_says(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        pin = await f.discord.say("Alice", "debate", ".config\n---\nretries: 0")
        await f.discord.pin("Alice", "debate", pin)
        f.models.answer = lambda r: Answer(status=500)
        await ask(f)
        assert len(f.models.requests) == 1


async def test_the_fields_of_the_owners_files_go_into_the_request_and_those_of_a_pin_do_not(tmp_path):
    async with ChatServer(lambda request: decision("here")) as server:
        endpoints = f"endpoints: {{ollama: {{base_url: '{server.base_url}'}}}}\n"
        files = config(tmp_path, endpoints=endpoints, bots__claude="model: ollama/llama3\ncustom_fields: {top_k: 40}\n")
        async with flow(tmp_path / "data", **files) as f, f.running(agents=("claude",), make_model=provider_model):
            pin = await f.discord.say("Alice", "debate", ".config\n---\ncustom_fields: {top_k: 1}\nmodel: openai/x")
            await f.discord.pin("Alice", "debate", pin)
            await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> hi")
            await f.discord.wait_for(lambda: "here" in f.said("debate", "claude"))
        assert [(r.body["model"], r.body["options"]["top_k"]) for r in server.requests] == [("llama3", 40)]
