"""The ways in which a request to Discord fails.

    GateClosed          not sent: Discord has refused too many requests of this process
      Silenced          not sent: by the time it could be, a person had stopped the channel or the lease was gone
    UnreadableAnswer    sent, but its answer cannot be parsed (agentic.services.discord.partial_payloads)

The others are py-cord's discord.HTTPException, and aiohttp's for a connection that breaks.
"""

from __future__ import annotations

import aiohttp
import discord

from agentic.services.discord.partial_payloads import UnreadableAnswer

MAX_MESSAGE = 300  # characters of Discord's own text


class GateClosed(Exception):
    """Not sent: Discord has refused too many requests of this process."""


class Silenced(GateClosed):
    """Not sent: by the time it could be, it was no longer wanted."""


CONNECTION_ERRORS = (aiohttp.ClientError, OSError)  # aiohttp's for a server that hangs up is no OSError
REQUEST_ERRORS = (discord.HTTPException, *CONNECTION_ERRORS, GateClosed, UnreadableAnswer)


def kind(error: BaseException) -> str:
    """An error for a log line, without its text, which may hold what was sent."""
    if isinstance(error, discord.HTTPException):
        return f"HTTP {error.status}, code {error.code}"
    return type(error).__name__


def in_full(error: BaseException) -> str:
    """An error for a log line, with Discord's text. Only for requests that hold nobody's words."""
    said = " ".join(error.text.split())[:MAX_MESSAGE] if isinstance(error, discord.HTTPException) else ""
    return f"{kind(error)}: {said}" if said else kind(error)
