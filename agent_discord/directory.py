"""Which Discord user is which of our agents: learned at login and from the presence of agents that run elsewhere.

Never by name, which anybody can take.
"""

from __future__ import annotations

from collections.abc import Callable


class Directory:
    """Two-way table of agents' keys and Discord user ids, shared by all bots of a process."""

    def __init__(self) -> None:
        self._agents: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self._listeners: list[Callable[[int, str], None]] = []

    def learn(self, agent: str, user_id: int) -> None:
        """Notes that `user_id` is `agent`; listeners hear of it when it is news."""
        if self._ids.get(agent) == user_id:
            return
        self._agents[user_id] = agent
        self._ids[agent] = user_id
        for listener in self._listeners:
            listener(user_id, agent)

    def on_news(self, listener: Callable[[int, str], None]) -> None:
        self._listeners.append(listener)

    def agent_of(self, user_id: int) -> str | None:
        return self._agents.get(user_id)

    def id_of(self, agent: str) -> int | None:
        return self._ids.get(agent)
