"""Tell in which language a text is."""

from __future__ import annotations

import re

from agentic.text import tokens

MIN_WORDS = 8

_SMALL_WORDS = {
    "en": "the and is are of to in that it with for you this but not what have was they be on my we can so if there",
    "de": "der die das und ist nicht ein eine ich zu den mit auf für sich auch es dem von wir aber wenn sind wie",
    "fr": "le la les et est pas une un des que pour dans qui ce il sur avec nous mais plus vous sont au du je",
    "es": "el la los que y es no un una para con por las del se lo pero como más sus al está son me",
    "it": "il che di è non un una per con sono gli del la ma come più questo anche della si mi nel",
    "pt": "o que e não um uma para com os do da em por mais se na as é mas como no são meu",
    "nl": "de het een en is niet dat van in op te met voor zijn maar ook aan als er wij naar",
}
_LANGUAGES = {language: frozenset(words.split()) for language, words in _SMALL_WORDS.items()}
_MIN_SMALL = 0.12  # share of small words from which on a text is certainly of that language
_SCRIPTS = (
    ("cjk", re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")),
    ("cyrillic", re.compile("[\u0400-\u04ff]")),
    ("arabic", re.compile("[\u0600-\u06ff]")),
    ("thai", re.compile("[\u0e00-\u0e7f]")),
    ("devanagari", re.compile("[\u0900-\u097f]")),
)
_MAX_SCRIPT = 0.15  # share of a script's letters that a text in another script may have


def language_of(text: str) -> str | None:
    """Return the language, or for other scripts than Latin the script; None if that isn't certain."""
    letters = sum(map(str.isalpha, text))
    for script, pattern in _SCRIPTS:
        if letters and len(pattern.findall(text)) / letters > _MAX_SCRIPT:
            return script
    words = tokens(text)
    if len(words) < MIN_WORDS:
        return None
    shares = {language: sum(word in small for word in words) for language, small in _LANGUAGES.items()}
    best, second = sorted(shares, key=lambda language: -shares[language])[:2]
    is_certain = shares[best] >= _MIN_SMALL * len(words) and shares[best] > shares[second]
    return best if is_certain else None
