"""Finds the bots and personas that people name in commands, by the rule of agentic/coordination_names.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol, TypeVar

from agentic.coordination_names import letters_of, named

MIN_LIKENESS = 0.5  # of a name, to be offered for another one
MAX_NAME_PARTS = 4  # separators that a name itself may contain, as in "Ada, Countess of Lovelace"

_SEPARATOR = re.compile(r"(?:(?<![^\S\n])[^\S\n]*+)?(?:[,;\n]|(?<=\s)(?:and|&)(?=\s))\s*", re.IGNORECASE)
_MENTION = re.compile(r"<@!?(\d{1,20})>")


class Named(Protocol):
    """An entry of the roster (agentic/agent/roster.py)."""

    @property
    def key(self) -> str: ...
    @property
    def shown(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Called:
    """A name of an agent, if there is no entry of the roster."""

    key: str
    shown: str


Entry = TypeVar("Entry", bound=Named)


def find(entries: Sequence[Entry], name: str) -> Entry | str:
    """The agent that people call `name`, or a sentence that says why there is none."""
    found = _called(entries, name)
    if len(found) > 1:
        return f"“{name}” could be {_either(found)}. Write the whole name, or the key in parentheses."
    if found:
        return found[0]
    close = nearest(entries, name)
    return f"Nobody is called “{name}”{f'; did you mean {close}?' if close else '.'}"


def members_of(entries: Sequence[Entry], text: str) -> tuple[list[Entry], list[str]]:
    """The agents in a list of names, each once in the order given, and a sentence for each name that isn't one agent's.
    Commas, semicolons, lines, and "and" separate names, unless they are part of a name."""
    cuts = [(found.start(), found.end()) for found in _SEPARATOR.finditer(text)]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(text)]
    found, problems, at = dict[str, Entry](), list[str](), 0
    while at < len(starts):
        last = at
        for until in range(min(at + MAX_NAME_PARTS, len(ends) - 1), at, -1):
            joined = _called(entries, text[starts[at] : ends[until]])
            if len(joined) == 1 and len(_SEPARATOR.findall(joined[0].shown)) == until - at:
                last = until
                break
        name = text[starts[at] : ends[last]].strip()
        at = last + 1
        if not name:
            continue
        entry = find(entries, name)
        if isinstance(entry, str):
            problems.append(entry)
        else:
            found.setdefault(entry.key, entry)
    return list(found.values()), problems


def without_mentions(text: str, name_of: Callable[[int], str | None]) -> str:
    """The text with names instead of the users that it mentions by @, as far as `name_of` knows them."""
    return _MENTION.sub(lambda mention: name_of(int(mention[1])) or mention[0], text)


def _called(entries: Sequence[Entry], name: str) -> list[Entry]:
    keys = named({one.key: one.shown for one in entries}, name)
    return [one for one in entries if one.key in keys]


def _either(entries: Sequence[Named]) -> str:
    shown = [f"{one.shown} ({one.key})" for one in entries]
    return f"{', '.join(shown[:-1])} or {shown[-1]}"


def nearest(entries: Sequence[Named], name: str) -> str | None:
    """Return the shown name that is most like a name that nobody has."""
    shown = {letters: one.shown for one in entries for letters in (letters_of(one.key), letters_of(one.shown))}
    close = get_close_matches(letters_of(name), shown, n=1, cutoff=MIN_LIKENESS)
    return shown[close[0]] if close else None
