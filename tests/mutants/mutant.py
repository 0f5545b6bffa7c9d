"""What a mutant is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


class Misfit(Exception):
    """A mutant does not fit the code; the text says why."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake in `file`: `old`, which stands there once, is written as `new`, and `promise` is broken. `tests` are
    paths and node ids below tests/."""

    file: str
    old: str
    new: str
    promise: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """The file's text with the mistake. Raises Misfit."""
        found = text.count(self.old)
        if found != 1:
            raise Misfit(f"{self.file}: {self.old!r} stands there {found or 'no'} times, not once ({self.promise})")
        return text.replace(self.old, self.new)

    def line(self, text: str) -> int:
        return text[: text.index(self.old)].count("\n") + 1


def of(file: str, tests: str, *mistakes: tuple[str, str, str] | tuple[str, str, str, str]) -> Iterator[Mutant]:
    """Mutants of one file: each is old, new and promise, with tests of its own where `tests` are not those that see it;
    tests are parted by blanks."""
    for old, new, promise, *own in mistakes:
        yield Mutant(file, old, new, promise, tuple((own[0] if own else tests).split()))
