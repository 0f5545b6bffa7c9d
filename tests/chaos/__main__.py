"""`make chaos`: every point and kind of a turn with twenty seeds each, and a table of what came of it."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.chaos.kills import POINTS, Outcome, run_trial

KINDS = ("instruction", "mention")


def row(point: str, outcomes: list[Outcome]) -> str:
    doubled = sum(o.posts > o.wanted for o in outcomes)
    lost = sum(o.posts < o.wanted for o in outcomes)
    charged = sum(o.charged_calls > 1 for o in outcomes)
    calls = sum(o.model_calls for o in outcomes) / len(outcomes)
    slowest = max(o.seconds for o in outcomes)
    return f"{point:<10}{len(outcomes):>7}{doubled:>14}{lost:>7}{charged:>16}{calls:>13.2f}{slowest:>10.1f} s"


async def main(seeds: int) -> int:
    heads = ("killed at", "trials", "double posts", "lost", "double charges", "model calls", "slowest")
    print("{:<10}{:>7}{:>14}{:>7}{:>16}{:>13}{:>12}".format(*heads))
    wrong = 0
    for point in POINTS:
        outcomes = []
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                outcome = await run_trial(Path(folder), point, KINDS[seed % 2], seed)
            outcomes.append(outcome)
            if outcome.faults():
                wrong += 1
                print(f"  {outcome.kind}, seed {seed}: {'; '.join(outcome.faults())}")
        print(row(point, outcomes), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    sys.exit(asyncio.run(main(parser.parse_args().seeds)))
