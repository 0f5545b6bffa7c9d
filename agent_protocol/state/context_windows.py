"""Where an agent's context of a channel begins: kept over restarts, so that what a provider has cached is sent again.

What is kept is a mapping of the context engine's own; here only that it is one matters. Nothing is lost but money where
it is gone: the window is then cut anew. So Redis away is no error here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from agent_protocol.connection.link import RedisAway, RedisLink
from agent_protocol.wire import keys

KEEP_SECONDS = 7 * 86400

log = logging.getLogger(__name__)


class ContextWindows:
    """One small record a window. No method raises RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def keep(self, agent: str, channel_id: int, kind: str, state: Mapping[str, Any]) -> None:
        """Keeps the state for seven days from now."""
        key, text = keys.window(agent, channel_id, kind), json.dumps(dict(state))
        try:
            await self._link.call(lambda redis: redis.set(key, text, ex=KEEP_SECONDS))
        except RedisAway as away:
            log.debug("a window is not kept: %s", away)

    async def kept(self, agent: str, channel_id: int, kind: str) -> dict[str, Any] | None:
        """The state as it was kept; None for none, or one that cannot be read."""
        try:
            text = await self._link.call(lambda redis: redis.get(keys.window(agent, channel_id, kind)))
            state = json.loads(text) if text else None
        except RedisAway as away:
            log.debug("a window of an earlier run is not known: %s", away)
            return None
        except ValueError:
            log.warning("the window of %s in channel %d cannot be read", agent, channel_id)
            return None
        return state if isinstance(state, dict) else None
