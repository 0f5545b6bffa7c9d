"""The measurements by name, in the order in which they run, and the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from rich.console import Console

from agentic.wire.bus import NoAnswer
from tests.benchmarks.measures.cold import cold
from tests.benchmarks.measures.console import console
from tests.benchmarks.measures.context import context
from tests.benchmarks.measures.conversation import conversation
from tests.benchmarks.measures.counts import counts
from tests.benchmarks.measures.crowds import crowd, limits, rush
from tests.benchmarks.measures.day import day
from tests.benchmarks.measures.instructions import instructions
from tests.benchmarks.measures.mentions import mentions
from tests.benchmarks.measures.posts import posts
from tests.benchmarks.measures.record import record
from tests.benchmarks.measures.rooms.measure import rooms
from tests.benchmarks.measures.stalls import stalls
from tests.benchmarks.measures.start import start
from tests.benchmarks.measures.watched import watched
from tests.benchmarks.processes import Broken
from tests.benchmarks.stage import Bench, NotHere
from tests.benchmarks.table import Row

Measure = Callable[[Bench], Awaitable[list[Row]]]

MEASURES: Mapping[str, Measure] = {
    "start": start,
    "cold": cold,
    "mentions": mentions,
    "instructions": instructions,
    "counts": counts,
    "context": context,
    "record": record,
    "conversation": conversation,
    "posts": posts,
    "crowd": crowd,
    "limits": limits,
    "rush": rush,
    "stalls": stalls,
    "console": console,
    "rooms": rooms,
    "watched": watched,
    "day": day,
}
USUAL = tuple(name for name in MEASURES if name not in ("day", "watched"))  # these take minutes


async def run(bench: Bench, names: Sequence[str], progress: Console) -> tuple[list[Row], bool]:
    """Run measurements; return their rows, and whether any failed."""
    rows: list[Row] = []
    broken = False
    for name in names:
        progress.print(f"[dim]{name} ...")
        try:
            rows += await MEASURES[name](bench)
        except NotHere as lacking:
            rows.append(Row(metric=name, value=None, note=f"not measured: {lacking}"))
        except (Broken, NoAnswer) as error:
            broken = True
            progress.print(f"{name} failed: {type(error).__name__}: {error}", style="red", markup=False)
            rows.append(Row(metric=name, value=None, note="failed, see above"))
    return rows, broken
