"""Personas over the whole program: files in the prompt, what is noted in one turn and told in the next, and where."""

import json
import os
import re
import shutil
import time

from agent_config import load_settings
from agentic.agent.persona import read_fronts
from agentic.local.discord import world as permissions
from agentic.local.discord.world import Overwrite
from agentic.process.root import ROOT
from tests.support.flow import decision, flow
from tests.support.models.agent_sdk_doubles import FakeSdk, ResultMessage, init, model_with
from tests.support.models.wire.values import Answer

PENNY = ROOT / "personas" / "penny"


def noting(text):
    """The model notes something before it answers a question with "note" in it."""

    def answer(request):
        if "note" in request.texts[-1] and not request.results:
            return Answer(text="", calls=(("memory", json.dumps({"action": "append", "text": text})),))
        return decision(f"answer {len(request.results)}")

    return answer


async def asked(f, channel, words, bot="claude"):
    """What the bot's model was shown when a person had asked, its tools' results and all."""
    before = len(f.said(channel, bot))
    await f.discord.say("Alice", channel, f"<@{f.user_id(bot)}> {words}")
    await f.discord.wait_for(lambda: len(f.said(channel, bot)) > before)
    return [request for request in f.models.requests if request.kind == "text"][-1]


async def test_files_are_made_at_the_start_and_an_edit_changes_the_next_prompt(tmp_path, monkeypatch):
    monkeypatch.setattr("agentic.agent.persona.READ_SECONDS", 0.0)
    personas = tmp_path / "who"
    async with flow(tmp_path, PERSONAS_DIR=str(personas)) as f, f.running(agents=("claude",), personas=True):
        soul = personas / "claude" / "soul.md"
        assert soul.is_file()
        assert not (personas / "grok").exists()
        first = await asked(f, "debate", "who are you?")
        assert re.findall("^## (.*)$", first.system, re.MULTILINE)[:2] == ["Identity", "Personality"]
        soul.write_text("You speak in rhymes.")
        os.utime(soul, (time.time() - 60,) * 2)
        second = await asked(f, "debate", "and now?")
        assert "You speak in rhymes." in second.system
        assert "rhymes" not in first.system


async def test_what_is_noted_is_in_the_next_prompt_after_all_that_stays_and_survives_a_restart(tmp_path):
    async with flow(tmp_path) as f:
        f.models.answer = noting("Ann keeps bees")
        async with f.running(agents=("claude",), personas=True):
            first = await asked(f, "debate", "note that Ann keeps bees")
            assert [text for _, text in first.results] == ["noted"]
            second = await asked(f, "debate", "what about Ann?")
            assert "- Ann keeps bees" in second.system
            assert "channel:" not in second.system
            stays = second.system.partition("# Your notes")[0].rstrip()
            assert first.system.startswith(stays)
            assert "# Your answer" in stays
        async with f.running(agents=("claude",), personas=True):
            assert "- Ann keeps bees" in (await asked(f, "casual", "and here?")).system


async def test_what_was_learned_in_a_closed_channel_is_not_recalled_in_an_open_one(tmp_path):
    async with flow(tmp_path, channels={"lobby": "casual", "staff": "casual"}) as f:
        staff = f.world.channel("staff")
        staff.overwrites[f.world.guild.id] = Overwrite(f.world.guild.id, 0, deny=permissions.VIEW_CHANNEL)
        me = f.user_id("claude")
        staff.overwrites[me] = Overwrite(me, 1, allow=permissions.VIEW_CHANNEL)
        f.models.answer = noting("Bob is leaving")
        async with f.running(agents=("claude",), personas=True):
            await asked(f, "staff", "note that Bob is leaving")
            assert "Bob is leaving" in (await asked(f, "staff", "who leaves?")).system
            assert "Bob" not in (await asked(f, "lobby", "who leaves?")).system


async def test_a_person_cannot_flood_a_memory(tmp_path):
    async with flow(tmp_path, MEMORY_WRITES_PER_DAY="1") as f, f.running(agents=("claude",), personas=True):
        f.models.answer = noting("spam")
        assert (await asked(f, "debate", "note this")).results[0][1] == "noted"
        assert "limit of memory changes is reached" in (await asked(f, "debate", "note that")).results[0][1]


async def test_a_coding_agent_is_told_of_no_tool_but_its_own_and_its_memory(tmp_path):
    (tmp_path / "personas" / "claude" / "workspace").mkdir(parents=True)
    sdk = FakeSdk([init("a-session"), ResultMessage(decision("Done."))])
    async with flow(tmp_path) as f:
        own = {"agents": ("claude",), "personas": True, "make_model": lambda _: model_with(sdk, tmp_path / "sdk")}
        async with f.running(**own) as runtime:
            cog = runtime.bots["claude"].cog
            outlet = cog.channels.outlet_of(f.channel("debate"))
            others = set(cog.host.agent.toolbox(cog.host.agent.options_for(outlet).tools))
            await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> note that I keep bees")
            await f.discord.wait_for(lambda: f.said("debate", "claude") == ["Done."])
    ((_, options),) = sdk.asked
    assert "## Personality" in options.system_prompt
    assert "with the `memory` tool" in options.system_prompt
    assert (list(options.mcp_servers), list(options.mcp_servers["agent"].tools)) == (["agent"], ["memory"])
    others.remove("memory")
    assert {"web_search", "files_read"} <= others, "what an agent without a loop of its own would have"
    named = [name for name in others if re.search(rf"\b{name}\b", options.system_prompt)]
    assert named == [], "Claude Code has no such tools, and no way into the persona's folder"


async def test_a_write_that_fails_leaves_the_answer(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",), personas=True) as runtime:
        f.models.answer = noting("Ann keeps bees")
        folder = runtime.services.agents.personas.of("claude").folder
        (folder / "memory.md").unlink()
        (folder / "memory.md").symlink_to(tmp_path / "nowhere")
        last = await asked(f, "debate", "note that Ann keeps bees")
        assert last.results[0][1].startswith("nothing was changed")
        assert f.said("debate", "claude") == ["answer 1"]


async def test_the_front_matter_is_a_layer_of_the_options(tmp_path):
    folder = tmp_path / "personas" / "claude"
    folder.mkdir(parents=True)
    (folder / "identity.md").write_text("---\nmode: prefill\n---\nYou are Claude.")
    async with flow(tmp_path) as f, f.running(agents=("claude",), personas=True) as runtime:
        cog = runtime.bots["claude"].cog
        await asked(f, "debate", "hello?")
        assert cog.host.agent.options_for(cog.channels.outlet_of(f.channel("debate"))).mode == "prefill"


async def test_a_bot_speaks_as_another_persona_without_moving_folders(tmp_path):
    personas = tmp_path / "who"
    shutil.copytree(PENNY, personas / "penny")
    folders = {"PERSONAS_DIR": str(personas), "PERSONA_FOLDERS": "claude:penny", "CLAUDE_MODEL": "claude-haiku-5-5"}
    async with flow(tmp_path, **folders) as f:
        f.models.answer = noting("Ann keeps bees")
        async with f.running(agents=("claude",), personas=True) as runtime:
            seen = await asked(f, "debate", "note that Ann keeps bees")
            assert "You're the one in the group who has the page open" in seen.system
            assert "penny" not in runtime.services.agents.roster.names
            assert "Ann keeps bees" in (personas / "penny" / "memory.md").read_text()
            assert not (personas / "claude").exists()
        claude = load_settings({**folders, "BOT_TOKEN_CLAUDE": "a-token"}, None, fronts=read_fronts).agents["claude"]
        assert (claude.display_name, claude.front.unprompted) == ("Penny", "everyone")


async def test_a_persona_posts_with_the_picture_in_its_folder(tmp_path):
    personas = tmp_path / "who"
    for name in ("historian", "engineer"):
        shutil.copytree(ROOT / "personas" / name, personas / name)
    async with flow(tmp_path, PERSONAS_DIR=str(personas)) as f:
        pictures_in = f.settings.with_(owner_channel_id=f.channel("casual"))
        async with f.running(settings=pictures_in, agents=("chatgpt",), personas=True):
            await f.discord.wait_for(lambda: len(f.discord.messages("casual")) == 2)
            pictures = [message["attachments"][0]["url"] for message in f.discord.messages("casual")]
            members = {"topic": "Is tea better?", "personas": "Historian, Engineer", "turns": 2}
            await f.discord.wait_for(lambda: any(app.commands for app in f.world.apps.values()))
            used = await f.discord.interact("Alice", "debate", "chatgpt", "room create", members)
            await f.discord.wait_for(lambda: used.answers)
            posts = lambda: [m for c in f.world.channels() for m in c.messages.values() if m.webhook_id]  # noqa: E731
            await f.discord.wait_for(lambda: len(posts()) == 2)
            assert sorted(message.author.avatar for message in posts()) == sorted(pictures)
