"""The ids of messages, people, and channels: 63 bits, as in Discord.

The upper bits of a message's id are its time, in milliseconds since 2015; the lower 22 bits distinguish messages of the
same millisecond (discord.com/developers/docs/reference#snowflakes). Messages of every service have such ids, so they
sort by time. People and channels of services other than Discord have ids from 2^62 on, which snowflakes don't reach
before 2049. Only Discord's channels have conversations among bots and rooms.
"""

from __future__ import annotations

EPOCH_MS = 1_420_070_400_000
LOW_BITS = 22
MAX_ID = 2**63 - 1
FIRST_ELSEWHERE = 1 << 62


def is_snowflake(number: int) -> bool:
    return number < FIRST_ELSEWHERE


def id_at(seconds: float) -> int:
    """Return the smallest id of a message sent at this time (unix seconds) or later."""
    return min(max(0, round(seconds * 1000) - EPOCH_MS) << LOW_BITS, MAX_ID)


def sent_at(message_id: int) -> float:
    """Return when a message was sent, in unix seconds. An impossible id is taken as the nearest possible id."""
    return ((min(max(message_id, 0), MAX_ID) >> LOW_BITS) + EPOCH_MS) / 1000
