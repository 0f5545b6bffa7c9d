"""Long texts → messages within a service's limit, in UTF-16 units.

A text is cut at the best place: between paragraphs, between lines, between words, after punctuation of scripts without
spaces, and only then anywhere; inside a mention, an emoji, a link or a character of several code points only if
there is no other place. White space around a cut is dropped, since services trim it anyway; nothing else is.

Three backticks open or close a code block anywhere in a line. Whatever a cut divides is closed before it and reopened
behind it, so that every message is complete by itself: a code block with its language, spoilers and other formatting
(formatting.py), a quote, a heading. If a limit is too small for all of that, a spoiler still stays one.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from agentic.chat.formatting import FENCE, LINK, MENTION, SPOILER, FormattedSpan, Formatting

# Of a message in Discord. It counts code points (discord/discord-api-docs#1315), clients and libraries count UTF-16
# units, which are never fewer.
MAX_MESSAGE = 2000
MIN_LIMIT = 16  # room for the fences and some text between them
MIN_LIMIT_FOR_QUOTES = 50

_CLOSING = "\n" + FENCE
_WORD = r"[A-Za-z0-9_+\-.#]{1,32}"
_LANGUAGE = rf"{_WORD}\n"
_OPENING = re.compile(rf"{FENCE}({_LANGUAGE})?")
_ONE_WORD = re.compile(rf"{FENCE}{_WORD}\Z")
_TO_CLOSING = re.compile(rf"\s*(?:> )?{FENCE}")
_WHOLE = re.compile(rf"{MENTION}|{FENCE}(?:{_LANGUAGE})?")
_BETTER_WHOLE = re.compile(rf"{_WHOLE.pattern}|{LINK}")
_BACKTICKS = re.compile(r"(?<!\s)\s*+`[`\s]*+")  # with the space around them
_LONG_QUOTE = re.compile(r"^ {0,3}>>> (?=\S)", re.MULTILINE)  # up to the end of the message
_LINE_MARKS = re.compile(r" {0,3}(> (?=\S))?((?:#{1,3}|-#) (?=\S))?")
PUNCTUATION = frozenset("。！？；：，、…」』）")
JOINER = "\u200d"


def length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def split_text(text: str, limit: int, *, growing: bool = False) -> list[str]:
    """Return the text as messages of at most `limit` UTF-16 units, in order; [] for white space alone.

    No message is empty or has an odd number of fences. `growing`: more of the text will come, so an unclosed spoiler
    already counts as one. Raises ValueError for a limit under MIN_LIMIT.
    """
    if limit < MIN_LIMIT:
        raise ValueError(f"limit must be at least {MIN_LIMIT}, not {limit}")
    if not growing and FENCE not in text and length(whole := text.strip()) <= limit:
        return [whole] if whole else []
    return list(_Splitter(_without_half_marks(text) if growing else text, limit, growing=growing).chunks())


def _without_half_marks(text: str) -> str:
    """Return the text without a spoiler's mark at its end that is half written, or has nothing behind it yet."""
    text = text.rstrip()
    if (len(text) - len(text.rstrip("|"))) % 2:
        text = text[:-1].rstrip()
    unclosed = Formatting(text, [match.start() for match in re.finditer(FENCE, text)], growing=True).unclosed
    return text[: unclosed.start] if unclosed is not None and not text[unclosed.content :].strip() else text


class _Splitter:
    def __init__(self, text: str, limit: int, *, growing: bool) -> None:
        self._text = text
        self._limit = limit
        self._fences = [match.start() for match in re.finditer(FENCE, text)]
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self._formatting = Formatting(text, self._fences, growing=growing)
        marks = list(self._formatting.marks)
        for span in self._formatting.spans:
            if span.is_code:  # a mark beside a backtick in inline code would become part of it
                for run in _BACKTICKS.finditer(text[span.content : span.content_end]):
                    marks.append((span.content + run.start() - 1, span.content + run.end() + 1))
        self._marks = _Spans(marks)
        self._contents = {span.start: span.content for span in self._formatting.spans}
        self._whole = _Spans([*(match.span() for match in _WHOLE.finditer(text)), *marks])
        self._better_whole = _Spans([*(match.span() for match in _BETTER_WHOLE.finditer(text)), *marks])
        quotes = (match.start() for match in _LONG_QUOTE.finditer(text) if not self._is_code(match.start()))
        self._quoted_from = next(quotes, len(text))

    def chunks(self) -> Iterator[str]:
        at = self._past_space(0)
        while at < len(self._text):
            opening, begin = self._opening(at)
            end = self._end(begin, opening)
            body = self._text[begin:end].rstrip()
            if body:
                yield opening + body + self._closing(body, end)
            at = self._next(end)

    def _end(self, at: int, opening: str) -> int:
        """Return where the chunk that begins at `at` ends."""
        room = self._limit - len(opening)
        rest = len(self._text)
        if rest - at <= room and self._takes(at, rest) <= room:
            return rest
        end = min(at + room, rest)
        while (excess := length(self._text[at:end]) - room) > 0:
            end -= (excess + 1) // 2
        while True:
            cut = self._before_empty_spans(at, self._best_cut(at, end))
            excess = self._takes(at, cut) - room
            if excess <= 0 or cut <= at + 1:
                return cut
            end = max(at + 1, min(cut, end - excess))

    def _takes(self, at: int, end: int) -> int:
        """Return the length of the chunk with everything that it closes."""
        body = self._text[at:end].rstrip()
        return length(body) + len(self._closing(body, end))

    def _best_cut(self, at: int, end: int) -> int:
        at = min(self._past_opening_marks(at), end - 1)  # a message of these alone would be empty
        worth = at + (end - at) // 4  # an earlier cut would make a stub of a message
        text, whole, better_whole = self._text, self._whole, self._better_whole
        for earliest, rule in (
            (worth, lambda place: text.startswith("\n\n", place) and not self._is_code(place)),  # between paragraphs
            (worth, lambda place: text.startswith("\n", place) and not self._is_code(place)),
            (worth, lambda place: text.startswith("\n", place) and place not in whole),  # between lines of code
            (worth, lambda place: text[place : place + 1].isspace() and place not in better_whole),  # between words
            (worth, lambda place: text[place - 1] in PUNCTUATION and self._in_no_link(place)),
            (at, self._in_no_link),
            (at, lambda place: place not in whole and self._in_no_character(place)),  # in no mention
            (at, self._in_no_fence),
        ):
            cut = next((place for place in range(end, earliest, -1) if rule(place)), None)
            if cut is not None:
                return cut
        return end

    def _past_opening_marks(self, at: int) -> int:
        if not self._is_code(at) and (opening := _OPENING.match(self._text, at)):
            return opening.end()
        while at in self._contents:
            at = self._past_space(self._contents[at])
        return at

    def _in_no_link(self, place: int) -> bool:
        return place not in self._better_whole and self._in_no_character(place)

    def _in_no_fence(self, place: int) -> bool:
        last = bisect_right(self._fences, place - 1) - 1
        return (last < 0 or place >= self._fences[last] + len(FENCE)) and place not in self._marks

    def _in_no_character(self, place: int) -> bool:
        if place >= len(self._text):
            return True
        before, after = self._text[place - 1], self._text[place]
        if before == JOINER or (is_flag(before) and is_flag(after)):
            first = place
            while first > 0 and is_flag(self._text[first - 1]):
                first -= 1
            return before != JOINER and (place - first) % 2 == 0  # a flag is two letters
        return not continues(after)

    def _before_empty_spans(self, at: int, cut: int) -> int:
        """Return the cut, moved before a block and formatting that have just been opened: the next chunk has them
        whole."""
        if self._is_code(cut):
            opening = _OPENING.match(self._text, self._last_fence(cut))
            assert opening is not None, "code begins with a fence"
            if self._text[max(at, opening.end()) : cut].strip() or not self._text[at : opening.start()].strip():
                return cut
            cut = opening.start()
        for span in reversed(self._formatting.open_at(cut)):
            if self._text[max(at, span.content) : cut].strip() or not self._text[at : span.start].strip():
                break
            cut = span.start
        return cut

    def _next(self, end: int) -> int:
        """Return where the next chunk begins: behind white space, and behind the ends of what is already closed."""
        at = end
        if self._is_code(end):
            closing = _TO_CLOSING.match(self._text, end)
            if not closing:
                return end + 1 if self._text[end : end + 1].isspace() else end
            at = closing.end()
        at = self._past_space(at)
        for span in reversed(self._formatting.open_at(end)):
            if at != span.content_end:
                break
            at = self._past_space(span.end)
        return at

    def _past_space(self, at: int) -> int:
        while at < len(self._text) and self._text[at].isspace():
            at += 1
        return at

    def _opening(self, at: int) -> tuple[str, int]:
        """Return what the chunk that begins at `at` reopens, and where its own text begins."""
        spans = self._reopened(at)
        marks = "".join(span.mark for span in spans)
        quote, begin = self._quote(at), at
        if self._is_code(at):
            fence = self._fence_at(at)
            if quote == "> ":
                own = self._text.startswith(quote, at)
                return f"{quote}{marks}{fence}{quote}", at + len(quote) if own else at
            return f"{quote}{marks}{fence}", at
        if not any(span.is_code for span in spans):
            line = _LINE_MARKS.match(self._text, self._line_start(at))
            assert line is not None, "matches nothing at least"
            if not (quote == ">>> " and line[1]):  # in a long quote this is text
                quote, begin = quote + (line[2] or ""), max(at, line.end())
            if at == self._quoted_from:
                begin = at
        return (f"{quote}{marks}", begin) if self._affords(quote, spans) else (marks, begin)

    def _quote(self, at: int) -> str:
        """Return the mark of the quote in which this place is; none under a tiny limit."""
        if self._limit < MIN_LIMIT_FOR_QUOTES:
            return ""
        if at > self._quoted_from:
            return ">>> "
        line = self._line_start(self._last_fence(at) if self._is_code(at) else at)
        marks = _LINE_MARKS.match(self._text, line)
        return "> " if marks and marks[1] else ""

    def _line_start(self, place: int) -> int:
        return self._lines[bisect_right(self._lines, place) - 1]

    def _reopened(self, place: int) -> tuple[FormattedSpan, ...]:
        """Return the spans that are closed and reopened at this place; under a tiny limit spoilers alone."""
        spans = self._formatting.open_at(place)
        if any(span.is_code for span in spans):
            # A mark of inline code must not join a backtick: white space around a cut is dropped.
            before = self._text[max(0, place - self._limit) : place].rstrip()
            if before.endswith("`") or self._text.startswith("`", self._past_space(place)):
                spans = tuple(span for span in spans if not span.is_code)
        return spans if self._affords("", spans) else tuple(span for span in spans if span.mark == SPOILER)

    def _affords(self, opening: str, spans: tuple[FormattedSpan, ...]) -> bool:
        return len(opening) + 2 * sum(len(span.mark) for span in spans) <= self._limit // 3

    def _closing(self, body: str, end: int) -> str:
        """Return the ends of what is open. A block that has only a single word ends on the same line, since a lone word
        there would be read as a language."""
        marks = "".join(span.mark for span in reversed(self._reopened(end)))
        if not self._is_code(end):
            return marks
        opening = _OPENING.match(self._text, self._last_fence(end))
        has_language = opening is not None and opening[1] is not None
        if not has_language and _ONE_WORD.search(body):
            return FENCE + marks
        return ("\n> " if self._quote(end) == "> " else "\n") + FENCE + marks

    def _is_code(self, place: int) -> bool:
        return bisect_right(self._fences, place - len(FENCE)) % 2 == 1

    def _last_fence(self, place: int) -> int:
        return self._fences[bisect_right(self._fences, place - len(FENCE)) - 1]

    def _fence_at(self, at: int) -> str:
        """Return the fence, with its language, that reopens the block in which this place is."""
        match = _OPENING.match(self._text, self._last_fence(at))
        opening = FENCE + (match[1] if match and match[1] else "\n")
        return opening if len(opening) <= self._limit // 3 else FENCE + "\n"


class _Spans:
    """Parts of a text. A place is in them if a cut there would divide one."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            self._starts.append(start)
            self._ends.append(max(end, self._ends[-1] if self._ends else 0))

    def __contains__(self, place: int) -> bool:
        before = bisect_right(self._starts, place - 1) - 1
        return before >= 0 and place < self._ends[before]


def is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def continues(char: str) -> bool:
    """Return whether the character belongs to the one before it: marks, joiners, skin tones, tags, low surrogates."""
    return (
        unicodedata.category(char) in ("Mn", "Mc", "Me")
        or char == JOINER
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or "\udc00" <= char <= "\udfff"
    )
