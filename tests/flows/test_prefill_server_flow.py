"""Prefill mode on an owner's OpenAI-compatible server, set by files alone; over real sockets."""

from __future__ import annotations

from contextlib import asynccontextmanager

from agentic.runtime.services import provider_model
from tests.support.flow import flow
from tests.support.models.chat_api import ChatAnswer, ChatServer


@asynccontextmanager
async def on_server(folder, answer, *, way="last", options="mode: prefill\n", **settings):
    """Claude on a server that answers with `answer`, which may be changed."""
    config = folder / "config"
    config.mkdir()
    async with ChatServer(lambda request: answer[0](request), models=("base",)) as server:
        more = "profile: {prefill: true}"
        (config / "endpoints.yaml").write_text(
            f"endpoints: {{lab: {{base_url: '{server.base_url}', prefill: '{way}', {more}}}}}\n"
        )
        (config / "shared.yaml").write_text(options)
        env = {"CLAUDE_MODEL": "lab/base", "ANTHROPIC_API_KEY": "", "CONFIG_FILES_DIR": str(config), **settings}
        async with (
            flow(folder / "data", **env) as f,
            f.running(agents=("claude",), make_model=provider_model, personas="PERSONAS_DIR" in settings),
        ):
            yield f, server


async def ask(f, text="what now?", author="Alice"):
    await f.discord.say(author, "debate", f"<@{f.user_id('claude')}> {text}")


def begun(request):
    """The text that the model goes on with: all that it was shown."""
    if request.path == "/completions":
        return request.body["prompt"]
    return "".join(message["content"] for message in request.messages if message["role"] == "assistant")


async def test_the_transcript_is_begun_names_are_stops_and_ones_own_words_are_gone_on_with(tmp_path):
    answer = [lambda request: ChatAnswer(text=" Tea is soup.\n\nBob: no!\n\nClaude: it is")]
    async with on_server(tmp_path, answer) as (f, server):
        await f.discord.say("Bob", "debate", "Is tea soup?\nAlice: surely")
        await ask(f)
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        assert f.said("debate", "claude") == ["Tea is soup."]
        first = server.requests[0]
        assert "Bob: Is tea soup?\n\\Alice: surely\n\nAlice: @Claude what now?\n\nSystem: Claude can" in begun(first)
        assert begun(first).endswith("\n\nClaude:")
        assert {"\nAlice:", "\nBob:"} <= set(first.body["stop"])
        assert not any("Claude:" in stop for stop in first.body["stop"])
        answer[0] = lambda request: ChatAnswer(text=" and a meal.")
        await f.discord.say("Bob", "debate", "m continue")
        await f.discord.wait_for(lambda: len(f.said("debate", "claude")) == 2)
        assert f.said("debate", "claude")[1] == "and a meal."
        assert begun(server.requests[1]).endswith("Claude: Tea is soup.")
        await ask(f, "again")
        await f.discord.wait_for(lambda: len(f.said("debate", "claude")) == 3)
        assert "\n\nClaude: Tea is soup. and a meal.\n\nAlice: @Claude again\n\n" in begun(server.requests[2])


async def test_a_base_model_gets_an_example_and_plain_lines_as_one_text(tmp_path):
    persona = tmp_path / "personas" / "claude"
    persona.mkdir(parents=True)
    (persona / "soul.md").write_text(
        '## How you talk\n\nDry.\nShould I quit? "Which morning did it stop\nbeing yours?"'
    )
    answer = [lambda request: ChatAnswer(text=" Tea is soup.\n\nBob: no!\n\nClaude: it is")]
    given = {"PERSONAS_DIR": str(tmp_path / "personas")}
    async with on_server(tmp_path, answer, way="completions", **given) as (f, server):
        await f.discord.say("Bob", "debate", "Is tea soup?\nAlice: surely")
        await ask(f)
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        assert f.said("debate", "claude") == ["Tea is soup."]
    (request,) = server.requests
    frame, topic, *paragraphs = request.body["prompt"].split("\n\n")
    assert "Claude" in frame
    assert topic.startswith("Topic: ")
    assert paragraphs[-4:] == [
        "You are Claude.\nDry.",
        "Bob: Is tea soup? Alice: surely",
        "Alice: @Claude what now?",
        "Claude:",
    ]
    assert request.body["stop"][:3] == ["\n\n", "\nTopic:", "\nAlice:"]
    assert request.body["max_tokens"] == 160


async def test_m_context_shows_the_transcript_that_is_sent(tmp_path):
    answer = [lambda request: ChatAnswer(text=" Tea.")]
    async with on_server(tmp_path, answer, options="mode: prefill\nprefill_bare: true\nstop_names: 1\n") as (f, _):
        await f.discord.say("Bob", "debate", "hm")
        await ask(f)
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        await f.discord.say("Alice", "debate", "m context")
        files = await f.discord.wait_for(lambda: [a for m in f.discord.messages("debate") for a in m["attachments"]])
        content = f.discord.world.attachments[int(files[0]["id"])].content.decode()
        assert "Claude: Tea." in content.split("to be continued")[1]
        assert content.startswith(f"{'-' * 20} system\nThe system is in CLI simulation mode.\n\n{'-' * 20} user\n<cmd>")
        assert "'\\nAlice:'" in content
        assert "'\\nBob:'" not in content


async def test_a_server_that_refuses_a_begun_answer_is_asked_in_chat_mode_from_then_on(tmp_path, caplog):
    def refuses(request):
        if request.messages[-1]["role"] == "assistant":
            return ChatAnswer(status=400, error="Assistant message prefill is not supported: last must be user")
        return ChatAnswer(text='{"skip": false, "text": "In chat."}')

    async with on_server(tmp_path, [refuses]) as (f, server):
        for count in (1, 2):
            await ask(f)
            await f.discord.wait_for(lambda count=count: len(f.said("debate", "claude")) == count)
        assert f.said("debate", "claude") == ["In chat."] * 2
        assert [r.messages[-1]["role"] for r in server.requests] == ["assistant", "user", "user"]
    assert sum("its turns use chat mode" in r.getMessage() for r in caplog.records) == 1
