"""Bots in processes of their own, as `AGENT_NAME=gemini python run_bot.py` starts them."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from tests.support.flow import flow
from tests.support.redis_server import RedisServer

PROJECT = Path(__file__).parents[2]
# run_bot.py as it is; only Discord's address is another one
LAUNCH = """
import sys, discord.http
discord.http.Route.API_BASE_URL = sys.argv[1]
from agent_runtime import cli
sys.exit(cli.main_one_bot())
"""


@contextmanager
def bot_process(folder, api_base, **environment):
    """A bot's process; it is told to end as a service manager does, and must end in order."""
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", LAUNCH, api_base],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), **environment},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=20)
    assert process.returncode == 0, log


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
            with bot_process(tmp_path, f.discord.api_base, **environment):
                await f.discord.wait_for(lambda: "gemini" in f.discord.online, timeout=30)
                async with f.running(agents=("chatgpt", "claude", "grok")) as here:
                    report = await here.coordinator.fire(f.channel("debate"))
                    assert report.messages == 4
                    assert len(f.said("debate", "gemini")) == 1
                    await f.discord.say("Alice", "debate", f"<@{f.user_id('gemini')}> hello")
                    await f.discord.wait_for(lambda: len(f.said("debate", "gemini")) == 2)
