"""Money in the whole program: signs, conversations that end, an owner who is told, a provider that refuses."""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import product

import pytest

from agent_coordinator.config import from_settings
from agentic.llm.errors import BadKey
from agentic.runtime.services import provider_model
from agentic.services.discord.gateway import BACKOFF_TEXT
from agentic.turn.result import LINES, error_line
from tests.support.coordinator_doubles import Luck
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.redis_server import RedisServer


def signs(f, channel):
    return [r["emoji"]["name"] for m in f.discord.messages(channel) for r in m.get("reactions", ())]


@asynccontextmanager
async def pair(f, settings):
    """ChatGPT and Claude, whose models cost the same, in conversations that chance does not end."""
    agents = ("chatgpt", "claude")
    config = from_settings(settings, agents)
    async with f.running(settings=settings, agents=agents, coordinator_config=config, rng=Luck()) as runtime:
        yield runtime


@pytest.mark.promise(47)
async def test_a_mention_beyond_the_budget_sleeps_also_after_a_restart(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, BUDGET_DAILY_USD="0.003") as f:
            claude = f.user_id("claude")
            f.models.answer = lambda r: Answer(text=decision("hello"), output_tokens=4000)
            caps = {"settings": f.settings.with_(budget_user_usd=1.0), "agents": ("claude",)}
            async with f.running(**caps):
                await f.discord.say("Alice", "casual", f"<@{claude}> hello")
                await f.discord.wait_for(lambda: f.said("casual", "claude"))
                await f.discord.say("Bob", "casual", f"<@{claude}> hello")
                await f.discord.wait_for(lambda: signs(f, "casual") == ["💤"])
            async with f.running(**caps):
                await f.discord.say("Bob", "casual", f"<@{claude}> and now?")
                await f.discord.wait_for(lambda: signs(f, "casual") == ["💤", "💤"])
            assert (f.said("casual", "claude"), len(f.models.requests)) == (["hello"], 1)


@pytest.mark.promise(42)
async def test_a_conversation_closes_for_lack_of_money_and_the_owner_is_told_once(tmp_path):
    async with flow(tmp_path, BUDGET_DAILY_USD="0.1") as f:
        f.models.answer = lambda r: Answer(
            text=decision(f"turn {len(f.models.requests)}", topic="t"), output_tokens=37_980
        )
        async with pair(f, f.settings.with_(owner_channel_id=f.channel("debate"))) as runtime:
            report = await runtime.coordinator.start_conversation(f.channel("casual"))
            assert (report.ended_because, report.messages, len(f.models.requests)) == ("budget", 6, 6)
            assert ["last message" in request.tail for request in f.models.requests] == [False] * 5 + [True]
            again = await runtime.coordinator.start_conversation(f.channel("casual"))
            assert (again.ended_because, again.messages, len(f.models.requests)) == ("budget", 0, 6)
        assert f.said("debate") == ["⚠️ 80% of today's budget ($0.10) is spent."]


@pytest.mark.promise(93)
async def test_a_bot_whose_key_is_refused_rests_and_conversations_go_on_without_it(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f:
        claude = f.user_id("claude")
        f.models.answer = lambda r: Answer(status=401) if r.provider == "anthropic" else decision("hello", topic="t")
        async with pair(f, f.settings) as runtime:
            for theme, person in product(("casual", "debate"), ("Alice", "Bob")):
                heard = len(f.said(theme, "claude"))
                await f.discord.say(person, theme, f"<@{claude}> hello")
                await f.discord.wait_for(lambda theme=theme, heard=heard: len(f.said(theme, "claude")) > heard)
            assert f.said("casual", "claude") == [error_line(BadKey())] * 2
            assert f.said("debate", "claude") == [error_line(BadKey()), LINES["benched"]]
            await f.discord.wait_for(lambda: BACKOFF_TEXT in str(f.discord.gateway.presences.get("claude")))
            asked = len(f.models.requests)
            report = await runtime.coordinator.start_conversation(f.channel("casual"))
            assert (report.messages, report.counts.total.absences, len(f.models.requests)) == (1, 1, asked + 1)


async def test_a_model_on_an_own_machine_is_never_out_of_money(tmp_path):
    async with flow(tmp_path, BUDGET_DAILY_USD="0.000001") as f:
        f.models.answer = lambda r: decision("hello")
        async with f.running(agents=("claude",), make_model=provider_model):
            await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> hello")
            await f.discord.wait_for(lambda: f.said("casual", "claude") == ["hello"])


async def test_who_has_an_ignored_role_calls_nobody(tmp_path):
    async with flow(tmp_path) as f:
        role = f.world.role("bots").id
        f.world.guild.members[f.world.user("Bob").id].roles.append(role)
        async with f.running(agents=("claude",), settings=f.settings.with_(ignore_role_ids=(role,))):
            await f.discord.say("Bob", "casual", f"<@{f.user_id('claude')}> hello")
            await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> hello")
            await f.discord.wait_for(lambda: f.said("casual", "claude"))
            await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> again")
            await f.discord.wait_for(lambda: len(f.said("casual", "claude")) == 2)
            assert (len(f.models.requests), signs(f, "casual")) == (2, [])
