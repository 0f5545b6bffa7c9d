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

_ADDRESS = r"https?://[^\s<>|*~`]+"  # marks end it here: nothing in a link is formatting, but text behind it may be
_TOKEN = re.compile(rf"\\[^`]|{MENTION}|{_ADDRESS}|`+|\|\||\*+|_+|~~", re.DOTALL)
_QUESTION = re.compile(r"<@(\d{1,20})> (.*)", re.DOTALL)
_STYLES = frozenset({"*", "**", "***", "_", "__", "___", "~~"})


@dataclass(frozen=True, slots=True)
class FormattedSpan:
    """A span: `start` to `content` is the opening mark, `content_end` to `end` the closing one."""

    mark: str
    start: int
    content: int
    content_end: int
    end: int

    @property
    def is_code(self) -> bool:
        return self.mark[0] == "`"


class Formatting:
    """The formatting of a text. `growing`: more of the text will come, so a spoiler may still be unclosed."""

    def __init__(self, text: str, fences: Sequence[int], *, growing: bool = False) -> None:
        self._text, self._fences = text, fences
        tokens = list(self._tokens())
        self.spans = spans = sorted(self._pair(tokens, growing=growing), key=lambda span: span.start)
        self.unclosed = spans[-1] if spans and spans[-1].end == spans[-1].content_end else None
        self.marks = sorted(
            place for span in spans for place in ((span.start, span.content), (span.content_end, span.end))
        )
        self._places: list[int] = [0]
        self._open: list[tuple[FormattedSpan, ...]] = [()]
        changes = [(span.content, 1, span) for span in spans]
        changes += [(span.content_end + 1, 0, span) for span in spans]
        current: tuple[FormattedSpan, ...] = ()
        for place, opens, span in sorted(changes, key=lambda change: (change[0], change[1], change[2].start)):
            current = (*current, span) if opens else tuple(one for one in current if one is not span)
            self._places.append(place)
            self._open.append(current)

    def open_at(self, place: int) -> tuple[FormattedSpan, ...]:
        return self._open[bisect_right(self._places, place) - 1]

    def _tokens(self) -> Iterator[tuple[int, int] | FormattedSpan]:
        """Yield the places of marks outside code, and inline code as spans."""
        text, at = self._text, 0
        runs = [match.span() for match in re.finditer("`+", text)]
        starts = [start for start, _ in runs]
        last: dict[int, tuple[int, int]] = {}
        next_equal: list[tuple[int, int] | None] = [None] * len(runs)  # for each run the next one of the same length
        for number, (start, end) in reversed(list(enumerate(runs))):
            next_equal[number] = last.get(end - start)
            last[end - start] = (start, end)
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

    def _pair(self, tokens: Sequence[tuple[int, int] | FormattedSpan], *, growing: bool) -> Iterator[FormattedSpan]:
        text = self._text
        spoilers = dict(self._spoilers(tokens, growing=growing))
        ends = set(spoilers.values())
        stack: list[tuple[str, int, int]] = []  # opening marks; a spoiler's hides those before it
        for token in tokens:
            if isinstance(token, FormattedSpan):
                yield token
                continue
            mark = text[token[0] : token[1]]
            if token in spoilers:
                yield FormattedSpan(SPOILER, *token, *spoilers[token])
                stack.append((SPOILER, *token))
            elif token in ends:
                while stack.pop()[0] != SPOILER:
                    pass
            elif mark != SPOILER:
                start, end = token
                places = [token]
                if end - start > 2:  # `***` and `___` are two marks, in the order in which they close what is open
                    middle = start + (2 if stack and stack[-1][0] == text[start] * 2 else 1)
                    places = [(start, middle), (middle, end)]
                for start, end in places:
                    mark = text[start:end]
                    last_spoiler = next((at + 1 for at in range(len(stack) - 1, -1, -1) if stack[at][0] == SPOILER), 0)
                    is_open = any(one[0] == mark for one in stack[last_spoiler:])
                    # A double mark counts anywhere; `_` not in a word, a single one not beside a space.
                    outer, inner = (text[end : end + 1], text[start - 1 : start])
                    if not is_open:
                        outer, inner = inner, outer
                    if (mark == "_" and outer.isalnum()) or not (end - start > 1 or inner.strip()):
                        continue
                    if not is_open:
                        stack.append((mark, start, end))
                        continue
                    while (opening := stack.pop())[0] != mark:
                        pass
                    yield FormattedSpan(mark, opening[1], opening[2], start, end)

    def _spoilers(
        self, tokens: Sequence[tuple[int, int] | FormattedSpan], *, growing: bool
    ) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Yield the opening and the closing mark of each spoiler. Four bars in a row aren't an empty spoiler."""
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


MAX_QUESTION = 1900  # characters; the mention goes before it


def question_text(agent_id: int, prompt: str) -> str:
    """Return the message that shows a question, with the prompt exactly as it was given."""
    return f"<@{agent_id}> {prompt}"


def read_question(text: str) -> tuple[int, str] | None:
    """Return the agent's user id and the prompt from a message that shows a question; None for any other message."""
    found = _QUESTION.fullmatch(text)
    return (int(found[1]), found[2]) if found else None
