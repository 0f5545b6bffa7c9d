"""Find the formatting in a text as Discord reads it: spoilers, bold, italics, underline, strikethrough, inline code.

    Formatting(text, fences)   .open_at(place)   the spans that are open there, outermost first
                               .marks            where the marks themselves are, which no cut may divide

Code blocks are the caller's (`fences`): nothing in them is formatting. A spoiler reaches from `||` to the next `||`
outside of code, and other spans do not cross its ends. The text is read once, from left to right, so the time is
linear; equal spans do not nest, so few are open at a time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FENCE = "```"
MENTION = r"<(?:@[!&]?|#|a?:\w{2,32}:|t:|/[^<>\n]{1,100}:|id:)[\w:-]{1,40}>"
LINK = r"\[[^\]\n]{1,300}\]\(<?https?://[^\s)]{1,2000}\)|https?://[^\s<>]+"
SPOILER = "||"

_ADDRESS = r"https?://[^\s<>|*~`]+"  # marks end it here: what is in a link is not formatting, what is behind it is
_TOKEN = re.compile(rf"\\[^`]|{MENTION}|{_ADDRESS}|`+|\|\||\*+|_+|~~", re.DOTALL)
_STYLES = frozenset({"*", "**", "***", "_", "__", "___", "~~"})


@dataclass(frozen=True, slots=True)
class FormattedSpan:
    """From `start` to `content` is the opening mark, from `content_end` to `end` the closing one."""

    mark: str
    start: int
    content: int
    content_end: int
    end: int

    @property
    def is_code(self) -> bool:
        return self.mark[0] == "`"


class Formatting:
    """The formatting of a text. `growing`: more of the text will come, so that a spoiler may still be unclosed."""

    def __init__(self, text: str, fences: Sequence[int], *, growing: bool = False) -> None:
        self._text, self._fences = text, fences
        tokens = list(self._tokens())
        self.spans = spans = sorted(self._pair(tokens, growing=growing), key=lambda span: span.start)
        self.unclosed = spans[-1] if spans and spans[-1].end == spans[-1].content_end else None
        self.marks = sorted(
            place for span in spans for place in ((span.start, span.content), (span.content_end, span.end))
        )
        self._places, self._open = [0], [()]
        changes = [(span.content, 1, span) for span in spans]
        changes += [(span.content_end + 1, 0, span) for span in spans]
        current: tuple[FormattedSpan, ...] = ()
        for place, opens, span in sorted(changes, key=lambda change: (change[0], change[1], change[2].start)):
            current = (*current, span) if opens else tuple(one for one in current if one is not span)
            self._places.append(place)
            self._open.append(current)

    _open: list[tuple[FormattedSpan, ...]]

    def open_at(self, place: int) -> tuple[FormattedSpan, ...]:
        """Return the spans whose content a cut at this place would divide, outermost first."""
        return self._open[bisect_right(self._places, place) - 1]

    def _tokens(self) -> Iterator[tuple[int, int] | FormattedSpan]:
        """Yield the places of marks outside of code, and inline code as spans."""
        text, at = self._text, 0
        runs = [match.span() for match in re.finditer("`+", text)]
        starts = [start for start, _ in runs]
        next_equal = self._next_equal_runs(runs)
        while match := _TOKEN.search(text, at):
            start, at = match.span()
            if match[0][0] != "`":
                if match[0] == SPOILER or match[0] in _STYLES:
                    yield start, at
                continue
            if at - start >= len(FENCE):
                fence = bisect_left(self._fences, start)
                if fence + 1 >= len(self._fences):
                    return  # a code block up to the end
                at = self._fences[fence + 1] + len(FENCE)
                continue
            run = bisect_right(starts, start) - 1
            closing = next_equal[run] if starts[run] == start else None  # the rest of a run behind a fence is text
            next_fence = bisect_left(self._fences, start)
            if closing and (next_fence == len(self._fences) or closing[0] < self._fences[next_fence]):
                yield FormattedSpan(match[0], start, at, *closing)
                at = closing[1]

    @staticmethod
    def _next_equal_runs(runs: Sequence[tuple[int, int]]) -> list[tuple[int, int] | None]:
        """Return for each run of backticks the next one of the same length."""
        last: dict[int, tuple[int, int]] = {}
        found: list[tuple[int, int] | None] = []
        for start, end in reversed(runs):
            found.append(last.get(end - start))
            last[end - start] = (start, end)
        return found[::-1]

    def _pair(self, tokens: Sequence[tuple[int, int] | FormattedSpan], *, growing: bool) -> Iterator[FormattedSpan]:
        spoilers = dict(self._spoilers(tokens, growing=growing))
        ends = set(spoilers.values())
        stack: list[tuple[str, int, int]] = []  # opening marks; a spoiler's hides those before it
        for token in tokens:
            if isinstance(token, FormattedSpan):
                yield token
                continue
            mark = self._text[token[0] : token[1]]
            if token in spoilers:
                yield FormattedSpan(SPOILER, *token, *spoilers[token])
                stack.append((SPOILER, *token))
            elif token in ends:
                while stack.pop()[0] != SPOILER:
                    pass
            elif mark != SPOILER:
                for start, end in self._single_marks(*token, stack):
                    mark = self._text[start:end]
                    inside = [one[0] for one in stack[_last_spoiler(stack) :]]
                    if mark in inside and self._can_close(start, end):
                        while (opening := stack.pop())[0] != mark:
                            pass
                        yield FormattedSpan(mark, opening[1], opening[2], start, end)
                    elif mark not in inside and self._can_open(start, end):
                        stack.append((mark, start, end))

    def _single_marks(self, start: int, end: int, stack: Sequence[tuple[str, int, int]]) -> list[tuple[int, int]]:
        """Split `***` and `___` into a single and a double mark, in the order in which they close what is open."""
        if end - start < 3:
            return [(start, end)]
        closes_double_first = bool(stack) and stack[-1][0] == self._text[start] * 2
        middle = start + (2 if closes_double_first else 1)
        return [(start, middle), (middle, end)]

    def _spoilers(
        self, tokens: Sequence[tuple[int, int] | FormattedSpan], *, growing: bool
    ) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Yield the opening and the closing mark of each spoiler. Four bars in a row are no empty spoiler."""
        opening: tuple[int, int] | None = None
        for token in tokens:
            if isinstance(token, FormattedSpan) or self._text[token[0] : token[1]] != SPOILER:
                continue
            if opening is None:
                opening = token
            elif token[0] > opening[1]:
                yield opening, token
                opening = None
        if opening is not None and growing:
            yield opening, (len(self._text), len(self._text))

    def _can_open(self, start: int, end: int) -> bool:
        """Whether a mark can begin a style: a double one anywhere, `_` not in a word, `*` not before a space."""
        if self._text[start:end] == "_" and self._text[start - 1 : start].isalnum():
            return False
        return end - start > 1 or bool(self._text[end : end + 1].strip())

    def _can_close(self, start: int, end: int) -> bool:
        if self._text[start:end] == "_" and self._text[end : end + 1].isalnum():
            return False
        return end - start > 1 or bool(self._text[start - 1 : start].strip())


def _last_spoiler(stack: Sequence[tuple[str, int, int]]) -> int:
    """Return the index behind the innermost spoiler's mark."""
    return next((at + 1 for at in range(len(stack) - 1, -1, -1) if stack[at][0] == SPOILER), 0)
