"""Rules for outgoing messages: the nonce and allowed mentions that the gate adds, the secrets that it removes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import discord

from agent_discord.rest.rate_limit import RefusedRequests
from agent_process.redaction import Redactor

MAX_TEXT = 2000  # characters of a message, Discord's own limit

Attach = Callable[[], discord.File]


@dataclass(frozen=True)
class OutboundShared:
    """Shared by all gates of a process."""

    redact: Redactor = field(default_factory=Redactor)
    refused: RefusedRequests = field(default_factory=RefusedRequests)

    def clean_embed(self, embed: discord.Embed) -> discord.Embed:
        shown = embed.to_dict()
        clean = self.redact.everywhere(shown)
        return embed if clean == shown else discord.Embed.from_dict(clean)

    def clean_file(self, file: discord.File) -> discord.File:
        """The file with its name and description cleaned; its content is not looked at."""
        file.filename = self.redact(file.filename) if file.filename else file.filename
        file.description = self.redact(file.description) if file.description else file.description
        return file


def nonce(turn_id: str, chunk: int) -> str:
    """The same turn and chunk make the same nonce, at most Discord's 25 characters."""
    return hashlib.blake2b(f"{turn_id}/{chunk}".encode(), digest_size=12).hexdigest()


def pings(user_id: int | None) -> discord.AllowedMentions:
    """Allows to ping the one person who is answered, or nobody."""
    users: bool | list[discord.abc.Snowflake] = [discord.Object(user_id)] if user_id is not None else False
    return discord.AllowedMentions(everyone=False, roles=False, users=users, replied_user=False)


def shortened(text: str) -> str:
    """At most what fits into one message, and never nothing."""
    text = text.strip() or "…"
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 2].rstrip() + " …"
