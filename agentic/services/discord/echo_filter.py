"""Skips our own agents' posts where they come back over the gateway, to each of our bots, and tell it nothing new.

A post is in the shared transcript as soon as one bot has it: from the answer to its request, or from the first of these
events. It is new to another bot only if it mentions or answers that bot, or is still streamed. Parsing it would make
py-cord build a message, its author and its member four times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import discord

from agentic.chat.outlet import unfinished
from agentic.chat.transcript import Transcripts


def skip_echoes(client: discord.Client, transcripts: Transcripts) -> None:
    """Replaces py-cord's parser of new messages, for which it has no hook."""
    parsers = client._connection.parsers
    parse = parsers["MESSAGE_CREATE"]

    def parse_news(data: Any) -> None:
        if not _is_echo(data, client, transcripts):
            parse(data)

    parsers["MESSAGE_CREATE"] = parse_news


def _is_echo(data: Mapping[str, Any], client: discord.Client, transcripts: Transcripts) -> bool:
    """Whether this bot may skip the message. An odd one is left to the parser."""
    try:
        channel_id, message_id = int(data["channel_id"]), int(data["id"])
    except (KeyError, TypeError, ValueError):
        return False
    transcript, me = transcripts.known(channel_id), client.user
    entry = transcript.get(message_id) if transcript is not None else None
    if transcript is None or entry is None or me is None or entry.speaker.agent is None:
        return False
    if transcript.lacks_text(message_id) or unfinished(entry.text):
        return False
    if me.id in entry.mentions or entry.replied_to == me.id:
        return False
    channel = client.get_channel(channel_id)
    if isinstance(channel, discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread):
        channel.last_message_id = message_id  # as the parser would
    return True
