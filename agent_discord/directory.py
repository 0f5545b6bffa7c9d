"""Which Discord user is which of our agents: learned at login and from the presence of agents that run elsewhere.

Never by name, which anybody can take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from agent_context.untrusted import folded, poses


class Directory:
    """Two-way table of agents' keys and Discord user ids, shared by all bots of a process. `names`: what each agent is
    called in Discord."""

    def __init__(self, names: Mapping[str, str] = MappingProxyType({})) -> None:
        self._names = frozenset(map(folded, names.values()))
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

    def told_apart(self, user_id: int, name: str, *, bot: bool = False) -> str:
        """The user's name, with what it is where it looks like an agent's and is not."""
        if user_id in self._agents or not poses(name, self._names):
            return name
        return f"{name}, another bot" if bot else f"{name}, a person"

    def agent_of(self, user_id: int) -> str | None:
        return self._agents.get(user_id)

    def id_of(self, agent: str) -> int | None:
        return self._ids.get(agent)
