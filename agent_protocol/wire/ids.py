"""Which numbers name what in Discord.

The program knows people and channels by 63-bit integers. Discord's are snowflakes, which stay below 2^62 until the year
2049; other services give theirs at or above it. Bots talk among themselves, and hold rooms, in channels of Discord
alone.
"""

from __future__ import annotations

FIRST_ELSEWHERE = 1 << 62


def is_snowflake(number: int) -> bool:
    """Whether a person's or a channel's number is Discord's."""
    return number < FIRST_ELSEWHERE
