"""Requests that Discord fails on, by py-cord's own client against a server on loopback."""

from __future__ import annotations

import asyncio
import io
import json
import random
from contextlib import asynccontextmanager

import discord
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from discord.http import Route

from agentic.services.discord.rate_limit import retry_requests
from tests.support.doubles import until


@asynccontextmanager
async def bot(monkeypatch, *failures, retries=4, pause=0.0):
    """A client that is logged in; its next requests are answered with these statuses, then with success."""
    monkeypatch.setattr("agentic.services.discord.rate_limit.backoff", lambda *_: iter([pause] * 20))
    left: list[int] = []
    heard: list[tuple[str, bytes]] = []

    async def answer(request):
        heard.append((request.method, await request.read()))
        status = left.pop(0) if left else 200
        body = {"id": "1", "username": "Claude", "discriminator": "0", "avatar": None}
        return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app, host="127.0.0.1") as server:
        monkeypatch.setattr(Route, "API_BASE_URL", f"http://127.0.0.1:{server.port}")
        client = discord.Client(intents=discord.Intents(guilds=True))
        retry_requests(client, retries, random.Random(1))
        await client.login("a-token")
        heard.clear()
        left[:] = failures
        yield client, heard
        await client.close()


@pytest.mark.parametrize("failures", [(500,), (502, 503, 504), (520, 500, 500, 500)])
async def test_a_request_that_failed_is_made_again_until_it_is_answered(monkeypatch, failures):
    async with bot(monkeypatch, *failures) as (client, heard):
        assert (await client.http.get_channel(1))["id"] == "1"
        assert len(heard) == len(failures) + 1


@pytest.mark.promise(58)
@pytest.mark.parametrize("retries", [0, 1, 7])
async def test_it_is_made_again_as_often_as_the_owner_wants_and_no_more(monkeypatch, retries):
    async with bot(monkeypatch, *[500] * 20, retries=retries) as (client, heard):
        with pytest.raises(discord.DiscordServerError) as failed:
            await client.http.get_channel(1)
        assert (failed.value.status, len(heard)) == (500, retries + 1)


async def test_what_discord_refuses_is_not_asked_again(monkeypatch):
    async with bot(monkeypatch, 403) as (client, heard):
        with pytest.raises(discord.Forbidden):
            await client.http.get_channel(1)
        assert len(heard) == 1


async def test_a_picture_goes_along_whole_each_time(monkeypatch):
    async with bot(monkeypatch, 500, 500) as (client, heard):
        file = discord.File(io.BytesIO(b"all of the picture"), "cat.png")
        form = [{"name": "files[0]", "value": file.fp, "filename": "cat.png", "content_type": "image/png"}]
        await client.http.request(Route("POST", "/channels/1/messages"), files=[file], form=form)
        assert [(method, b"all of the picture" in body) for method, body in heard] == [("POST", True)] * 3


@pytest.mark.promise(58)
async def test_others_pass_on_the_same_route_while_a_request_waits_to_be_made_again(monkeypatch):
    async with bot(monkeypatch, 500, pause=3600.0) as (client, heard):
        waiting = asyncio.create_task(client.http.get_channel(1))
        await until(lambda: heard)
        assert (await client.http.get_channel(1))["id"] == "1"
        assert not waiting.done()
        waiting.cancel()
