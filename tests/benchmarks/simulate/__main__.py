"""python -m tests.benchmarks.simulate [--days N] [--channels N] [--people N] [--conversations N] [--seed N]
[--policies a,b]

One column a policy. Nothing is asserted: the exit code is 0.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.benchmarks.scripted_agents import AGENTS
from tests.benchmarks.simulate.counted import Counted, deviation, gini
from tests.benchmarks.simulate.week import POLICIES, USUAL, Size, live_through
from tests.benchmarks.table import median, percentile

WIDTH = 120  # characters, where there is no terminal
SHOWN_ENDINGS = 6
TALKATIVENESS = {agent.name: agent.talkativeness for agent in AGENTS}


def main() -> int:
    options = _parser().parse_args()
    logging.disable(logging.WARNING)  # thousands of conversations would each say how they ended
    size = Size(options.channels, options.people, options.days, options.conversations)
    out, progress = Console(width=None if sys.stdout.isatty() else WIDTH), Console(stderr=True)
    columns: dict[str, Counted] = {}
    for policy in options.policies:
        began = time.perf_counter()
        columns[policy] = live_through(policy, size, options.seed)
        progress.print(f"[dim]{policy}: {time.perf_counter() - began:.0f} s")
    out.print(table(columns, size.channels))
    out.print(f"[dim]{size}, seed {options.seed}. Definitions: docs/dev/benchmarks.md", soft_wrap=True)
    return 0


def table(columns: dict[str, Counted], channels: int) -> Table:
    found = Table(expand=False)
    found.add_column("simulated")
    for policy in columns:
        found.add_column(policy, justify="right")
    cells = [rows(each, channels) for each in columns.values()]
    for name in cells[0]:
        found.add_row(name, *(each[name] for each in cells))
    return found


def rows(counted: Counted, channels: int) -> dict[str, str]:
    """The table's rows by name, as text."""
    talks = [counted.conversations.get(channel, 0) for channel in counted.conversations]
    talks += [0] * (channels - len(talks))
    ends = counted.endings.most_common(SHOWN_ENDINGS)
    return {
        "conversations": f"{sum(talks)}",
        "conversations per channel, Gini": f"{gini(talks):.2f}",
        "model calls": f"{counted.calls}",
        "posts": f"{counted.posted}",
        "posts per call": f"{counted.posts_a_call:.2f}",
        "cost": f"{counted.cost:.2f} USD",
        "cost per thousand posts": f"{1_000 * counted.cost_a_post:.2f} USD",
        "shares against talkativeness, largest difference": f"{deviation(counted.posts, TALKATIVENESS):.1%}",
        "twice in a row": f"{counted.in_a_row}",
        "turns of reactive rounds": f"{counted.joined}",
        "people's messages": f"{counted.written.total()}",
        "that called an agent": f"{counted.called}",
        "other messages while agents conversed": f"{len(counted.waits) + counted.left_waiting}",
        "taken up by the next turn": f"{counted.taken_up_at_once:.1%}",
        "never taken up": f"{counted.left_waiting}",
        "wait, median": f"{median(counted.waits):.0f} s",
        "wait, 90th percentile": f"{percentile(counted.waits, 0.9):.0f} s",
        "endings": "\n".join(f"{why} {count}" for why, count in ends),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.simulate", description="A week of a server, virtually."
    )
    usual = Size()
    parser.add_argument("--days", type=float, default=usual.days, help=f"length ({usual.days:g})")
    parser.add_argument("--channels", type=int, default=usual.channels, help=f"({usual.channels})")
    parser.add_argument("--people", type=int, default=usual.people, help=f"of all habits ({usual.people})")
    parser.add_argument(
        "--conversations", type=float, default=usual.conversations, help=f"a channel and day ({usual.conversations:g})"
    )
    parser.add_argument("--seed", type=int, default=1, help="of every draw (1)")
    known, usual_ones = ", ".join(POLICIES), ", ".join(USUAL)
    parser.add_argument(
        "--policies", type=policies, default=USUAL, metavar="name,...", help=f"some of {known} ({usual_ones})"
    )
    return parser


def policies(text: str) -> Sequence[str]:
    """Parse a comma-separated list of policies."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found or set(found) - set(POLICIES):
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(POLICIES)}")
    return found


if __name__ == "__main__":
    sys.exit(main())
