"""The mark of an entry in memory.md: a comment with the channel where it was learned and the people who caused it.

    <!-- channel:123,456 guild:789 by:42 -->

A comment that names a channel is a mark; a malformed mark hides its entry. `by` was added later: if it is missing the
people are unknown. A 0 in it stands for other people.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

UNKNOWN = 0
MOST_PEOPLE = 10  # of one entry; of more none is named

_NAMES_CHANNEL = re.compile(r"\bchannels?\s*[:=#<0-9]", re.IGNORECASE)
_CHANNELS = re.compile(r"<!--\s*channel:\s*([0-9]{1,20}(?:\s*,\s*[0-9]{1,20})*+)(?:\s[^<>]*?)?-->", re.ASCII)
_PEOPLE = re.compile(r"(?<!\s)\s*+\bby:([0-9]{1,20}(?:,[0-9]{1,20})*)(?![0-9])", re.ASCII)


def mark_of(channels: Collection[int], guild: int | None, people: Collection[int]) -> str:
    """Return the mark for these channels and people, "" if there is no channel."""
    if not channels:
        return ""
    known = () if set(people) == {UNKNOWN} else people
    return credited(f"<!-- channel:{_listed(channels)}{f' guild:{guild}' if guild else ''} -->", known)


def credited(mark: str, people: Collection[int]) -> str:
    """Return the mark with exactly these people."""
    named = (UNKNOWN,) if len(people) > MOST_PEOPLE else people
    bare = _PEOPLE.sub("", mark).removesuffix("-->").rstrip()
    return f"{bare}{f' by:{_listed(named)}' if named else ''} -->"


def channels_of(marks: Collection[str]) -> tuple[int, ...] | None:
    """Return the channels that an entry's marks name, None if one of them is malformed."""
    read = [match for mark in marks if (match := _CHANNELS.fullmatch(mark))]
    if len(read) < len(marks):
        return None
    return tuple(int(channel) for match in read for channel in match[1].split(","))


def people_of(marks: Iterable[str]) -> frozenset[int]:
    """Return the people whom an entry's marks name, also in otherwise malformed ones."""
    found = (match for mark in marks for match in _PEOPLE.finditer(mark))
    return frozenset(int(person) for match in found for person in match[1].split(","))


def parted(text: str) -> tuple[str, list[str]]:
    """Split a text from its marks. An unclosed mark extends to the end.

    This reads any text once; an equivalent regular expression could take minutes.
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
