"""Gates before any model call, each a pure function: None lets the task pass, Closed says why it does not.

They are read in two places: scheduler.py for a task as a whole, the cheapest gate first, and candidates.py for each
person and conversation that it may be about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta, tzinfo

from agent_coordinator.scheduler import active_window, local_date
from agentic.similarity import says_again, tokens
from agentic.state.idle import Sent

HOUR = 3600.0
MOST_UNANSWERED = 3  # unasked messages in a row, after which only the person's own message opens the gate again


@dataclass(frozen=True, slots=True)
class Closed:
    """Why a task does not run, in a clause for people; `until` (unix seconds) where that is known."""

    why: str
    until: float | None = None


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
