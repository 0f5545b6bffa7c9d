"""Background tasks: their subjects, the gates before them, and what is recorded of their turns.

A follow-up picks a random conversation that was left hanging, a discovery a random person with a profile; both only
among candidates whose gates are open. Summaries and profiles have one candidate. They post nothing, so only the channel
of a summary matters.

Gates are checked before any model call. Each is a pure function that returns None to let the task pass, or Blocked with
the reason. background.py calls the gates of a whole task, the cheapest first; `choose` calls those of a person and of a
channel.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from agent_coordinator.config import IdleConfig
from agent_coordinator.scheduler import active_window, local_date
from agentic.background_tasks import BACKGROUND_TASKS, PROACTIVE
from agentic.record.idle_queries import IdleMemory
from agentic.state.idle import Candidate, RunningTask, Sent
from agentic.state.silence import Silenced
from agentic.text import says_again, tokens
from agentic.wire.entries import MAX_TOPICS, TOPIC_CHARACTERS, Entry, ProfileNote, SummaryNote, UnaskedNote, topics_in
from agentic.wire.messages import Instruction, Reflection, Result

HOUR = 3600.0
DAY = 86400.0
MAX_UNANSWERED = 3  # unprompted messages in a row; then the person has to write first
LOOKED_AT = 20  # candidates for an unprompted message
SENT_DAYS = 90.0  # for which gates look back at unprompted messages
AVOIDED = 20  # unprompted messages that must not be repeated
MAX_DISCOVERY_TOPICS = 5  # per discovery
NO_FAILURE = frozenset(
    {"skipped", "not_new", "unwanted", "person_wrote", "overtaken", "stopped", "withdrawn", "edited"}
)
"""Reasons of turns that did not post, but did not fail either."""
SILENCED: Mapping[str, str] = {
    "paused": "the bots are paused in that server",
    "stopped": "the bots are stopped in that channel",
    "muted": "it's muted in that server",
}
BUDGETS = frozenset({"idle_budget", "budget", "agent_budget", "person_budget", "daily_limit"})
"""Reasons that last until the day is over."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a task doesn't run, as a clause for people, and until when (unix seconds) if known."""

    why: str
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInputs:
    """What the choice depends on. `sent`: unprompted messages, the oldest first. `did`: `about_of` the task's last run.
    `silenced`: channels in which people silenced all bots or this one. `busy`: channels with a conversation."""

    now: float
    timezone: tzinfo = UTC
    unprompted: str = "opt_in"
    consents: Mapping[int, bool] = field(default_factory=dict)
    sent: Sequence[Sent] = ()
    silenced: Mapping[int, Silenced] = field(default_factory=dict)
    busy: Collection[int] = ()
    did: str = ""


async def find_candidates(
    store: IdleMemory,
    task: str,
    agent: str,
    *,
    now: float,
    before: float,
    failed: Collection[int] = (),
    silenced: Callable[[Candidate], Silenced | None] = lambda _: None,
) -> Sequence[Candidate]:
    """Return candidates from the record. `before` (unix seconds): conversations must have been left hanging since then.
    `failed`: newest message ids of material that a run failed at; it comes last. If people paused or muted the agent in
    a server, it isn't summarized or profiled there; after a stop in a channel it is, as nothing is posted."""
    if task == "follow_up":
        return await store.hanging(agent, before, LOOKED_AT)
    if task == "discover":
        return await store.people(agent, LOOKED_AT)
    for first_skipped in (failed, ()) if failed else ((),):
        skip = list(first_skipped)
        for _ in range(LOOKED_AT):
            write = store.to_summarise(agent, now, skip) if task == "summarise" else store.to_profile(agent, skip)
            found = await write
            if found is None or found.upto in skip:
                break
            if (why := silenced(found)) is None or why.kind == "stopped":
                return (found,)
            skip.append(found.upto)
    return ()


def choose(
    task: str, agent: str, candidates: Sequence[Candidate], given: TaskInputs, config: IdleConfig, rng: random.Random
) -> RunningTask | Blocked:
    """Return a random candidate whose gates are open, or why the first candidate is blocked."""
    judged = [_judge(task, agent, each, given, config, rng) for each in candidates]
    plans = [each for each in judged if isinstance(each, RunningTask)]
    if plans:
        return rng.choice(plans)
    blocked = [each for each in judged if isinstance(each, Blocked)]
    if not blocked:
        return Blocked(BACKGROUND_TASKS[task].nothing)
    opening = [each.until for each in blocked if each.until is not None]
    return Blocked(blocked[0].why, min(opening) if len(opening) == len(blocked) else None)


def _judge(
    task: str, agent: str, each: Candidate, given: TaskInputs, config: IdleConfig, rng: random.Random
) -> RunningTask | Blocked:
    if task not in PROACTIVE:
        if task == "summarise" and (running := channel_open(each.channel_id, None, given.busy)):
            return running
        if about_of(each) == given.did:
            return Blocked("its last result isn't in the history yet")
        return RunningTask(**dict(each), task=task, agent=agent)
    to_them = [one for one in given.sent if one.person_id == each.person_id or one.channel_id == each.channel_id]
    blocked = (
        channel_open(each.channel_id, given.silenced.get(each.channel_id), given.busy)
        or opted_in(each.person_id, given.consents, given.unprompted)
        or person_rested(each.person_id, given.sent, given.now, config.person_hours)
        or channel_rested(each.channel_id, given.sent, given.now, config.channel_hours)
        or (novel(each.material, to_them) if task == "follow_up" else None)
    )
    if blocked is not None:
        return blocked
    avoid = tuple(one.text for one in to_them if one.text)[-AVOIDED:]
    if task == "follow_up":
        when = datetime.fromtimestamp(each.at, given.timezone)
        cause = f"a conversation on {when:%B} {when.day} ended without an answer"
        return RunningTask(**dict(each), task=task, agent=agent, avoid=avoid, cause=cause)
    since = given.now - config.again_hours * HOUR if config.again_hours else 0.0
    topics = novel_topics(each.topics, [one for one in to_them if one.at > since])
    if not topics:
        return Blocked("there has been an unprompted message about each of the person's topics")
    chosen = tuple(rng.sample(topics, min(len(topics), MAX_DISCOVERY_TOPICS)))
    cause = "it looks for news about topics the person likes"
    return RunningTask(**{**dict(each), "topics": chosen}, task=task, agent=agent, avoid=avoid, cause=cause)


# Gates of a task


def quiet_hours(now: float, start: int, end: int, timezone: tzinfo) -> Blocked | None:
    """Block outside the active hours, until they begin."""
    today = local_date(now, timezone)
    windows = [active_window(today + timedelta(days=days), start, end, timezone) for days in (-1, 0, 1)]
    if any(begin <= now < over for begin, over in windows):
        return None
    return Blocked("it's outside the active hours", min(begin for begin, _ in windows if begin > now))


def nothing_new(newest: int, seen: int, *, again: bool = False) -> Blocked | None:
    """Block if no message is newer than `seen`, the newest message when the agent last ran out of work. `again`: the
    owner wants the task repeated anyway."""
    if newest == 0:
        return Blocked("no messages are logged in its channels")
    if again:
        return None
    return Blocked("nobody has written since it last looked") if newest <= seen else None


def budget(used_up: Collection[str], midnight: float) -> Blocked | None:
    """Block if a daily budget is used up. `used_up`: names of budgets, as in Budgets.used_up."""
    if "idle" in used_up:
        return Blocked("its share of today's budget is used up", midnight)
    return Blocked("today's budget is used up", midnight) if used_up else None


# Gates of a person, and of a channel


def channel_open(channel_id: int, silenced: Silenced | None, busy: Collection[int]) -> Blocked | None:
    if silenced is not None:
        return Blocked(SILENCED[silenced.kind])
    return Blocked("a conversation is running in that channel") if channel_id in busy else None


def opted_in(person_id: int | None, consents: Mapping[int, bool], unprompted: str) -> Blocked | None:
    """Block without the person's consent. `opt_in` needs a yes; `everyone` only needs that they didn't say no."""
    consent = None if person_id is None else consents.get(person_id)
    if consent is False:
        return Blocked("the person doesn't want unprompted messages")
    if consent is None and unprompted != "everyone":
        return Blocked("nobody has turned on unprompted messages")
    return None


def person_rested(person_id: int | None, sent: Sequence[Sent], now: float, hours: float) -> Blocked | None:
    """Block for `hours` after an unprompted message to the person. The time doubles with each one in a row that they
    didn't answer; after the third, the block lasts until they write."""
    own = [one for one in sent if one.person_id == person_id] if person_id is not None else []
    if not own:
        return None
    unanswered = next((count for count, one in enumerate(reversed(own)) if one.answered), len(own))  # in a row
    if unanswered >= MAX_UNANSWERED:
        return Blocked(f"{MAX_UNANSWERED} unprompted messages in a row went unanswered")
    until = own[-1].at + hours * HOUR * 2**unanswered
    if until <= now:
        return None
    why = (
        "the last unprompted message went unanswered"
        if unanswered
        else "it's too soon after the last unprompted message"
    )
    return Blocked(why, until)


def channel_rested(channel_id: int, sent: Sequence[Sent], now: float, hours: float) -> Blocked | None:
    until = max((one.at for one in sent if one.channel_id == channel_id), default=0.0) + hours * HOUR
    return Blocked("it's too soon after an unprompted message in that channel", until) if until > now else None


def novel(material: str, sent: Sequence[Sent]) -> Blocked | None:
    """Block if the conversation ended with an unprompted message, or the agent would follow up on itself."""
    last = material.strip().rpartition("\n")[2].partition(": ")[2]
    is_known = says_again(last, [one.text for one in sent if one.text])
    return Blocked("an earlier unprompted message said the same") if is_known else None


def novel_topics(topics: Iterable[str], sent: Sequence[Sent]) -> tuple[str, ...]:
    """Return the topics that no unprompted message was about, i.e. none has all of the topic's words."""
    known = [set(tokens(one.text)) for one in sent if one.text]
    return tuple(topic for topic in topics if not any(set(tokens(topic)) <= words for words in known))


# The turn and its result


def about_of(candidate: Candidate) -> str:
    """Return a key of the candidate and its text. It changes if messages are deleted or edited."""
    words = zlib.crc32(candidate.material.encode())
    return f"{candidate.person_id or ''}:{candidate.channel_id}:{candidate.message_id}:{candidate.upto}:{words:x}"


def instruction_for(asking: RunningTask, theme: str) -> Instruction:
    return Instruction(
        instruction_id=asking.instruction_id,
        action="reflect",
        channel_id=asking.channel_id,
        channel_theme=theme,
        deadline=asking.deadline,
        reflection=Reflection(**_fields(asking, *Reflection.model_fields)),
    )


def note_of(asking: RunningTask, result: Result, now: float) -> Entry | None:
    """Return what to record of a turn, or None if it didn't do its task."""
    make = _NOTES.get(asking.task)
    return None if make is None or result.skipped else make(asking, result, now)


def _summary(asking: RunningTask, result: Result, now: float) -> SummaryNote | None:
    """Its time is when the material was read: since then messages may have been edited, or people forgotten."""
    text = (result.text or "").strip()
    if not text:
        return None
    same = _fields(asking, "channel_id", "agent", "message_ids", "people")
    return SummaryNote(message_id=asking.upto or asking.message_id, text=text, at=asking.read_at or now, **same)


def _profile(asking: RunningTask, result: Result, now: float) -> ProfileNote | None:
    """Recorded even without a topic, so that the same messages aren't read again."""
    if asking.person_id is None:
        return None
    topics, same = safe_topics(result.text or ""), _fields(asking, "upto", "message_ids")
    at = asking.read_at or now
    return ProfileNote(user_id=asking.person_id, name=asking.person_name, topics=topics, at=at, **same)


def _proactive(asking: RunningTask, result: Result, now: float) -> UnaskedNote | None:
    if result.message_id is None:
        return None
    same = _fields(asking, "agent", "task", "channel_id", "person_id", "cause")
    return UnaskedNote(message_id=result.message_id, text=result.text or "", at=now, **same)


_NOTES: Mapping[str, Callable[[RunningTask, Result, float], Entry | None]] = {
    "summarise": _summary,
    "profile": _profile,
    "follow_up": _proactive,
    "discover": _proactive,
}


def sent_of(note: UnaskedNote) -> Sent:
    """Return the message as the record will show it."""
    return Sent(**_fields(note, "message_id", "agent", "task", "channel_id", "person_id", "text", "at"))


def has_failed(asking: RunningTask, result: Result | None, now: float) -> bool:
    """Whether the turn failed, so that the next one waits longer. No result is a failure."""
    if result is None:
        return True
    return note_of(asking, result, now) is None and result.reason not in NO_FAILURE


_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|pretend|obey|you (?:must|should|are|will)|system prompt|instructions?)\b|[<>{}\[\]`]"
    r"|https?:|@",
    re.IGNORECASE,
)


def safe_topics(text: str) -> tuple[str, ...]:
    """Return the topics in a text, without lines that are too long or look like orders to a model: topics get into
    prompts."""
    topics = (topic for topic in topics_in(text) if len(topic) <= TOPIC_CHARACTERS and not _ORDER.search(topic))
    return tuple(topics)[:MAX_TOPICS]


def _fields(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}
