"""A bot's login, retried while Discord cannot be reached.

py-cord tries it once. A refused login (a wrong token) is not retried here either.
"""

from __future__ import annotations

import asyncio
import logging
import random

import aiohttp
import discord

from agentic.services.discord.retries import backoff

_UNREADABLE = (LookupError, TypeError, ValueError)
_FAILURES = (aiohttp.ClientError, OSError, *_UNREADABLE)

log = logging.getLogger(__name__)


async def log_in(client: discord.Client, token: str, name: str, rng: random.Random, delayed: asyncio.Event) -> None:
    """Returns when Discord has accepted the token; sets `delayed` when the first try fails.

    Raises discord.LoginFailure for a refused token, discord.HTTPException for any other refusal.
    """
    for pause in backoff(rng):
        try:
            await client.login(token)
            return
        except (discord.HTTPException, *_FAILURES) as error:
            if isinstance(error, discord.HTTPException) and not is_temporary(error):
                raise
            log.warning("%s cannot log in yet: %s, next try in %.0f s", name, _in_words(error), pause)
        delayed.set()
        await client.http.close()  # each login makes a session of its own
        await asyncio.sleep(pause)


def _in_words(error: Exception) -> str:
    """The failure without the error's own text, which may hold what was sent."""
    if isinstance(error, discord.HTTPException):
        return f"Discord answers {error.status}"
    if isinstance(error, _UNREADABLE):
        return f"the answer cannot be read, is there a proxy in between? ({type(error).__name__})"
    return f"Discord cannot be reached, is this machine online? ({type(error).__name__})"


def is_temporary(error: discord.HTTPException) -> bool:
    """Whether another try may succeed: a fault of Discord's, or too many requests."""
    return error.status >= 500 or error.status == 429
