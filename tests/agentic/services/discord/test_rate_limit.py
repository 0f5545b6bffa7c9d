import json

import discord
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from agentic.services.discord.rate_limit import CLOSE_AT, NARROW_AT, WINDOW, RefusedRequests, count_refusals


class Time:
    def __init__(self):
        self.now = 5000.0

    def __call__(self):
        return self.now


def after(count, status=403, **more):
    time = Time()
    refused = RefusedRequests(clock=time)
    for _ in range(count):
        refused.count(status, **more)
    return time, refused


def passes(refused):
    return refused.may_pass(answers=True), refused.may_pass(answers=False)


@pytest.mark.promise(62)
def test_the_way_out_narrows_to_answers_and_then_closes_far_below_discords_ban():
    assert passes(after(NARROW_AT - 1)[1]) == (True, True)
    assert passes(after(NARROW_AT)[1]) == (True, False)
    assert passes(after(CLOSE_AT)[1]) == (False, False)
    assert CLOSE_AT < 10_000 / 3


@pytest.mark.promise(62)
def test_it_opens_by_itself_when_ten_minutes_have_moved_on():
    time, refused = after(CLOSE_AT * 2)
    time.now += WINDOW - 1
    assert passes(refused) == (False, False)
    time.now += 1
    assert passes(refused) == (True, True)


def test_each_of_the_three_statuses_counts_and_nothing_else():
    assert [passes(after(CLOSE_AT, status)[1])[0] for status in (401, 403, 429)] == [False] * 3
    assert [passes(after(CLOSE_AT, status)[1])[1] for status in (200, 204, 400, 404, 500, 502)] == [True] * 6
    assert passes(after(CLOSE_AT, 429, scope="shared")[1]) == (True, True)
    assert passes(after(CLOSE_AT, 429, scope="user")[1]) == (False, False)


def test_each_change_is_one_loud_line(caplog):
    time, refused = after(CLOSE_AT + 500)
    for _ in range(10):
        refused.may_pass(answers=True)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "1000 REQUESTS" in caplog.messages[0]
    assert "3000 REQUESTS" in caplog.messages[1]
    time.now += WINDOW
    refused.may_pass(answers=True)
    assert caplog.records[-1].levelname == "WARNING"


async def test_every_answer_to_a_client_counts_also_one_that_pycord_waits_out_by_itself(monkeypatch):
    def answer(body, **more):  # exactly this content type, or py-cord takes the body for text
        return web.Response(body=json.dumps(body).encode(), content_type="application/json", **more)

    answers = [
        answer({"retry_after": 0.0, "message": "slow"}, status=429, headers={"Via": "1.1 google"}),
        answer({"retry_after": 0.0, "message": "slow"}, status=429, headers={"Via": "1.1 google"}),
        answer({"id": "1", "username": "Claude", "discriminator": "0", "avatar": None}),
        answer({"message": "no", "code": 50013}, status=403),
    ]

    async def handler(_):
        return answers.pop(0)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    refused = RefusedRequests(narrow_at=3, close_at=4)
    async with TestServer(app, host="127.0.0.1") as server:
        monkeypatch.setattr(discord.http.Route, "API_BASE_URL", f"http://127.0.0.1:{server.port}")
        client = discord.Client(intents=discord.Intents(guilds=True))
        count_refusals(client, refused)
        await client.login("a-token")
        assert refused.state() == "open"  # two so far
        with pytest.raises(discord.Forbidden):
            await client.http.get_channel(1)
        assert refused.state() == "narrow"
        await client.close()
    assert answers == []
