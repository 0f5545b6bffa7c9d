"""Short phrases by which talk shows what it does, in some of the languages that servers speak, casefolded.

A phrase is found as whole words, in scripts without spaces anywhere. Where a language is missing, the conversation only
loses a hint. Add a line for yours.
"""

from __future__ import annotations

import re
from functools import lru_cache

from agentic.similarity import tokens

AGREEMENT = (
    *(
        "i agree",
        "agreed",
        "exactly",
        "well said",
        "good point",
        "great point",
        "you're right",
        "so true",
        "absolutely",
    ),
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
QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e", "\u055e")  # full-width, Arabic, Greek, Armenian
_ENDS = rf".!\n{''.join(QUESTION_MARKS)}\u3002\uff01"
_QUESTION = re.compile(rf"(?<![^{_ENDS}])[^{_ENDS}]++[{''.join(QUESTION_MARKS)}]")
_ADDRESS = re.compile(r"https?://\S+")


def says(text: str, phrases: tuple[str, ...]) -> bool:
    """Whether one of the phrases is in the text."""
    return _pattern(phrases).search(_spaced(text)) is not None


def asks(text: str) -> bool:
    """Whether there is a question in it; a mark within an address is none."""
    return any(mark in _ADDRESS.sub(" ", text) for mark in QUESTION_MARKS)


def questions(text: str) -> list[str]:
    """The sentences that end in a question mark."""
    return _QUESTION.findall(_ADDRESS.sub(" ", text))


@lru_cache(maxsize=32)
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(re.escape(_spaced(phrase)) for phrase in phrases)})(?!\w)")


def _spaced(text: str) -> str:
    return " ".join(tokens(text))
