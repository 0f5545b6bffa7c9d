"""A bot's runs: what ends it, what it starts again after, and how soon."""

import asyncio
import random
from types import SimpleNamespace

import aiohttp
import discord
import pytest

from agent_config import AGENTS, load_settings
from agentic.runtime.bot import BotSupervisor, SideTaskFailed, end_of, runnable
from agentic.services.discord.rate_limit import LONGEST, SHORTEST, STEADY_SECONDS
from tests.support.doubles import Clock, http_error, until


def closed(code):
    socket = SimpleNamespace(close_code=code)
    return discord.ConnectionClosed(socket, shard_id=None, code=code)


def side_task(name, cause):
    failed = SideTaskFailed(name)
    failed.__cause__ = cause
    return failed


@pytest.mark.parametrize(
    ("only", "without", "expected"),
    [
        ((), (), ("chatgpt", "claude", "gemini", "grok")),
        (("claude", "grok"), (), ("claude", "grok")),
        ((), ("gemini",), ("chatgpt", "claude", "grok")),
    ],
)
def test_bots_are_chosen_by_only_and_without(only, without, expected):
    assert runnable(all_four(), only, without) == expected


def test_bots_with_one_token_between_them_do_not_run():
    assert runnable(all_four(BOT_TOKEN_GROK="token-gemini")) == ("chatgpt", "claude")


def all_four(**more):
    tokens = {spec.token_setting: f"token-{name}" for name, spec in AGENTS.items()}
    keys = {spec.key_setting: "a-key" for spec in AGENTS.values()}
    return load_settings({**tokens, **keys, **more}, None)


@pytest.mark.promise(85)
@pytest.mark.parametrize(
    ("error", "final", "why"),
    [
        (discord.LoginFailure("no"), True, "Discord rejects its token: check BOT_TOKEN_CLAUDE"),
        (closed(4004), True, "Discord rejects its token: check BOT_TOKEN_CLAUDE"),
        (discord.PrivilegedIntentsRequired(None), True, "Message Content Intent is off"),
        (closed(4011), True, "more servers than one connection may have (2,500)"),
        (closed(4012), False, "Discord closed the connection (code 4012)"),
        (side_task("lease", ValueError("their words")), False, "its lease failed (ValueError)"),
        (http_error(403), False, "it could not stay online (Forbidden)"),
        (aiohttp.ClientError(), False, "it could not stay online (ClientError)"),
        (KeyError("their words"), False, "it could not stay online (KeyError)"),
    ],
)
def test_only_a_token_or_an_intent_ends_a_bot_for_good(error, final, why):
    end = end_of(error, "BOT_TOKEN_CLAUDE")
    assert end.final == final
    assert why in end.reason
    assert "their words" not in end.reason


class Run:
    """One that ends by an error, after it was online for a while."""

    def __init__(self, process, error, seconds):
        self.cog = SimpleNamespace(host=SimpleNamespace(ready=asyncio.Event()))
        self.delayed, self.closed, self.without_discord = asyncio.Event(), False, False
        self._process, self._error, self._seconds = process, error, seconds

    async def run(self):
        if self._seconds:
            self.cog.host.ready.set()
            await until(lambda: self._process.was_online)
        self._process._clock.now += self._seconds
        raise self._error

    async def aclose(self):
        assert self not in self._process.open_at_start
        self.closed = True


class Process(BotSupervisor):
    """With runs of the test's own."""

    def __init__(self, *ends):
        self._ends, self.runs, self.slept, self.open_at_start = list(ends), [], [], []
        agent = SimpleNamespace(name="claude", spec=SimpleNamespace(name="claude", token_setting="BOT_TOKEN_CLAUDE"))
        services = SimpleNamespace(rng=random.Random(1))
        super().__init__(agent, services, Lease(), object(), {}, clock=Clock(), sleep=self._note)

    def _new_run(self):
        self.open_at_start += [run for run in self.runs if not run.closed]
        self.runs.append(Run(self, *self._ends.pop(0)))
        return self.runs[-1]

    async def _note(self, seconds):
        self.slept.append(seconds)


class Lease:
    def __init__(self):
        self.released = 0

    async def release(self):
        self.released += 1


NO_TOKEN = (discord.LoginFailure("no"), 0.0)


@pytest.mark.promise(85)
async def test_it_starts_again_after_growing_pauses_with_everything_closed_before(caplog):
    process = Process(*[(OSError(), 0.0)] * 9, NO_TOKEN)
    await process.run()
    assert (len(process.runs), process.open_at_start, process.lease.released) == (10, [], 1)
    assert all(SHORTEST <= pause <= LONGEST for pause in process.slept)
    assert process.slept[0] < 2 * SHORTEST < LONGEST / 2 <= process.slept[-1]
    assert caplog.text.count("claude is offline") == 10
    assert caplog.text.count("it starts again in") == 9


async def test_who_was_online_for_a_minute_begins_with_the_shortest_pause():
    process = Process(*[(OSError(), 0.0)] * 5, (OSError(), STEADY_SECONDS), NO_TOKEN)
    await process.run()
    assert process.slept[4] > LONGEST / 2 - 1
    assert process.slept[5] <= 2 * SHORTEST
    assert process.was_online


async def test_a_fault_of_the_programs_own_has_its_traceback_in_the_log_and_a_bad_line_has_none(caplog):
    process = Process((side_task("catch-up", KeyError()), 0.0), (OSError(), 0.0), NO_TOKEN)
    await process.run()
    faults = [record for record in caplog.records if record.exc_info]
    assert [record.getMessage().split(";")[0] for record in faults] == [
        "claude is offline: its catch-up failed (KeyError)"
    ]


async def test_what_failed_is_told_until_it_is_online_again_and_nobody_waits_for_it():
    process = Process((side_task("lease", ValueError()), 0.0), (OSError(), STEADY_SECONDS), NO_TOKEN)
    assert process.failure is None
    held = asyncio.Event()

    async def wait(_):
        await held.wait()

    process._sleep = wait
    running = asyncio.create_task(process.run())
    await until(lambda: process.runs[0].closed)
    await process.settled.wait()
    assert process.failure == "its lease failed (ValueError)"
    process.runs[0].cog.host.ready.set()
    assert process.failure is not None, "of a run that is over"
    process._new_run()
    process._run = process.runs[-1]
    assert process.failure is not None
    process._run.cog.host.ready.set()
    assert process.failure is None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
