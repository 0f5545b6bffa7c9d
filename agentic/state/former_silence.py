"""The stops, mutes, and ignored people that an earlier version stored in keys of their own; agentic/state/silence.py
imports them at the first start."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from agentic.text import finite_number
from agentic.wire.connection import RedisConnection

IGNORED = "coordinator:ignored"
ORDER = re.compile(r"coordinator:(?:stop|ordered):(\d{1,20})", re.ASCII)  # of a channel; 0 for a pause
MUTE = re.compile(r"agent:([^:]+):muted")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FormerOrder:
    """An order for the scope `scope`, as text, until `until` (unix seconds; 0 for a resume, None for no end). `at` is
    when it was given, None if that is unknown."""

    scope: str
    until: float | None
    at: float | None = None
    source: str = ""


async def find_former_keys(link: RedisConnection) -> list[str]:
    """Return the keys of an earlier version. Raises StateUnavailable."""
    found = [IGNORED]
    for pattern in ("coordinator:stop:*", "coordinator:ordered:*", "agent:*:muted"):
        async for page in link.scan(pattern, "string"):
            found += [name for name in page if ORDER.fullmatch(name) or MUTE.fullmatch(name)]
    return found


async def read_former_orders(link: RedisConnection, names: list[str]) -> list[FormerOrder]:
    """Return the orders in the keys that `find_former_keys` found. Raises StateUnavailable."""
    people = map(str, await link.call(lambda redis: redis.smembers(IGNORED)))
    orders = [FormerOrder(f"u:{person}", None) for person in people if person.isdecimal()]
    texts = await link.call(lambda redis: redis.mget(names[1:])) if names[1:] else []
    found = {name: str(text or "") for name, text in zip(names[1:], texts, strict=True)}
    for channel in {match[1] for match in map(ORDER.fullmatch, found) if match}:
        source, _, ends = found.get(f"coordinator:stop:{channel}", "").partition(" ")
        ordered = found.get(f"coordinator:ordered:{channel}", "")
        until, at = finite_number(ends or "0"), finite_number(ordered or "0")
        if until is None or at is None:
            log.warning("the former stop of channel %s cannot be read and is ignored", channel)
        else:
            orders.append(FormerOrder(f"c:{channel}" if int(channel) else "*", until, at or None, source))
    for name, text in found.items():
        muted, until = MUTE.fullmatch(name), finite_number(text)
        if muted and until:
            orders.append(FormerOrder(f"a:{muted[1]}", until))
    return orders
