"""Announce an online agent to other processes, and learn from them the Discord user of each agent and the posts of
personas."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from agentic.chat.directory import Directory
from agentic.state.posts import read_post
from agentic.state.presence import Presence
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.link import RedisAway

RENEW_EVERY = 5.0  # seconds; the key lives for fifteen
RENEW_FIRST = 3600.0  # this one lives for a month

log = logging.getLogger(__name__)


async def keep_present(
    agent: str, store: Presence, directory: Directory, names: Iterable[str], online: Callable[[], bool]
) -> None:
    """Renew `agent:{name}:ready` (its value: the user id) while `online()`, and read the others', until cancelled.

    An agent that is offline here may be online in another process, so its key is left to expire.
    """
    all_names = tuple(names)
    announced = False
    try:
        while True:
            try:
                announced = online() and await _renew(agent, store, directory)
                _learn(directory, await store.read(all_names))
            except RedisAway:
                log.debug("%s: presence not renewed: Redis is unavailable; will retry", agent)
            await asyncio.sleep(RENEW_EVERY)
    finally:
        if announced:  # otherwise the key may be another process's
            await _leave(agent, store)


async def stay_known(agent: str, store: Presence) -> None:
    """Keep since when an agent exists that needs no bot, until cancelled: what it missed since then is answered."""
    while True:
        pause = RENEW_FIRST
        try:
            await store.note_first(agent)
        except RedisAway:
            pause = RENEW_EVERY
        await asyncio.sleep(pause)


def learn_webhook_posts(bus: Bus, directory: Directory) -> None:
    """Learn which posts by webhook are whose, also those that other processes make."""

    async def learn(raw: str) -> None:
        if (post := read_post(raw)) is not None:
            directory.learn_post(*post)

    bus.subscribe(keys.WEBHOOK_POSTED, learn)


async def recall_agents(store: Presence, directory: Directory, names: Iterable[str]) -> None:
    """Learn at the start the last known users of all agents, so that a bot recognises them before they are online.

    Raises RedisAway.
    """
    _learn(directory, await store.seen(names))


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
        log.debug("%s: ready key not deleted: Redis is unavailable; it expires by itself", agent)
