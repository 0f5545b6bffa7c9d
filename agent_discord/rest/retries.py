"""A request that Discord failed on (HTTP 5xx) is made again: how often, and after what pauses.

py-cord makes it again by itself, four times, after 1, 3, 5 and 7 seconds in which nothing else passes on that route,
and offers no choice. Here the first failure ends py-cord's own tries, and the request is made again as often as the
owner wants, after pauses that double, half of each by chance; others pass meanwhile. A rate limit (429) stays with
py-cord, which waits as long as Discord says, and so do webhooks and answers to commands, which it sends another way.
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

FIRST_PAUSE = 0.5  # seconds at least


log = logging.getLogger(__name__)


def pauses(rng: random.Random) -> Iterator[float]:
    """Seconds before each further try."""
    return backoff(rng, FIRST_PAUSE)


def retry_requests(client: discord.Client, retries: int, rng: random.Random) -> None:
    """This client's requests that fail are made `retries` times more. Then they raise discord.DiscordServerError."""
    http, send = client.http, client.http.request

    async def request(route: Any, **options: Any) -> Any:
        for pause in islice(pauses(rng), retries):
            try:
                return await send(route, middlewares=(_failing_at_once,), **options)
            except discord.DiscordServerError as error:
                log.info("Discord answered HTTP %d: the request is made again in %.1f s", error.status, pause)
            await asyncio.sleep(pause)
            for file in options.get("files") or ():
                file.reset()
        return await send(route, middlewares=(_failing_at_once,), **options)

    http.request = request  # type: ignore[method-assign]


async def _failing_at_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A middleware of aiohttp's: py-cord, which would make the request again, hears of the failure as of its last."""
    response = await handler(request)
    if response.status < 500:
        return response
    response.release()
    raise discord.DiscordServerError(response, None)


SHORTEST, LONGEST = 1.0, 30.0  # seconds between two tries to reach Discord

STEADY_SECONDS = 60.0  # what has held for so long begins with the shortest pause again


def backoff(rng: random.Random, shortest: float = SHORTEST, longest: float = LONGEST) -> Iterator[float]:
    """Seconds before each further try, never fewer than `shortest` nor more than `longest`."""
    least = shortest
    while True:
        yield rng.uniform(least, min(2 * least, longest))
        least = min(2 * least, longest / 2)
