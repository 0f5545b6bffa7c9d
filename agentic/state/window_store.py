"""Keep an agent's windows over restarts: read once a channel and process, written after the turn that cut them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from agentic.context.window import WindowMemory, WindowState
from agentic.process.tasks import BackgroundTasks

log = logging.getLogger(__name__)


class WindowStore(Protocol):
    """A store of window states; agentic.state.context_windows is the one in Redis. Raises no RedisAway."""

    async def keep(self, agent: str, channel_id: int, kind: str, state: Mapping[str, Any]) -> None: ...
    async def kept(self, agent: str, channel_id: int, kind: str) -> dict[str, Any] | None: ...


class KeptWindows:
    """The windows of one agent: those in `memory`, kept in `store`."""

    def __init__(self, agent: str, store: WindowStore) -> None:
        self.memory = WindowMemory()
        self._agent, self._store = agent, store
        self._read: set[tuple[int, str]] = set()
        self._cut: set[tuple[int, str]] = set()  # since the last `write`
        self._background = BackgroundTasks()

    async def restore(self, channel_id: int, kind: str) -> None:
        """Restore a window that an earlier run kept. Only the first call for a window reads it."""
        if (channel_id, kind) in self._read:
            return
        self._read.add((channel_id, kind))
        kept = await self._store.kept(self._agent, channel_id, kind)
        if kept is None:
            return
        try:
            self.memory.restore(channel_id, kind, WindowState.from_json(kept))
        except (KeyError, TypeError, ValueError) as error:
            log.warning(
                "%s: the kept window of channel %d cannot be used, a new one is laid: %r",
                self._agent,
                channel_id,
                error,
            )

    def keep(self, channel_id: int, kind: str) -> None:
        """Note that a window was cut; the next `write` keeps it."""
        self._cut.add((channel_id, kind))

    def write(self) -> None:
        """Keep the windows that were cut, in the background."""
        cut, self._cut = self._cut, set()
        for channel_id, kind in cut:
            state = self.memory.state(channel_id, kind)
            if state is not None:
                writing = self._store.keep(self._agent, channel_id, kind, state.to_json())
                self._background.start(writing, f"window {self._agent} {channel_id}")
