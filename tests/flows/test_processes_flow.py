"""Bots in processes of their own, as `AGENT_NAME=gemini python run_bot.py` starts them."""

import pytest

from tests.support.flow import flow
from tests.support.program import program
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.usefixtures("warm")


async def test_a_bot_in_its_own_process_converses_with_the_others(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, COORDINATOR_MAX_ROUNDS="1") as f:
            environment = {
                "AGENT_NAME": "gemini",
                "BOT_TOKEN_GEMINI": "token-gemini",
                "GEMINI_API_KEY": "a-key",
                "GOOGLE_GEMINI_BASE_URL": f.models.base_url("google"),
                "REDIS_URL": redis.url,
                "CHANNEL_THEME_MAP": f"{f.channel('debate')}:debate",
            }
            async with program(tmp_path, f, entry="main_one_bot", **environment):
                await f.discord.wait_for(lambda: "gemini" in f.discord.online, timeout=30)
                async with f.running(agents=("chatgpt", "claude", "grok")) as here:
                    report = await here.coordinator.start_conversation(f.channel("debate"))
                    assert report.messages == 4
                    assert len(f.said("debate", "gemini")) == 1
                    await f.discord.say("Alice", "debate", f"<@{f.user_id('gemini')}> hello")
                    await f.discord.wait_for(lambda: len(f.said("debate", "gemini")) == 2)
