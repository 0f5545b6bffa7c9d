"""What a task is about; reasons not to run it.

Gates before any model call, each a pure function: None lets the task pass, Closed says why it does not.

They are read in two places: scheduler.py for a task as a whole, the cheapest gate first, and candidates.py for each
person and conversation that it may be about.

Candidates for a task: asked of the record, and chosen by pure rules.

A follow-up is about a random one of the conversations that were left hanging, a discovery is for a random person with a
profile, of those whose gates are open. Summaries and profiles have one candidate, and post nothing, so only the channel
of a summary matters.

The outcome of a task's turn: the note for the record, and whether it counts as a failure. Pure.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Protocol

from agent_coordinator.config import IdleConfig
from agent_coordinator.scheduler import active_window, local_date
from agentic.state.idle import UNASKED, Asking, Candidate, Sent
from agentic.text import says_again, tokens
from agentic.wire.entries import MAX_TOPICS, TOPIC_CHARACTERS, Entry, ProfileNote, SummaryNote, UnaskedNote, topics_in
from agentic.wire.messages import Instruction, Reflection, Result

HOUR = 3600.0
MOST_UNANSWERED = 3  # unasked messages in a row, after which only the person's own message opens the gate again


@dataclass(frozen=True, slots=True)
class Closed:
    """Why a task does not run, in a clause for people; `until` (unix seconds) where that is known."""

    why: str
    until: float | None = None


class IdleStore(Protocol):
    """The record, as idle tasks read it; agentic/record/idle_queries.py implements it.

    An agent takes part in a channel where the log has a message of its own. Times are unix seconds. Unlike the stores
    of Redis it raises nothing: a record that cannot be read has nothing.
    """

    async def newest(self, agent: str, task: str) -> int:
        """The newest thing that a task may be about, as an id: the newest logged message where the agent takes part, or
        for `discover` a profile that changed after it. 0 without a message."""
        ...

    async def to_summarise(self, agent: str, before: float, skip: Collection[int] = ()) -> Candidate | None:
        """A reply chain of three or more messages whose newest, older than `before`, is in no summary, and none of
        `skip`."""
        ...

    async def to_profile(self, agent: str, skip: Collection[int] = ()) -> Candidate | None:
        """A person with messages that are newer than what their profile knows, the newest none of `skip`; the material
        is those messages."""
        ...

    async def hanging(self, agent: str, before: float, count: int) -> tuple[Candidate, ...]:
        """The newest conversations of a person with the agent that ended before then, with no follow-up since."""
        ...

    async def people(self, agent: str, count: int) -> tuple[Candidate, ...]:
        """People with a profile, and the channel where they last talked with the agent; the newest first."""
        ...

    async def sent(self, since: float) -> tuple[Sent, ...]:
        """Messages that agents posted unasked since then, the oldest first."""
        ...

    async def consents(self) -> Mapping[int, bool]:
        """People who said whether they want messages that nobody asked for."""
        ...


# -- of a task ---------------------------------------------------------------------------------------------------------


def paused(is_paused: bool) -> Closed | None:
    return Closed("all bots are paused") if is_paused else None


def quiet_hours(now: float, start: int, end: int, timezone: tzinfo) -> Closed | None:
    """Closed outside of the active hours, until they begin."""
    today = local_date(now, timezone)
    windows = [active_window(today + timedelta(days=days), start, end, timezone) for days in (-1, 0, 1)]
    if any(begin <= now < over for begin, over in windows):
        return None
    return Closed("these are quiet hours", min(begin for begin, _ in windows if begin > now))


def silenced(muted_until: float | None, backoff_until: float | None, now: float) -> Closed | None:
    """Closed for an agent that is muted, or whose provider refuses it."""
    if muted_until is not None and muted_until > now:
        return Closed("it is muted", muted_until)
    if backoff_until is not None and backoff_until > now:
        return Closed("its provider refuses it", backoff_until)
    return None


def nothing_new(newest: int, seen: int, *, again: bool = False) -> Closed | None:
    """`newest`: the newest message where the agent takes part; `seen`: the newest one when it last ran out of work.
    `again`: the owner wants the task to be done again by now all the same."""
    if newest == 0:
        return Closed("no message is logged where it takes part")
    if again:
        return None
    return Closed("nothing was written since it last looked") if newest <= seen else None


def budget(used_up: Collection[str], midnight: float) -> Closed | None:
    """`used_up`: which of the day's budgets are, as Budgets.used_up names them."""
    if "idle" in used_up:
        return Closed("the share of the day's budget for it is used up", midnight)
    return Closed("the day's budget is used up", midnight) if used_up else None


def done_already(about: str, did: str) -> Closed | None:
    """Closed where the record does not show yet what the last run made of the same material."""
    return Closed("the result of its last run is not in the record yet") if about == did else None


# -- of a person, and of a channel -------------------------------------------------------------------------------------


def channel_open(channel_id: int, stopped: bool, busy: Collection[int]) -> Closed | None:
    if stopped:
        return Closed("a person stopped the bots in that channel")
    return Closed("a conversation is running in that channel") if channel_id in busy else None


def opted_in(person_id: int | None, consents: Mapping[int, bool], unasked: str) -> Closed | None:
    """`opt_in` needs a yes, `everyone` that the person did not say no."""
    consent = None if person_id is None else consents.get(person_id)
    if consent is False:
        return Closed("they want no unasked messages")
    if consent is None and unasked != "everyone":
        return Closed("nobody has agreed to unasked messages")
    return None


def person_rested(person_id: int | None, sent: Sequence[Sent], now: float, hours: float) -> Closed | None:
    """Closed for so many hours after an unasked message to the person; twice as many, and so on, for each in a row that
    they did not answer, and after the third until they write."""
    own = [one for one in sent if one.person_id == person_id] if person_id is not None else []
    if not own:
        return None
    unanswered = _unanswered(own)
    if unanswered >= MOST_UNANSWERED:
        return Closed(f"{MOST_UNANSWERED} unasked messages were not answered")
    until = own[-1].at + hours * HOUR * 2**unanswered
    if until <= now:
        return None
    return Closed("the last unasked message is not long ago" if not unanswered else "the last was not answered", until)


def channel_rested(channel_id: int, sent: Sequence[Sent], now: float, hours: float) -> Closed | None:
    until = max((one.at for one in sent if one.channel_id == channel_id), default=0.0) + hours * HOUR
    return Closed("there was an unasked message in that channel not long ago", until) if until > now else None


def novel(material: str, sent: Sequence[Sent]) -> Closed | None:
    """Closed where a talk ended with what was sent unasked before, so that an agent would follow up itself."""
    last = material.strip().rpartition("\n")[2].partition(": ")[2]
    return Closed("what was said there was sent unasked before") if says_again(last, _texts(sent)) else None


def novel_topics(topics: Iterable[str], sent: Sequence[Sent]) -> tuple[str, ...]:
    """The topics that no unasked message was about: not all of their words are in one."""
    known = [set(tokens(text)) for text in _texts(sent)]
    return tuple(topic for topic in topics if not any(set(tokens(topic)) <= words for words in known))


def _unanswered(own: Sequence[Sent]) -> int:
    """How many of the newest were not answered, in a row."""
    count = 0
    for one in reversed(own):
        if one.answered:
            break
        count += 1
    return count


def _texts(sent: Sequence[Sent]) -> list[str]:
    return [one.text for one in sent if one.text]


LOOKED_AT = 20  # candidates for an unasked message
SENT_DAYS = 90.0  # of unasked messages that gates look at
AVOIDED = 20  # unasked messages that are not to be repeated
MOST_TOPICS = 5  # of the person's, for one discovery
NOTHING: Mapping[str, str] = {
    "summarise": "there is nothing to summarise",
    "profile": "nobody has written anything new for a profile",
    "follow_up": "no conversation was left hanging",
    "discover": "nobody has a profile",
}
DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """All that the choice depends on. `sent`: unasked messages, the oldest first; `did`: what the task's last run was
    about. `stopped` and `busy` are channels."""

    now: float
    timezone: tzinfo = UTC
    unasked: str = "opt_in"
    consents: Mapping[int, bool] = field(default_factory=dict)
    sent: Sequence[Sent] = ()
    stopped: Collection[int] = ()
    busy: Collection[int] = ()
    did: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A turn to ask for. `topics`: those of the person's that are to be used; `avoid`: what was sent before."""

    task: str
    agent: str
    about: Candidate
    topics: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    cause: str = ""


async def look(
    store: IdleStore, task: str, agent: str, *, now: float, before: float, failed: Collection[int] = ()
) -> Sequence[Candidate]:
    """The candidates of the record; `before`: what is left hanging since then. `failed` are the newest messages of what
    a run has failed at, which comes after everything else."""
    if task == "follow_up":
        return await store.hanging(agent, before, LOOKED_AT)
    if task == "discover":
        return await store.people(agent, LOOKED_AT)
    for skip in (failed, ()) if failed else ((),):
        found = await (store.to_summarise(agent, now, skip) if task == "summarise" else store.to_profile(agent, skip))
        if found is not None:
            return (found,)
    return ()


def choose(
    task: str, agent: str, candidates: Sequence[Candidate], given: Circumstances, config: IdleConfig, rng: random.Random
) -> Plan | Closed:
    """One of the candidates whose gates are open, at random; else why the first one's are not."""
    judged = [_judge(task, agent, each, given, config, rng) for each in candidates]
    plans = [each for each in judged if isinstance(each, Plan)]
    if plans:
        return rng.choice(plans)
    closed = [each for each in judged if isinstance(each, Closed)]
    if not closed:
        return Closed(NOTHING[task])
    opening = [each.until for each in closed if each.until is not None]
    return Closed(closed[0].why, min(opening) if len(opening) == len(closed) else None)


def about_of(candidate: Candidate) -> str:
    """A candidate in one word, by which a later run knows it; another one where words of it were deleted or edited."""
    words = zlib.crc32(candidate.material.encode())
    return f"{candidate.person_id or ''}:{candidate.channel_id}:{candidate.message_id}:{candidate.upto}:{words:x}"


def instruction_for(plan: Plan, instruction_id: str, deadline: float, theme: str) -> Instruction:
    about = plan.about
    return Instruction(
        instruction_id=instruction_id,
        action="reflect",
        channel_id=about.channel_id,
        channel_theme=theme,
        deadline=deadline,
        reflection=Reflection(
            task=plan.task,
            person_id=about.person_id,
            person_name=about.person_name,
            message_id=about.message_id,
            material=about.material,
            topics=plan.topics,
            origins=about.origins,
            avoid=plan.avoid,
            message_ids=about.message_ids,
            people=about.people,
            cause=plan.cause,
        ),
    )


def asking_for(plan: Plan, instruction_id: str, deadline: float, read_at: float) -> Asking:
    about = plan.about
    return Asking(
        instruction_id=instruction_id,
        agent=plan.agent,
        task=plan.task,
        deadline=deadline,
        read_at=read_at,
        channel_id=about.channel_id,
        message_id=about.message_id,
        upto=about.upto,
        person_id=about.person_id,
        person_name=about.person_name,
        message_ids=about.message_ids,
        people=about.people,
        cause=plan.cause,
    )


def _judge(
    task: str, agent: str, each: Candidate, given: Circumstances, config: IdleConfig, rng: random.Random
) -> Plan | Closed:
    if task not in UNASKED:
        running = channel_open(each.channel_id, False, given.busy) if task == "summarise" else None
        closed = running or done_already(about_of(each), given.did)
        return closed or Plan(task, agent, each, topics=each.topics)
    to_them = [one for one in given.sent if one.person_id == each.person_id or one.channel_id == each.channel_id]
    closed = (
        channel_open(each.channel_id, each.channel_id in given.stopped, given.busy)
        or opted_in(each.person_id, given.consents, given.unasked)
        or person_rested(each.person_id, given.sent, given.now, config.person_hours)
        or channel_rested(each.channel_id, given.sent, given.now, config.channel_hours)
        or (novel(each.material, to_them) if task == "follow_up" else None)
    )
    if closed is not None:
        return closed
    avoid = tuple(one.text for one in to_them if one.text)[-AVOIDED:]
    if task == "follow_up":
        when = datetime.fromtimestamp(each.at, given.timezone)
        return Plan(task, agent, each, each.topics, avoid, f"a talk of {when.day} {when:%B} was left without an answer")
    since = given.now - config.again_hours * HOUR if config.again_hours else 0.0
    topics = novel_topics(each.topics, [one for one in to_them if one.at > since])
    if not topics:
        return Closed("there was an unasked message on each of the person's topics")
    chosen = tuple(rng.sample(topics, min(len(topics), MOST_TOPICS)))
    return Plan(task, agent, each, chosen, avoid, "it looks for news on what the person likes to talk about")


NO_FAILURE = frozenset(
    {"skipped", "not_new", "unwanted", "person_wrote", "overtaken", "stopped", "withdrawn", "edited"}
)
"""Reasons for which a turn ends without being tried again soon, but that are nobody's fault."""

BUDGETS = frozenset({"idle_budget", "budget", "agent_budget", "person_budget", "daily_limit"})
"""Reasons that hold until the day is over."""

_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|pretend|obey|you (?:must|should|are|will)|system prompt|instructions?)\b|[<>{}\[\]`]"
    r"|https?:|@",
    re.IGNORECASE,
)


def note_of(asking: Asking, result: Result, now: float) -> Entry | None:
    """The note of a turn that did its task; None for one that did not."""
    make = _NOTES.get(asking.task)
    return None if make is None or result.skipped else make(asking, result, now)


def sent_of(note: UnaskedNote) -> Sent:
    """The message as the record will show it."""
    return Sent(
        message_id=note.message_id,
        agent=note.agent,
        task=note.task,
        channel_id=note.channel_id,
        person_id=note.person_id,
        text=note.text,
        at=note.at,
    )


def failed(asking: Asking, result: Result | None, now: float) -> bool:
    """Whether the turn failed, so that the next one waits longer. Without a result it did."""
    if result is None:
        return True
    return note_of(asking, result, now) is None and result.reason not in NO_FAILURE


def safe_topics(text: str) -> tuple[str, ...]:
    """The topics of a text, without lines that are too long or look like orders to a model, since they come back into
    prompts."""
    topics = (topic for topic in topics_in(text) if len(topic) <= TOPIC_CHARACTERS and not _ORDER.search(topic))
    return tuple(topics)[:MAX_TOPICS]


def _summary(asking: Asking, result: Result, now: float) -> SummaryNote | None:
    """As old as its material: the words may have been edited, or its people forgotten, while it was written."""
    text = (result.text or "").strip()
    if not text:
        return None
    return SummaryNote(
        message_id=asking.upto or asking.message_id,
        channel_id=asking.channel_id,
        agent=asking.agent,
        text=text,
        message_ids=asking.message_ids,
        people=asking.people,
        at=asking.read_at or now,
    )


def _profile(asking: Asking, result: Result, now: float) -> ProfileNote | None:
    """Without any topic too, so that the same messages are not read again."""
    if asking.person_id is None:
        return None
    topics, at = safe_topics(result.text or ""), asking.read_at or now
    return ProfileNote(
        user_id=asking.person_id,
        name=asking.person_name,
        topics=topics,
        upto=asking.upto,
        message_ids=asking.message_ids,
        at=at,
    )


def _unasked(asking: Asking, result: Result, now: float) -> UnaskedNote | None:
    if result.message_id is None:
        return None
    return UnaskedNote(
        message_id=result.message_id,
        agent=asking.agent,
        task=asking.task,
        channel_id=asking.channel_id,
        person_id=asking.person_id,
        cause=asking.cause,
        text=result.text or "",
        at=now,
    )


_NOTES: Mapping[str, Callable[[Asking, Result, float], Entry | None]] = {
    "summarise": _summary,
    "profile": _profile,
    "follow_up": _unasked,
    "discover": _unasked,
}
