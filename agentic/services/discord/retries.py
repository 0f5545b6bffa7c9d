"""Retries of a request that Discord failed on (HTTP 5xx): how many, after what pauses.

py-cord retries by itself, four times, after 1, 3, 5 and 7 seconds in which nothing else passes on that route, and
offers no choice. Here the first failure ends py-cord's own tries. The request is retried as often as the owner set,
after pauses that double, half of each by chance; other requests pass meanwhile. A rate limit (429) stays with py-cord,
which waits as long as Discord says, and so do answers to commands, which it sends another way. A webhook's post is not
retried here: it has no nonce, so it might be posted twice.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import aiohttp
import discord

FIRST_PAUSE = 0.5  # seconds at least, before the first retry of a request
SHORTEST, LONGEST = 1.0, 30.0  # seconds between two tries to reach Discord
STEADY_SECONDS = 60.0  # a connection that held for so long begins with the shortest pause again

log = logging.getLogger(__name__)


def backoff(rng: random.Random, shortest: float = SHORTEST, longest: float = LONGEST) -> Iterator[float]:
    """Seconds before each further try, never fewer than `shortest` nor more than `longest`."""
    least = shortest
    while True:
        yield rng.uniform(least, min(2 * least, longest))
        least = min(2 * least, longest / 2)


def pauses(rng: random.Random) -> Iterator[float]:
    """Seconds before each retry of a request."""
    return backoff(rng, FIRST_PAUSE)


def retry_requests(client: discord.Client, retries: int, rng: random.Random) -> None:
    """Makes the client retry failed requests up to `retries` times. Then they raise discord.DiscordServerError."""
    http, send = client.http, client.http.request

    async def request(route: Any, **options: Any) -> Any:
        for pause in islice(pauses(rng), retries):
            try:
                return await send(route, middlewares=(_fail_on_first,), **options)
            except discord.DiscordServerError as error:
                log.info("Discord answered with HTTP %d: retrying the request in %.1f s", error.status, pause)
            await asyncio.sleep(pause)
            for file in options.get("files") or ():
                file.reset()
        return await send(route, middlewares=(_fail_on_first,), **options)

    http.request = request  # type: ignore[method-assign]


def webhook_session() -> aiohttp.ClientSession:
    """A session for webhooks, over which py-cord does not repeat what Discord failed on."""
    return aiohttp.ClientSession(middlewares=(_fail_on_first,))


async def _fail_on_first(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """An aiohttp middleware that makes a failed request's first try look like py-cord's last one."""
    response = await handler(request)
    if response.status < 500:
        return response
    response.release()
    raise discord.DiscordServerError(response, None)
