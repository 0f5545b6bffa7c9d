"""What the owner is told: always the log, and the owner's channel where there is one."""

from __future__ import annotations

import asyncio
import hashlib
import logging

from agent_cogs.agent import Outlet
from agent_discord.outlet import CannotPost, Post

NOTICE_SECONDS = 20.0  # the channel's next turn waits for it

log = logging.getLogger(__name__)


async def tell_owner(outlet: Outlet | None, text: str) -> None:
    """`outlet` is the owner's channel, None where it is not set or not seen. Raises nothing of Discord's."""
    log.warning("%s", text)
    if outlet is None:
        return
    try:
        async with asyncio.timeout(NOTICE_SECONDS):
            await outlet.post(Post(text=f"⚠️ {text}."), f"notice:{hashlib.sha256(text.encode()).hexdigest()[:16]}")
    except CannotPost as error:
        log.warning("the owner's channel %d could not be told: %s", outlet.channel_id, error.reason)
    except TimeoutError:
        log.warning("the owner's channel %d could not be told in time", outlet.channel_id)
