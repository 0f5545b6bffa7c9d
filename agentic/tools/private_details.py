"""Remove people's private details from a query before a search engine gets and stores it.

This removes details of the shapes below, which a model or a person may have included by mistake. Names stay. A street
address that the person asks about stays too, unless the person says that it's their own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

Redact = Callable[[str], str]

_GONE = " "
_REDACTED = re.compile(r"\[redacted\]", re.IGNORECASE)
_NOT_SEEN = frozenset({"Cc", "Cf", "Cs", "Co"})

_AT = r"\s?[\[(]\s?(?:at|@)\s?[\])]\s?|[ ]@[ ]|%40|&\#64;|&commat;"
_DOT = r"\s?[\[(]\s?(?:dot|\.)\s?[\])]\s?"
_SEPARATOR = r"[ \u00a0().\-/]"
_STREET = (
    r"street|st\.|st(?![ ](?-i:[A-Z]))"  # but not St Lucia
    r"|avenue|ave\.?|road|rd\.|lane|boulevard|blvd\.?|drive|square|terrace|court|crescent|highway"
)
_NO_ADDRESS = r"(?:food|art|artists?|style|view|fighter|wear|photo\w*|map|trip|test|race|games?)\b"
_NO_STREET_WORD = (  # a number followed by one of these words isn't a house number
    r"(?:of|the|an?|in|on|at|about|for|from|to|and|with|best|top|most|famous|things?|facts?|songs?|years?|hours?|days?"
    r"|nights?|weeks?|stars?|min(?:utes?)?|miles?|km|people)\b"
)
_STREET_ENDING = r"straße|strasse|str\.|gasse|weg|allee|platz|ufer|damm|straat|laan|gatan|vej|gata"
_RUE = r"rue|avenue|boulevard|chemin|impasse|quai"
_STREET_FIRST = r"rue|avenue|boulevard|via|viale|piazza|calle|avenida|rua|plaza"

_SHAPES = re.compile(
    rf"""
      <[@\#][!&]?\d{{1,20}}>  |  <a?:\w{{2,32}}:\d{{1,20}}>  |  <id:\w+>                   # mentions, emoji
    | [\w.+-]{{1,64}}[ ]at[ ][\w-]+(?:[ ]dot[ ][\w-]+)+                                      # e-mail in words
    | [\w.+%-]{{1,64}}(?:@|{_AT})[\w-]+(?:(?:\.|{_DOT})[\w-]+)+                               # e-mail
    | (?<=://)[^\s/@]{{1,200}}@                                                             # user and password
    | (?<![\w@])@[\w.]{{2,40}}                                                              # @name
    | (?<!\w)[A-Za-z]{{2}}\d{{2}}(?:[ ]?[A-Za-z0-9]{{4}}){{2,7}}(?:[ ]?[A-Za-z0-9]{{1,4}})?(?!\w)      # IBAN
    | (?<![\d.])(?:\d{{1,3}}\.){{3}}\d{{1,3}}(?![\d.])                                      # IPv4
    | (?<!\d)\d{{3}}-\d{{2}}-\d{{4}}(?!\d)                                                  # US social security
    | (?<![\w-])\d{{15,22}}(?![\w-])                                                        # ids
    | (?<![\w-])[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}(?![\w-])                   # account ids
    | (?<![\w:])(?=[0-9a-f:]*::|(?:[0-9a-f]+:){{7}})(?:[0-9a-f]{{1,4}})?                      # IPv6
      (?::{{1,2}}[0-9a-f]{{1,4}}){{2,7}}(?![\w:])
    | (?<![\w:])(?:[0-9a-f]{{2}}[:-]){{5}}[0-9a-f]{{2}}(?![\w:-])                              # MAC
    | (?<!\w)(?:\+|00)[1-9]{_SEPARATOR}{{0,2}}\d(?:{_SEPARATOR}{{0,3}}\d){{5,13}}(?!\w)     # international phone
    | (?<!\w)\(?\d{{3}}\)?[ .-]\d{{3}}[ .-]\d{{4}}(?!\w)                                    # North American phone
    """,
    re.VERBOSE | re.IGNORECASE,
)
_STREETS = re.compile(
    rf"""
      (?<!\w)(?:{_STREET_FIRST})[ ]+(?:\w+[ ]+){{1,4}}\d{{1,4}}[a-z]?(?!\w)                 # rue de Rivoli 5
    | (?<!\w)\d{{1,4}}(?:[ ]?(?:bis|ter|[a-d]))?,?[ ](?:{_RUE})[ ](?:d[eu]s?[ ](?:la[ ])?|[dl]['’])?\w+  # 5 rue
    | (?<!\w)(?:\w+[ ]|\w+)(?:{_STREET_ENDING})[ ]+\d{{1,4}}[ ]?[a-z]?(?!\w)              # Lange Straße 5a
    | (?<!\w)\d{{1,5}}[a-z]?[ ]+(?:(?!{_NO_STREET_WORD})\w+[ ]+){{1,3}}                            # 5 Main Street
      (?:{_STREET})(?!\w|[ ]{_NO_ADDRESS})
    """,
    re.VERBOSE | re.IGNORECASE,
)
_STREET_WORD = re.compile(rf"\A(?:{_STREET})\Z|(?:{_STREET_ENDING})\Z", re.IGNORECASE)
MAX_ASKED = 8000  # characters of the person's messages that are searched for an address
NEAR = 50  # characters before and after an address that may say that it's the person's own
_LIVING = r"(?:lives?|living|lived|resides?|stays?|staying|moved|grew[ ]up|sleep)"
_PLACE = r"(?:address|home|house|flat|apartment|place|room|hotel|office|school|door|street)"
_OWN = re.compile(
    rf"""
      \b(?:i|we)(?:['’]\w+)?(?:[ ](?:am|are|have|now|currently|still|just|also|both|only|recently)){{0,2}}[ ]{_LIVING}\b
    | \b(?:i['’]m|i[ ]am|we['’]re|we[ ]are)[ ](?:now[ ]|still[ ])?(?:at|in)\b
    | \b(?:my|our)[ ](?:[\w'’]+[ ]){{0,2}}(?:{_PLACE}|{_LIVING})\b
    | \bhome(?:[ ]address)?[ ]?(?::|is\b|at\b) | \bat[ ]home\b
    | \b(?:near|around|by|with|deliver[ ]to|send[ ]to)[ ](?:me|us)\b
    | \b(?:ich|wir)[ ]wohn | \b(?:mein|unser)\w*[ ](?:adresse|haus|wohnung|zuhause)
    | \bbei[ ](?:mir|uns)\b | \bzu[ ]?hause\b
    | \bj['’]habite | \b(?:mon|ma|notre)[ ](?:adresse|maison|appartement) | \b(?:vivo|vivimos|abito|moro)[ ]
    """,
    re.VERBOSE | re.IGNORECASE,
)
_DIGITS = re.compile(rf"(?<![\w.])\d(?:{_SEPARATOR}{{0,3}}\d){{8,18}}(?![\w])")
_YEARS = re.compile(r"(?:(?:19|20)\d\d\D{0,3}){2,}")
_DATE = re.compile(r"(?:\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./-]\d{1,2}[./-]\d{1,2})")
_WORD = re.compile(r"\w")


def without_private(query: str, redact: Redact = str, *, asked: str = "") -> str:
    """Return the query on one line without private details; "" if no word is left. `redact` replaces known secrets
    with [redacted]. `asked`: the person's messages; street addresses in them may stay."""
    text = _REDACTED.sub(_GONE, redact(_on_one_line(query)))
    text = _SHAPES.sub(_GONE, text)
    words = _on_one_line(asked[-MAX_ASKED:])
    text = _STREETS.sub(lambda match: match[0] if _is_asked_about(match[0], words) else _GONE, text)
    text = _DIGITS.sub(lambda match: match[0] if _is_plain_number(match[0]) else _GONE, text)
    text = " ".join(text.split()).strip(" ,;:·-")
    return text if _WORD.search(text) else ""


def _on_one_line(text: str) -> str:
    seen = []
    for char in unicodedata.normalize("NFKC", text):
        if char in "\n\t" or unicodedata.category(char) not in _NOT_SEEN:
            digit = unicodedata.decimal(char, None)  # a digit of any script, for example in a phone number
            seen.append(char if digit is None else str(digit))
    return " ".join("".join(seen).split())


def _is_asked_about(address: str, asked: str) -> bool:
    """Whether the person's messages name this address, with any word for "street", and never as the person's own."""
    names = ((word, _STREET_WORD.sub("", word)) for word in address.split())
    spelled = r"\W+".join(re.escape(name) + (r"\w+\.?" if name != word else "") for word, name in names)
    places = [match.span() for match in re.finditer(rf"(?<!\w){spelled}(?!\w)", asked, re.IGNORECASE)]
    around = (asked[max(0, start - NEAR) : end + NEAR] for start, end in places)
    return bool(places) and not any(_OWN.search(words) for words in around)


def _is_plain_number(text: str) -> bool:
    """Whether a run of digits is a date, several years, or a plain number, and not a phone or card number."""
    digits = re.sub(r"\D", "", text)
    if _YEARS.fullmatch(text):
        return True
    if 13 <= len(digits) <= 19:
        doubled = (int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(digits)))
        if sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0:
            return False  # the last digit is the check digit of a payment card
    if _DATE.match(text):
        return True
    return not digits.startswith("0")
