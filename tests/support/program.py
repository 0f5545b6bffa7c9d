"""run_all.py in a process of its own, against the stand-ins of a flow."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from agent_config import AGENTS
from tests.support.flow import QUICK

PROJECT = Path(__file__).parents[2]
# run_all.py as it is; only Discord's address is another one
LAUNCH = """
import sys, discord.http
discord.http.Route.API_BASE_URL = sys.argv[1]
from agent_runtime import cli
sys.exit(cli.main(sys.argv[2:]))
"""


@asynccontextmanager
async def program(folder, f, *arguments, **environment):
    """run_all.py in a process of its own; ended as a service manager does it. It has `lines`, and a whole `log`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LAUNCH, f.discord.api_base, *arguments,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), **QUICK, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    process.lines = []
    process.log = asyncio.create_task(_read(process))
    try:
        yield process
    finally:
        if process.returncode is None:
            tell(process, signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 30)


def tell(process, number):
    """Not by its send_signal, which may take the exit code away from who waits for it."""
    os.kill(process.pid, number)


async def _read(process):
    async for line in process.stdout:
        process.lines.append(line)
    return b"".join(process.lines)


def secrets_of(f):
    """The settings of tokens and keys, as support/flow.py has them."""
    found = {}
    for agent in f.settings.agents.values():
        found[agent.spec.token_setting] = agent.token.get_secret_value()
        found[agent.spec.key_setting] = agent.api_key.get_secret_value()
    return found


def environment(f, redis_url, secrets=None, **more):
    return {
        **(secrets or secrets_of(f)),
        **{spec.base_url_setting: f.models.base_url(spec.provider) for spec in AGENTS.values()},
        "CHANNEL_THEME_MAP": f"{f.channel('casual')}:casual,{f.channel('debate')}:debate",
        "REDIS_URL": redis_url,
        **more,
    }
