"""What the live feed does while nobody has the console open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from agentic.console.api.live_feed import LiveFeed
from tests.support.redis_server import until


async def test_nothing_is_encoded_for_a_console_that_nobody_has_open() -> None:
    asked: list[int] = []
    live: Any = SimpleNamespace(is_shown=lambda _: True, message=lambda _, message_id: asked.append(message_id))
    parts: Any = SimpleNamespace(live=live, settings=SimpleNamespace(turn_timeout_seconds=60.0), clock=lambda: 0.0)
    feed = LiveFeed(parts)
    before = feed.hub.cursor
    feed.on_change(1, 7)
    reader = feed.hub.open(before, lambda: None)
    assert b"event: reset" in (await reader.next(0) or b""), "a page from before asks for everything"
    feed.on_change(1, 8)
    await until(lambda: asked)
    feed.hub.leave(reader)
    cursor = feed.hub.cursor
    feed.on_change(1, 9)
    await until(lambda: len(asked) == 2)
    assert b"event: gone" in (await feed.hub.open(cursor, lambda: None).next(0) or b""), "it was offline for a moment"
    assert asked == [8, 9]
