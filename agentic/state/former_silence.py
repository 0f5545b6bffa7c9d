"""Stops, mutes, and ignored people that an earlier version stored under keys of their own. agentic/state/silence.py
imports them at the first start."""

from __future__ import annotations

import logging
import re

from agentic.text import finite_number
from agentic.wire.connection import RedisConnection
from agentic.wire.messages import SilenceNotice

IGNORED = "coordinator:ignored"
ORDER = re.compile(r"coordinator:(?:stop|ordered):(\d{1,20})", re.ASCII)  # of a channel; 0 for a pause
MUTE = re.compile(r"agent:([^:]+):muted")
DAY = 86400.0  # seconds
MAX_STOP, MAX_PAUSE, MAX_MUTE = DAY, 366 * DAY, 7 * DAY
EARLIEST = 0.001  # unix seconds: any other order is newer

log = logging.getLogger(__name__)


async def find_former_keys(link: RedisConnection) -> list[str]:
    """Return the keys of an earlier version. Raises StateUnavailable."""
    found = [IGNORED]
    for pattern in ("coordinator:stop:*", "coordinator:ordered:*", "agent:*:muted"):
        async for page in link.scan(pattern, "string"):
            found += [name for name in page if ORDER.fullmatch(name) or MUTE.fullmatch(name)]
    return found


async def read_former_orders(link: RedisConnection, names: list[str]) -> list[SilenceNotice]:
    """Return the orders under the keys that `find_former_keys` found. If the time of an order is unknown, it is the
    earliest possible time. Raises StateUnavailable."""
    people = map(str, await link.redis.smembers(IGNORED))
    ignored = [person for person in people if person.isdecimal()]
    orders = [SilenceNotice(scope=f"u:{person}", until=1e12, at=EARLIEST) for person in ignored]
    texts = await link.redis.mget(names[1:]) if names[1:] else []
    found = {name: str(text or "") for name, text in zip(names[1:], texts, strict=True)}
    for channel in {match[1] for match in map(ORDER.fullmatch, found) if match}:
        source, _, ends = found.get(f"coordinator:stop:{channel}", "").partition(" ")
        ordered = found.get(f"coordinator:ordered:{channel}", "")
        until, at = finite_number(ends or "0"), finite_number(ordered or "0")
        if until is None or at is None:
            log.warning("ignoring the former stop of channel %s: can't read it", channel)
            continue
        scope, longest = (f"c:{channel}", MAX_STOP) if int(channel) else ("*", MAX_PAUSE)
        at = at or max(EARLIEST, until - longest)
        orders.append(SilenceNotice(scope=scope, until=until, at=at, source=source))
    for name, text in found.items():
        muted, until = MUTE.fullmatch(name), finite_number(text)
        if muted and until:
            orders.append(SilenceNotice(scope=f"a:{muted[1]}", until=until, at=until - MAX_MUTE))
    return orders
