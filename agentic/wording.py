"""Read the option that names an agent; format durations, money and lists for replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_cogs.slash import CommandInvocation
from agentic.agent.roster import Called, nearest
from agentic.chat.directory import clean_name
from agentic.coordination_names import named

MOST_NAMED = 25  # values that are listed

UNKNOWN = "This command is out of date. Discord refreshes its list within an hour; please try again then."
ONLY_HERE = "The shared storage (Redis) is unavailable: bots in other processes learn of this when it is back."
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
_UNITS = (
    (2 * DAY, DAY, "day"),
    (2 * HOUR, HOUR, "hour"),
    (MINUTE, MINUTE, "minute"),
)  # from this many seconds on, unit length, name


def agent_in(command: CommandInvocation, names: Mapping[str, str]) -> str | None:
    """Return the agent that the option names, by its key or as people call it; None if there is no such agent."""
    return agent_named(_agent_option(command), names)


def agent_named(written: str, names: Mapping[str, str]) -> str | None:
    """Return the agent with that key or shown name."""
    if written in names:
        return written
    found = named(names, written)
    return found[0] if len(found) == 1 else None


def unknown_agent(command: CommandInvocation, names: Mapping[str, str]) -> str:
    """Return the line for an agent that does not exist."""
    return unknown_value("agent", _agent_option(command), [*names.values()])


def unknown_value(kind: str, written: str, known: Sequence[str]) -> str:
    """Return the line for a value that an option does not have: what was meant perhaps, and what there is."""
    close = nearest([Called(name, name) for name in known], written)
    meant = f" Did you mean {close}?" if close else ""
    there_are = (
        f" There are: {', '.join(known[:MOST_NAMED])}{', …' if len(known) > MOST_NAMED else ''}." if known else ""
    )
    return f"There is no {kind} called “{clean_name(written)}”.{meant}{there_are}"


def _agent_option(command: CommandInvocation) -> str:
    return str(command.values.get("agent") or command.values.get("bot", ""))


def lasting(seconds: float) -> str:
    """ "40 seconds", "1 minute", "90 minutes", "3 hours", "2 days"; rounded, never 0."""
    for least, unit, name in _UNITS:
        if seconds >= least:
            return counted(round(seconds / unit), name)
    return counted(max(1, round(seconds)), "second")


def dollars(amount: float) -> str:
    """ "$1.50", "$0.0042"; small sums keep more digits."""
    if 0 < amount < 0.00005:
        return "less than $0.0001"
    return f"${amount:.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.4f}"


def counted(number: int, name: str) -> str:
    """ "1 turn", "2 turns" """
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def listed(names: Sequence[str], nothing: str = "nobody") -> str:
    """ "a, b and c" """
    if not names:
        return nothing
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def heard(text: str, everywhere: bool) -> str:
    """The reply to an order, with a line where it does not reach the bots of other processes yet."""
    return text if everywhere else f"{text} {ONLY_HERE}"
