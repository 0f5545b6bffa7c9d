"""Tell a person why there is no answer: by one line, or by a sign at their message."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping

from agentic.agent.agent import Agent
from agentic.agent.events import MentionEvent
from agentic.agent.limits import EVERYBODY
from agentic.chat.outlet import CannotPost, ChannelSink, Post, Posted
from agentic.llm.errors import BadAnswer, Final, ModelError, RateLimited, TimedOut

# A sign where words would be noise: it shows that the message was read, and that there is a limit.
HOURGLASS = "⏳"
FAILED = "⚠️"  # it was tried, and failed like the last time
ASLEEP = "💤"
SPEECHLESS = "🙊"  # the bot may not write here
MUTED = "🔇"
FAILURES = (
    *("model_failed", "deadline", "session_lost", "refused", "unreadable", "picture_failed", "discord_failed"),
    *("signal_failed", "internal_error"),
)
SIGNS: Mapping[str, str] = {
    **dict.fromkeys(FAILURES, FAILED),
    **dict.fromkeys(("cooldown", "daily_limit", "too_often", "busy"), HOURGLASS),
    **dict.fromkeys(("budget", "agent_budget", "person_budget", "benched"), ASLEEP),
    "not_permitted": SPEECHLESS,
    "muted": MUTED,
}
LINES: Mapping[str, str] = {
    "busy": "I have too many requests right now. Please ask me again in a minute.",
    "model_failed": "I can't answer right now: my model isn't reachable. Please try again later.",
    "benched": "I'm paused, since my provider rejects my requests. My owner's log has the cause.",
    "deadline": "That took too long, so I stopped. Please ask again, or ask for less.",
    "session_lost": "I lost my place in this task. Please try again: I will start over.",
    "refused": "I'd rather not answer that one.",
    "unreadable": "I couldn't put a proper answer together. Please ask again.",
    "picture_failed": "I couldn't draw the picture. Please try again.",
    "discord_failed": "I had an answer, but it could not be posted here. Please ask again in a minute.",
    "signal_failed": "I lost the connection while I was sending my answer. If you don't see it, please ask again.",
    "internal_error": "Something went wrong on my side. Please try again later.",
}

FAILED_AGAIN = "That failed again. "

# The meaning of a sign, posted once for each person: the sign alone does not say what to do.
MEANINGS: Mapping[str, str] = {
    "cooldown": "I just answered here. Please ask again in a few seconds; from now on ⏳ means this.",
    "daily_limit": "I have used up today's turns. Please ask again tomorrow; from now on ⏳ means this.",
    "too_often": "You have asked me often this minute. Please wait for the next; from now on ⏳ means this.",
}

OWNERS_LOG = "My owner's log has more."
TRY_LATER = "Please try again later."
ADVICE: Mapping[type[ModelError], str] = {
    RateLimited: "Please try again in a minute.",
    TimedOut: "Please ask again, or ask for less.",
    BadAnswer: "Please ask again.",
    Final: OWNERS_LOG,
}
LONGEST_KIND = 60  # characters
_NO_NAME = re.compile(r"\W+", re.ASCII)

REPLY_SECONDS = 20.0  # the channel's next turn waits for it
RESTART_SECONDS = 90.0  # if the chat's own server may be restarting: no turn can post before it is back

log = logging.getLogger(__name__)


def error_line(error: BaseException) -> str:
    """The error and what to do, in one line. Of the error it names only the kind: its message may hold a path, a key or
    a person's words. Only the Claude Agent SDK's own name is added: coding agents show it."""
    if not isinstance(error, ModelError):
        return LINES["internal_error"]
    name = _NO_NAME.sub("", error.origin)[:LONGEST_KIND]
    advice = next((text for kind, text in ADVICE.items() if isinstance(error, kind)), TRY_LATER)
    return f"I can't answer right now: {type(error).kind}{f' ({name})' if name else ''}. {advice}"


async def reply_to_failure(
    agent: Agent, sink: ChannelSink, event: MentionEvent, reason: str, line: str | None
) -> Posted | None:
    """Reply to a person once a minute and channel, and once more if it fails again within the minute; a provider's
    back-off is reported once in a channel. A sign is explained once to each person, and once a minute in a channel:
    more would hold the answers back."""
    who = (event.channel_id, event.asked.speaker.id)
    everybody = (event.channel_id, EVERYBODY)
    replies, signs = agent.reply_throttle, agent.sign_throttle
    quiet = replies.recently(*who) or (
        reason == "benched" and not agent.model.backoff.first_notice_in(event.channel_id)
    )
    if quiet and reason in FAILURES and not replies.recently(*who, FAILED_AGAIN):
        replies.note(*who, FAILED_AGAIN)
        quiet, line = False, ("" if reason == "refused" else FAILED_AGAIN) + (line or LINES[reason])
    explains = reason in MEANINGS and not (quiet or signs.recently(*who, reason) or replies.recently(*everybody))
    if explains:  # before anything is awaited: other people ask meanwhile
        signs.note(*who, reason)
        replies.note(*everybody)
    posted = await post_failure_reply(sink, event, reason, line=line, quiet=quiet, explains=explains)
    if posted is not None:
        replies.note(*who)
    return posted


async def post_failure_reply(
    sink: ChannelSink,
    event: MentionEvent,
    reason: str,
    *,
    line: str | None = None,
    quiet: bool = False,
    explains: bool = False,
) -> Posted | None:
    """Say why there is no answer, in one line or by a sign; by a sign alone if `quiet`. Returns what was posted.

    `line` stands in for the reason's line. `explains`: the meaning of the sign is posted too. A failure is logged.
    """
    try:
        async with asyncio.timeout(RESTART_SECONDS if reason in ("signal_failed", "deadline") else REPLY_SECONDS):
            posted = await _say(sink, event, reason, line or LINES.get(reason), quiet=quiet)
            return await _explain(sink, event, reason) if explains and posted is None else posted
    except CannotPost as error:
        log.warning("channel %d: a failure reply was not posted: %s", event.channel_id, error.reason)
    except TimeoutError:
        log.warning("channel %d: a failure reply was not posted in time", event.channel_id)
    return None


async def _say(sink: ChannelSink, event: MentionEvent, reason: str, line: str | None, *, quiet: bool) -> Posted | None:
    if line is not None and not quiet:
        try:
            return await sink.post(_to_the_person(line, event), f"{event.id}:excuse")
        except CannotPost as error:
            if error.reason != "not_permitted" or not await sink.react(event.sign_id, SPEECHLESS):
                raise
    elif reason in SIGNS:
        await sink.react(event.sign_id, SIGNS[reason])
    return None


async def _explain(sink: ChannelSink, event: MentionEvent, reason: str) -> Posted | None:
    """Post the meaning of a sign, which was given already; where that fails nothing is lost."""
    try:
        return await sink.post(_to_the_person(MEANINGS[reason], event), f"{event.id}:excuse")
    except CannotPost as error:
        log.debug("channel %d: the meaning of %s was not posted: %s", event.channel_id, SIGNS[reason], error.reason)
        return None


def _to_the_person(line: str, event: MentionEvent) -> Post:
    return Post(text=line, ping=event.asked.speaker.id, asked=event.asked.id)
