"""Ask for the time zone and for the money of a day."""

from __future__ import annotations

import difflib
import math
import re
import time
from collections.abc import Collection
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from agent_config import DEFAULT_BUDGET, machine_timezone
from agentic.check.costs import forecast_day
from agentic.check.report import Findings
from agentic.setup.answers import BUDGET, TIME_ZONE
from agentic.setup.choices import ChoiceError
from agentic.setup.session import Session

_MOST = 1_000_000.0


def choose_habits(session: Session) -> None:
    session.talk.heading("Time and money")
    _ask_zone(session)
    _ask_budget(session)


def zone_named(text: str) -> str:
    """An IANA name by itself or by its city, in any case: "berlin" → "Europe/Berlin". Raises ChoiceError."""
    names = available_timezones()
    word = re.sub(r"\s+", "_", text.strip())
    found = [name for name in names if name.lower() == word.lower()]
    found = found or [name for name in names if name.lower().rpartition("/")[2] == word.lower()]
    if len(found) == 1 or _exists(word):
        return found[0] if len(found) == 1 else word
    near = sorted(found) or _near(word.lower(), names)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise ChoiceError(f"There is no such time zone. Type a name such as Europe/Berlin.{hint}")


def _near(word: str, names: Collection[str]) -> list[str]:
    """At most three names that are spelled alike, or whose city is."""
    spellings = {part: name for name in sorted(names) for part in (name.lower(), name.lower().rpartition("/")[2])}
    alike = difflib.get_close_matches(word, spellings, n=3, cutoff=0.7)
    return list(dict.fromkeys(spellings[one] for one in alike))


def budget_of(text: str) -> str:
    """ "$7.50" → "7.5"; "none" for no limit. Raises ChoiceError."""
    word = text.strip().removeprefix("$").strip().lower()
    if word == "none":
        return word
    try:
        dollars = float(word)
    except ValueError:
        dollars = math.nan
    if not 0 < dollars <= _MOST:
        raise ChoiceError("Type US dollars, such as 5 or 0.50, or none for no limit.")
    return f"{dollars:g}" if dollars < 1000 else f"{dollars:.0f}"


def _ask_zone(session: Session) -> None:
    usual = session.answers.get(TIME_ZONE) or _machines(session)
    why = "" if session.answers.get(TIME_ZONE) else ", this machine's"
    question = f"Time zone, for the hours at which the bots talk [{usual}{why}]:"
    zone = session.talk.pick(question, lambda text: zone_named(text) if text else usual)
    session.answers.give(TIME_ZONE, zone)
    session.talk.good(f"{zone}: it is {datetime.now(ZoneInfo(zone)):%H:%M} there")


def _machines(session: Session) -> str:
    name = machine_timezone(session.answers.environ).key
    return name if name and _exists(name) else "UTC"


def _exists(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _ask_budget(session: Session) -> None:
    """Say what a day is likely to cost, and ask how much it may cost at most."""
    talk, settings = session.talk, session.answers.settings()
    day = forecast_day(settings, Findings(), time.time())
    if day.dollars:
        talk.say(f"Your bots are likely to cost {day.text}.")
    usual = session.answers.get(BUDGET) or f"{DEFAULT_BUDGET:g}"
    question = f"At most how many US dollars a day, for all bots together (or none) [{usual}]:"
    budget = talk.pick(question, lambda text: budget_of(text) if text else usual)
    session.answers.give(BUDGET, budget)
    if budget.lower() == "none":
        talk.warn("Without a limit, people's mentions may cost any sum.")
    elif float(budget) < day.dollars:
        talk.warn("That is less than a day is likely to cost: the bots fall silent when it is used up.")
