"""`python -m tests.mutants`: a line for each mistake, and the share that a test sees."""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests.mutants.listed import MUTANTS
from tests.mutants.mutant import Misfit, Mutant
from tests.mutants.trial import Outcome, try_all

WANTED = 0.9  # the share of mistakes that must be seen


def main() -> int:
    """0: enough are seen. 1: too few. 2: something of the list does not fit the code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="those whose file, promise or tests have these words"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many at a time (1)")
    parser.add_argument("--list", action="store_true", help="show them and try none")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only.casefold() in words_of(mutant).casefold()]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.file}: {mutant.promise}")
        return 0
    outcomes, misfits = asyncio.run(try_all(chosen, max(1, options.jobs), tell))
    killed = sum(outcome.fate != "ALIVE" for outcome in outcomes)
    print(f"{killed} of {len(outcomes)} are seen" + (f", {killed / len(outcomes):.1%}" if outcomes else ""))
    for outcome in outcomes:
        if outcome.fate == "ALIVE":
            print(f"  not seen: {outcome.mutant.file}:{outcome.line} {outcome.mutant.promise}")
    for misfit in misfits:
        print(f"  does not fit: {misfit}", file=sys.stderr)
    if misfits or not outcomes:
        return 2
    return 0 if killed / len(outcomes) >= WANTED else 1


def words_of(mutant: Mutant) -> str:
    return " ".join((mutant.file, mutant.promise, *mutant.tests))


def tell(found: Outcome | Misfit) -> None:
    if isinstance(found, Misfit):
        print(f"MISFIT          {found}", flush=True)
    else:
        place = f"{found.mutant.file}:{found.line}"
        print(f"{found.fate:7}{found.seconds:6.1f} s  {place:38} {found.mutant.promise}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
