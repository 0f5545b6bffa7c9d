"""An agent on Discord and on Signal, one of which is out: the other goes on, and the log says so once."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.discord.faults import RestFault
from tests.support.flow import Flow, decision, flow
from tests.support.ports import free_port
from tests.support.redis_server import until
from tests.support.signal_server import ACCOUNT, ANNA, SignalServer

BOTH = {"agents": ("claude",), "accounts": ("claude",), "personas": True}
LOGIN = "/users/@me$"


@asynccontextmanager
async def on_both(folder: Path, port: int) -> AsyncIterator[Flow]:
    """Claude on Discord and on Signal, whose server is expected at this port."""
    numbers = {"SIGNAL_NUMBERS": f"claude:{ACCOUNT}", "SIGNAL_ALLOWED": ANNA}
    async with flow(folder, CHANNEL="both", SIGNAL_API_URL=f"http://127.0.0.1:{port}", **numbers) as f:
        f.models.answer = lambda request: decision("On Signal." if "phone" in request.tail else "On Discord.")
        yield f


@asynccontextmanager
async def signal_at(port: int) -> AsyncIterator[SignalServer]:
    async with SignalServer(port) as signal:
        signal.begin_at(int(time.time() * 1000))
        yield signal


async def ask_on_discord(f: Flow) -> None:
    known = len(f.said("casual", "claude"))
    await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> hello")
    await until(lambda: f.said("casual", "claude")[known:] == ["On Discord."], 30)


async def ask_on_signal(signal: SignalServer) -> None:
    known = len(signal.sent)
    await signal.say("are you there? I am at my phone")
    await signal.until(lambda: [sent.text for sent in signal.sent[known:]] == ["On Signal."])


@pytest.mark.promise(486)
@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "offline in Discord: Discord rejects its token: check BOT_TOKEN_CLAUDE. It keeps running on Signal"),
        (403, "offline in Discord: it could not stay online (Forbidden); it starts again in"),
        (503, "claude can't log in yet: Discord answers 503; trying again in"),
    ],
)
async def test_where_discord_takes_no_login_the_agent_answers_on_signal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int, told: str
) -> None:
    async with on_both(tmp_path, port := free_port()) as f, signal_at(port) as signal:
        out = f.discord.faults.add(RestFault("GET", LOGIN, status=status, times=None))
        async with f.running(**BOTH) as runtime:
            await signal.connected()
            for _ in range(2):
                await ask_on_signal(signal)
            assert runtime.health().ready
            assert runtime.health().bots == ()
            assert told in next(text for text in caplog.messages if "claude" in text)
            if status == 401:
                assert len([text for text in caplog.messages if "Discord" in text]) == 1
                assert list(runtime.health().offline) == ["claude"]
                return
            out.times = 0
            await f.discord.wait_for(lambda: "claude" in f.discord.online, timeout=60)
            await ask_on_discord(f)
            await ask_on_signal(signal)


@pytest.mark.promise(486)
async def test_where_the_server_of_signal_is_away_the_agent_answers_on_discord(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with on_both(tmp_path, port := free_port()) as f, f.running(**BOTH) as runtime:
        await ask_on_discord(f)
        assert runtime.health().ready
        assert runtime.health().accounts == {"signal": {"claude": False}}
        async with signal_at(port) as signal:
            await signal.connected()
            await ask_on_signal(signal)
            assert runtime.health().accounts == {"signal": {"claude": True}}
        await until(lambda: not runtime.health().accounts["signal"]["claude"])
        await ask_on_discord(f)
        async with signal_at(port) as signal:
            await signal.connected()
            await ask_on_signal(signal)
            await ask_on_discord(f)
            (lost,) = [text for text in caplog.messages if text.startswith("Signal")]
            assert "the connection of the account …01 is lost" in lost
