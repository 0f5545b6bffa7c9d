"""Numbers for what Signal names by phone numbers, account ids, group ids and times.

They have the form that agentic.ids gives: Signal knows a message by its author and its time in milliseconds, and the
time stands in the upper bits of its number.
"""

from __future__ import annotations

import hashlib

from agentic.ids import EPOCH_MS, FIRST_ELSEWHERE, LOW_BITS

_LOW = (1 << LOW_BITS) - 1
_LAST_TIME = EPOCH_MS + (1 << 41) - 1  # the number of a later one would be too long


def _hashed(*parts: object) -> int:
    text = "\x00".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def message_id(author: int, timestamp_ms: int) -> int:
    """The number of the message that this person sent at this time. A time that no message can have counts as the
    nearest possible one."""
    since = min(max(timestamp_ms, EPOCH_MS), _LAST_TIME) - EPOCH_MS
    return since << LOW_BITS | _hashed("message", author, timestamp_ms) & _LOW


def timestamp_of(message: int) -> int:
    """The time of a message in milliseconds, by which Signal knows it."""
    return (message >> LOW_BITS) + EPOCH_MS


def ids_at(timestamp_ms: int) -> range:
    """The numbers of all messages of this millisecond."""
    first = max(timestamp_ms - EPOCH_MS, 0) << LOW_BITS
    return range(first, first + _LOW + 1)


def person_id(address: str) -> int:
    """The number of the person with this phone number or account id. A linked person has that of their Discord account
    instead."""
    return FIRST_ELSEWHERE | _hashed("person", address) & (FIRST_ELSEWHERE - 1)


def direct_chat_id(account: str, person: int) -> int:
    """The number of the chat that a person has with this account of ours: two agents have a chat each with them."""
    return FIRST_ELSEWHERE | _hashed("chat", account, person) & (FIRST_ELSEWHERE - 1)


def group_chat_id(group: str) -> int:
    """The number of a group, by its internal id: one chat, however many of our accounts are in it."""
    return FIRST_ELSEWHERE | _hashed("group", group) & (FIRST_ELSEWHERE - 1)


def file_id(attachment: str) -> int:
    """The number of an attachment, by its id in signal-cli."""
    return _hashed("file", attachment) & (FIRST_ELSEWHERE - 1)


def masked(address: str) -> str:
    """A phone number or account id for a log line: its last two characters. Whose it is, is nobody else's business."""
    return f"…{address[-2:]}"
