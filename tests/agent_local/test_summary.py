"""A run's summary, from numbers to what is printed."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

from rich.console import Console

from agent_coordinator.conversations.state import Tally
from agent_local.summary import RunSummary


@dataclass(frozen=True)
class Report:
    rounds: int
    ended_because: str
    per_agent: dict[str, Tally] = field(default_factory=dict)


def printed(summary: RunSummary) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(summary)
    return out.getvalue()


def test_conversations_are_added_up_by_agent() -> None:
    first = Report(3, "faded", {"claude": Tally(messages=3, skips=1, calls=4, input_tokens=100, output_tokens=20)})
    second = Report(
        2,
        "round_limit",
        {"claude": Tally(messages=2, timeouts=1, calls=2), "grok": Tally(messages=1, pictures=1, cost_usd=0.25)},
    )
    summary = RunSummary.of([first, second], {"claude": "Claude"})
    assert (summary.conversations, summary.rounds) == (2, 5)
    assert [(row.name, row.messages) for row in summary.per_agent] == [("Claude", 5), ("grok", 1)]
    assert (summary.messages, summary.skips, summary.timeouts, summary.calls) == (6, 1, 1, 6)
    assert (summary.pictures, summary.reactions, summary.tokens, summary.cost_usd) == (1, 0, 120, 0.25)
    assert summary.ended_because == ("faded", "round_limit")


def test_the_table_has_a_row_for_each_agent_and_one_for_all() -> None:
    agents = {"claude": Tally(messages=1200, cost_usd=0.5), "grok": Tally(messages=34, skips=2)}
    lines = printed(RunSummary.of([Report(4, "round_limit", agents)])).splitlines()
    assert lines[0].strip() == "1 conversation, 4 rounds, ended: round_limit"
    cells = {line.split()[0]: line.split()[1:] for line in lines[2:] if line.strip()}
    assert cells["claude"] == ["1,200", "0", "0", "0", "0", "0", "0", "$0.5000"]
    assert cells["grok"][:2] == ["34", "2"]
    assert cells["all"][:2] == ["1,234", "2"]


def test_a_run_without_a_conversation_is_said_plainly() -> None:
    assert "0 conversations, 0 rounds" in printed(RunSummary.of([]))
