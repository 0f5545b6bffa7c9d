"""Show comparisons in a terminal: both answers beside each other, or below each other where it is narrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentic.replay.comparison import Answer, Comparison, decided, totals
from agentic.wording import counted, dollars

NARROW = 90  # columns, below which two answers do not fit beside each other


def header(comparison: Comparison, name: str) -> str:
    """ "Claude · round 2 · instruction-id" """
    round_number = f"round {comparison.round}" if comparison.round is not None else comparison.trigger
    return f"{name} · {round_number} · {comparison.agent}/{comparison.turn_id}"


def show(console: Console, comparison: Comparison, name: str) -> None:
    console.rule(Text(header(comparison, name)), align="left", characters="─")
    if comparison.new is None:
        console.print(Text(f"not replayed: {comparison.problem}", style="yellow"))
        return
    if comparison.same:
        console.print(_answer("Both", comparison.old, other=comparison.new))
        return
    old, new = _answer("Then", comparison.old), _answer("Now", comparison.new)
    if console.width < NARROW:
        console.print(old, new, sep="\n")
    else:
        table = Table(box=None, expand=True, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(ratio=1, overflow="fold")
        table.add_column(ratio=1, overflow="fold")
        table.add_row(old, new)
        console.print(table)
    if comparison.problem:
        console.print(Text(comparison.problem, style="yellow"))


def _answer(title: str, answer: Answer, *, other: Answer | None = None) -> Text:
    models = dict.fromkeys(filter(None, (answer.model, other.model if other else "")))
    facts = [f"{title}: {', '.join(models)}", decided(answer.decision), used(answer)]
    if other is not None and used(other) != used(answer):
        facts.append(f"now {used(other)}")
    text = Text(" · ".join(facts), style="dim")
    return text.append(f"\n{answer.says}", style="not dim") if answer.says else text


def used(answer: Answer) -> str:
    """ "1,200 + 80 tokens, $0.0012" """
    return f"{answer.input_tokens:,} + {answer.output_tokens:,} tokens, {dollars(answer.cost_usd)}"


def summary(comparisons: Sequence[Comparison]) -> str:
    replayed = [comparison for comparison in comparisons if comparison.new is not None]
    old, new = totals(each.old for each in replayed), totals(each.new for each in replayed)
    same, failed = sum(each.same for each in replayed), sum(bool(each.problem) for each in replayed)
    return (
        f"{counted(len(replayed), 'turn')} replayed: {same} with the same answer to the byte, {failed} without an"
        f" answer; {len(comparisons) - len(replayed)} not replayed.\n"
        f"Then {_sum(old)}; now {_sum(new)}.{_pictures(comparisons)}"
    )


def _sum(sums: dict[str, float]) -> str:
    return f"{sums['input_tokens']:,.0f} + {sums['output_tokens']:,.0f} tokens, {dollars(sums['cost_usd'])}"


def _pictures(comparisons: Iterable[Comparison]) -> str:
    missing = sum(comparison.pictures_missing for comparison in comparisons)
    return f" {counted(missing, 'picture')} of the prompts were not sent: pictures are not recorded." if missing else ""
