"""A bot that ends starts again while the others run, in the whole program."""

import asyncio
from itertools import repeat

import aiohttp
import pytest

from agentic.runtime.health import serving_health
from agentic.services.discord.service import DiscordService
from agentic.state.silence import ChannelRef
from agentic.wire import keys
from tests.support.discord.faults import RestFault
from tests.support.flow import flow
from tests.support.redis_server import RedisServer, until


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """A bot starts again after a moment, however often it has ended."""
    monkeypatch.setattr("agentic.runtime.bot.backoff", lambda rng: repeat(0.3))


TWO = {"agents": ("claude", "grok"), "coordinator": False}


async def answers(f, bot, text="hello"):
    known = len(f.said("debate", bot))
    await f.discord.say("Alice", "debate", f"<@{f.user_id(bot)}> {text}")
    await f.discord.wait_for(lambda: len(f.said("debate", bot)) > known, timeout=30)


@pytest.mark.promise(86)
async def test_a_wrong_type_under_a_bots_lease_is_named_and_the_bot_is_back_when_it_is_gone(tmp_path, caplog):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f, f.running(**TWO) as runtime:
            claude = runtime.bots["claude"]
            key, commands = keys.owner("claude"), runtime._link.commands
            await commands.delete(key)
            await commands.hset(key, "not", "ours")
            again = "claude is offline: its lease failed (ResponseError); it starts again in"
            await until(lambda: again in caplog.text)
            assert claude.failure == "its lease failed (ResponseError)"
            assert runtime.health().offline == {"claude": claude.failure}
            assert runtime.health().ready, "grok is online"
            await answers(f, "grok")
            await until(lambda: caplog.text.count(again) >= 2)
            logins = f.discord.counts["GET /users/@me"]
            await until(lambda: caplog.text.count(again) >= 3)
            assert f.discord.counts["GET /users/@me"] == logins, "without the lease it does not even log in"
            await commands.delete(key)
            await until(lambda: claude.online and not claude.failure)
            assert runtime.health().offline == {}
            await answers(f, "claude")


@pytest.mark.promise(86)
async def test_a_side_task_that_dies_brings_the_bot_back_with_what_came_meanwhile_answered(tmp_path, caplog):
    async with flow(tmp_path) as f, f.running(**TWO) as runtime:
        claude = runtime.bots["claude"]
        await answers(f, "claude")
        await until(lambda: claude.online)
        first = {name: bot.cog for name, bot in runtime.bots.items()}
        presence = runtime.services.state.coordination.presence
        whole = presence.read

        async def faulty(names):
            presence.read = whole
            raise TypeError("a value of another kind")

        presence.read = faulty
        await until(lambda: "is offline: its presence failed (TypeError)" in caplog.text)
        bot, other = ("claude", "grok") if claude.failure else ("grok", "claude")
        await f.discord.wait_for(lambda: bot not in f.discord.online)
        await answers(f, bot, "are you back?")
        assert runtime.bots[bot].cog is not first[bot]
        assert runtime.bots[other].cog is first[other]
        assert not runtime.stop.is_set()


@pytest.mark.promise(85)
async def test_after_a_restart_nothing_of_the_ended_run_is_left(tmp_path):
    async with flow(tmp_path) as f, f.running(**TWO) as runtime:
        claude = runtime.bots["claude"]
        client, first = claude.client, claude.cog
        await f.discord.drop_gateway("claude", 4012)  # what no other try of the same run would change
        await until(lambda: claude.client is not client)
        assert client.is_closed()
        assert client.http._HTTPClient__session.closed
        heard_by = (
            runtime.services.chats.get(DiscordService).fetcher._on_read,
            runtime.services.chats.directory._listeners,
        )
        await until(lambda: claude.online)
        assert not [each for listeners in heard_by for each in listeners if _agent_of(each) is first]
        left = [task.get_coro().__qualname__ for task in asyncio.all_tasks() if "claude" in task.get_name()]
        await until(lambda: claude.online)
        await answers(f, "claude")
        assert not [name for name in left if "history" in name]


def _agent_of(listener):
    return getattr(getattr(listener, "__self__", None), "_agent", None)


async def test_a_login_that_is_refused_for_no_fault_of_the_token_is_tried_again_by_another_run(tmp_path, caplog):
    async with flow(tmp_path) as f:
        f.discord.faults.add(RestFault("GET", "/users/@me$", 403, bot="claude"))
        async with f.running(**TWO) as runtime:
            assert "claude is offline: it could not stay online (Forbidden); it starts again in" in caplog.text
            await until(lambda: runtime.bots["claude"].online)
            await answers(f, "claude")


@pytest.mark.promise(86)
async def test_readyz_names_the_bots_that_failed(tmp_path, unused_tcp_port):
    async with flow(tmp_path) as f:
        f.world.app("grok").message_content = False
        async with f.running(**TWO) as runtime:
            async with (
                serving_health(unused_tcp_port, runtime.health, runtime.connections),
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{unused_tcp_port}/readyz") as response,
            ):
                body = await response.json()
            assert (response.status, body["bots"]) == (200, ["claude"])
            assert "Message Content Intent is off" in body["offline"]["grok"]


async def test_an_odd_event_ends_none_of_the_bots(tmp_path, caplog):
    async with flow(tmp_path) as f, f.running(**TWO) as runtime:
        for bot in TWO["agents"]:
            await f.discord.send_event(bot, "MESSAGE_UPDATE", {"id": "1", "channel_id": str(f.channel("debate"))})
            await f.discord.send_event(bot, "GUILD_MEMBER_UPDATE", {"guild_id": str(f.world.guild.id), "user": 5})
        await answers(f, "claude")
        await answers(f, "grok")
        assert not any(bot.failure for bot in runtime.bots.values())
        assert "claude: reading MESSAGE_UPDATE from Discord failed" in caplog.text


async def test_a_stop_sign_that_was_given_while_the_bot_started_again_is_obeyed(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",), coordinator=False) as runtime:
        claude = runtime.bots["claude"]
        await answers(f, "claude")
        [post] = [m for m in f.discord.messages("debate") if m["author"]["id"] == str(f.user_id("claude"))]
        client = claude.client
        await f.discord.drop_gateway("claude", 4012)
        await until(client.is_closed)
        await f.discord.react("Alice", "debate", post, "\N{OCTAGONAL SIGN}")
        silence, stopped = runtime.services.silence, ChannelRef(f.channel("debate"))
        await until(lambda: claude.client is not client and silence.check(stopped) is not None, within=20)
