"""What a person is told when an answer cannot be given. Nobody who asks is met with silence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from agent_cogs.agent import Outlet
from agent_cogs.events import MentionEvent
from agent_discord.outlet import CannotPost, Post, Posted

# A sign where words would be noise: the person sees that it was heard, and that there is a limit.
HOURGLASS = "⏳"
ASLEEP = "💤"
SPEECHLESS = "🙊"  # here no word may be written
MUTED = "🔇"
SIGNS: Mapping[str, str] = {
    **dict.fromkeys(("cooldown", "daily_limit", "deadline", "too_often"), HOURGLASS),
    **dict.fromkeys(("budget", "agent_budget", "person_budget", "benched"), ASLEEP),
    "not_permitted": SPEECHLESS,
    "muted": MUTED,
}
LINES: Mapping[str, str] = {
    "busy": "I have too much to do right now. Please ask me again in a minute.",
    "model_failed": "I can't answer right now: my model isn't reachable. Please try again in a while.",
    "benched": "I can't answer for a while: my provider refuses me. Whoever runs me finds the cause in the log.",
    "refused": "I'd rather not answer that one.",
    "unreadable": "I couldn't put a proper answer together. Please ask me once more.",
    "picture_failed": "I wanted to draw you something, but the picture didn't come out. Please try again.",
    "internal_error": "Something went wrong on my side. Please try again in a while.",
}

EXCUSE_SECONDS = 20.0  # the channel's next turn waits for it

log = logging.getLogger(__name__)


async def excuse(outlet: Outlet, event: MentionEvent, reason: str, *, quiet: bool = False) -> Posted | None:
    """Says in one short line, or by one sign, why there is no answer; by a sign alone if `quiet`, for whoever was told
    lately. Where even that fails the log says so. What was posted, if anything was."""
    try:
        async with asyncio.timeout(EXCUSE_SECONDS):
            return await _say(outlet, event, reason, quiet=quiet)
    except CannotPost as error:
        log.warning("channel %d: not even an excuse could be posted: %s", event.channel_id, error.reason)
    except TimeoutError:
        log.warning("channel %d: not even an excuse could be posted in time", event.channel_id)
    return None


async def _say(outlet: Outlet, event: MentionEvent, reason: str, *, quiet: bool) -> Posted | None:
    if reason in LINES and not quiet:
        try:
            return await outlet.post(Post(text=LINES[reason], ping=event.asked.speaker.id), f"{event.id}:excuse")
        except CannotPost as error:
            if error.reason != "not_permitted" or not await outlet.react(event.asked.id, SPEECHLESS):
                raise
    elif reason in SIGNS or reason in LINES:
        await outlet.react(event.asked.id, SIGNS.get(reason, HOURGLASS))
    return None
