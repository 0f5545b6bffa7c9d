"""Which threads matter when a bot comes back: those where something may have been missed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import discord

from agent_context.merge import snowflake_time
from agent_discord.outlet import Channel
from agent_discord.transcript import Transcripts


def threads_to_read(channels: Iterable[Channel], transcripts: Transcripts, since: float) -> Iterator[discord.Thread]:
    """The active threads of these channels with a message since then (unix seconds), or with a record that must stay
    true. A server may have a thousand active threads: the others are read when a turn needs them."""
    for channel in channels:
        for thread in getattr(channel, "threads", ()):  # a voice channel has none
            last = thread.last_message_id
            if thread.archived or last is None:
                continue
            if transcripts.known(thread.id) is not None or snowflake_time(last) >= since:
                yield thread
