"""An agent with another model in one server: all that hangs on a model goes with it, everything else is the agent's."""

from __future__ import annotations

import asyncio

import pytest

from agent_config import AGENTS
from agentic.llm.errors import BadKey, PrefillRefused
from agentic.rooms.arena import ask_contender
from agentic.state.budgets import Caps
from agentic.state.rooms import Arena
from agentic.turn.result import LINES
from tests.support.agent_scene import LOUNGE, Scene, ScriptedCog
from tests.support.doubles import Guild, TextChannel, Thread, settle, until

SERVER, ABROAD, SIDE = 8, 800, 801


class SpeakingCog(ScriptedCog):
    """Notes which model each of its calls would reach, once `door` is open."""

    door: asyncio.Event | None = None

    async def _call_ai(self, prompt, history=()):
        if self.door is not None:
            await self.door.wait()
        self.spoke.append(self.model_for(prompt).name)
        return await super()._call_ai(prompt, history)

    async def _generate_image(self, prompt):
        self.painted.append(self.model_for(prompt).name)
        return await super()._generate_image(prompt)


@pytest.fixture
async def stage(tmp_path):
    """`await stage(abroad, home, **more)`: Claude, with the model `abroad` in SERVER and the options `home` in all."""
    scenes = []

    async def make(abroad="ollama/x", home="", *, env=None, **more):
        (tmp_path / "bots").mkdir()
        (tmp_path / "bots" / f"claude.{SERVER}.yaml").write_text(f"model: {abroad}\n")
        (tmp_path / "shared.yaml").write_text(home)
        keys = {"CONFIG_FILES_DIR": str(tmp_path), "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "XAI_API_KEY": "k"}
        places = {"GUILD_IDS": f"7,{SERVER}", "CHANNEL_THEME_MAP": f"{LOUNGE}:casual,{ABROAD}:casual"}
        scene = Scene("claude", cog=SpeakingCog, env={**keys, **places, **(env or {})}, **more)
        guild = Guild(scene.me)
        guild.id = SERVER
        scene.client.guilds.append(guild)
        scene.client.channels[ABROAD] = TextChannel(ABROAD, guild, "abroad", scene.ids)
        scene.client.channels[SIDE] = Thread(SIDE, guild, "side", scene.ids, ABROAD)
        scene.cog.spoke, scene.cog.painted = [], []
        scenes.append(await scene.start())
        return scene

    yield make
    for scene in scenes:
        await scene.aclose()


async def test_each_server_hears_its_model_also_in_threads_and_in_turns_by_instruction(stage):
    scene = await stage()
    await scene.ask()
    await scene.ask(channel=ABROAD)
    await scene.ask(channel=SIDE)
    await scene.instruct("i1", channel=LOUNGE)
    await scene.instruct("i2", channel=ABROAD)
    assert scene.cog.spoke == ["scripted/one", "ollama/x", "ollama/x", "scripted/one", "ollama/x"]
    assert scene.cog.model_for("a prompt of nowhere").name == "scripted/one"


async def test_every_way_to_a_bots_model_passes_its_cog_and_names_the_guild(stage):
    scene = await stage("xai/grok-x", env={"CLAUDE_IMAGE_MODEL": "xai/grok-brush"})
    scene.answers({"text": "Look.", "generate_image": True, "image_prompt": "a fox"})
    await scene.ask(channel=ABROAD)
    agent = scene.cog.host.agent
    arena = Arena(id=700, channel_id=ABROAD, guild_id=SERVER, question="Why?", asked_by=71, minutes=5, at=1000.0)
    await ask_contender(agent, arena)
    assert scene.cog.spoke == ["xai/grok-x"] * 2
    assert scene.cog.painted == ["xai/grok-x"]
    assert [prompt.guild_id for prompt, _ in scene.cog.asked] == [SERVER, SERVER]
    assert [(prompt, prompt.guild_id) for prompt in scene.cog.drawn] == [("a fox", SERVER)]


async def test_turns_that_run_side_by_side_keep_their_models(stage):
    scene = await stage()
    scene.cog.door = asyncio.Event()
    for channel in (ABROAD, LOUNGE, SIDE):
        await scene.hear(f"<@{scene.me.id}> hello", mentions=[scene.me], channel=channel)
        await settle()
    assert scene.cog.spoke == []
    scene.cog.door.set()
    await until(lambda: len(scene.cog.spoke) == 3)
    assert scene.cog.spoke == ["ollama/x", "scripted/one", "ollama/x"]


async def test_a_free_model_is_asked_where_there_is_no_money_for_the_other(stage):
    scene = await stage(caps=Caps(all=0.0))
    await scene.ask()
    await scene.ask(channel=ABROAD)
    assert (scene.texts(), scene.texts(ABROAD)) == ([], ["Hello."])


async def test_what_is_put_aside_for_a_turn_is_the_price_of_its_model(stage):
    scene = await stage("anthropic/claude-opus-5-5", env={"CLAUDE_MODEL": "claude-haiku-5-5"})
    asked = []
    begin = scene.state.turns.begin

    async def noting(*begun):
        asked.append(begun[-1].estimate)
        return await begin(*begun)

    scene.state.turns.begin = noting
    await scene.ask()
    await scene.ask(channel=ABROAD)
    assert 0 < asked[0] < asked[1]


async def test_who_is_refused_in_one_server_rests_there_alone(stage):
    scene = await stage("openai/gpt-x")
    scene.answers(*[BadKey()] * 2, {"text": "Hi."}, BadKey())
    for channel in (ABROAD, ABROAD, LOUNGE, ABROAD, ABROAD):
        await scene.ask(channel=channel)
        scene.clock.now += 61
    assert scene.texts(ABROAD)[-1] == LINES["benched"]
    assert len(scene.cog.asked) == 4
    await scene.ask()
    assert scene.texts() == ["Hi.", "Hello."]


@pytest.mark.parametrize(("abroad", "offered"), [("xai/grok-x", True), ("ollama/x", False)])
async def test_pictures_are_drawn_where_the_model_of_the_server_can(stage, abroad, offered):
    scene = await stage(abroad, env={"CLAUDE_IMAGE_MODEL": "xai/grok-brush"}, can_draw=False)
    scene.answers({"text": "Look.", "generate_image": True, "image_prompt": "a fox"})
    await scene.ask(channel=ABROAD)
    assert scene.cog.painted == (["xai/grok-x"] if offered else [])
    scene.answers({"text": "Look.", "generate_image": True, "image_prompt": "a fox"})
    await scene.ask()
    assert len(scene.cog.painted) == offered


async def test_prefill_mode_is_for_the_server_whose_model_goes_on_with_a_begun_answer(stage):
    scene = await stage("ollama/x", "mode: prefill\n")
    scene.cog.host.agent.services.models.prefill.refused(PrefillRefused(provider="scripted", model="one"))
    await scene.ask()
    home = scene.prompt
    await scene.ask(channel=ABROAD)
    assert (home.prefill, scene.prompt.prefill is None) == (None, False)


async def test_the_record_of_a_turn_without_an_answer_names_the_model_of_its_server(stage):
    scene = await stage("openai/gpt-x")
    scene.answers(BadKey(), BadKey())
    await scene.ask(channel=ABROAD)
    await scene.ask()
    assert [record.model for record in scene.state.recorded] == ["openai/gpt-x", f"anthropic/{AGENTS['claude'].model}"]
