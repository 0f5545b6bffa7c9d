"""Long texts → messages within a service's limit, in UTF-16 units.

A text is cut at the best place: between paragraphs, between lines, between words, after punctuation of scripts without
spaces, and only then anywhere; inside a mention, an emoji, a link or a character of several code points only where
there is no other place. White space around a cut is dropped, since services trim it anyway; nothing else is.

Three backticks open or close a code block anywhere in a line. A block that is cut is
closed and reopened with its language, so that every message is complete by itself.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator

SMALLEST_LIMIT = 16  # room for the fences and some text between them

FENCE = "```"
_CLOSING = "\n" + FENCE
_WORD = r"[A-Za-z0-9_+\-.#]{1,32}"
_LANGUAGE = rf"{_WORD}\n"
_OPENING = re.compile(rf"{FENCE}({_LANGUAGE})?")
_ONE_WORD = re.compile(rf"{FENCE}{_WORD}\Z")
_TO_CLOSING = re.compile(rf"\s*{FENCE}")
_MENTION = r"<(?:@[!&]?|#|a?:\w{2,32}:|t:|/[^<>\n]{1,100}:|id:)[\w:-]{1,40}>"
_WHOLE = re.compile(rf"{_MENTION}|{FENCE}(?:{_LANGUAGE})?")
_LINK = r"\[[^\]\n]{1,300}\]\(<?https?://[^\s)]{1,2000}\)|https?://[^\s<>]+"
_BETTER_WHOLE = re.compile(rf"{_WHOLE.pattern}|{_LINK}")
_PUNCTUATION = frozenset("。！？；：，、…」』）")
_JOINER = "\u200d"


def length(text: str) -> int:
    """The length in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def split_text(text: str, limit: int) -> list[str]:
    """The text as messages of at most `limit` UTF-16 units, in order; [] for white space alone.

    No message is empty or has an odd number of fences. Raises ValueError for a limit under SMALLEST_LIMIT.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"limit must be at least {SMALLEST_LIMIT}, not {limit}")
    return list(_Splitter(text, limit).chunks())


class _Splitter:
    def __init__(self, text: str, limit: int) -> None:
        self._text = text
        self._limit = limit
        self._fences = [match.start() for match in re.finditer(FENCE, text)]
        self._whole = _Spans(_WHOLE, text)
        self._better_whole = _Spans(_BETTER_WHOLE, text)

    def chunks(self) -> Iterator[str]:
        at = self._past_space(0)
        while at < len(self._text):
            opening = self._reopening(at)
            end = self._end(at, opening)
            body = self._text[at:end].rstrip()
            if body:
                yield opening + body + self._closing(body, end)
            at = self._next(end)

    def _end(self, at: int, opening: str) -> int:
        """Where the chunk that begins at `at` ends."""
        room = self._limit - len(opening)
        rest = len(self._text)
        closing = len(_CLOSING) if self._is_code(rest) else 0
        if rest - at <= room and length(self._text[at:].rstrip()) + closing <= room:
            return rest
        end = self._reach(at, room)
        if opening or self._text.find(FENCE, at, end) >= 0:
            end = self._reach(at, room - len(_CLOSING))
        return self._before_empty_block(at, self._best_cut(at, end))

    def _reach(self, at: int, room: int) -> int:
        """The last place up to which the text from `at` on takes no more than `room`."""
        end = min(at + room, len(self._text))
        while (excess := length(self._text[at:end]) - room) > 0:
            end -= (excess + 1) // 2
        return end

    def _best_cut(self, at: int, end: int) -> int:
        worth = at + (end - at) // 4  # an earlier cut would make a stub of a message
        for earliest, rule in (
            (worth, self._between_paragraphs),
            (worth, self._between_lines),
            (worth, self._between_code_lines),
            (worth, self._between_words),
            (worth, self._after_punctuation),
            (at, self._in_no_link),
            (at, self._in_no_mention),
            (at, self._in_no_fence),
        ):
            cut = next((place for place in range(end, earliest, -1) if rule(place)), None)
            if cut is not None:
                return cut
        return end

    def _between_paragraphs(self, place: int) -> bool:
        return self._text.startswith("\n\n", place) and not self._is_code(place)

    def _between_lines(self, place: int) -> bool:
        return self._text.startswith("\n", place) and not self._is_code(place)

    def _between_code_lines(self, place: int) -> bool:
        return self._text.startswith("\n", place) and place not in self._whole

    def _between_words(self, place: int) -> bool:
        return self._text[place : place + 1].isspace() and place not in self._better_whole

    def _after_punctuation(self, place: int) -> bool:
        return self._text[place - 1] in _PUNCTUATION and self._in_no_link(place)

    def _in_no_link(self, place: int) -> bool:
        return place not in self._better_whole and self._in_no_character(place)

    def _in_no_mention(self, place: int) -> bool:
        return place not in self._whole and self._in_no_character(place)

    def _in_no_fence(self, place: int) -> bool:
        last = bisect_right(self._fences, place - 1) - 1
        return last < 0 or place >= self._fences[last] + len(FENCE)

    def _in_no_character(self, place: int) -> bool:
        if place >= len(self._text):
            return True
        before, after = self._text[place - 1], self._text[place]
        if before == _JOINER or (is_flag(before) and is_flag(after)):
            return before != _JOINER and self._flags_before(place) % 2 == 0
        return not continues(after)

    def _flags_before(self, place: int) -> int:
        first = place
        while first > 0 and is_flag(self._text[first - 1]):
            first -= 1
        return place - first

    def _before_empty_block(self, at: int, cut: int) -> int:
        """The cut, moved before a block that has just been opened: the next chunk has it whole."""
        if not self._is_code(cut):
            return cut
        opening = _OPENING.match(self._text, self._last_fence(cut))
        assert opening is not None, "code begins with a fence"
        nothing_yet = not self._text[opening.end() : cut].strip()
        return opening.start() if nothing_yet and self._text[at : opening.start()].strip() else cut

    def _next(self, end: int) -> int:
        """Where the next chunk begins."""
        if not self._is_code(end):
            return self._past_space(end)
        closing = _TO_CLOSING.match(self._text, end)
        if closing:  # the block ends here anyway
            return self._past_space(closing.end())
        return end + 1 if self._text[end : end + 1].isspace() else end

    def _past_space(self, at: int) -> int:
        while at < len(self._text) and self._text[at].isspace():
            at += 1
        return at

    def _closing(self, body: str, end: int) -> str:
        """The end of a block; on the same line after a single word, which would else be taken for a language."""
        if not self._is_code(end):
            return ""
        opening = _OPENING.match(self._text, self._last_fence(end))
        has_language = opening is not None and opening[1] is not None
        return FENCE if not has_language and _ONE_WORD.search(body) else _CLOSING

    def _is_code(self, place: int) -> bool:
        return bisect_right(self._fences, place - len(FENCE)) % 2 == 1

    def _last_fence(self, place: int) -> int:
        return self._fences[bisect_right(self._fences, place - len(FENCE)) - 1]

    def _reopening(self, at: int) -> str:
        if not self._is_code(at):
            return ""
        match = _OPENING.match(self._text, self._last_fence(at))
        opening = FENCE + (match[1] if match and match[1] else "\n")
        return opening if len(opening) <= self._limit // 3 else FENCE + "\n"


class _Spans:
    """A pattern's matches in a text. A place is in them when a cut there would divide one."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        spans = [match.span() for match in pattern.finditer(text)]
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def __contains__(self, place: int) -> bool:
        before = bisect_right(self._starts, place - 1) - 1
        return before >= 0 and place < self._ends[before]


def is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def continues(char: str) -> bool:
    """Whether the character belongs to the one before it: marks, joiners, skin tones, tags, low surrogates."""
    return (
        unicodedata.category(char) in ("Mn", "Mc", "Me")
        or char == _JOINER
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or "\udc00" <= char <= "\udfff"
    )
