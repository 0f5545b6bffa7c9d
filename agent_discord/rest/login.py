"""A bot's first step: its login, tried again while Discord is not there.

py-cord tries it once. What Discord refuses (a wrong token) is not tried again here.
"""

from __future__ import annotations

import asyncio
import logging
import random

import aiohttp
import discord

from agent_discord.rest.retries import backoff

_UNREADABLE = (LookupError, TypeError, ValueError)
_FAILURES = (aiohttp.ClientError, OSError, *_UNREADABLE)

log = logging.getLogger(__name__)


async def log_in(client: discord.Client, token: str, name: str, rng: random.Random, delayed: asyncio.Event) -> None:
    """Returns when Discord has taken the token; sets `delayed` when that does not come at once.

    Raises discord.LoginFailure for a token that is refused, discord.HTTPException for what else Discord refuses.
    """
    for pause in backoff(rng):
        try:
            await client.login(token)
            return
        except (discord.HTTPException, *_FAILURES) as error:
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
    if isinstance(error, _UNREADABLE):
        return f"the answer cannot be read, is there a proxy in between? ({type(error).__name__})"
    return f"Discord cannot be reached, is this machine online? ({type(error).__name__})"


def passes(error: discord.HTTPException) -> bool:
    """A fault of Discord's, or too many requests: another time it may go well."""
    return error.status >= 500 or error.status == 429
