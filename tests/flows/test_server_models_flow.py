"""One bot in two servers with two models: over real sockets, from the files to the price of a turn."""

from __future__ import annotations

import logging

from agent_config import AGENTS, load_settings
from agentic.llm.pricing import price
from agentic.llm.registry import LazyModel
from agentic.llm.types import Usage
from agentic.local.discord import channels as worlds
from agentic.runtime.services import provider_model
from agentic.text import dollars
from tests.support.asking import ask, config, explained
from tests.support.flow import QUICK, decision, flow
from tests.support.models.wire.values import Answer

HOME, ABROAD = f"anthropic/{AGENTS['claude'].model}", "xai/grok-4.7"


def abroad(f):
    """A second server, with the channel #abroad, where Alice and Claude are."""
    guild = worlds.add_guild(f.world, "Abroad", f.world.user("Alice"))
    guild.members[f.world.user("Alice").id] = f.world.guild.members[f.world.user("Alice").id]
    worlds.invite(f.world, guild, f.world.app("claude"))
    return worlds.add_channel(f.world, guild, "abroad")


def settings_of(f, folder, channel, models, **more):
    """Of the flow, with `models` for all bots in the server of #abroad."""
    files = config(folder, **{f"guilds__{channel.guild_id}": f"model: {models}\n"})
    environ = {
        **{spec.token_setting: f"token-{name}" for name, spec in AGENTS.items()},
        **{spec.key_setting: "a-key" for spec in AGENTS.values()},
        **{spec.base_url_setting: f.models.base_url(spec.provider) for spec in AGENTS.values()},
        "CHANNEL_THEME_MAP": f"{f.channel('debate')}:casual,{channel.id}:casual",
        "DATA_DIR": str(folder / "data"),
        "PERSONAS_DIR": str(folder / "data" / "personas"),
        **QUICK,
        **files,
        **more,
    }
    return load_settings(environ, None)


def cost(name):
    provider, _, model = name.partition("/")
    return price(provider, model, Usage(calls=1, input_tokens=100_000, output_tokens=1000)).cost_usd


async def test_a_bot_speaks_in_each_server_with_its_model_and_each_turn_costs_its_price(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    async with flow(tmp_path) as f:
        channel = abroad(f)
        settings = settings_of(f, tmp_path, channel, ABROAD)
        f.models.answer = lambda r: Answer(text=decision(f"I am {r.model}"), input_tokens=100_000, output_tokens=1000)
        async with f.running(agents=("claude",), settings=settings) as runtime:
            _, there = runtime.bots["claude"].models
            assert isinstance(there, LazyModel)
            assert there._built is None  # until somebody speaks there
            # When the second turn of a channel begins, the first is settled.
            asked = [await ask(f, place) for place in ("debate", "abroad", "debate", "abroad")]
            assert [f"{r.provider}/{r.model}" for r in asked] == [HOME, ABROAD] * 2
            for place, model in (("debate", HOME), ("abroad", ABROAD)):
                told = await explained(runtime.services, f.discord.messages(place)[1])
                assert f"It used {model}," in told
                assert dollars(cost(model)) in told
            assert cost(HOME) != cost(ABROAD)
        assert f"claude: server {channel.guild_id} uses {ABROAD}" in caplog.text


async def test_a_list_of_one_server_is_tried_in_its_order(tmp_path, caplog):
    async with flow(tmp_path) as f:
        channel = abroad(f)
        models = "[openai/gpt-6-luna, deepseek/x, xai/grok-4.7]"
        settings = settings_of(f, tmp_path, channel, models, MODEL_RETRIES="0")
        f.models.answer = lambda r: Answer(status=500) if r.provider == "openai" else decision(f"I am {r.provider}")
        async with f.running(agents=("claude",), settings=settings, make_model=provider_model):
            await f.discord.say("Alice", "abroad", f"<@{f.user_id('claude')}> who are you?")
            await f.discord.wait_for(lambda: f.said("abroad", "claude") == ["I am xai"])
        assert [r.provider for r in f.models.requests] == ["openai", "xai"]
    assert "openai/gpt-6-luna failed, falling back to xai/grok-4.7" in caplog.text
