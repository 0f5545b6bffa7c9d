"""`/ask`, `/reset`, `/agent-file` and direct messages over the whole program."""

import re

import pytest

from agentic.actions.texts import TEXTS
from agentic.local.discord.dialogs import EPHEMERAL
from tests.flows.test_commands_flow import ready, told
from tests.support.asking import explained, link
from tests.support.flow import decision, flow


async def ask(f, agent, prompt, who="Alice", channel="casual"):
    """The message that everybody sees."""
    used = await f.discord.interact(who, channel, "chatgpt", "ask", {"agent": agent, "prompt": prompt})
    await f.discord.wait_for(lambda: used.answers)
    (shown,) = used.answers
    return shown


def seen_by(f, provider):
    """What the newest request to a provider held."""
    request = [request for request in f.models.requests if request.provider == provider][-1]
    return "\n".join(request.texts)


async def test_a_question_by_command_is_answered_in_the_channel_to_who_asked(tmp_path):
    async with flow(tmp_path) as f, f.running() as runtime:
        await ready(f)
        f.models.answer = lambda request: decision(f"{request.provider} answers")
        shown = await ask(f, "claude", "why is the sky <blue>? stop")
        assert not shown.get("flags", 0) & EPHEMERAL
        assert shown["content"] == f"<@{f.user_id('claude')}> why is the sky <blue>? stop"
        await f.discord.wait_for(lambda: f.said("casual", "claude"))
        (answer,) = [m for m in f.discord.messages("casual") if "anthropic answers" in m["content"]]
        assert answer["content"] == "anthropic answers"
        assert "why is the sky" in seen_by(f, "anthropic")
        assert re.search(r"Alice.*why is the sky", seen_by(f, "anthropic"), re.DOTALL)
        await ask(f, "chatgpt", "and you?")  # the one that shows the question
        await f.discord.wait_for(lambda: "openai answers" in f.said("casual", "chatgpt"))
        why = await explained(runtime.services, shown)
        assert why is not None
        assert why.startswith("**Claude** answered <@")


async def test_nothing_in_a_question_is_an_order(tmp_path):
    async with flow(tmp_path) as f, f.running():
        await ready(f)
        f.models.answer = lambda request: decision("Still here.")
        await ask(f, "claude", "stop", who="Bob")
        await f.discord.wait_for(lambda: f.said("casual", "claude") == ["Still here."])


async def test_after_a_reset_an_agent_sees_nothing_from_before(tmp_path):
    async with flow(tmp_path) as f, f.running():
        await ready(f)
        f.models.answer = lambda request: decision("Yes.")
        for channel in ("casual", "debate"):
            await f.discord.say("Alice", channel, f"<@{f.user_id('claude')}> the password is swordfish")
            await f.discord.wait_for(lambda channel=channel: f.said(channel, "claude"))
        used = await f.discord.interact("Alice", "casual", "chatgpt", "reset", {"agent": "claude"})
        assert "Claude starts fresh here" in await told(f, used)
        for channel in ("casual", "debate"):
            await f.discord.say("Alice", channel, f"<@{f.user_id('claude')}> what did I say?")
            await f.discord.wait_for(lambda channel=channel: len(f.said(channel, "claude")) == 2)
            assert ("swordfish" in seen_by(f, "anthropic")) == (channel == "debate")
        await f.discord.say("Alice", "casual", f"<@{f.user_id('gemini')}> and you?")
        await f.discord.wait_for(lambda: f.said("casual", "gemini"))
        assert "swordfish" in seen_by(f, "google"), "the others were not reset"


async def test_no_history_brings_back_what_was_said_before_a_reset(tmp_path):
    async with flow(tmp_path) as f, f.running():
        await ready(f)
        f.models.answer = lambda request: decision("Yes.")
        said = await f.discord.say("Bob", "casual", "the password is swordfish")
        await told(f, await f.discord.interact("Alice", "casual", "chatgpt", "reset", {"agent": "claude"}))
        await f.discord.say("Alice", "casual", f".history\n---\nlast: {link(f, 'casual', said)}")
        for bot, provider in (("claude", "anthropic"), ("gemini", "google")):
            await f.discord.say("Alice", "casual", f"<@{f.user_id(bot)}> what is it?")
            await f.discord.wait_for(lambda bot=bot: f.said("casual", bot))
            assert ("swordfish" in seen_by(f, provider)) == (bot == "gemini")


async def test_a_reset_holds_after_a_restart(tmp_path):
    async with flow(tmp_path) as f:
        f.models.answer = lambda request: decision("Yes.")
        async with f.running():
            await ready(f)
            await f.discord.say("Alice", "casual", "the password is swordfish")
            await told(f, await f.discord.interact("Alice", "casual", "chatgpt", "reset", {}))
        async with f.running():
            await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> what did I say?")
            await f.discord.wait_for(lambda: f.said("casual", "claude"))
            assert "swordfish" not in seen_by(f, "anthropic")


async def test_a_file_of_a_persona_is_shown_and_changed_in_a_form(tmp_path):
    folder = tmp_path / "personas" / "claude"
    folder.mkdir(parents=True)
    (folder / "soul.md").write_text("Dry humour.")
    async with flow(tmp_path / "data", PERSONAS_DIR=str(tmp_path / "personas")) as f, f.running():
        await ready(f)
        which = {"agent": "claude", "file": "soul.md"}
        for part in ("show", "edit"):
            used = await f.discord.interact("Bob", "casual", "chatgpt", f"agent-file {part}", which)
            assert await told(f, used) == TEXTS["managers_only"]
        shown = await f.discord.interact("Alice", "casual", "chatgpt", "agent-file show", which)
        assert "Dry humour." in await told(f, shown)
        edit = await f.discord.interact("Alice", "casual", "chatgpt", "agent-file edit", which)
        await f.discord.wait_for(lambda: edit.form)
        (row,) = edit.form["components"]
        assert row["components"][0]["value"] == "Dry humour."
        kept = await f.discord.fill_in(edit, "Drier humour.")
        assert "Saved" in await told(f, kept)
        assert (folder / "soul.md").read_text() == "Drier humour.\n"
        was = await f.discord.interact("Alice", "casual", "chatgpt", "agent-file show", {**which, "back": 1})
        assert "Dry humour." in await told(f, was)


async def test_direct_messages_are_answered_where_the_owner_wants_it(tmp_path):
    for allowed in (False, True):
        async with flow(tmp_path / str(allowed), ALLOW_DMS=str(allowed)) as f, f.running() as runtime:
            f.models.answer = lambda request: decision("Just between us.")
            direct = await f.discord.open_direct("Alice", "claude")
            await f.discord.say("Alice", direct, "hello, only you")
            await f.discord.say("Alice", "casual", f"<@{f.user_id('gemini')}> hello, all")
            await f.discord.wait_for(lambda f=f: f.said("casual", "gemini"))
            if allowed:
                await f.discord.wait_for(lambda f=f, direct=direct: f.said(direct, "claude") == ["Just between us."])
                assert "hello, only you" in seen_by(f, "anthropic")
                assert "direct message" in "\n".join(r.system + str(r.texts) for r in f.models.requests)
            else:
                assert f.said(direct, "claude") == []
                assert direct not in runtime.services.chats.transcripts._channels
            assert "only you" not in seen_by(f, "google")


@pytest.mark.promise(41)
async def test_anybody_may_reset_their_own_direct_messages(tmp_path):
    async with flow(tmp_path, ALLOW_DMS="true") as f, f.running():
        await ready(f)
        claude = f.world.app("claude")
        await f.discord.wait_for(lambda: claude.commands.get(None))
        f.models.answer = lambda request: decision("Just between us.")
        direct = await f.discord.open_direct("Bob", "claude")
        await f.discord.say("Bob", direct, "the password is swordfish")
        await f.discord.wait_for(lambda: len(f.said(direct, "claude")) == 1)
        assert (
            await told(f, await f.discord.interact("Bob", "casual", "chatgpt", "reset", {}))
            == TEXTS["message_managers_only"]
        )
        assert "I'm starting fresh" in await told(f, await f.discord.interact("Bob", direct, "claude", "reset", {}))
        await f.discord.say("Bob", direct, "what did I say?")
        await f.discord.wait_for(lambda: len(f.said(direct, "claude")) == 2)
        assert "swordfish" not in seen_by(f, "anthropic")
