"""Which Discord user is which of our agents, and which posts of webhooks are theirs.

Users are learned at login and from the presence of agents that run elsewhere, posts from our own record of their ids.
Never by name, which anybody can take.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from agent_context.untrusted import folded, poses

MAX_POSTS = 20_000


class Directory:
    """Two-way table of agents' keys and Discord user ids, shared by all bots of a process; and whose the webhook posts
    are, the newest `MAX_POSTS`. `names`: what each agent is called in Discord."""

    def __init__(self, names: Mapping[str, str] = MappingProxyType({})) -> None:
        self._shown = names
        self._names = frozenset(map(folded, names.values()))
        self._agents: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self._posts: OrderedDict[int, str] = OrderedDict()
        self._listeners: list[Callable[[int, str], None]] = []
        self._post_listeners: list[Callable[[int, str], None]] = []

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

    def off_news(self, listener: Callable[[int, str], None]) -> None:
        """`listener` hears no more."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def told_apart(self, user_id: int, name: str, *, bot: bool = False) -> str:
        """The user's name, with what it is where it looks like an agent's and is not."""
        if user_id in self._agents or not poses(name, self._names):
            return name
        return f"{name}, another bot" if bot else f"{name}, a person"

    def learn_post(self, message_id: int, agent: str) -> None:
        """Notes that a webhook's message is `agent`'s; listeners hear of it when it is news."""
        if message_id in self._posts:
            return
        self._posts[message_id] = agent
        if len(self._posts) > MAX_POSTS:
            self._posts.popitem(last=False)
        for listener in self._post_listeners:
            listener(message_id, agent)

    def on_post(self, listener: Callable[[int, str], None]) -> None:
        self._post_listeners.append(listener)

    def agent_of(self, user_id: int) -> str | None:
        return self._agents.get(user_id)

    def name_of(self, user_id: int) -> str | None:
        """What an agent is called, by its user id; None for anybody else."""
        return self._shown.get(self._agents.get(user_id, ""))

    def agent_of_post(self, message_id: int) -> str | None:
        """Whose webhook post it is; None where it is none of ours."""
        return self._posts.get(message_id)

    def id_of(self, agent: str) -> int | None:
        return self._ids.get(agent)


class WebhookPostStore(Protocol):
    """Shared by all processes; agent_protocol.state.posts is the one in Redis. No method raises."""

    async def add(self, channel_id: int, message_id: int, agent: str) -> None: ...
    async def read(self, channel_id: int) -> Mapping[int, str]: ...
