"""A bot's first step: its login, tried again while Discord is not there.

py-cord connects again by itself, with jittered pauses, once a bot was logged in; the login itself it tries once. What
Discord refuses (a wrong token) is not tried again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator

import aiohttp
import discord

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds

log = logging.getLogger(__name__)


def pauses(rng: random.Random) -> Iterator[float]:
    """Seconds before each further try: doubling, and half of each by chance, so that bots do not come all at once."""
    longest = FIRST_PAUSE
    while True:
        yield rng.uniform(longest / 2, longest)
        longest = min(2 * longest, LONGEST_PAUSE)


async def log_in(client: discord.Client, token: str, name: str, rng: random.Random, delayed: asyncio.Event) -> None:
    """Returns when Discord has taken the token; sets `delayed` when that does not come at once.

    Raises discord.LoginFailure for a token that is refused, discord.HTTPException for what else Discord refuses.
    """
    for pause in pauses(rng):
        try:
            await client.login(token)
            return
        except (discord.HTTPException, aiohttp.ClientError, OSError) as error:
            if isinstance(error, discord.HTTPException) and not passes(error):
                raise
            log.warning("%s cannot log in yet: %s, next try in %.0f s", name, _in_words(error), pause)
        delayed.set()
        await client.http.close()  # each login makes a session of its own
        await asyncio.sleep(pause)


def _in_words(error: Exception) -> str:
    """Never the error's own text, which may hold what was sent."""
    if isinstance(error, discord.HTTPException):
        return f"Discord answers {error.status}"
    return f"Discord cannot be reached, is this machine online? ({type(error).__name__})"


def passes(error: discord.HTTPException) -> bool:
    """A fault of Discord's, or too many requests: another time it may go well."""
    return error.status >= 500 or error.status == 429
