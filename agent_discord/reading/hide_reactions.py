"""Who gave the reactions that hide or show a message: only people's count (agent_context/selecting/visibility.py).

The gateway tells with each reaction who gives it; of older ones REST tells only how many there are, so those who gave
these few are asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import discord

from agent_context.selecting.visibility import is_mark

MOST_LOOKUPS = 10  # of one page; of what comes beyond, anybody's counts
MOST_GIVERS = 100  # Discord's largest page

Givers = Callable[
    [discord.Reaction], Awaitable[Sequence[discord.User | discord.Member] | None]
]  # None: they cannot be known


async def with_marks_of_people(messages: Sequence[discord.Message], givers: Givers) -> Sequence[discord.Message]:
    """The messages, their marks counted without those of bots; one that bots alone gave is left out."""
    found = [(message, mark) for message in messages for mark in message.reactions if is_mark(str(mark.emoji))]
    for message, mark in found[:MOST_LOOKUPS]:
        by = await givers(mark)
        if by is None or len(by) == MOST_GIVERS:
            continue
        mark.count = sum(not user.bot for user in by)
        if mark.count == 0:
            message.reactions.remove(mark)
    return messages
