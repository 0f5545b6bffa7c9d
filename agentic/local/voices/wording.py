"""Works on the words of people: quotes, small sums, and sentences turned to the listener's side. Pure functions.

Sums are worked out exactly, with bounds: "what is 17 + 25?" → ("17 + 25", "42"). A sentence is turned: "my garden" →
"your garden", "I disagree with you" → "you disagree with me". "I" and "me" are both "you", "am" and "are" both "are",
so a word's neighbors decide. If they do not, there is no turned text: a wrong one reads worse than none.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable
from fractions import Fraction

MAX_PHRASE = 80  # characters
QUOTE_WORDS = range(3, 9)

_MARKUP = re.compile(r"<[@#:][^<>\n]{0,100}>|https?://\S+|[*_~|`]+")
_QUOTES = re.compile(r"[\"“”„«»]")
_CLAUSES = re.compile(r"[.!?;:,\n…()]+")
_FIRST = re.compile(r"^(?P<x>.+?)(?:(?<![?!.])[?!.]++(?:\s.*)?)?$")
_SUBTEXT = re.compile(r"^-# .*$", re.MULTILINE)  # Discord's small print: the note under an answer


def words_of(text: str) -> frozenset[str]:
    """A set of words, written as a text."""
    return frozenset(text.split())


_NO_BEGINNING = words_of(
    "and but or so which since because that if when while whatever whether what who where how has have is are do does"
    " can would could let pull"
)


def plain(text: str, names: Iterable[str] = ()) -> str:
    """Reduce a text to one line without markup, links, quotation marks or mentions of `names`; other @names lose
    their @."""
    text = _QUOTES.sub("", _MARKUP.sub(" ", _SUBTEXT.sub("", text)))
    for name in sorted(filter(None, names), key=len, reverse=True):
        text = re.sub(rf"@{re.escape(name)}\b[,:]?", " ", text, flags=re.IGNORECASE)
    return " ".join(text.replace("@", "").split())


def phrase(text: str, limit: int = MAX_PHRASE) -> str:
    """Strip closing punctuation, and cut between words at `limit` characters."""
    text = text.strip().rstrip("?!.,;: ")
    if len(text) <= limit:
        return text
    return text[:limit].rpartition(" ")[0] or text[:limit]


def first_sentence(text: str) -> str:
    """The text up to the end of its first sentence, without the mark that ends it."""
    match = _FIRST.match(text.strip())
    return match["x"] if match else ""


def quotable(text: str) -> str | None:
    """The first clause that is short enough to be quoted."""
    if "[posted image" in text:
        return None
    for clause in _CLAUSES.split(plain(gist(text))):
        words = clause.split()
        if len(words) in QUOTE_WORDS and len(clause) <= MAX_PHRASE and words[0].lower() not in _NO_BEGINNING:
            return clause.strip()
    return None


def gist(text: str) -> str:
    """The words after the last colon, without the introduction."""
    return text.rpartition(": ")[2].strip()


def capital(text: str) -> str:
    """Begin with a capital letter, also inside of a quotation mark."""
    start = len(text) - len(text.lstrip('"“'))
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]


MAX_NUMBER = 10**15  # of every number on the way
MAX_EXPONENT = 50
MAX_SUM = 100  # of a sum
DECIMALS = 4  # shown of a result that has no end

_ASKED = re.compile(r"^(?:what(?:'s|’s| is| are)|how much (?:is|are)|calculate|compute|and)\s+", re.IGNORECASE)
_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_WORDS = (
    *((re.compile(rf"\b{word}\b", re.I), str(number)) for number, word in enumerate(_NUMBERS)),
    (re.compile(r"\bplus\b", re.I), "+"),
    (re.compile(r"\bminus\b|[−–]", re.I), "-"),
    (re.compile(r"\btimes\b|\bmultiplied by\b|[×·]|(?<=[\d\s)])x(?=[\d\s(])", re.I), "*"),
    (re.compile(r"\bdivided by\b|÷", re.I), "/"),
    (re.compile(r"\bto the power of\b|\*\*", re.I), "^"),
    (re.compile(r"\bsquared\b", re.I), "^2"),
    (re.compile(r"(?:%|\bper ?cent)\s*of\b", re.I), "/100*"),
)
_SUM = re.compile(r"(?=.+[-+*/^])[\d\s.+*/^()-]+")  # with a sign behind its beginning
_LEADING_ZEROS = re.compile(r"(?<![\d.])0+(?=\d)")
_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_DATE = re.compile(r"\d+(?:-\d+){2,}|\d{3,}-\d{4,}")  # or a telephone number
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_COMMA = re.compile(r"(?<=\d),(?=\d)")


class NoResult(Exception):
    """It is a sum, and too large or without a result."""


def worked_out(text: str) -> tuple[str, str] | None:
    """The sum as it was written, and its result; None for a text that is no sum. Raises NoResult."""
    written = _ASKED.sub("", text.strip()).strip(" =?!.")
    if len(written) > MAX_SUM or _DATE.fullmatch(written):
        return None
    plain = _COMMA.sub(".", _THOUSANDS.sub("", written))
    for pattern, sign in _WORDS:
        plain = pattern.sub(sign, plain)
    plain = plain.strip()
    if not _SUM.fullmatch(plain):
        return None
    sum_of = _LEADING_ZEROS.sub("", plain).replace("^", "**")
    try:
        value = _value(ast.parse(sum_of, mode="eval").body, sum_of)
    except SyntaxError:
        return None
    except ZeroDivisionError:
        raise NoResult from None
    return written, _shown(value)


def _value(node: ast.AST, sum_of: str) -> Fraction:
    """The value of a part of a sum. Raises SyntaxError for a part of anything else, ZeroDivisionError, and NoResult."""
    match node:
        case ast.Constant():
            return _bounded(Fraction(ast.get_source_segment(sum_of, node) or ""))
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, sum_of)
        case ast.BinOp(op=ast.Pow()):
            exponent = _value(node.right, sum_of)
            if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
                raise NoResult
            return _bounded(_value(node.left, sum_of) ** int(exponent))
        case ast.BinOp() if type(node.op) in _OPERATIONS:
            return _bounded(_OPERATIONS[type(node.op)](_value(node.left, sum_of), _value(node.right, sum_of)))
    raise SyntaxError


def _bounded(value: Fraction) -> Fraction:
    if abs(value) > MAX_NUMBER or value.denominator > MAX_NUMBER:
        raise NoResult
    return value


def _shown(value: Fraction) -> str:
    if value.denominator == 1:
        return f"{value.numerator:,}"
    rounded = round(value, DECIMALS)
    if not rounded:
        return f"about {float(value):.2g}"
    digits = f"{float(rounded):,.{DECIMALS}f}".rstrip("0").rstrip(".")
    return digits if rounded == value else f"about {digits}"


_SAME = {
    "my": "your", "mine": "yours", "myself": "yourself", "me": "you", "your": "my", "yours": "mine",
    "yourself": "myself", "i'm": "you're", "i've": "you've", "i'll": "you'll", "i'd": "you'd", "you're": "I'm",
    "you've": "I've", "you'll": "I'll", "you'd": "I'd",
}  # fmt: skip
_BE_OF_YOU = {"am": "are", "was": "were", "wasn't": "weren't"}
_BE_OF_ME = {"are": "am", "were": "was", "weren't": "wasn't"}
_AUXILIARIES = words_of(
    "am are was were wasn't weren't do did does don't didn't have had haven't hadn't can can't could couldn't will"
    " won't would wouldn't should shouldn't may might must shall"
)
_VERBS = _AUXILIARIES | words_of(
    "agree ask asked believe came come disagree feel felt forget forgot gave get give go got hate hear heard help"
    " helped keep knew know learn leave left let like liked live look looked love loved made make mean meant meet met"
    " mentioned miss missed need never play played promise promised put read really remember repeat run said saw say"
    " see seem sent showed sleep speak spoke start take talk talked tell think thought took told tried try turn"
    " understand understood use used want wanted went work worked write wrote always also just only often still"
)
_ADVERBS = words_of("also always just never not often only probably really still")
_BEFORE_AN_OBJECT = words_of(
    "about against around at beside between by except for from in into near of on over past to toward towards under"
    " upon with without"
)
_TRANSITIVE = words_of(
    "ask asked believe bother call called find found follow give gave hate hear heard help helped invite kiss know"
    " like liked love loved meet met miss missed need remember saw see show showed tell thank thanks told trust want"
    " wanted watch welcome"
)
_BEFORE_A_CLAUSE = words_of("as believe feel glad guess heard hope know mean said say sure think thought wish")
_BEFORE_A_SUBJECT = words_of(
    "because but how if so that then though unless until what when whenever where whether which while who why"
)
_AFTER_AN_OBJECT = _BEFORE_AN_OBJECT | words_of(
    "a again already an and as at because but if or so soon than that the then though today tomorrow tonight too very"
    " when while yesterday"
)
_ALL_OF = re.compile(r"\b(all|both|each|either|few|half|many|most|none|one|some|any|two|three|four) of you\b", re.I)
_UNSAFE = re.compile(
    r"\b(?:(?:you|i|me) (?:and|or)|(?:and|or) (?:you|i|me)|you (?:all|both|guys|two|three|four|people|lot)|y'all"
    r"|we|us|our|ours|ourselves|yourselves|we're|we've|we'll|we'd|aren't (?:i|you)|ain't)\b",
    re.I,
)
_WRONG = re.compile(
    r"\b(?:of|to|for|with|at|from) I\b|\bare I\b|\bI are\b|\bam you\b|\byou (?:am|was)\b|\bI were\b", re.I
)
_WORD = re.compile(r"[\w'-]+|[^\w'-]+")


def turned(text: str, before: str = "") -> str | None:
    """Turn a sentence or a part of one; `before` is the word in front of it. None where no safe turning is known."""
    text = text.replace("’", "'")
    text = _ALL_OF.sub(r"\1 of us", text)
    if _UNSAFE.search(text.replace(" of us", "")):
        return None
    tokens = _WORD.findall(text)
    places = [place for place, token in enumerate(tokens) if token[0].isalnum()]
    words = [tokens[place] for place in places]
    new = _turned_words(words, before.lower())
    if new is None:
        return None
    for place, word in zip(places, new, strict=True):
        tokens[place] = word
    said = "".join(tokens)
    return None if _WRONG.search(said) else said


def _turned_words(words: list[str], before: str) -> list[str] | None:
    low = [word.lower() for word in words]
    new = [_SAME.get(word, kept) for word, kept in zip(low, words, strict=True)]
    for at, word in enumerate(low):
        if word == "i":
            new[at] = "you"
            _agree(low, new, at, _BE_OF_YOU)
        elif word == "you":
            role = _role(low, at, before)
            if role is None:
                return None
            new[at] = "I" if role == "subject" else "me"
            if role == "subject":
                _agree(low, new, at, _BE_OF_ME)
    return new


def _role(low: list[str], at: int, before: str) -> str | None:
    """Whether "you" is a subject or an object, None if that is not clear."""
    previous = low[at - 1] if at else before
    following = low[at + 1] if at + 1 < len(low) else ""
    if previous in _AUXILIARIES:
        return "subject"
    if previous in _BEFORE_AN_OBJECT:
        return None if following in _AUXILIARIES else "object"
    if previous in _BEFORE_A_SUBJECT or (not previous and following):
        return "subject"
    if previous in _TRANSITIVE and (not following or following in _AFTER_AN_OBJECT):
        return "object"
    return "subject" if following in _VERBS and previous in _BEFORE_A_CLAUSE else None


def _agree(low: list[str], new: list[str], at: int, forms: dict[str, str]) -> None:
    """Let a form of "to be" right before a subject, or after it and its adverbs, agree with the new one."""
    if at and low[at - 1] in forms:
        new[at - 1] = forms[low[at - 1]]
        return
    after = at + 1
    while after < len(low) and (low[after] in _ADVERBS or low[after].endswith("ly")):
        after += 1
    if after < len(low) and low[after] in forms:
        new[after] = forms[low[after]]
