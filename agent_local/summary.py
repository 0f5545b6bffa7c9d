"""What a run came to, for `--once`: numbers in, a table out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text


class TallyLike(Protocol):
    """What one agent did and used: agent_coordinator.conversations.state.Tally."""

    @property
    def messages(self) -> int: ...
    @property
    def skips(self) -> int: ...
    @property
    def timeouts(self) -> int: ...
    @property
    def reactions(self) -> int: ...
    @property
    def pictures(self) -> int: ...
    @property
    def calls(self) -> int: ...
    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def cost_usd(self) -> float: ...


class ReportLike(Protocol):
    """How one conversation went: agent_coordinator.events.ConversationReport."""

    @property
    def rounds(self) -> int: ...
    @property
    def ended_because(self) -> str: ...
    @property
    def per_agent(self) -> Mapping[str, TallyLike]: ...


@dataclass(frozen=True, slots=True)
class Row:
    """One agent's numbers, or the sum of all. `tokens` are those read and written together; money in US dollars."""

    name: str
    messages: int = 0
    skips: int = 0
    timeouts: int = 0
    reactions: int = 0
    pictures: int = 0
    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    @classmethod
    def of(cls, name: str, tally: TallyLike) -> Row:
        return cls(
            name=name,
            messages=tally.messages,
            skips=tally.skips,
            timeouts=tally.timeouts,
            reactions=tally.reactions,
            pictures=tally.pictures,
            calls=tally.calls,
            tokens=tally.input_tokens + tally.output_tokens,
            cost_usd=tally.cost_usd,
        )

    def plus(self, other: Row) -> Row:
        """The sum under this row's name."""
        return Row(
            name=self.name,
            messages=self.messages + other.messages,
            skips=self.skips + other.skips,
            timeouts=self.timeouts + other.timeouts,
            reactions=self.reactions + other.reactions,
            pictures=self.pictures + other.pictures,
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            cost_usd=self.cost_usd + other.cost_usd,
        )


@dataclass(frozen=True, slots=True)
class RunSummary:
    """All conversations of a run. The totals are the sums of `per_agent`."""

    conversations: int
    rounds: int
    ended_because: tuple[str, ...]
    per_agent: tuple[Row, ...]

    @classmethod
    def of(cls, reports: Iterable[ReportLike], names: Mapping[str, str] | None = None) -> RunSummary:
        """From the coordinator's reports; `names` maps agents' keys to shown names."""
        reports, rows, shown = list(reports), dict[str, Row](), names or {}
        for report in reports:
            for agent, tally in report.per_agent.items():
                row = Row.of(shown.get(agent, agent), tally)
                rows[agent] = rows[agent].plus(row) if agent in rows else row
        return cls(
            conversations=len(reports),
            rounds=sum(report.rounds for report in reports),
            ended_because=tuple(report.ended_because for report in reports),
            per_agent=tuple(rows[agent] for agent in sorted(rows)),
        )

    @property
    def total(self) -> Row:
        total = Row("all")
        for row in self.per_agent:
            total = total.plus(row)
        return total

    @property
    def messages(self) -> int:
        return self.total.messages

    @property
    def skips(self) -> int:
        return self.total.skips

    @property
    def timeouts(self) -> int:
        return self.total.timeouts

    @property
    def calls(self) -> int:
        return self.total.calls

    @property
    def pictures(self) -> int:
        return self.total.pictures

    @property
    def reactions(self) -> int:
        return self.total.reactions

    @property
    def tokens(self) -> int:
        return self.total.tokens

    @property
    def cost_usd(self) -> float:
        return self.total.cost_usd

    def __rich__(self) -> RenderableType:
        table = Table(box=None, pad_edge=False, show_footer=True)
        table.add_column("", footer="all")
        for heading, total in zip(HEADINGS, _cells(self.total), strict=True):
            table.add_column(heading, footer=total, justify="right")
        for row in self.per_agent:
            table.add_row(Text(row.name), *_cells(row))
        return Group(Text(self.headline(), "bold"), table)

    def headline(self) -> str:
        """One line: "1 conversation, 5 rounds, ended: round_limit"."""
        line = f"{_count(self.conversations, 'conversation')}, {_count(self.rounds, 'round')}"
        return f"{line}, ended: {', '.join(self.ended_because)}" if self.ended_because else line


HEADINGS = ("messages", "skips", "timeouts", "reactions", "pictures", "calls", "tokens", "cost")


def _cells(row: Row) -> tuple[str, ...]:
    counts = (row.messages, row.skips, row.timeouts, row.reactions, row.pictures, row.calls, row.tokens)
    return (*(f"{count:,}" for count in counts), f"${row.cost_usd:.4f}")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
