"""The numbers of messages, people and channels: 63 bits, as in Discord.

The upper bits of a message's number are its time, in milliseconds since 2015, and the lower 22 distinguish messages of
one millisecond (discord.com/developers/docs/reference#snowflakes). Messages of every service have such numbers, so that
they sort by time. People and channels of other services than Discord have numbers from 2^62 on, which no snowflake
reaches before the year 2049. Bots talk among themselves, and hold rooms, in channels of Discord alone.
"""

from __future__ import annotations

EPOCH_MS = 1_420_070_400_000
LOW_BITS = 22
MAX_ID = 2**63 - 1
FIRST_ELSEWHERE = 1 << 62


def is_snowflake(number: int) -> bool:
    """Whether a person's or a channel's number is Discord's."""
    return number < FIRST_ELSEWHERE


def id_at(seconds: float) -> int:
    """The smallest id of messages that were sent at this time (unix seconds) or later."""
    return min(max(0, round(seconds * 1000) - EPOCH_MS) << LOW_BITS, MAX_ID)


def sent_at(message_id: int) -> float:
    """When a message was sent, in unix seconds. A number that no message has counts as the nearest possible one."""
    return ((min(max(message_id, 0), MAX_ID) >> LOW_BITS) + EPOCH_MS) / 1000
