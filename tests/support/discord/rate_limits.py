"""Rate limits like Discord's: a window for each bucket, and one over all routes of a bot.

A bucket's window opens with its first request and permits a number of them until it ends.

https://discord.com/developers/docs/topics/rate-limits
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass

_MESSAGES = "/channels/{channel_id}/messages"
_MESSAGE = _MESSAGES + "/{message_id}"
_BY_WEBHOOK = "/webhooks/{webhook_id}/{token}"
BUCKETS = {
    ("POST", _MESSAGES + "/bulk-delete"): "deletes",
    ("GET", _MESSAGES): "history",
    ("POST", _MESSAGES): "messages_per_channel",
    ("PATCH", _MESSAGE): "edits",
    ("DELETE", _MESSAGE): "deletes",
    ("POST", "/channels/{channel_id}/typing"): "typing",
    ("POST", _BY_WEBHOOK): "webhooks",
    ("PATCH", _BY_WEBHOOK + "/messages/{message_id}"): "webhooks",
    ("DELETE", _BY_WEBHOOK + "/messages/{message_id}"): "webhooks",
}
"""(method, route) → a field of RateLimits; changes to reactions are in "reactions", all other requests in "other"."""


def bucket_of(method: str, route: str) -> str:
    if "/reactions" in route and method != "GET":
        return "reactions"
    return BUCKETS.get((method, route), "other")


Window = tuple[int, float]
"""(requests, seconds)"""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """One window for each kind of route, per bot and channel (or webhook, or guild).

    None: unlimited. Discord's own numbers vary and are not documented; these are close to what bots observe.
    """

    messages_per_channel: Window | None = (5, 5.0)
    edits: Window | None = (5, 5.0)
    deletes: Window | None = (5, 1.0)
    reactions: Window | None = (1, 0.25)
    typing: Window | None = (5, 5.0)
    history: Window | None = (50, 5.0)
    webhooks: Window | None = (5, 2.0)
    other: Window | None = None
    global_per_second: int | None = 50


@dataclass(slots=True)
class _Bucket:
    left: int
    ends: float


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """retry_after is None for a permitted request, else seconds. headers are sent in either case."""

    headers: dict[str, str]
    retry_after: float | None = None
    is_global: bool = False


class Limiter:
    """Count requests against limits; with limits None all are permitted. clock returns seconds."""

    def __init__(self, limits: RateLimits | None, clock: Callable[[], float]) -> None:
        self.limits = limits
        self._clock = clock
        self._buckets: dict[tuple[str, ...], _Bucket] = {}

    def check(self, bot: str, kind: str, major: str, *, counts_globally: bool) -> LimitCheck:
        """kind is a field of RateLimits, major the id that the bucket belongs to."""
        now = self._clock()
        limits = self.limits
        if limits is not None and limits.global_per_second and counts_globally:
            over_all = self._take(("global", bot), (limits.global_per_second, 1.0), now)
            headers = {"X-RateLimit-Global": "true", "X-RateLimit-Scope": "global"}
            if over_all.left < 0:
                return _refused(headers, over_all.ends - now, True)
        window = None if limits is None else getattr(limits, kind)
        if window is None:
            return LimitCheck(_headers(kind, (1000, 1.0), 999, now + 1.0, now))
        bucket = self._take((kind, bot, major), window, now)
        headers = _headers(kind, window, max(bucket.left, 0), bucket.ends, now)
        if bucket.left < 0:
            return _refused({**headers, "X-RateLimit-Scope": "user"}, bucket.ends - now, False)
        return LimitCheck(headers)

    def _take(self, key: tuple[str, ...], window: Window, now: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None or bucket.ends <= now:
            bucket = self._buckets[key] = _Bucket(window[0], now + window[1])
            if len(self._buckets) > 5000:
                self._buckets = {key: b for key, b in self._buckets.items() if b.ends > now}
        bucket.left = max(bucket.left - 1, -1)
        return bucket


def _headers(kind: str, window: Window, left: int, ends: float, now: float) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(window[0]),
        "X-RateLimit-Remaining": str(left),
        "X-RateLimit-Reset": f"{ends:.3f}",
        "X-RateLimit-Reset-After": f"{_up(ends - now):.3f}",
        "X-RateLimit-Bucket": f"{zlib.crc32(kind.encode()):08x}",
    }


def _refused(headers: dict[str, str], wait: float, is_global: bool) -> LimitCheck:
    wait = _up(wait)
    return LimitCheck({**headers, "Retry-After": str(math.ceil(wait))}, wait, is_global)


def _up(seconds: float) -> float:
    """Round up to whole milliseconds, so that the window is open after that time."""
    return math.ceil(max(seconds, 0.0) * 1000) / 1000
