"""The connection to the gateway on bad days: asked within bounds, said in one line each, nothing left open."""

import asyncio
import gc
import random
import re
import warnings
from collections import deque

import discord
import pytest

from agentic.services.discord.gateway import DAY, MAX_RESUMES, MAX_SESSIONS, GatewayConnection
from agentic.services.discord.rate_limit import LONGEST, SHORTEST, STEADY_SECONDS
from tests.support.discord.gateway_scene import scene
from tests.support.doubles import Clock, until


def lines(caplog):
    return [message for message in caplog.messages if "lost its connection" in message]


@pytest.mark.promise(84)
@pytest.mark.parametrize("code", [1000, 1001, 4000, 4009])
async def test_a_gateway_that_closes_immediately_is_retried_within_bounds_with_one_log_line_each(caplog, code):
    caplog.set_level("INFO")
    async with scene() as s:
        s.server.faults.close_gateway = code
        await s.server.drop_gateway("claude", 1001)
        await s.server.wait_for(lambda: len(s.slept) >= 20)
        assert all(SHORTEST <= pause <= LONGEST for pause in s.slept)
        assert max(s.slept[5:20]) > LONGEST / 2
        assert len(lines(caplog)) == len(s.slept)
        assert "Traceback" not in caplog.text
        assert f"closed with code {code}" in caplog.text or code == 1000
        s.server.faults.close_gateway = None
        await s.server.wait_for(lambda: s.connection.open)
        assert "claude is connected to Discord again" in caplog.text
        await s.hears("hello")


@pytest.mark.promise(84)
async def test_after_a_minute_of_being_connected_the_pauses_are_short_again(caplog):
    async with scene() as s:
        clock = s.connection._clock = Clock()
        s.server.faults.close_gateway = 1001
        await s.server.drop_gateway("claude", 1001)
        await s.server.wait_for(lambda: len(s.slept) >= 8)
        s.server.faults.close_gateway = None
        await s.server.wait_for(lambda: s.connection.open)
        for seconds, steady in ((STEADY_SECONDS - 1, False), (STEADY_SECONDS, True)):
            known = len(s.slept)
            clock.now += seconds
            await s.server.drop_gateway("claude", 1001)
            await s.server.wait_for(lambda known=known: s.connection.open and len(s.slept) > known)
            assert (s.slept[known] <= 2 * SHORTEST) == steady


@pytest.mark.promise(84)
async def test_a_session_is_resumed_and_brings_the_missed_events(caplog):
    async with scene() as s:
        session = s.bot.ws.session_id
        await s.server.drop_gateway("claude")
        await s.server.say("Alice", "lounge", "in between")
        await s.server.wait_for(lambda: [m for m in s.heard if m.content == "in between"])
        assert s.bot.ws.session_id == session
        assert len(s.server.gateway.sessions) == 1


@pytest.mark.promise(618)
@pytest.mark.promise(84)
async def test_a_gateway_that_only_cuts_resumes_gets_a_new_session():
    async with scene() as s:
        session = s.bot.ws.session_id
        s.server.faults.cut_resumes = True
        await s.server.drop_gateway("claude")
        await s.server.wait_for(lambda: len(s.slept) >= MAX_RESUMES and s.connection.open)
        assert s.bot.ws.session_id != session
        assert len(s.slept) == 1 + MAX_RESUMES
        await s.hears("hello")
        s.server.faults.cut_resumes = False
        session = s.bot.ws.session_id
        await s.server.drop_gateway("claude")
        await s.server.wait_for(lambda: len(s.slept) == 2 + MAX_RESUMES and s.connection.open)
        assert s.bot.ws.session_id == session


@pytest.mark.promise(618)
@pytest.mark.promise(84)
async def test_a_long_outage_begins_no_session():
    async with scene() as s:
        session = s.bot.ws.session_id
        s.server.faults.close_gateway = 1001
        await s.server.drop_gateway("claude", 1001)
        await s.server.wait_for(lambda: len(s.slept) > 3 * MAX_RESUMES)
        s.server.faults.close_gateway = None
        await s.server.wait_for(lambda: s.connection.open)
        assert s.bot.ws.session_id == session


async def test_discords_own_wish_for_another_connection_is_followed(caplog):
    async with scene() as s:
        await s.server.reconnect_gateway("claude")
        await s.server.wait_for(lambda: s.slept and s.connection.open)
        assert "Discord asked for a new connection" in caplog.text
        await s.server.invalidate_session("claude")
        await s.server.wait_for(lambda: len(s.slept) == 2 and s.connection.open)
        await s.hears("hello")


async def test_a_discord_that_is_away_is_asked_again_and_the_bot_is_not_online_meanwhile(caplog):
    async with scene() as s:
        assert s.connection.open
        await s.server.__aexit__()
        await until(lambda: len(s.slept) > 10)
        assert not s.connection.open
        async with s.server:
            await s.server.wait_for(lambda: s.connection.open)
            await s.hears("back again")
        assert all(
            re.fullmatch(r"claude lost its connection to Discord: [\w ]+; trying again in \d+ s", line)
            for line in lines(caplog)
        )


async def test_a_frame_that_is_none_costs_the_connection_and_not_the_bot(caplog):
    async with scene() as s:
        [session] = s.server.gateway.sessions.values()
        session.connection.send("{not json")
        await s.server.wait_for(lambda: s.slept and s.connection.open)
        assert "JSONDecodeError" in lines(caplog)[0]
        await s.hears("hello")


@pytest.mark.parametrize("code", [4004, 4012])
async def test_a_close_that_another_try_cannot_change_ends_it(code):
    async with scene() as s:
        s.server.faults.close_gateway = code
        with pytest.raises(discord.ConnectionClosed) as closed:
            await GatewayConnection(s.bot, "claude", random.Random(1)).run()
        assert closed.value.code == code


async def test_an_intent_that_is_switched_off_is_said_to_be_that():
    async with scene() as s:
        s.server.world.app("claude").message_content = False
        with pytest.raises(discord.PrivilegedIntentsRequired):
            await GatewayConnection(s.bot, "claude", random.Random(1)).run()


@pytest.mark.promise(84)
async def test_no_try_leaves_a_socket_open(caplog):
    async with scene() as s:
        s.server.faults.close_gateway = 1001
        await s.server.drop_gateway("claude", 1001)
        await s.server.wait_for(lambda: len(s.slept) >= 20)
        s.server.faults.close_gateway = None
        await s.server.wait_for(lambda: s.connection.open)
        connector = s.bot.http._HTTPClient__session.connector
        assert len(connector._acquired) == 1  # the gateway's own
        with warnings.catch_warnings(record=True) as unclosed:
            warnings.simplefilter("always", ResourceWarning)
            gc.collect()
        assert not [each for each in unclosed if "nclosed" in str(each.message)]


async def test_cancelled_it_leaves_discord():
    async with scene() as s:
        another = GatewayConnection(s.bot, "claude", random.Random(1))
        running = asyncio.create_task(another.run())
        await s.server.wait_for(lambda: another.open)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not another.open
        await s.server.wait_for(lambda: sum(x.connection is not None for x in s.server.gateway.sessions.values()) == 1)


@pytest.mark.promise(84)
async def test_sessions_that_fail_at_their_beginning_are_fewer_than_would_cost_the_token(caplog):
    async with scene() as s:
        clock = s.connection._clock = s.connection._sessions._clock = Clock()
        for _ in range(MAX_SESSIONS - 2):
            s.connection._sessions.note()
        s.server.faults.altered = {"READY": lambda ready: {**ready, "user": None}}
        await s.server.invalidate_session("claude")
        await s.server.wait_for(lambda: len(s.slept) >= 3 and max(s.slept) > LONGEST)
        assert max(s.slept) <= DAY
        clock.now += DAY
        s.server.faults.altered = {}
        await s.server.wait_for(lambda: s.connection.open)
        assert s.connection._sessions.pause() == 0


async def test_a_session_that_is_gone_on_with_is_none_that_begins():
    async with scene() as s:
        clock = s.connection._clock = s.connection._sessions._clock = Clock()
        for _ in range(MAX_SESSIONS):
            s.connection._sessions.note()
        clock.now += 1
        await s.server.drop_gateway("claude", 1001)
        await s.server.wait_for(lambda: s.slept and s.connection.open)
        assert max(s.slept) <= LONGEST


class Silence(deque):
    """Takes what a connection sends, and never has anything to send."""

    def append(self, text):
        del text


@pytest.mark.promise(635)
@pytest.mark.promise(84)
async def test_a_connection_that_falls_silent_is_replaced(monkeypatch):
    monkeypatch.setattr("agentic.local.discord.gateway.HEARTBEAT_MS", 100)
    async with scene(connect=False) as s:
        s.bot._connection.heartbeat_timeout = 0.4
        running = asyncio.create_task(s.connection.run())
        try:
            await s.server.wait_for(s.bot.is_ready)
            (session,) = s.server._sessions("claude")
            silent, session.connection._outbox = session.connection, Silence()
            await s.server.wait_for(lambda: s.slept and s.connection.open)
            assert session.connection is not silent
            assert s.bot.ws.session_id == session.id
            await s.hears("hello")
        finally:
            running.cancel()
