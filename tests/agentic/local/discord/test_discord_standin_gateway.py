"""The gateway on bad days: cut, resumed, invalidated, doubled; and whom it tells what."""

import json
from contextlib import asynccontextmanager

import aiohttp
import pytest

from agentic.local.discord.world import Overwrite
from tests.support.discord.discord_standin_bots import a_world, debate, logged_in, one_bot
from tests.support.discord.stand_in import DiscordStandIn

VIEW = 1 << 10


@pytest.mark.promise(68)
async def test_nothing_said_while_the_line_was_cut_is_lost_or_doubled():
    async with one_bot() as (server, bot, _):
        await server.say("you", "debate", "before")
        await server.wait_for(lambda: bot.texts == ["before"])
        await server.drop_gateway("claude")
        assert server.online == set()
        await server.say("you", "debate", "meanwhile")
        await server.wait_for(lambda: bot.heard["resumed"])
        await server.say("you", "debate", "after")
        await server.wait_for(lambda: "after" in bot.texts)
        assert bot.texts == ["before", "meanwhile", "after"]
        assert len(bot.heard["ready"]) == 1


@pytest.mark.parametrize("code", [1001, 4000, 4009])
async def test_a_closed_connection_is_resumed(code):
    async with one_bot() as (server, bot, _):
        await server.drop_gateway("claude", code)
        await server.say("you", "debate", "meanwhile")
        await server.wait_for(lambda: bot.heard["resumed"] and bot.texts)
        assert bot.texts == ["meanwhile"]


@pytest.mark.promise(68)
async def test_op_7_makes_a_bot_reconnect_and_resume():
    async with one_bot() as (server, bot, _):
        await server.reconnect_gateway("claude")
        await server.wait_for(lambda: bot.heard["resumed"])
        await server.say("you", "debate", "still there?")
        await server.wait_for(lambda: bot.texts == ["still there?"])
        assert len(bot.heard["ready"]) == 1


async def test_op_9_that_can_be_resumed_is_resumed():
    async with one_bot() as (server, bot, _):
        await server.invalidate_session("claude", resumable=True)
        await server.wait_for(lambda: bot.heard["resumed"])
        assert len(bot.heard["ready"]) == 1


@pytest.mark.promise(69)
async def test_op_9_makes_a_new_session_that_missed_what_was_said_meanwhile():
    async with one_bot() as (server, bot, channel):
        await server.invalidate_session("claude")
        await server.say("you", "debate", "into the gap")
        await server.wait_for(lambda: len(bot.heard["ready"]) == 2)
        await server.say("you", "debate", "after")
        await server.wait_for(lambda: bot.texts)
        assert bot.texts == ["after"]
        assert [m.content async for m in channel.history()] == ["after", "into the gap"]


async def test_a_resume_can_tell_again_what_was_heard_already():
    async with one_bot() as (server, bot, _):
        for text in ("one", "two"):
            await server.say("you", "debate", text)
        await server.wait_for(lambda: bot.texts == ["one", "two"])
        server.faults.replayed = 1
        await server.drop_gateway("claude")
        await server.wait_for(lambda: bot.heard["resumed"])
        assert bot.texts == ["one", "two", "two"]


async def test_events_can_be_sent_twice():
    async with one_bot() as (server, bot, _):
        server.faults.duplicate_events = True
        await server.say("you", "debate", "echo")
        await server.wait_for(lambda: bot.texts == ["echo", "echo"])
        assert len(server.messages("debate")) == 1


async def test_a_channel_that_a_bot_may_not_view_is_silent_for_it():
    world = a_world("claude", "grok", channels=("debate", "private"))
    private = world.channel("private")
    claude = world.app("claude").user.id
    private.overwrites[claude] = Overwrite(claude, 1, deny=VIEW)
    async with (
        DiscordStandIn(world) as server,
        logged_in(server, "claude") as bot,
        logged_in(server, "grok") as other,
    ):
        await server.say("you", "private", "whisper")
        await server.say("you", "debate", "aloud")
        await server.wait_for(lambda: bot.texts and len(other.texts) == 2)
        assert bot.texts == ["aloud"]
        assert not debate(server, bot).guild.get_channel(private.id).permissions_for(bot.guilds[0].me).view_channel


async def test_a_token_that_is_wrong_at_the_gateway_is_answered_with_4004():
    frames = await _speak({"op": 2, "d": {"token": "wrong", "intents": 1}})
    assert frames == [10, "closed 4004"]


async def test_an_unknown_session_cannot_be_resumed():
    async with a_socket() as (_, ws):
        assert (await ws.receive_json())["op"] == 10
        await ws.send_json({"op": 6, "d": {"token": "token-claude", "session_id": "nope", "seq": 3}})
        assert await ws.receive_json() == {"op": 9, "d": False, "s": None, "t": None}


@pytest.mark.parametrize(
    ("frame", "code"), [("no json", 4002), ({"op": 2, "d": None}, 4002), ({"op": 8, "d": {}}, 4003)]
)
async def test_frames_that_make_no_sense_close_the_connection(frame, code):
    assert await _speak(frame) == [10, f"closed {code}"]


async def test_without_compression_frames_are_plain_text_and_numbered():
    identify = {"op": 2, "d": {"token": "token-claude", "intents": 1 << 9}}
    async with a_socket() as (server, ws):
        await ws.receive_json()
        await ws.send_json(identify)
        ready = await ws.receive_json()
        await ws.send_json({"op": 1, "d": 1})
        assert (await ws.receive_json())["op"] == 11
        await server.say("you", "debate", "hi")
        message = await ws.receive_json()
    assert (ready["t"], ready["s"]) == ("READY", 1)
    assert (message["t"], message["s"], message["d"]["content"]) == ("MESSAGE_CREATE", 2, "hi")


@asynccontextmanager
async def a_socket():
    """A stand-in and a plain, uncompressed connection to its gateway."""
    async with DiscordStandIn(a_world()) as server, aiohttp.ClientSession() as http:
        ws = await http.ws_connect(server.gateway.url + "/?v=10&encoding=json")
        yield server, ws
        await ws.close()


async def _speak(frame):
    """What the gateway answers to one frame: op codes, then how it closed."""
    answers = []
    async with a_socket() as (_, ws):
        await ws.send_str(frame if isinstance(frame, str) else json.dumps(frame))
        async for message in ws:
            answers.append(json.loads(message.data)["op"])
        answers.append(f"closed {ws.close_code}")
    return answers
