"""Numbers for what Signal names by phone numbers, account ids, group ids and times.

All the program knows messages, people and channels by 63-bit integers, as Discord has them. Signal knows a message by
its author and its time in milliseconds; its number is made like a snowflake: the time stands in the upper bits, so that
messages sort by time and the time can be read from the number. People and chats have numbers from 2^62 on, which no
snowflake reaches before the year 2049.
"""

from __future__ import annotations

import hashlib

EPOCH_MS = 1_420_070_400_000  # Discord's; agent_context.selecting.merge_history reads times with it too
FIRST = 1 << 62  # of the numbers of people and chats

_TIME_SHIFT = 22
_LOW_BITS = (1 << _TIME_SHIFT) - 1
_LAST_TIME = EPOCH_MS + (1 << 41) - 1  # the number of a later one would be too long


def _hashed(*parts: object) -> int:
    text = "\x00".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def is_signal(number: int) -> bool:
    """Whether a person's or a channel's number is Signal's. A linked person has that of their Discord account."""
    return number >= FIRST


def message_id(author: int, timestamp_ms: int) -> int:
    """The number of the message that this person sent at this time. A time that no message can have counts as the
    nearest possible one."""
    since = min(max(timestamp_ms, EPOCH_MS), _LAST_TIME) - EPOCH_MS
    return since << _TIME_SHIFT | _hashed("message", author, timestamp_ms) & _LOW_BITS


def timestamp_of(message: int) -> int:
    """The time of a message in milliseconds, by which Signal knows it."""
    return (message >> _TIME_SHIFT) + EPOCH_MS


def ids_at(timestamp_ms: int) -> range:
    """The numbers of all messages of this millisecond."""
    first = max(timestamp_ms - EPOCH_MS, 0) << _TIME_SHIFT
    return range(first, first + _LOW_BITS + 1)


def person_id(address: str) -> int:
    """The number of the person with this phone number or account id."""
    return FIRST | _hashed("person", address) & (FIRST - 1)


def direct_chat_id(account: str, person: int) -> int:
    """The number of the chat that a person has with this account of ours: two agents have a chat each with them."""
    return FIRST | _hashed("chat", account, person) & (FIRST - 1)


def group_chat_id(group: str) -> int:
    """The number of a group, by its internal id: one chat, however many of our accounts are in it."""
    return FIRST | _hashed("group", group) & (FIRST - 1)


def file_id(attachment: str) -> int:
    """The number of an attachment, by its id in signal-cli."""
    return _hashed("file", attachment) & (FIRST - 1)


def masked(address: str) -> str:
    """A phone number or account id for a log line: its last two characters. Whose it is, is nobody else's business."""
    return f"…{address[-2:]}"
