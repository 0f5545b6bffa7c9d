"""The summary of a conversation for `--once`, as a table."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agent_coordinator.events import ConversationReport
from agent_coordinator.state import Tally
from agentic.wire.endings import ENDINGS

HEADINGS = ("messages", "skips", "timeouts", "reactions", "pictures", "calls", "tokens", "cost")


def summary(report: ConversationReport, names: Mapping[str, str]) -> RenderableType:
    """A headline and a row for each agent; `names` maps agents to display names."""
    table = Table(box=None, pad_edge=False, show_footer=True)
    table.add_column("", footer="all")
    for heading, total in zip(HEADINGS, _cells(sum(report.per_agent.values(), Tally())), strict=True):
        table.add_column(heading, footer=total, justify="right")
    for agent, tally in sorted(report.per_agent.items()):
        table.add_row(Text(names.get(agent, agent)), *_cells(tally))
    rounds = "1 round" if report.rounds == 1 else f"{report.rounds} rounds"
    return Group(Text(f"{rounds}, ended: {ENDINGS[report.ended_because]}", "bold"), table)


def _cells(tally: Tally) -> tuple[str, ...]:
    tokens = tally.input_tokens + tally.output_tokens
    counts = (tally.messages, tally.skips, tally.timeouts, tally.reactions, tally.pictures, tally.calls, tokens)
    return (*(f"{count:,}" for count in counts), f"${tally.cost_usd:.4f}")
