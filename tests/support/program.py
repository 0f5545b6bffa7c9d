"""The program in a process of its own, as run_all.py, run_bot.py and the coordinator start it."""

import asyncio
import os
import select
import signal
import tempfile
import time
from contextlib import asynccontextmanager

from agent_config import AGENTS
from tests.support import warm_start
from tests.support.flow import QUICK

WITHIN = 30.0  # seconds for a start or an end


class Program:
    """`with Program(...) as process:`. What it has written so far, and its exit code once it has ended.

    `entry` is a function of agentic/runtime/cli.py, `before` is code that runs first, `typed` what stands in its
    standard input before that ends.
    """

    def __init__(self, folder, *arguments, entry="main", before="", typed="", environment):
        self._texts = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]  # noqa: SIM115 - closed at the end
        (given, typing), (report, reported) = os.pipe(), os.pipe()
        os.write(typing, typed.encode())
        os.close(typing)
        request = {
            "entry": entry,
            "arguments": arguments,
            "environment": {"PATH": os.environ["PATH"], "CONSOLE": "false", **environment},
            "folder": str(folder),
            "before": before,
        }
        warm_start.ask(request, [given, *(file.fileno() for file in self._texts), reported])
        for file in (given, reported):
            os.close(file)
        self._report = os.fdopen(report, "rb", buffering=0)
        self.pid = int(self._report.readline())
        self.returncode = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        written = [self.stdout, self.stderr]
        for file in (*self._texts, self._report):
            file.close()
        self._texts = written

    @property
    def stdout(self):
        return _text(self._texts[0])

    @property
    def stderr(self):
        return _text(self._texts[1])

    def says(self, words):
        return words in self.stdout + self.stderr

    def poll(self):
        """The exit code, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._report], [], [], 0)[0]:
            self.returncode = int(self._report.readline())
        return self.returncode

    def tell(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """As by kill -9; returns when it is gone."""
        self.tell(signal.SIGKILL)
        self.wait()

    def wait(self, within=WITHIN):
        """Its exit code; not while it needs this process's event loop."""
        wait_for(lambda: self.poll() is not None, within)
        return self.returncode

    async def ended(self, within=WITHIN):
        """Its exit code."""
        async with asyncio.timeout(within):
            while self.poll() is None:  # noqa: ASYNC110 - a process has no event for it
                await asyncio.sleep(0.01)
        return self.returncode


def at(discord):
    """Code by which a program talks to a stand-in."""
    return f"import discord.http; discord.http.Route.API_BASE_URL = {discord.api_base!r}"


def _text(written):
    if isinstance(written, str):
        return written
    size = os.fstat(written.fileno()).st_size
    return os.pread(written.fileno(), size, 0).decode(errors="replace")


def wait_for(condition, within=WITHIN):
    """For tests without an event loop."""
    give_up = time.monotonic() + within
    while not condition():
        assert time.monotonic() < give_up, f"not within {within:g} s"
        time.sleep(0.01)


@asynccontextmanager
async def program(folder, f, *arguments, entry="main", **environment):
    """Against the stand-ins of a flow; it is told to end as a service manager does it, and must end in order."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**QUICK, **environment}
    with Program(folder, *arguments, entry=entry, before=at(f.discord), environment=environment) as process:
        yield process
        process.tell(signal.SIGTERM)
        assert await process.ended() == 0, process.stderr


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
