"""One agent's windows, kept over restarts: read once a channel and process, written behind the turn that cut them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from agent_context.selecting.window import WindowMemory, WindowState
from agent_process.tasks import BackgroundTasks

log = logging.getLogger(__name__)


class WindowStore(Protocol):
    """Where states are kept; agent_protocol.state.context_windows is the one in Redis. No method raises RedisAway."""

    async def keep(self, agent: str, channel_id: int, kind: str, state: Mapping[str, Any]) -> None: ...
    async def kept(self, agent: str, channel_id: int, kind: str) -> dict[str, Any] | None: ...


class WindowKeeper:
    """Keeps what `memory` knows."""

    def __init__(self, agent: str, memory: WindowMemory, store: WindowStore) -> None:
        self._agent, self._memory, self._store = agent, memory, store
        self._looked: set[tuple[int, str]] = set()
        self._cut: set[tuple[int, str]] = set()  # since the last `write`
        self._background = BackgroundTasks()

    async def restore(self, channel_id: int, kind: str) -> None:
        """Takes up what an earlier run kept. Only the first look at a window asks for it."""
        if (channel_id, kind) in self._looked:
            return
        self._looked.add((channel_id, kind))
        kept = await self._store.kept(self._agent, channel_id, kind)
        if kept is None:
            return
        try:
            self._memory.restore(channel_id, kind, WindowState.from_json(kept))
        except (KeyError, TypeError, ValueError) as error:
            log.warning("the window of %s in channel %d cannot be used: %r", self._agent, channel_id, error)

    def keep(self, channel_id: int, kind: str) -> None:
        """A window was cut; it is kept by the next `write`."""
        self._cut.add((channel_id, kind))

    def write(self) -> None:
        """Keeps what was cut. Nobody waits for it, and called behind a turn it keeps nobody waiting either."""
        cut, self._cut = self._cut, set()
        for channel_id, kind in cut:
            state = self._memory.state(channel_id, kind)
            if state is not None:
                keeping = self._store.keep(self._agent, channel_id, kind, state.to_json())
                self._background.start(keeping, f"window {self._agent} {channel_id}")
