"""Stores where an agent's context of a channel begins, so that after a restart a provider's cache still fits.

The state is the context engine's own mapping. Where it is lost the window is only cut again, which costs money; so a
missing Redis is no error here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink

KEEP_SECONDS = 7 * 86400

log = logging.getLogger(__name__)


class ContextWindows:
    """A small record a window. No method raises RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def keep(self, agent: str, channel_id: int, kind: str, state: Mapping[str, Any]) -> None:
        """Store the state for seven days."""
        key, text = keys.window(agent, channel_id, kind), json.dumps(dict(state))
        try:
            await self._link.call(lambda redis: redis.set(key, text, ex=KEEP_SECONDS))
        except RedisAway as away:
            log.debug("a context window is not stored: %s", away)

    async def kept(self, agent: str, channel_id: int, kind: str) -> dict[str, Any] | None:
        """The stored state; None for none, or one that cannot be read."""
        try:
            text = await self._link.call(lambda redis: redis.get(keys.window(agent, channel_id, kind)))
            state = json.loads(text) if text else None
        except RedisAway as away:
            log.debug("an earlier context window cannot be read: %s", away)
            return None
        except ValueError:
            log.warning("the context window of %s in channel %d cannot be read, a new one is cut", agent, channel_id)
            return None
        return state if isinstance(state, dict) else None
