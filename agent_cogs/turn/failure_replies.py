"""What a person is told when an answer cannot be given. Nobody who asks is met with silence."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping

from agent_chat.outlet import CannotPost, ChannelSink, Post, Posted
from agent_cogs.agent import Agent
from agent_cogs.events import MentionEvent
from agent_cogs.limits.reply_throttle import EVERYBODY
from agent_llm.errors import BadAnswer, Final, ModelError, RateLimited, TimedOut

# A sign where words would be noise: the person sees that it was heard, and that there is a limit.
HOURGLASS = "⏳"
ASLEEP = "💤"
SPEECHLESS = "🙊"  # here no word may be written
MUTED = "🔇"
SIGNS: Mapping[str, str] = {
    **dict.fromkeys(("cooldown", "daily_limit", "too_often"), HOURGLASS),
    **dict.fromkeys(("budget", "agent_budget", "person_budget", "benched"), ASLEEP),
    "not_permitted": SPEECHLESS,
    "muted": MUTED,
}
LINES: Mapping[str, str] = {
    "busy": "I have too much to do right now. Please ask me again in a minute.",
    "model_failed": "I can't answer right now: my model isn't reachable. Please try again in a while.",
    "benched": "I can't answer for a while: my provider refuses me. Whoever runs me finds the cause in the log.",
    "deadline": "That took me too long, and I gave it up. Please ask me once more, or for less at once.",
    "session_lost": "I lost the thread of what I was doing here. Please try again: I begin anew.",
    "refused": "I'd rather not answer that one.",
    "unreadable": "I couldn't put a proper answer together. Please ask me once more.",
    "picture_failed": "I wanted to draw you something, but the picture didn't come out. Please try again.",
    "internal_error": "Something went wrong on my side. Please try again in a while.",
}

# What a sign means, said to each person once: it tells nobody what to do.
MEANINGS: Mapping[str, str] = {
    "cooldown": "I have just answered here: please ask again in a few seconds. From now on ⏳ says so.",
    "daily_limit": "My turns of today are used up: please ask again tomorrow. From now on ⏳ says so.",
    "too_often": "You have asked me often in a minute: please wait for one. From now on ⏳ says so.",
}

OWNERS_LOG = "Whoever runs me finds more in the log."
TRY_LATER = "Please try again in a while."
ADVICE: Mapping[type[ModelError], str] = {
    RateLimited: "Please try again in a minute.",
    TimedOut: "Please ask me once more, or for less at once.",
    BadAnswer: "Please ask me once more.",
    Final: OWNERS_LOG,
}
LONGEST_KIND = 60  # characters
_NO_NAME = re.compile(r"\W+", re.ASCII)

EXCUSE_SECONDS = 20.0  # the channel's next turn waits for it

log = logging.getLogger(__name__)


def error_line(error: BaseException) -> str:
    """What went wrong and what to do, in one line. Of the error only its kind is told: what it says may hold a path, a
    key or somebody's words."""
    name = _NO_NAME.sub("", getattr(error, "origin", "") or type(error).__name__)[:LONGEST_KIND] or "Error"
    if not isinstance(error, ModelError):
        return f"Something went wrong on my side ({name}). Please try again in a while."
    advice = next((text for kind, text in ADVICE.items() if isinstance(error, kind)), TRY_LATER)
    return f"I can't answer right now: {type(error).kind} ({name}). {advice}"


async def reply_to_failure(
    agent: Agent, sink: ChannelSink, event: MentionEvent, reason: str, line: str | None
) -> Posted | None:
    """Reply to a person once a minute and channel; a provider's back-off is reported once in a channel. A sign is
    explained once to each person, and once a minute in a channel: more would hold the answers back."""
    who = (event.channel_id, event.asked.speaker.id)
    everybody = (event.channel_id, EVERYBODY)
    replies, signs = agent.reply_throttle, agent.sign_throttle
    quiet = replies.recently(*who) or (
        reason == "benched" and not agent.model.backoff.first_notice_in(event.channel_id)
    )
    explains = reason in MEANINGS and not (quiet or signs.recently(*who, reason) or replies.recently(*everybody))
    if explains:  # before anything is awaited: other people ask meanwhile
        signs.note(*who, reason)
        replies.note(*everybody)
    posted = await excuse(sink, event, reason, line=line, quiet=quiet, explains=explains)
    if posted is not None:
        replies.note(*who)
    return posted


async def excuse(
    sink: ChannelSink,
    event: MentionEvent,
    reason: str,
    *,
    line: str | None = None,
    quiet: bool = False,
    explains: bool = False,
) -> Posted | None:
    """Says in one short line, or by one sign, why there is no answer; by a sign alone if `quiet`, for whoever was told
    lately. `line` tells more than the usual one; `explains`: a sign's meaning is said too. Where even that fails the
    log says so. What was posted, if anything was."""
    try:
        async with asyncio.timeout(EXCUSE_SECONDS):
            said = await _say(sink, event, reason, line or LINES.get(reason), quiet=quiet)
            return await _explain(sink, event, reason) if explains and said is None else said
    except CannotPost as error:
        log.warning("channel %d: not even an excuse could be posted: %s", event.channel_id, error.reason)
    except TimeoutError:
        log.warning("channel %d: not even an excuse could be posted in time", event.channel_id)
    return None


async def _say(sink: ChannelSink, event: MentionEvent, reason: str, line: str | None, *, quiet: bool) -> Posted | None:
    if line is not None and not quiet:
        try:
            return await sink.post(_to_the_person(line, event), f"{event.id}:excuse")
        except CannotPost as error:
            if error.reason != "not_permitted" or not await sink.react(event.sign_id, SPEECHLESS):
                raise
    elif reason in SIGNS or reason in LINES:
        await sink.react(event.sign_id, SIGNS.get(reason, HOURGLASS))
    return None


async def _explain(sink: ChannelSink, event: MentionEvent, reason: str) -> Posted | None:
    """The sign stands already: where its meaning cannot be said, nothing is lost."""
    try:
        return await sink.post(_to_the_person(MEANINGS[reason], event), f"{event.id}:excuse")
    except CannotPost as error:
        log.debug("channel %d: what %s means is not said: %s", event.channel_id, SIGNS[reason], error.reason)
        return None


def _to_the_person(line: str, event: MentionEvent) -> Post:
    return Post(text=line, ping=event.asked.speaker.id)
