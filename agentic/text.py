"""Format counts, money, durations, lists, and failures for people; find agents' names in texts; compare texts.

Names. An exact match of a name is tried first, then spellings that people use: another case, no accents, spaces,
hyphens, emoji, or quotation marks, "ue" for "ü", and last without the article. The closest spelling wins: if there are
both "The Sceptic" and "Sceptic", they are different. If a spelling fits two agents equally well, both match, and the
caller decides. Bots and the coordinator use the same rule.

Similarity. A shingle is a run of SHINGLE words. A text repeats an earlier text if that text has enough of its shingles:
a long answer doesn't repeat a short text, but a part of a longer text repeats it.
"""

from __future__ import annotations

import math
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_UNITS = ((2 * _DAY, _DAY, "day"), (2 * _HOUR, _HOUR, "hour"), (_MINUTE, _MINUTE, "minute"))  # from, length, name

ARTICLES = frozenset(
    {
        *("the", "a", "an", "der", "die", "das", "ein", "eine", "de", "het", "een", "le", "la", "les", "l", "un"),
        *("une", "el", "los", "las", "il", "lo", "gli", "i", "o", "os", "as", "um", "uma"),
    }
)
MIN_LETTERS = 3  # a name with symbols and fewer letters is found with its symbols
MIN_JOINED = 6  # letters of a name that a text may write in two words
MIN_PART = 2  # letters of each of these words
MIN_WITHOUT_ARTICLE = 4  # letters; "one" in running text isn't "The One"

_AROUND = " \t\n\"'`*_~@<>()[]“”„‟‘’‚«»‹›「」『』"
_PUNCTUATION = ".,;:!?…"
_ACCENTS = re.compile("[\u0300-\u036f]")
_INVISIBLE = re.compile("[\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff]")
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)*_]*(?=\s)")
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»]+)[\"”“»]")
_QUOTATION = re.compile(r"[\"“„«][^\"“”„«»]{1,120}[\"”“»]")  # longer, it's a copy
_SENTENCE_GAP = re.compile(r"(?<=[.!?…])(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\bDr\.)(?<!\bSt\.) +")
_BETWEEN = re.compile(r"[\s\-_'’.]{0,2}")  # what a name may have between its words
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe", "ı": "i"})
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "å": "aa", "Å": "Aa"})

SHINGLE = 3  # words
SAID_BEFORE = 0.5  # the share of the text's shingles in an earlier text
MIN_SHINGLES = 4  # a shorter text never repeats another

# Scripts without spaces: Thai, Burmese, Khmer, Japanese, Chinese
_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_IS_SPACELESS = re.compile(rf"[{_SPACELESS}]")
_RUN = re.compile(rf"[{_SPACELESS}]+|[^\W_{_SPACELESS}]+")
_MARKS = re.compile(r"https?://\S+|<[@#:a][^<>\s]*+>")  # addresses; mentions and emoji as Discord writes them

Shingles = frozenset[tuple[str, ...]]


def lasting(seconds: float) -> str:
    """Return "40 seconds", "1 minute", "90 minutes", "3 hours", or "2 days": rounded, never 0."""
    for least, unit, name in _UNITS:
        if seconds >= least:
            return counted(round(seconds / unit), name)
    return counted(max(1, round(seconds)), "second")


def dollars(amount: float) -> str:
    """Return "$1.50", or "$0.0042": small amounts keep more digits."""
    if 0 < amount < 0.00005:
        return "less than $0.0001"
    return f"${amount:.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.4f}"


def counted(number: int, name: str, plural: str = "") -> str:
    """Return "1 turn" or "2 turns"."""
    return f"{number} {name if number == 1 else plural or f'{name}s'}"


def listed(names: Sequence[str], nothing: str = "nobody") -> str:
    """Return "a", "a and b", or "a, b, and c"."""
    if len(names) < 3:
        return " and ".join(names) or nothing
    return f"{', '.join(names[:-1])}, and {names[-1]}"


def explain_failure(error: BaseException) -> str:
    """Return in a few words why something can't be reached. asyncio's words repeat the address, the system's don't."""
    if isinstance(error, OSError) and error.errno and error.strerror:
        return (os.strerror(error.errno) if error.errno > 0 else error.strerror).lower()
    return (str(error).strip(" .") or "no answer in time")[:200]


def first_sentences(text: str, limit: int) -> str:
    """Return the text's first whole sentences, at most `limit` characters; a longer first sentence is cut."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text) if match.end() <= limit]
    return text if len(text) <= limit else text[: ends[-1]] if ends else f"{text[: limit - 1].rstrip()}…"


def sentences(text: str) -> list[str]:
    return _SENTENCE_GAP.split(text)


def unquoted(text: str) -> str:
    """Return the text without the quotation marks around all of it."""
    text = text.strip()
    around = _QUOTED.fullmatch(text)
    return around[1].strip() if around else text


def finite_number(text: str) -> float | None:
    """Parse a finite number. Returns None for other texts."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def folded(text: str) -> str:
    """Return the text for comparisons, without differences in case and width."""
    return unicodedata.normalize("NFKC", text).casefold()


def named(names: Mapping[str, str], given: str) -> tuple[str, ...]:
    """Return the agents called `given`; several if the name is ambiguous. `names` maps agents' keys to shown names."""
    for form in (_exact, _unwrapped, _any_case, letters_of, _without_article):
        wanted = form(given)
        known = names.items()
        found = tuple(key for key, shown in known if wanted and wanted in map(form, (key, shown, _spelled_out(shown))))
        if found:
            return found
    return ()


def names_in(text: str, shown: Mapping[str, str]) -> tuple[str, ...]:
    """Return the agents whose shown names or keys are in the text as whole words, in the text's order. `shown` maps
    agents' keys to shown names."""
    return tuple(dict.fromkeys(agent for group in calls_in(text, shown) for agent in group))


def calls_in(text: str, shown: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return, for each name in the text in order, the agents that it fits equally well (usually one)."""
    plain = _plain(text)
    words = [found.span() for found in _WORD.finditer(plain)]
    letters = "".join([plain[start:end] for start, end in words])
    matches = [match for agent, name in shown.items() for match in _matches(plain, words, letters, agent, name)]
    matches.sort(key=lambda match: match.start)
    beaten: set[int] = set()
    for at, match in enumerate(matches):
        for beside in range(at + 1, len(matches)):
            if matches[beside].start >= match.end:
                break
            if match.beats(matches[beside]):
                beaten.add(beside)
            elif matches[beside].beats(match):
                beaten.add(at)
    groups: dict[int, list[str]] = {}
    for at, match in enumerate(matches):
        if at not in beaten:
            groups.setdefault(match.start, []).append(match.agent)
    return [tuple(dict.fromkeys(agents)) for agents in groups.values()]


@dataclass(frozen=True, slots=True)
class _Match:
    agent: str
    start: int
    end: int
    is_full: bool  # including its article

    def beats(self, other: _Match) -> bool:
        """Whether this is a closer match of the same words than another agent's name."""
        if self.agent == other.agent or self.start >= other.end or other.start >= self.end:
            return False
        return (self.is_full, self.end - self.start) > (other.is_full, other.end - other.start)


def _matches(plain: str, words: Sequence[tuple[int, int]], letters: str, agent: str, shown: str) -> list[_Match]:
    """Return where the text names the agent. `letters` are the joined letters of the text's words."""
    found: list[_Match] = []
    for form, parts, is_full in _forms(agent, shown):
        if not parts:
            before = r"(?<!\w)" if form[0].isalnum() and not _IS_SPACELESS.match(form[0]) else ""
            after = r"(?!\w)" if form[-1].isalnum() and not _IS_SPACELESS.match(form[-1]) else ""
            whole = re.finditer(f"{before}{re.escape(form)}{after}", plain)
            found += [_Match(agent, at.start(), at.end(), is_full) for at in whole]
            continue
        if form not in letters:  # most texts name nobody
            continue
        for first, (start, _) in enumerate(words):
            if plain[start] != form[0] or (end := _end_of_name(plain, words, first, form, parts)) is None:
                continue
            # "a doctor" isn't The Doctor.
            has_article = first > 0 and plain[slice(*words[first - 1])] in ARTICLES
            if is_full or not has_article:
                found.append(_Match(agent, start, end, is_full))
    return found


def _end_of_name(
    plain: str, words: Sequence[tuple[int, int]], first: int, form: str, parts: tuple[str, ...]
) -> int | None:
    """Return where a name that starts with this word ends in the text, or None if it isn't there."""
    read: list[str] = []
    for at in range(first, len(words)):
        start, end = words[at]
        if read and not _BETWEEN.fullmatch(plain[words[at - 1][1] : start]):
            return None
        read.append(plain[start:end])
        said = "".join(read)
        if said == form:
            is_joined = len(form) >= MIN_JOINED and min(map(len, read)) >= MIN_PART
            return end if len(read) == 1 or tuple(read) == parts or is_joined else None
        if not form.startswith(said):
            return None
    return None


@lru_cache(maxsize=1024)
def _forms(agent: str, shown: str) -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """Return the spellings to look for: letters, their words, and whether it is the full name."""
    forms: dict[str, tuple[tuple[str, ...], bool]] = {}
    for name in (shown, agent, _spelled_out(shown)):
        plain = " ".join(_plain(name).split())
        words = tuple(_WORD.findall(plain))
        letters = "".join(words)
        # Not words separated by spaces: an emoji, "C++", a script without spaces.
        has_few = len(letters) < MIN_LETTERS and letters != plain
        if plain and (has_few or any(_IS_SPACELESS.match(end) for end in (plain[0], plain[-1]))):
            forms.setdefault(plain, ((), True))
            continue
        if letters:
            forms.setdefault(letters, (words, True))
        rest = words[1:]
        if rest and words[0] in ARTICLES and len("".join(rest)) >= MIN_WITHOUT_ARTICLE:
            forms.setdefault("".join(rest), (rest, False))
    return tuple((form, parts, is_full) for form, (parts, is_full) in forms.items())


def _spelled_out(name: str) -> str:
    """Return the name as people without umlauts on their keyboard write it."""
    return unicodedata.normalize("NFC", name).translate(_UMLAUTS)


def letters_of(name: str) -> str:
    """Return only the letters and digits of a name, or its symbols if it has none."""
    plain = _plain(name)
    return "".join(_WORD.findall(plain)) or "".join(plain.split())


def _exact(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).split())


def _unwrapped(name: str) -> str:
    return _exact(name).strip(_AROUND + _PUNCTUATION)


def _any_case(name: str) -> str:
    return folded(_unwrapped(name))


def _without_article(name: str) -> str:
    words = _WORD.findall(_plain(name))
    return "".join(words[1:] if len(words) > 1 and words[0] in ARTICLES else words)


def _plain(text: str) -> str:
    """Return the text without differences in case, width, and accents."""
    plain = unicodedata.normalize("NFKD", _INVISIBLE.sub("", text)).casefold()
    return unicodedata.normalize("NFC", _ACCENTS.sub("", plain)).translate(_LETTERS)


def newest_that_fit(lines: Iterable[str], characters: int, *, apart: int = 0) -> list[str]:
    """Return the newest lines that fit, oldest first. `lines`: the newest first, `apart` characters from each other."""
    fitting = list[str]()
    for line in lines:
        if (characters := characters - len(line) - apart) < 0:
            break
        fitting.append(line)
    return fitting[::-1]


def runs(text: str) -> Iterator[tuple[str, bool]]:
    """Yield casefolded runs of letters and digits, without addresses and marks, and if their script lacks spaces."""
    for run in _RUN.findall(folded(_MARKS.sub(" ", text))):
        yield run, _IS_SPACELESS.match(run) is not None


@lru_cache(maxsize=512)  # each turn compares its answer with the same earlier messages
def tokens(text: str) -> tuple[str, ...]:
    """Return all words in order. In scripts without spaces, each character is a word."""
    found: list[str] = []
    for run, spaceless in runs(text):
        found.extend(run if spaceless else (run,))
    return tuple(found)


def shingles(text: str) -> Shingles:
    words = tokens(text)
    return frozenset(zip(*(words[at:] for at in range(SHINGLE)), strict=False))


def without_quotations(text: str) -> str:
    return _QUOTATION.sub(" ", text)


def without_repeats(text: str, earlier: Iterable[str]) -> str:
    """Return the text without the sentences that nearly repeat an earlier text, or a sentence before them. Quotations
    don't count."""
    known, kept = set[tuple[str, ...]]().union(*map(shingles, earlier)), list[str]()
    for sentence in sentences(text):
        own = shingles(without_quotations(sentence))
        if len(own) < MIN_SHINGLES or len(own & known) < SAID_BEFORE * len(own):
            kept.append(sentence)
        known |= own
    return " ".join(kept)


def says_again(text: str, earlier: Iterable[str]) -> bool:
    """Whether the text nearly repeats an earlier text, without its quotations if there is more."""
    own = shingles(without_quotations(text))
    own = own if len(own) >= MIN_SHINGLES else shingles(text)
    if len(own) < MIN_SHINGLES:
        return False
    return any(len(own & shingles(other)) >= SAID_BEFORE * len(own) for other in earlier)
