"""Hold conversations with a model, and print how good they are.

    make quality ARGS="--model ollama/llama3.2 --turns 40"

Nothing goes to Discord, and nobody's budget or memory is touched: the data is in a temporary folder. The conversations
are written as Markdown, to be read.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from agent_config import SettingsError, load_settings, process_environment
from agentic.agent.persona import read_fronts
from agentic.local.models import check_model
from agentic.process.logs import set_up_logging
from agentic.process.redaction import Redactor
from agentic.quality.measure import FAULTS, Fault
from agentic.quality.turns import BenchFailed, Side, Turn, answer_again, hold
from agentic.state.turn_records import TurnRecord
from agentic.text import counted
from agentic.wire.connection import RedisStartError
from agentic.wire.reasons import REASONS

FOLDER = Path("data/quality")
MAX_RAW = 1_000  # characters of an answer that wasn't posted

Number = Callable[[Sequence[Turn]], str]  # of a side's turns, as it is shown


def main(arguments: Sequence[str]) -> int:
    """Return 0 if turns were taken, 1 if none were, 2 for a wrong command line or setting."""
    os.umask(0o077)
    options = _parser().parse_args(arguments)
    try:
        sides = [_side(options.model, options.model), *([_other_side(options)] if options.against else [])]
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    for side in sides:
        if problem := _problem(side):
            print(f"{side.title}: {problem}", file=sys.stderr)
            return 2
    settings = sides[0].settings
    set_up_logging("WARNING", redact=Redactor(settings.secrets()).secrets)
    room_turns = options.turns // 4 if options.room_turns is None else min(options.room_turns, options.turns)
    try:
        results = asyncio.run(_run(sides, options.turns, room_turns, options.minutes * 60))
    except (BenchFailed, RedisStartError) as error:
        print(error, file=sys.stderr)
        return 1
    name = re.sub(r"[^\w.-]+", "-", "-against-".join(side.title for side in sides))
    file = options.folder / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(written([side.title for side in sides], results), encoding="utf-8")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for side in sides:
        table.add_column(side.title, justify="right")
    for row in rows(results):
        table.add_row(*row)
    console.print(table)
    console.print(f"\nThe conversations: {file}")
    return 0 if any(results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agentic.quality", description="Measure how well a model talks.")
    parser.add_argument("--model", metavar="NAME", help="for all bots, such as ollama/llama3.2; default: as in .env")
    parser.add_argument("--turns", type=_positive, default=40, metavar="N", help="how many turns (default: 40)")
    parser.add_argument(
        "--room-turns", type=int, metavar="N", help="how many of them in a room of personas (default: a quarter)"
    )
    parser.add_argument(
        "--minutes", type=_positive, default=600, metavar="N", help="stop each side after this time (default: 600)"
    )
    parser.add_argument(
        "--against",
        metavar="OTHER",
        help="compare on the same turns: another model, a persona's folder (or a folder of them), or a channel option"
        " such as mode=prefill",
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"for the conversations (default: {FOLDER})")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1000:
        raise argparse.ArgumentTypeError("expected a number from 1 to 1000")
    return int(text)


def _side(title: str | None, model: str | None) -> Side:
    settings = load_settings(process_environment(), local=True, model=model, fronts=read_fronts)
    return Side(title or "as in .env", settings)


def _other_side(options: argparse.Namespace) -> Side:
    """Return the side of --against, which differs from the first side in one thing."""
    name, equals, value = str(options.against).partition("=")
    same = _side(options.against, options.model)
    if equals:
        return Side(options.against, same.settings, options={name.strip(): yaml.safe_load(value)})
    for folder in (Path(options.against), same.settings.personas_dir / options.against):
        if folder.is_dir():
            return Side(str(options.against), same.settings, persona=folder.resolve())
    return _side(options.against, options.against)


def _problem(side: Side) -> str:
    """Return why the side can't be measured, or ""."""
    if lacking := [agent.display_name for agent in side.settings.agents.values() if not agent.usable]:
        return f"{', '.join(lacking)} can't call a model: set a key, or give --model"
    model, *others = dict.fromkeys(agent.models[0].name for agent in side.settings.agents.values())
    return "" if others else check_model(side.settings, model).problem


async def _run(sides: Sequence[Side], turns: int, room_turns: int, seconds: float) -> list[list[Turn]]:
    results: list[list[Turn]] = []
    for side in sides:
        with tempfile.TemporaryDirectory(prefix="quality-") as folder:
            if not results:
                results.append(await hold(side, Path(folder), turns, room_turns, seconds, _progress(side.title, turns)))
            else:
                plan = [turn for turn in results[0] if not turn.in_room and turn.record.agent in side.agents]
                again = await answer_again(side, Path(folder), plan, seconds, _progress(side.title, len(plan)))
                results = [plan[: len(again)], again]
    return results


def _progress(title: str, total: int) -> Callable[[Turn], None]:
    numbers = iter(range(1, 1_000_000))

    def show(turn: Turn) -> None:
        record = turn.record
        what = record.outcome if not record.reason else f"{record.outcome}, {record.reason}"
        line = f"{title}: {next(numbers)} of {total}, {turn.speaker}, {record.seconds:.1f} s, {what}"
        print(line, file=sys.stderr, flush=True)

    return show


# -- the numbers -------------------------------------------------------------------------------------------------------


def rows(results: Sequence[Sequence[Turn]]) -> list[tuple[str, ...]]:
    """Return a row for each number, with a column for each side."""
    numbers: dict[str, Number] = {
        "good turns": _good,
        "  of the four bots": lambda turns: _good([turn for turn in turns if not turn.in_room]),
        "  in a room": lambda turns: _good([turn for turn in turns if turn.in_room]),
        "posted": _count(lambda turn: bool(turn.text)),
    }
    numbers |= {f"  {fault}": _count(partial(_has_fault, fault)) for fault in FAULTS}
    numbers["posted nothing"] = _count(lambda turn: not turn.text)
    reasons = Counter(turn.record.reason for turns in results for turn in turns if not turn.text)
    for reason, _ in reasons.most_common():
        numbers[f"  {REASONS.get(reason or '', 'nothing to post')}"] = _count(partial(_failed_by, reason))
    numbers |= {
        "seconds a turn": _mean(lambda record: record.seconds, ".1f"),
        "  the slowest": lambda turns: f"{max((turn.record.seconds for turn in turns), default=0.0):.1f}",
        "prompt tokens a turn": _mean(lambda record: record.input_tokens, ",.0f"),
        "  of these reused": _reused,
        "answer tokens a turn": _mean(lambda record: record.output_tokens, ",.0f"),
        "model calls a turn": _mean(lambda record: len(record.calls), ".1f"),
    }
    if len(results) == 2:
        both = sum(one.is_good and other.is_good for one, other in zip(*results, strict=False))
        numbers["good in both"] = lambda _: str(both)
        numbers["good only here"] = lambda turns: str(sum(turn.is_good for turn in turns) - both)
    return [(title, *map(number, results)) for title, number in numbers.items()]


def _count(is_meant: Callable[[Turn], bool]) -> Number:
    return lambda turns: str(sum(map(is_meant, turns)))


def _mean(of: Callable[[TurnRecord], float], form: str) -> Number:
    return lambda turns: format(statistics.fmean(of(turn.record) for turn in turns) if turns else 0.0, form)


def _has_fault(fault: Fault, turn: Turn) -> bool:
    return fault in turn.faults


def _failed_by(reason: str | None, turn: Turn) -> bool:
    return not turn.text and turn.record.reason == reason


def _good(turns: Sequence[Turn]) -> str:
    part = sum(turn.is_good for turn in turns)
    return f"{part} of {len(turns)} ({part / len(turns):.0%})" if turns else "–"


def _reused(turns: Sequence[Turn]) -> str:
    read = sum(turn.record.input_tokens for turn in turns)
    return f"{sum(turn.record.cached_tokens for turn in turns) / read:.0%}" if read else "–"


# -- the conversations -------------------------------------------------------------------------------------------------


def written(titles: Sequence[str], results: Sequence[Sequence[Turn]]) -> str:
    """Return the numbers and the conversations as Markdown."""
    lines = [f"# {' against '.join(titles)}", "", f"{counted(len(results[0]), 'turn')}.", ""]
    lines += [f"| | {' | '.join(titles)} |", f"| --- |{' ---: |' * len(titles)}"]
    lines += [f"| {' | '.join(each.strip() for each in row)} |" for row in rows(results)]
    place = ""
    for turns in zip(*results, strict=False):
        first = turns[0]
        if first.channel != place:
            place = first.channel
            lines += ["", f"## {'A room: ' if first.in_room else ''}{first.topic}"]
        for title, turn in zip(titles, turns, strict=True):
            record, by = turn.record, f" by {title}" if len(titles) > 1 else ""
            faults = ", ".join(turn.faults) or REASONS.get(record.reason or "", "nothing to post")
            cost = f"{record.seconds:.1f} s, {record.input_tokens:,} + {record.output_tokens:,} tokens"
            lines += ["", f"**{turn.speaker}**{by} · {'good' if turn.is_good else faults} · {cost}", ""]
            if turn.text:
                lines += (f"> {line}".rstrip() for line in turn.text.splitlines())
            elif turn.raw:
                lines += ["Not posted:", "", *(f"    {line}" for line in turn.raw[:MAX_RAW].splitlines())]
            else:
                lines.append("(no answer)")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
