"""The mark of an entry in memory.md: a comment that says where it was learned, and by whose words.

    <!-- channel:123,456 guild:789 by:42 -->

A comment that names a channel is a mark; one that cannot be understood hides its entry. `by` came later than the rest:
where it is missing nobody knows who it was. A 0 in it stands for whoever else there was.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

UNKNOWN = 0
MOST_PEOPLE = 10  # of one entry; of more none is named

_NAMES_CHANNEL = re.compile(r"\bchannels?\s*[:=#<0-9]", re.IGNORECASE)
_CHANNELS = re.compile(r"<!--\s*channel:\s*([0-9]{1,20}(?:\s*,\s*[0-9]{1,20})*)(?:\s[^>]*)?-->", re.ASCII)
_PEOPLE = re.compile(r"\s*\bby:([0-9]{1,20}(?:,[0-9]{1,20})*)(?![0-9])", re.ASCII)


def mark_of(channels: Collection[int], guild: int | None, people: Collection[int]) -> str:
    """The mark of what was learned there, by these people's words; "" for what was learned nowhere."""
    if not channels:
        return ""
    known = () if set(people) == {UNKNOWN} else people
    return credited(f"<!-- channel:{_listed(channels)}{f' guild:{guild}' if guild else ''} -->", known)


def credited(mark: str, people: Collection[int]) -> str:
    """The same mark with these people and no others."""
    named = (UNKNOWN,) if len(people) > MOST_PEOPLE else people
    bare = _PEOPLE.sub("", mark).removesuffix("-->").rstrip()
    return f"{bare}{f' by:{_listed(named)}' if named else ''} -->"


def channels_of(marks: Collection[str]) -> tuple[int, ...] | None:
    """The channels that an entry's marks name; None where one of them cannot be understood."""
    read = [match for mark in marks if (match := _CHANNELS.fullmatch(mark))]
    if len(read) < len(marks):
        return None
    return tuple(int(channel) for match in read for channel in match[1].split(","))


def people_of(marks: Iterable[str]) -> frozenset[int]:
    """The people whom an entry's marks name, also those that cannot be understood otherwise."""
    found = (match for mark in marks for match in _PEOPLE.finditer(mark))
    return frozenset(int(person) for match in found for person in match[1].split(","))


def parted(text: str) -> tuple[str, list[str]]:
    """A text without its marks, and those. One that is never closed goes to the end.

    Once through the text, whatever it holds: a pattern that says the same can be made to take minutes.
    """
    kept, marks, at = "", list[str](), 0
    while (start := text.find("<!--", at)) >= 0:
        end = text.find("-->", start + 4)
        end = len(text) if end < 0 else end + 3
        if _NAMES_CHANNEL.search(text, start, end):
            kept += text[at:start].rstrip(" \t")
            marks.append(text[start:end])
        else:
            kept += text[at:end]
        at = end
    return kept + text[at:], marks


def _listed(ids: Collection[int]) -> str:
    return ",".join(map(str, sorted(ids)))
