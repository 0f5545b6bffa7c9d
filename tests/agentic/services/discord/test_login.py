"""A bot's login on a bad day."""

from __future__ import annotations

import asyncio
import itertools
import random
from types import SimpleNamespace
from typing import Any

import aiohttp
import discord
import pytest

from agentic.services.discord import rate_limit as login
from agentic.services.discord.rate_limit import LONGEST, SHORTEST, backoff, log_in
from tests.support.doubles import http_error


class Client:
    """Its logins go wrong in the given ways, one after another, and then well."""

    def __init__(self, *wrong: Exception) -> None:
        self.wrong, self.tried, self.closed = list(wrong), 0, 0
        self.http = SimpleNamespace(close=self._close)

    async def login(self, _: str) -> None:
        self.tried += 1
        if self.wrong:
            raise self.wrong.pop(0)

    async def _close(self) -> None:
        self.closed += 1


async def tried(monkeypatch: pytest.MonkeyPatch, *wrong: Exception) -> tuple[Client, asyncio.Event]:
    monkeypatch.setattr(login, "backoff", lambda _: itertools.repeat(0.0))
    client: Any = Client(*wrong)
    delayed = asyncio.Event()
    await log_in(client, "t0ken", "claude", random.Random(1), delayed)
    return client, delayed


async def test_a_login_that_goes_well_is_made_once(monkeypatch):
    client, delayed = await tried(monkeypatch)
    assert (client.tried, client.closed, delayed.is_set()) == (1, 0, False)


async def test_a_discord_that_is_not_there_is_tried_again_and_said_in_one_line_each(monkeypatch, caplog):
    bad_days = (
        *(aiohttp.ServerDisconnectedError(), OSError("t0ken"), http_error(503), http_error(429)),
        TypeError("a proxy's page instead of a user"),
    )
    client, delayed = await tried(monkeypatch, *bad_days)
    assert (client.tried, client.closed, delayed.is_set()) == (6, 5, True)
    assert len(caplog.records) == 5
    assert all("claude can't log in yet" in line for line in caplog.messages)
    assert "Discord can't be reached" in caplog.messages[0]
    assert "Discord answers 503" in caplog.messages[2]
    assert "the answer is unreadable" in caplog.messages[4]
    assert "t0ken" not in caplog.text


@pytest.mark.parametrize("refusal", [discord.LoginFailure("no"), http_error(403), http_error(400)])
async def test_what_discord_refuses_is_not_tried_again(monkeypatch, refusal):
    with pytest.raises(type(refusal)):
        await tried(monkeypatch, refusal)


def test_pauses_double_within_their_bounds_and_are_never_the_same_for_two_bots():
    one, other = (list(itertools.islice(backoff(random.Random(seed)), 12)) for seed in (1, 2))
    least = [min(SHORTEST * 2**n, LONGEST / 2) for n in range(12)]
    for both in zip(one, other, least, strict=True):
        assert all(both[2] <= pause <= min(2 * both[2], LONGEST) for pause in both[:2])
        assert both[0] != both[1]
    assert (SHORTEST, LONGEST) == (1.0, 30.0)
