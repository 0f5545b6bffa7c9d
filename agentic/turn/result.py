"""A turn's result, its record, its log line, and the replies that explain a missing answer.

A channel allows five posts in five seconds: a reply to each of two hundred mentions would delay the answers for
minutes. So a person gets one such reply a minute in a channel, and reactions to their other messages. While the inbox
is full, only a few replies are sent at once.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Mapping

from agentic.agent.agent import Agent
from agentic.agent.events import InstructionEvent, MentionEvent, ReflectionEvent, TurnEvent, asked_id, trigger_of
from agentic.agent.limits import EVERYBODY, ReplyThrottle, on_the_wire
from agentic.chat.outlet import CannotPost, ChannelSink, Post, Posted
from agentic.llm.errors import BadAnswer, Final, ModelError, RateLimited, TimedOut
from agentic.llm.types import NO_USAGE, Usage
from agentic.process.tasks import BackgroundTasks
from agentic.state.budgets import cost_fields
from agentic.state.turn_records import MAX_ID_CHARACTERS, Reacted, TurnRecord
from agentic.turn.progress import Done, Turn, TurnState
from agentic.wire.messages import MentionNotice, Result, TurnNotice, TurnUsage, WireMessage

log = logging.getLogger(__name__)

MAX_WHY = 300  # characters of the reason why an agent was chosen, which comes from another process

# The outcome of a turn that did nothing, by its reason. For all other reasons it's "refused": by a limit, a permission,
# or the model.
OUTCOMES: Mapping[str, str] = {
    **dict.fromkeys(("skipped", "withdrawn", "edited", "overtaken", "out_of_turn", "stopped"), "skipped"),
    **dict.fromkeys(("not_new", "unwanted", "person_wrote"), "skipped"),
    "deadline": "timed_out",
    **dict.fromkeys(("model_failed", "session_lost", "unreadable", "picture_failed", "reaction_failed"), "failed"),
    **dict.fromkeys(("discord_failed", "signal_failed", "interrupted", "internal_error"), "failed"),
}


def result_of(agent: str, turn_id: str, done: Done, usage: Usage = NO_USAGE) -> Result:
    """Make the turn's result; a turn without visible actions is skipped."""
    return Result(
        instruction_id=turn_id,
        agent_name=agent,
        skipped=done.is_nothing,
        text=done.text if not done.is_nothing else None,
        image_url=done.picture_url,
        emoji_reacted=done.emoji,
        message_id=done.message_id,
        reason=done.reason,
        react_to_message_id=done.reacted_to,
        image_prompt=done.image_prompt,
        end_conversation=done.end_conversation and not done.is_nothing,
        topic=done.topic,
        answers_message_id=done.answers if done.message_id is not None else None,
        leaves=done.leaves and done.message_id is not None,
        next_agent=done.next_agent if done.message_id is not None else None,
        usage=on_the_wire(usage) if usage.calls else None,
    )


def skipped_result(agent: str, turn_id: str, reason: str) -> Result:
    return result_of(agent, turn_id, Done(reason=reason))


async def settle(agent: Agent, event: TurnEvent, result: Result, state: TurnState) -> TurnRecord:
    """End a turn in one step: store its result for repeated instructions, charge its costs, tell the coordinator, and
    record the turn. Return the record."""
    record = make_record(agent.key, event, result, state)
    # The coordinator gets the result, or a notice that a person was answered; nothing about the agent's own automation.
    message: WireMessage | None = result if event.reports else None
    calls_alone = isinstance(event, MentionEvent) and event.by_person and not (event.to_all or event.continues)
    if isinstance(event, MentionEvent) and calls_alone and result.message_id is not None:
        message = MentionNotice(
            agent_name=agent.key,
            channel_id=event.channel_id,
            message_id=result.message_id,
            trigger_message_id=event.asked.id,
        )
    kept = result.to_wire()
    settled = await state.shared.turns.settle(
        agent.key,
        event.id,
        kept,
        event.deadline,
        date=agent.today(),
        spent=cost_fields(result.usage or TurnUsage(), reactions=1 if result.emoji_reacted else 0),
        say=kept if message is result else message.to_wire() if message is not None else "",
        record=record,
        notice=notice_of(agent.key, event, "ended", record.at).to_wire(),
    )
    if not settled:
        log.warning("%s: Redis is unavailable; the result of turn %s is only kept in memory", agent.key, event.id)
    return record


def make_record(agent: str, event: TurnEvent, result: Result, state: TurnState) -> TurnRecord:
    """Make the turn's record: ids, numbers, and reasons, but no texts."""
    usage, trace = result.usage or TurnUsage(), state.trace
    emoji, target = result.emoji_reacted, result.react_to_message_id
    given = event.instruction if isinstance(event, InstructionEvent) else None
    reflection = event.reflection if isinstance(event, ReflectionEvent) else None
    because = given.chosen_because if given else reflection.cause if reflection else None
    if result.message_id is not None:
        outcome = "posted"
    elif not result.skipped and result.text is not None:
        outcome = "written"
    else:
        outcome = "reacted" if emoji else OUTCOMES.get(result.reason or "skipped", "refused")
    return TurnRecord(
        id=event.id[:MAX_ID_CHARACTERS],
        agent=agent,
        at=trace.clock(),
        kind="mention" if isinstance(event, MentionEvent) else event.kind,
        trigger=reflection.task if reflection else trigger_of(event),
        conversation_id=given.conversation_id[:MAX_ID_CHARACTERS] or None if given else None,
        round_number=given.round_number if given else None,
        channel_id=event.channel_id,
        guild_id=state.guild_id,
        asked_by=state.asked_by or (event.person_id if isinstance(event, MentionEvent) else None),
        asked_message_id=asked_id(event),
        model=state.model,
        entries=state.entries,
        seconds=round(state.seconds, 3),
        **usage.model_dump(include={"input_tokens", "cached_tokens", "output_tokens", "cost_usd"}),
        reason=result.reason,
        posted=state.posted,
        reacted=Reacted(emoji=emoji, message_id=target) if emoji and target is not None else None,
        image=result.image_url is not None,
        chosen_because=(because or "")[:MAX_WHY] or None,
        room_turn=given.room.turn_number if given and given.room and result.message_id is not None else None,
        outcome=outcome,
        phases=trace.phases,
        calls=trace.call_records,
        tool_calls=trace.tool_records,
    )


def log_turn(agent: str, event: TurnEvent, state: TurnState) -> None:
    usage = state.spending.total
    fields = {
        "agent": agent,
        "trigger": trigger_of(event),
        "channel": event.channel_id,
        "turn": event.id,
        "message": state.done.message_id,
        "reason": state.done.reason,
        "model": usage.model or "-",
        "cost": round(usage.cost_usd, 4),
        "seconds": round(state.seconds, 2),
    }
    log.info("turn %s", " ".join(f"{key}={value}" for key, value in fields.items()), extra={"fields": fields})


def notice_of(agent: str, event: TurnEvent, state: str, at: float, ahead: int | None = None) -> TurnNotice:
    """Make the notice that a turn began, waits, or ended, for the watchers."""
    given = event.instruction if isinstance(event, InstructionEvent) else None
    return TurnNotice(
        agent_name=agent,
        turn_id=event.id[:MAX_ID_CHARACTERS],
        channel_id=event.channel_id,
        state=state,
        at=at,
        conversation_id=given.conversation_id[:MAX_ID_CHARACTERS] or None if given else None,
        ahead=ahead,
    )


# -- explaining a missing answer --------------------------------------------------------------------------------------

# Reactions in place of lines, which would be noise: they show that the message was read, and which limit applies.
HOURGLASS = "⏳"
SPEECHLESS = "🙊"  # the bot isn't allowed to write here
FAILURES = (
    *("model_failed", "deadline", "session_lost", "refused", "unreadable", "picture_failed", "discord_failed"),
    *("signal_failed", "internal_error"),
)
REACTIONS: Mapping[str, str] = {
    **dict.fromkeys(FAILURES, "⚠️"),
    **dict.fromkeys(("cooldown", "daily_limit", "too_often", "busy"), HOURGLASS),
    **dict.fromkeys(("budget", "agent_budget", "person_budget", "benched"), "💤"),
    "not_permitted": SPEECHLESS,
    "muted": "🔇",
}
LINES: Mapping[str, str] = {
    "busy": "I have too many requests right now. Please ask again in a minute.",
    "model_failed": "I can't answer right now: I can't reach my model. Please try again later.",
    "benched": "I'm on a break, because my AI provider is rejecting my requests. My owner's log says why.",
    "deadline": "That took too long, so I stopped. Please ask again, or ask for less.",
    "session_lost": "I lost my place in this task. Please ask again, and I'll start over.",
    "refused": "I'd rather not answer that one.",
    "unreadable": "I couldn't put a proper answer together. Please ask again.",
    "picture_failed": "I couldn't draw the picture. Please try again.",
    "discord_failed": "I had an answer, but I couldn't post it here. Please ask again in a minute.",
    "signal_failed": "I lost the connection while sending my answer. If you don't see it, please ask again.",
    "internal_error": "Something went wrong on my side. Please try again later.",
}

FAILED_AGAIN = "That failed again. "

# The meaning of a reaction, posted once for each person, since a reaction doesn't say what to do.
MEANINGS: Mapping[str, str] = {
    "cooldown": "I just answered here. Please ask again in a few seconds. (Next time I'll just react with ⏳.)",
    "daily_limit": "I've used up my turns for today. Please ask again tomorrow. (Next time I'll just react with ⏳.)",
    "too_often": "You've asked me a lot in the last minute. Please wait a moment. (Next time I'll just react with ⏳.)",
}

ADVICE: Mapping[type[ModelError], str] = {
    RateLimited: "Please try again in a minute.",
    TimedOut: "Please ask again, or ask for less.",
    BadAnswer: "Please ask again.",
    Final: "My owner can find the details in the log.",
}
MAX_KIND = 60  # characters
_NO_NAME = re.compile(r"\W+", re.ASCII)

REPLY_SECONDS = 20.0  # the channel's next turn waits for the reply
RESTART_SECONDS = 90.0  # if the chat service may be restarting: no turn can post until it's back

MAX_LINES = 3  # unsent lines in one channel that say that the inbox is full
MAX_WAITING = 100  # unsent lines and reactions in all channels


def error_line(error: BaseException) -> str:
    """Return the error and what to do, in one line. It has only the kind of error, since the message may contain a
    path, a key, or a person's words. For coding agents it adds the Claude Agent SDK's name for the error."""
    if not isinstance(error, ModelError):
        return LINES["internal_error"]
    name = _NO_NAME.sub("", error.origin)[:MAX_KIND]
    advice = next((text for kind, text in ADVICE.items() if isinstance(error, kind)), "Please try again later.")
    return f"I can't answer right now: {type(error).kind}{f' ({name})' if name else ''}. {advice}"


async def reply_to_failure(turn: Turn, event: MentionEvent, reason: str, line: str | None) -> Posted | None:
    """Reply to a person once a minute in a channel, and once more if it fails again within the minute. A provider's
    back-off is reported once in a channel. A reaction is explained once to each person, and at most once a minute in a
    channel, since more posts would delay answers."""
    who = (event.channel_id, event.asked.speaker.id)
    everybody = (event.channel_id, EVERYBODY)
    replies, explanations = turn.limits.replies, turn.limits.explanations
    quiet = replies.recently(*who) or (reason == "benched" and not turn.model.backoff.first_notice_in(event.channel_id))
    if quiet and reason in FAILURES and not replies.recently(*who, FAILED_AGAIN):
        replies.note(*who, FAILED_AGAIN)
        quiet, line = False, ("" if reason == "refused" else FAILED_AGAIN) + (line or LINES[reason])
    explains = reason in MEANINGS and not (quiet or explanations.recently(*who, reason) or replies.recently(*everybody))
    if explains:  # noted before any await, since other people may ask meanwhile
        explanations.note(*who, reason)
        replies.note(*everybody)
    posted = await post_failure_reply(turn.outlet.sink, event, reason, line=line, quiet=quiet, explains=explains)
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
    """Explain a missing answer with a line or a reaction; if `quiet`, only with a reaction. On a service without
    reactions, post the emoji. Return the post. A failure is logged. `line` replaces the reason's line. `explains`: the
    meaning of the reaction is posted too."""
    line, key = line or LINES.get(reason), f"{event.id}:excuse"
    ping, asked = event.asked.speaker.id, event.asked.id
    try:
        async with asyncio.timeout(RESTART_SECONDS if reason in ("signal_failed", "deadline") else REPLY_SECONDS):
            if line is not None and not quiet:
                try:
                    return await sink.post(Post(text=line, ping=ping, asked=asked), key)
                except CannotPost as error:
                    if error.reason != "not_permitted" or not await sink.react(event.reaction_target, SPEECHLESS):
                        raise
            elif reason in REACTIONS and sink.may_react:
                await sink.react(event.reaction_target, REACTIONS[reason])
            elif reason in REACTIONS and not explains:
                return await sink.post(Post(text=REACTIONS[reason], ping=ping, asked=asked), key)
            if explains:
                try:
                    return await sink.post(Post(text=MEANINGS[reason], ping=ping, asked=asked), key)
                except CannotPost as error:  # the reaction is there already
                    shown = REACTIONS[reason]
                    log.debug("channel %d: cannot explain %s: %s", event.channel_id, shown, error.reason)
    except CannotPost as error:
        log.warning("channel %d: cannot post a failure reply: %s", event.channel_id, error.reason)
    except TimeoutError:
        log.warning("channel %d: posting a failure reply timed out", event.channel_id)
    return None


class BusyReplies:
    """Tell people that the inbox is full; `throttle` is shared with the agent's other failure replies."""

    def __init__(self, throttle: ReplyThrottle) -> None:
        self._tasks = BackgroundTasks()
        self._lines: Counter[int] = Counter()  # unsent, by channel
        self._throttle = throttle

    def reply(self, sink: ChannelSink, event: MentionEvent) -> None:
        if len(self._tasks) >= MAX_WAITING:
            return
        channel_id, user_id = event.channel_id, event.asked.speaker.id
        if self._throttle.recently(channel_id, user_id) or self._lines[channel_id] >= MAX_LINES:
            self._tasks.start(sink.react(event.reaction_target, HOURGLASS), "busy reply")
            return
        log.warning("channel %d: the inbox is full; a mention gets no turn", channel_id)
        self._throttle.note(channel_id, user_id)
        self._lines[channel_id] += 1

        async def post_line() -> None:
            try:
                await post_failure_reply(sink, event, "busy")
            finally:
                self._lines[channel_id] -= 1

        self._tasks.start(post_line(), "busy reply")

    async def aclose(self) -> None:
        await self._tasks.cancel()
