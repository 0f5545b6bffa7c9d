"""Rules for outgoing messages: the nonce and allowed mentions that the gate adds, the secrets that it removes."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import discord

from agentic.chat.splitting import length, split_text
from agentic.process.redaction import Redactor
from agentic.services.discord.rate_limit import RefusedRequests

MAX_TEXT = 2000  # characters of a message, Discord's own limit

FILE_NOTE_ROOM = 50  # characters that the note about a refused file takes, with the line break before it

_TOO_LARGE_CODES = (40005, 50045)  # request entity too large, file exceeds the maximum size
_NOT_OF_THE_FILE = (401, 404, 429)  # statuses
_MISSING_ACCESS = 50001
_FILE_NOTE = re.compile(r"\n?-# The (?:picture|file) (?:was too large to post|could not be posted) here\.\Z")

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


def may_be_the_file(error: discord.HTTPException) -> bool:
    """Whether a refused request with a file may pass without the file.

    Discord refuses files for their size (also a proxy's 413 without JSON), for their type or content, and for a
    missing permission, with ever new codes. So every refusal counts that is not of the account, the channel, or the
    rate: one further request shows it.
    """
    return error.status < 500 and error.status not in _NOT_OF_THE_FILE and error.code != _MISSING_ACCESS


def with_file_note(text: str | None, attach: Attach, error: Exception) -> str:
    """Return the text with a line below it that says why its file is missing."""
    kind = mimetypes.guess_type(attach().filename or "")[0] or ""
    noun = "picture" if kind.startswith("image/") else "file"
    too_large = isinstance(error, discord.HTTPException) and (error.status == 413 or error.code in _TOO_LARGE_CODES)
    note = f"-# The {noun} {'was too large to post' if too_large else 'could not be posted'} here."
    if not text:
        return note
    if length(text) > MAX_TEXT - FILE_NOTE_ROOM:
        text = split_text(text, MAX_TEXT - FILE_NOTE_ROOM - 2)[0] + " …"
    return f"{text}\n{note}"


def without_file_note(text: str) -> str:
    """Return the text as it was before `with_file_note`."""
    return _FILE_NOTE.sub("", text)


def shortened(text: str) -> str:
    """At most what fits into one message, and never nothing."""
    text = text.strip() or "…"
    return text if len(text) <= MAX_TEXT else split_text(text, MAX_TEXT - 2)[0] + " …"
