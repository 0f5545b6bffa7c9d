"""Signals in the text of messages: questions, agreement, repetition. Pure functions, no model.

Phrases are casefolded, in several languages, and match whole words (in scripts without spaces, anywhere). If a language
is missing, the conversation only loses a hint: add a line for yours.

Repetition is searched for in the agents' newest messages since a person last wrote: a message that nearly repeats an
earlier one, the same first words again and again, mutual agreement, farewells, thanks. Then the next speaker gets a new
perspective. Its text is fixed; nothing from the messages is in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from agentic.questions import QUESTION_MARKS
from agentic.text import says_again, tokens

AGREEMENT = (
    *("i agree", "agreed", "exactly", "well said", "good point", "great point", "you're right", "so true"),
    "absolutely",
    *("ich stimme zu", "stimmt", "genau", "da hast du recht", "sehe ich auch so", "guter punkt"),
    *("je suis d'accord", "d'accord", "exactement", "tout à fait", "bien dit"),
    *("estoy de acuerdo", "de acuerdo", "exacto", "exactamente", "totalmente", "buen punto"),
    *("concordo", "exatamente", "sono d'accordo", "esatto", "hai ragione"),
    *("mee eens", "precies", "zgadzam się", "dokładnie", "согласен", "согласна", "именно", "точно"),
    *("katılıyorum", "kesinlikle", "同意", "その通り", "完全正确", "说得对", "동의", "맞아요"),
)
DISAGREEMENT = (
    *("i disagree", "disagree", "not convinced", "that's wrong", "you're wrong", "on the contrary", "nonsense"),
    *("i doubt", "hardly", "counterexample"),
    *("das stimmt nicht", "im gegenteil", "widerspreche", "da irrst du", "unsinn", "nicht überzeugt"),
    *("pas d'accord", "au contraire", "c'est faux", "no estoy de acuerdo", "al contrario", "no es cierto"),
    *("discordo", "pelo contrário", "non sono d'accordo", "al contrario", "mee oneens", "integendeel"),
    *("nie zgadzam się", "wręcz przeciwnie", "не согласен", "не согласна", "наоборот", "katılmıyorum", "aksine"),
    *("反対", "違う", "不同意", "不对", "동의하지 않"),
)
FAREWELL = (
    *("goodbye", "bye", "farewell", "see you", "good night", "take care", "until next time", "signing off"),
    *("tschüss", "auf wiedersehen", "bis bald", "gute nacht", "mach's gut"),
    *("au revoir", "à bientôt", "bonne nuit", "adiós", "hasta luego", "buenas noches", "adeus", "até logo"),
    *("arrivederci", "a presto", "buonanotte", "tot ziens", "do widzenia", "до свидания", "пока", "hoşça kal"),
    *("さようなら", "またね", "おやすみ", "再见", "晚安", "안녕히"),
)
THANKS = (
    *("thank you", "thanks", "danke", "vielen dank", "merci", "gracias", "obrigado", "obrigada", "grazie"),
    *("bedankt", "dank je", "dziękuję", "спасибо", "teşekkürler", "ありがとう", "谢谢", "감사합니다"),
)
_ENDS = rf".!\n{''.join(QUESTION_MARKS)}\u3002\uff01"
_QUESTION = re.compile(rf"(?<![^{_ENDS}])[^{_ENDS}]++[{''.join(QUESTION_MARKS)}]")
_ADDRESS = re.compile(r"https?://\S+")


Repetition = Literal["duplicate", "openings", "agreement", "farewells", "thanks"]

COMPARED = 12  # earlier messages
OPENING_WORDS = 3
SAME_OPENINGS = 3  # of the last LOOKED_AT messages
LOOKED_AT = 4
AGREEMENTS = 3  # in a row
FIRST_WORDS = 15  # in which a message may say that it agrees
COURTESIES = 2  # farewells or thanks in a row
SHORT = 30  # words; a longer message has more in it than a courtesy

PERSPECTIVES: Mapping[Repetition, str] = {
    "duplicate": "something nobody has mentioned yet, such as a case, a number, a cost, or someone it affects. The "
    "conversation is repeating itself.",
    "openings": "a new example, doubt, or consequence. Don't start the way the last messages did.",
    "agreement": "the other side, such as a flaw, a gap, or an open question. Everyone has agreed so far.",
    "farewells": "something new that is worth staying for, not another goodbye",
    "thanks": "something new, not more thanks",
}


def says(text: str, phrases: tuple[str, ...]) -> bool:
    """Whether any of the phrases is in the text."""
    return _pattern(phrases).search(" ".join(tokens(text))) is not None


@lru_cache(maxsize=32)
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(re.escape(' '.join(tokens(phrase))) for phrase in phrases)})(?!\w)")


def asks(text: str) -> bool:
    """Whether the text has a question mark, outside of URLs."""
    return any(mark in _ADDRESS.sub(" ", text) for mark in QUESTION_MARKS)


def questions(text: str) -> list[str]:
    """Return the sentences that end in a question mark."""
    return _QUESTION.findall(_ADDRESS.sub(" ", text))


def repetition_in(texts: Sequence[str]) -> Repetition | None:
    """Return how the newest message repeats the others (oldest first), or None if it is new."""
    if not texts:
        return None
    if says_again(texts[-1], texts[-COMPARED - 1 : -1]):
        return "duplicate"
    openings = [tuple(tokens(text)[:OPENING_WORDS]) for text in texts[-LOOKED_AT:]]
    if len(openings[-1]) == OPENING_WORDS and Counter(openings)[openings[-1]] >= SAME_OPENINGS:
        return "openings"
    last = texts[-AGREEMENTS:]
    if len(last) == AGREEMENTS and all(says(" ".join(text.split()[:FIRST_WORDS]), AGREEMENT) for text in last):
        return "agreement"
    last = texts[-COURTESIES:]
    if len(last) == COURTESIES and all(len(tokens(text)) <= SHORT for text in last):
        if all(says(text, FAREWELL) for text in last):
            return "farewells"
        if all(says(text, THANKS) for text in last):
            return "thanks"
    return None
