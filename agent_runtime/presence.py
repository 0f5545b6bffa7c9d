"""Tells the other processes that an agent is online, and learns from them which Discord user each agent is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from agent_chat.directory import Directory
from agent_protocol.connection.link import RedisAway
from agent_protocol.coordination.presence import Presence

RENEW_EVERY = 5.0  # seconds; the key lives for fifteen

log = logging.getLogger(__name__)


async def keep_present(
    agent: str, store: Presence, directory: Directory, everyone: Iterable[str], online: Callable[[], bool]
) -> None:
    """Renews `agent:{name}:ready` while `online()`, and reads the others', until cancelled. The text is the user id.

    An agent that is not online here may be so in another process: its key is left alone and runs out by itself.
    """
    names = tuple(everyone)
    shown = False
    try:
        while True:
            try:
                shown = online() and await _renew(agent, store, directory)
                _learn(directory, await store.read(names))
            except RedisAway:
                log.debug("%s: presence waits for Redis", agent)
            await asyncio.sleep(RENEW_EVERY)
    finally:
        if shown:  # else the key, if there is one, is another process's
            await _leave(agent, store)


async def recall_agents(store: Presence, directory: Directory, everyone: Iterable[str]) -> None:
    """Learns at the start who the agents were lately: what was said to one of them is understood also by a bot that is
    online before it. Raises RedisAway."""
    _learn(directory, await store.seen(everyone))


async def _renew(agent: str, store: Presence, directory: Directory) -> bool:
    user_id = directory.id_of(agent)
    if user_id is not None:
        await store.renew(agent, str(user_id))
    return user_id is not None


def _learn(directory: Directory, present: dict[str, str]) -> None:
    for agent, text in present.items():
        if text.isdecimal() and directory.id_of(agent) is None:
            directory.learn(agent, int(text))


async def _leave(agent: str, store: Presence) -> None:
    try:
        await store.clear(agent)
    except RedisAway:
        log.debug("%s: the ready key runs out by itself, Redis is away", agent)
