"""What Discord refuses is counted over all bots of the process, and where it refuses much the program is still."""

import pytest

from agentic.services.discord.rate_limit import CLOSE_AT, NARROW_AT
from agentic.services.discord.service import DiscordService
from agentic.wire import keys
from tests.support.discord.faults import RestFault
from tests.support.flow import flow
from tests.support.redis_server import until


@pytest.mark.promise(62)
async def test_refusals_of_all_bots_are_one_count(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude", "grok")) as runtime:
        refused = runtime.services.chats.get(DiscordService).outbound.refused
        before = refused.recent()
        faults = [
            f.discord.faults.add(RestFault("POST", "/messages$", status=403, bot=bot)) for bot in ("claude", "grok")
        ]
        for bot in ("claude", "grok"):
            await f.discord.say("Alice", "debate", f"<@{f.user_id(bot)}> hello")
        await until(lambda: all(fault.hits for fault in faults))
        await until(lambda: refused.recent() == before + 2)


@pytest.mark.promise(62)
async def test_with_many_refusals_people_are_still_answered_and_with_more_nothing_is_sent(tmp_path, caplog):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        refused, hello = runtime.services.chats.get(DiscordService).outbound.refused, f"<@{f.user_id('claude')}> hello"
        for _ in range(NARROW_AT):
            refused.count(403)
        report = await runtime.coordinator.start_conversation(f.channel("casual"))
        assert report.messages == 0
        await f.discord.say("Alice", "debate", hello)
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        for _ in range(CLOSE_AT - NARROW_AT):
            refused.count(403)
        posts = f.discord.counts["POST /channels/{channel_id}/messages"]
        await f.discord.say("Alice", "debate", hello)
        await until(lambda: "posting to channel" in caplog.text.rpartition("3000 REQUESTS")[2])
        assert f.discord.counts["POST /channels/{channel_id}/messages"] == posts > 0


@pytest.mark.promise(59)
async def test_a_bot_whose_request_is_answered_401_is_ended_and_named_and_the_others_run_on(tmp_path, caplog):
    async with flow(tmp_path) as f, f.running(agents=("claude", "grok")) as runtime:
        f.discord.faults.add(RestFault("*", "", status=401, times=None, bot="grok", body={"message": "no", "code": 0}))
        await f.discord.say("Alice", "debate", f"<@{f.user_id('grok')}> hello")
        await until(lambda: "grok is offline: Discord rejects its token: check BOT_TOKEN_GROK" in caplog.text)
        await until(lambda: runtime._tasks["grok"].done())
        assert runtime.bots["grok"].client.is_closed()
        assert not await runtime._link.commands.exists(keys.owner("grok"))
        before = len(f.discord.requests)
        await f.discord.say("Alice", "debate", f"<@{f.user_id('grok')}> <@{f.user_id('claude')}> hello")
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        assert not [r for r in f.discord.requests[before:] if r.bot == "grok"]
        assert caplog.text.count("grok is offline") == 1
        assert not runtime.stop.is_set()


@pytest.mark.promise(58)
async def test_a_post_that_discord_failed_on_is_made_again_as_often_as_the_owner_wants(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("agentic.services.discord.rate_limit.backoff", lambda *_: iter([0.0] * 20))
    async with flow(tmp_path, DISCORD_RETRIES="6") as f, f.running(agents=("claude",)):
        failing = f.discord.faults.add(RestFault("POST", "/messages$", status=500, times=6))
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> hello")
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        assert (failing.hits, len(f.said("debate", "claude"))) == (6, 1)
        failing.times = 7
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> and again?")
        await until(lambda: "posting to channel" in caplog.text)
        assert failing.hits == 13
        assert ["anthropic saw" in text for text in f.said("debate", "claude")].count(True) == 1
