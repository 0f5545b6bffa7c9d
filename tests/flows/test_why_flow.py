"""Why a bot spoke and why it did not, in the whole program; a rest that outlives a restart."""

import time

from agent_coordinator.config import from_settings
from agentic.actions.explain import why_not
from agentic.services.discord.gateway import BACKOFF_TEXT
from agentic.state.silence import ChannelRef
from agentic.turn.result import LINES
from agentic.wire import keys
from tests.support.asking import explained
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.redis_server import RedisServer, until


async def test_a_mention_and_a_conversations_turns_leave_records_that_explain_them(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        services, claude = runtime.services, f.user_id("claude")
        f.models.answer = lambda r: decision("word " * 900 if "hello" in r.tail else "short", topic="t")
        await f.discord.say("Alice", "casual", f"<@{claude}> hello")
        await f.discord.wait_for(lambda: len(f.said("casual", "claude")) == 3)
        report = await runtime.coordinator.start_conversation(f.channel("debate"))
        assert report.messages == 4
        question, *parts = f.discord.messages("casual")
        told = [await explained(services, part) for part in parts]
        assert len(told) == 3
        assert told[0].startswith(f"**Claude** answered <@{question['author']['id']}>.\nIt used anthropic/")
        assert ", read 1 message, " in told[0]
        assert told[1:] == [told[0]] * 2
        opening, *others = [await explained(services, message) for message in f.discord.messages("debate")]
        assert "started a conversation among the bots" in opening
        assert [("in round 1 of a conversation" in text) for text in others] == [True] * 3
        assert await explained(services, question) == told[0], "as its answer"
        text = await why_not(services, "claude", ChannelRef(f.channel("casual")), time.time())
        assert text.startswith("**Claude** is silent here: nobody has mentioned it since")


async def test_a_rest_goes_on_after_a_restart_and_no_model_is_asked(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, COORDINATOR_MAX_ROUNDS="1") as f:
            f.models.answer = lambda r: Answer(status=401) if r.provider == "anthropic" else decision("hi", topic="t")
            claude, agents = f.user_id("claude"), ("chatgpt", "claude")
            both = {"agents": agents, "coordinator_config": from_settings(f.settings, agents)}
            async with f.running(**both) as runtime:
                for number in range(1, 4):
                    await f.discord.say("Alice", "casual", f"<@{claude}> hello")
                    await until(lambda number=number: len(f.models.requests) == number)
                await f.discord.wait_for(lambda: any(m.get("reactions") for m in f.discord.messages("casual")))
                explained_twice = f.said("casual", "claude")
                assert len(explained_twice) == 2
                await f.discord.wait_for(lambda: BACKOFF_TEXT in str(f.discord.gateway.presences.get("claude")))
                end = runtime.bots["claude"].cog.host.agent.models.main.backoff.until
            asked = len(f.models.requests)
            f.discord.gateway.presences.clear()
            async with f.running(**both) as runtime:
                await f.discord.wait_for(lambda: BACKOFF_TEXT in str(f.discord.gateway.presences.get("claude")))
                await f.discord.say("Alice", "casual", f"<@{claude}> hello")
                await f.discord.wait_for(lambda: f.said("casual", "claude") == [*explained_twice, LINES["benched"]])
                assert runtime.bots["claude"].cog.host.agent.models.main.backoff.until == end
                report = await runtime.coordinator.start_conversation(f.channel("casual"))
                assert (report.messages, report.counts.total.absences, len(f.models.requests)) == (1, 1, asked + 1)
                text = await why_not(runtime.services, "claude", ChannelRef(f.channel("casual")), time.time())
                assert "is silent here: its AI provider is rejecting requests" in text
                ttl = await runtime._link.call(lambda link: link.ttl(keys.bench("claude")))
                assert 0 < ttl <= 600
