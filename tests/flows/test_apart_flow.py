"""Each bot's failures are its own: what one lacks delays no other."""

import asyncio

from tests.support.discord.faults import RestFault
from tests.support.flow import decision, flow
from tests.support.redis_server import until

PAIR = {"agents": ("claude", "grok"), "coordinator": False}


async def asked(f, bot, author="Alice"):
    """The bot's answer to a mention, which comes soon."""
    before = len(f.said("debate", bot))
    await f.discord.say(author, "debate", f"<@{f.user_id(bot)}> hello")
    await f.discord.wait_for(lambda: len(f.said("debate", bot)) > before, timeout=5)


async def test_a_bot_whose_login_finds_no_discord_comes_later_and_nobody_waits_for_it(tmp_path, caplog):
    async with flow(tmp_path) as f:
        f.discord.faults.add(RestFault("GET", "/users/@me$", cut=True, times=2, bot="grok"))
        async with f.running(**PAIR) as runtime:
            assert not runtime.bots["grok"].online
            await asked(f, "claude")
            await f.discord.wait_for(lambda: runtime.bots["grok"].online, timeout=10)
            assert "grok can't log in yet" in caplog.text
            assert runtime.bots["grok"].failure is None
            await asked(f, "grok")


async def test_a_bot_whose_connection_breaks_comes_back_and_the_other_never_notices(tmp_path):
    async with flow(tmp_path) as f, f.running(**PAIR) as runtime:
        fault = f.discord.faults.add(RestFault("GET", "/gateway", status=503, times=1, bot="claude"))
        await f.discord.drop_gateway("claude")
        await until(lambda: fault.hits)
        await asked(f, "grok")
        await f.discord.wait_for(lambda: runtime.bots["claude"].online, timeout=30)
        await asked(f, "claude")


async def test_a_bot_whose_provider_hangs_holds_no_other(tmp_path):
    async with flow(tmp_path) as f, f.running(**PAIR):
        stuck = asyncio.Event()

        async def anthropic_hangs(request):
            if request.provider == "anthropic":
                await stuck.wait()
            return decision("here")

        f.models.answer = anthropic_hangs
        await f.discord.say("Bob", "debate", f"<@{f.user_id('claude')}> think")
        await f.models.wait_for(1)
        await asked(f, "grok")
        assert f.said("debate", "claude") == []
        stuck.set()
        await f.discord.wait_for(lambda: f.said("debate", "claude"))


async def test_a_bot_whose_intents_or_token_are_refused_is_named_and_not_tried_again(tmp_path, caplog):
    async with flow(tmp_path) as f:
        f.world.app("grok").message_content = False
        async with f.running(**PAIR) as runtime:
            await until(lambda: "grok is offline: its Message Content Intent is off" in caplog.text)
            await asked(f, "claude")
            logins = f.discord.counts["GET /users/@me"]
            await f.discord.drop_gateway("claude", 4004)  # its token is revoked
            await until(lambda: "claude is offline: Discord rejects its token" in caplog.text)
            await until(runtime.stop.is_set)  # no bot is left
            assert f.discord.counts["GET /users/@me"] == logins == 2
