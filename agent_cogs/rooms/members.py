"""Finds the bots and personas that people name: by key or shown name, in any case, with or without spaces and marks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol, TypeVar

ALIKE = 0.5  # of a name, to be offered for another one


class Named(Protocol):
    """An entry of the roster (agent_cogs/persona/roster.py)."""

    @property
    def key(self) -> str: ...
    @property
    def shown(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Called:
    """A name of an agent, where there is no entry of the roster."""

    key: str
    shown: str


Entry = TypeVar("Entry", bound=Named)


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name that nobody has. `nearest` is the shown name that is most like it."""

    name: str
    nearest: str | None

    @property
    def text(self) -> str:
        return f"“{self.name}” (did you mean {self.nearest}?)" if self.nearest else f"“{self.name}”"


def parted(text: str) -> list[str]:
    """ "Ada, the sceptic" → ["Ada", "the sceptic"]; also by lines and semicolons."""
    return [name for part in re.split(r"[,;\n]", text) if (name := part.strip())]


def named(entries: Sequence[Entry], name: str) -> Entry | None:
    """The one that people call so."""
    wanted = _bare(name)
    return next((one for one in entries if wanted and wanted in (_bare(one.key), _bare(one.shown))), None)


def members_of(entries: Sequence[Entry], names: Iterable[str]) -> tuple[list[Entry], list[UnknownName]]:
    """Those who are named, each once in the order given, and the names that nobody has."""
    found, unknown = dict[str, Entry](), list[UnknownName]()
    for name in names:
        entry = named(entries, name)
        if entry is None:
            unknown.append(UnknownName(name, nearest(entries, name)))
        else:
            found.setdefault(entry.key, entry)
    return list(found.values()), unknown


def nearest(entries: Sequence[Named], name: str) -> str | None:
    shown = {bare: one.shown for one in entries for bare in (_bare(one.key), _bare(one.shown))}
    close = get_close_matches(_bare(name), shown, n=1, cutoff=ALIKE)
    return shown[close[0]] if close else None


def nobody(name: str, entries: Sequence[Named]) -> str:
    """The line for a name that nobody has."""
    close = nearest(entries, name)
    return f"Nobody is called “{name}”{f'; did you mean {close}?' if close else '.'}"


def _bare(name: str) -> str:
    """The name without what people leave out: case, spaces, marks, a leading article."""
    return re.sub(r"[\W_]+", "", re.sub(r"^\s*the\s+", "", name.casefold()))
