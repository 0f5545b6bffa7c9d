"""REST of the stand-in: limits, permissions and faults, on the wire and through py-cord; and its own process."""

import asyncio
import json
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import aiohttp
import discord
import pytest

from agentic.local.discord import server
from agentic.local.discord.world import Overwrite
from tests.support.discord.discord_standin_bots import a_world, one_bot
from tests.support.discord.faults import RestFault
from tests.support.discord.rate_limits import RateLimits
from tests.support.discord.stand_in import DiscordStandIn

SEND, ATTACH, HISTORY, REACT, VIEW, MANAGE_MESSAGES = 1 << 11, 1 << 15, 1 << 16, 1 << 6, 1 << 10, 1 << 13


class Clock:
    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def raw(world, **options):
    """The server, and a function that asks it as claude: (method, path, JSON body) → (status, headers, body)."""
    async with DiscordStandIn(world, **options) as server, aiohttp.ClientSession() as http:
        base = server.api_base.format(API_VERSION=10)

        async def ask(method, path, body=None, bot="claude"):
            headers = {"Authorization": f"Bot token-{bot}"}
            async with http.request(method, base + path, json=body, headers=headers) as answer:
                text = await answer.text()
                return answer.status, answer.headers, json.loads(text) if text else None

        yield server, ask


async def test_a_bucket_that_is_used_up_answers_429_until_its_window_ends():
    clock = Clock()
    world = a_world(clock=clock)
    path = f"/channels/{world.channel('debate').id}/messages"
    async with raw(world, limits=RateLimits(messages_per_channel=(2, 5.0))) as (server, ask):
        first = await ask("POST", path, {"content": "1"})
        assert (first[1]["X-RateLimit-Limit"], first[1]["X-RateLimit-Remaining"]) == ("2", "1")
        assert first[1]["Via"]
        clock.now += 1
        second = await ask("POST", path, {"content": "2"})
        assert (second[1]["X-RateLimit-Remaining"], second[1]["X-RateLimit-Reset-After"]) == ("0", "4.000")
        status, headers, body = await ask("POST", path, {"content": "3"})
        assert status == 429
        assert body == {"message": "You are being rate limited.", "retry_after": 4.0, "global": False}
        assert (headers["Retry-After"], headers["X-RateLimit-Scope"]) == ("4", "user")
        clock.now += 4
        assert (await ask("POST", path, {"content": "3"}))[0] == 200
        assert server.counts["429"] == 1
        assert [m["content"] for m in server.messages("debate")] == ["1", "2", "3"]


async def test_the_global_limit_counts_all_routes_of_a_bot_and_each_bot_alone():
    clock = Clock()
    async with raw(a_world("claude", "grok", clock=clock), limits=RateLimits(global_per_second=2)) as (_, ask):
        assert [(await ask("GET", p))[0] for p in ("/users/@me", "/users/@me/guilds")] == [200, 200]
        status, headers, body = await ask("GET", "/users/@me")
        assert (status, body["global"], headers["X-RateLimit-Global"]) == (429, True, "true")
        assert (await ask("GET", "/users/@me", bot="grok"))[0] == 200
        clock.now += 1
        assert (await ask("GET", "/users/@me"))[0] == 200


@pytest.mark.promise(56)
async def test_py_cord_keeps_within_the_limits_by_the_headers():
    async with one_bot(limits=RateLimits(messages_per_channel=(2, 0.05))) as (server, _, channel):
        for n in range(5):
            await channel.send(str(n))
        assert [m["content"] for m in server.messages("debate")] == list("01234")
        assert server.counts["429"] == 0


@pytest.mark.promise(57)
async def test_py_cord_comes_through_a_429_that_no_header_foretold():
    async with one_bot() as (server, _, channel):
        body = {"message": "You are being rate limited.", "retry_after": 0.001, "global": False}
        server.faults.add(RestFault("POST", "/messages", 429, body=body))
        await channel.send("in the end")
        assert server.counts["429"] == 1
        assert [m["content"] for m in server.messages("debate")] == ["in the end"]


@pytest.mark.parametrize(
    ("denied", "method", "path", "code"),
    [
        (VIEW, "GET", "/channels/{c}", 50001),
        (VIEW, "POST", "/channels/{c}/messages", 50001),
        (SEND, "POST", "/channels/{c}/messages", 50013),
        (SEND, "POST", "/channels/{c}/typing", 50013),
        (HISTORY, "GET", "/channels/{c}/messages/{m}", 50013),
        (REACT, "PUT", "/channels/{c}/messages/{m}/reactions/%F0%9F%94%A5/@me", 50013),
        (MANAGE_MESSAGES, "DELETE", "/channels/{c}/messages/{m}", 50013),
        (1 << 29, "POST", "/channels/{c}/webhooks", 50013),
    ],
)
async def test_a_missing_permission_is_a_403_with_discords_code(denied, method, path, code):
    world = a_world()
    channel, claude = world.channel("debate"), world.app("claude").user.id
    async with raw(world) as (server, ask):
        message = await server.say("you", "debate", "x")
        path = path.format(c=channel.id, m=message["id"])
        channel.overwrites[claude] = Overwrite(claude, 1, deny=denied)
        status, _, body = await ask(method, path, {"content": "x", "name": "x"})
        assert (status, body["code"]) == (403, code)
        del channel.overwrites[claude]
        assert (await ask(method, path, {"content": "x", "name": "x"}))[0] < 300


async def test_role_overwrites_count_before_the_members_own():
    world = a_world()
    channel, claude = world.channel("debate"), world.app("claude").user.id
    path = f"/channels/{channel.id}/messages"
    async with raw(world) as (_, ask):
        channel.overwrites[world.guild.id] = Overwrite(world.guild.id, 0, deny=SEND)
        assert (await ask("POST", path, {"content": "x"}))[0] == 403
        bots = world.role("bots").id
        channel.overwrites[bots] = Overwrite(bots, 0, allow=SEND)
        assert (await ask("POST", path, {"content": "x"}))[0] == 200
        channel.overwrites[claude] = Overwrite(claude, 1, deny=SEND)
        assert (await ask("POST", path, {"content": "x"}))[0] == 403


async def test_attaching_files_needs_its_permission():
    async with one_bot() as (server, bot, channel):
        record = server.world.channel("debate")
        record.overwrites[bot.user.id] = Overwrite(bot.user.id, 1, deny=ATTACH)
        with pytest.raises(discord.Forbidden):
            await channel.send("look", file=discord.File(__file__))
        assert server.messages("debate") == []


async def test_what_is_not_there_has_its_own_code_and_unknown_routes_are_noted():
    world = a_world()
    channel = world.channel("debate").id
    async with raw(world) as (server, ask):
        answers = {
            path: (await ask("GET", path))[2]["code"]
            for path in (
                "/channels/123456789012345678",
                f"/channels/{channel}/messages/123456789012345678",
                "/guilds/123456789012345678",
                "/nonsense",
            )
        }
        assert list(answers.values()) == [10003, 10008, 10004, 0]
        assert (await ask("GET", "/users/@me", bot="nobody"))[0] == 401
        assert (await ask("POST", f"/channels/{channel}/messages", ["no object"]))[2]["code"] == 50109
        assert server.unknown_requests == [("GET", "/api/v10/nonsense")]


async def test_a_fault_hits_as_often_as_it_was_told_and_is_seen_in_the_log():
    world = a_world("claude", "grok")
    async with raw(world) as (server, ask):
        fault = server.faults.add(RestFault("GET", "^/users", 503, times=2, bot="claude"))
        assert (await ask("GET", "/users/@me", bot="grok"))[0] == 200
        assert [(await ask("GET", "/users/@me"))[0] for _ in range(3)] == [503, 503, 200]
        assert fault.hits == 2
        assert [(r.bot, r.status) for r in server.requests] == [
            ("grok", 200),
            ("claude", 503),
            ("claude", 503),
            ("claude", 200),
        ]


@pytest.mark.parametrize(("cut", "posted"), [("before", []), ("after", ["hello"])])
async def test_a_cut_connection_leaves_the_caller_in_doubt_whether_the_work_was_done(cut, posted):
    async with one_bot() as (server, _, channel):
        server.faults.add(RestFault("POST", "/messages$", cut=cut))
        with pytest.raises(aiohttp.ClientConnectionError):
            await channel.send("hello")
        assert [m["content"] for m in server.messages("debate")] == posted
        await channel.send("again")


async def test_an_error_may_come_after_the_work_was_done():
    async with raw(a_world()) as (server, ask):
        server.faults.add(RestFault("POST", "/messages$", 500, late=True))
        path = f"/channels/{server.world.channel('debate').id}/messages"
        answers = [(await ask("POST", path, {"content": text}))[0] for text in ("one", "two")]
        assert answers == [500, 200]
        assert [m["content"] for m in server.messages("debate")] == ["one", "two"]


async def test_a_hook_may_answer_a_request_itself():
    async with raw(a_world()) as (server, ask):
        seen = []

        async def hook(info):
            seen.append((info.method, info.route, info.bot))
            return aiohttp.web.json_response({"mine": True}) if info.path == "/users/@me" else None

        server.faults.on_request = hook
        assert (await ask("GET", "/users/@me"))[2] == {"mine": True}
        assert (await ask("GET", f"/guilds/{server.world.guild.id}"))[2]["name"] == "Roundtable"
        assert seen == [("GET", "/users/@me", "claude"), ("GET", "/guilds/{guild_id}", "claude")]


async def test_with_a_delay_the_event_is_heard_before_the_answer():
    async with one_bot() as (server, bot, channel):
        server.faults.rest_delay = 0.04
        posting = asyncio.create_task(channel.send("slowly"))
        await server.wait_for(lambda: bot.texts == ["slowly"])
        assert not posting.done()
        assert (await posting).content == "slowly"


async def test_a_stand_in_that_went_away_comes_back_at_its_address_with_its_world():
    server = DiscordStandIn(a_world())
    async with server:
        base = server.api_base
        await server.say("you", "debate", "kept")
    async with server:
        assert server.api_base == base
        assert [m["content"] for m in server.messages("debate")] == ["kept"]


async def test_ids_are_discords_and_grow_though_the_clock_stands_still():
    clock = Clock()
    async with DiscordStandIn(a_world(clock=clock)) as server:
        ids = [int((await server.say("you", "debate", "x"))["id"]) for _ in range(3)]
        clock.now -= 60
        ids.append(int((await server.say("you", "debate", "x"))["id"]))
        assert ids == sorted(set(ids))
        assert discord.utils.snowflake_time(ids[0]).timestamp() == pytest.approx(1_790_000_000.0)


async def test_it_runs_in_a_process_of_its_own_and_is_steered_over_http():
    command = [sys.executable, "-m", "tests.support.discord.discord_process", "--channels", "2", "--people", "1"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        where = json.loads(await process.stdout.readline())
        async with aiohttp.ClientSession() as http:

            async def control(action, **body):
                async with http.post(where["control"] + action, json=body) as answer:
                    return await answer.json()

            await control("say", author="person-1", channel="channel-2", text="hi")
            assert [m["content"] for m in await control("messages", channel="channel-2")] == ["hi"]
            await control("faults", rules=[{"method": "GET", "path": "/users", "status": 418}])
            token = where["bots"]["gemini"]["token"]
            url = where["api_base"].format(API_VERSION=10) + "/users/@me"
            for status in (418, 200):
                async with http.get(url, headers={"Authorization": f"Bot {token}"}) as answer:
                    assert answer.status == status
            assert (await control("reset-counts"))["418"] == 1
            assert (await control("state"))["counts"] == {}
    finally:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def test_half_sent_requests_keep_no_bot_out_of_local_mode(monkeypatch):
    monkeypatch.setattr(server, "connection_limit", lambda: 4)
    async with asyncio.timeout(30), raw(a_world()) as (discord_server, ask), AsyncExitStack() as stack:
        readers = []
        for _ in range(24):
            reader, writer = await asyncio.open_connection("127.0.0.1", discord_server.port)
            stack.callback(writer.transport.abort)
            writer.write(b"GET /api/v10/users/@me HTTP/1.1\r\nX-Half")
            readers.append(reader)
        with suppress(ConnectionError):
            assert await readers[0].read() == b"", "the first one has given way"
        assert (await ask("GET", "/users/@me"))[0] == 200
