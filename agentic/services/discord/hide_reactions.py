"""Counts only people's reactions among those that hide or show a message (agentic.context.entries).

The gateway sends the giver with each reaction. REST sends only the number of older ones, so their givers are read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import discord

from agentic.context.entries import is_mark

MOST_LOOKUPS = 10  # of one page; reactions beyond count also where a bot gave them
MOST_GIVERS = 100  # Discord's largest page

# None where they cannot be known.
Givers = Callable[[discord.Reaction], Awaitable[Sequence[discord.User | discord.Member] | None]]


async def with_marks_of_people(messages: Sequence[discord.Message], givers: Givers) -> Sequence[discord.Message]:
    """The messages, with their marks counted without those of bots; a mark by bots alone is removed."""
    found = [(message, mark) for message in messages for mark in message.reactions if is_mark(str(mark.emoji))]
    for message, mark in found[:MOST_LOOKUPS]:
        by = await givers(mark)
        if by is None or len(by) == MOST_GIVERS:
            continue
        mark.count = sum(not user.bot for user in by)
        if mark.count == 0:
            message.reactions.remove(mark)
    return messages
