"""Runs → the runs of each message, none longer than Signal's apps show.

A message has 2,048 bytes of UTF-8 at most; what is longer is cut or dropped by apps, or sent as a file beside the
beginning, depending on the release of signal-cli (AsamK/signal-cli#1598, mautrix/signal#666). Marks of style do not
count: the server takes them out.

A text is cut between paragraphs, else between lines, else between words, else between characters, and its styles go on
in the next message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from agentic.chat.splitting import continues, is_flag
from agentic.services.signal.markdown import Run, plain

LIMIT = 2000  # bytes of UTF-8

_JOINER = "\u200d"
_PUNCTUATION = frozenset("。！？；：，、…」』）")


def split_runs(runs: Sequence[Run], limit: int = LIMIT) -> list[list[Run]]:
    """The runs of each message, in order; none for white space alone."""
    text = plain(runs)
    found, at = [], _past_lines(text, 0)
    while at < len(text):
        end = _end(text, at, limit)
        after = at + len(text[at:end].rstrip())
        if after > at:
            found.append(list(_slice(runs, at, after)))
        at = _past_lines(text, end)
    return found


def _end(text: str, at: int, limit: int) -> int:
    """Where the message that begins at `at` ends."""
    if len(text[at:].rstrip().encode("utf-8", "replace")) <= limit:
        return len(text)
    reach = at + len(text[at : at + limit].encode("utf-8", "replace")[:limit].decode("utf-8", "ignore"))
    worth = at + (reach - at) // 4  # an earlier cut would make a stub of a message
    for earliest, rule in ((worth, _paragraph), (worth, _line), (worth, _word), (at, _character)):
        cut = _last(text, earliest, reach, rule)
        if cut is not None:
            return cut
    return max(reach, at + 1)


def _last(text: str, earliest: int, reach: int, rule: Callable[[str, int], bool]) -> int | None:
    return next((place for place in range(reach, earliest, -1) if rule(text, place)), None)


def _paragraph(text: str, place: int) -> bool:
    return text.startswith("\n\n", place)


def _line(text: str, place: int) -> bool:
    return text.startswith("\n", place)


def _word(text: str, place: int) -> bool:
    return text[place : place + 1].isspace() or text[place - 1] in _PUNCTUATION


def _character(text: str, place: int) -> bool:
    if place >= len(text):
        return True
    before, after = text[place - 1], text[place]
    return before != _JOINER and not continues(after) and not (is_flag(before) and is_flag(after))


def _past_lines(text: str, at: int) -> int:
    """Past the white space of a cut; the indentation of the next line stays."""
    rest = text[at:]
    space = len(rest) - len(rest.lstrip())
    line = rest[:space].rfind("\n")
    return at + (line + 1 if line >= 0 else space)


def _slice(runs: Sequence[Run], begin: int, end: int) -> Iterator[Run]:
    at = 0
    for run in runs:
        text = run.text[max(0, begin - at) : max(0, end - at)]
        if text:
            yield Run(text, run.style)
        at += len(run.text)
