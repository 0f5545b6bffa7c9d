"""Read a choice from a numbered list, and a theme. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from agentic.themes import DEFAULT_THEME, THEMES

_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "would-you-rather": ("rather", "wyr"),
        "debate": ("debate", "debates", "debating", "politics"),
        "memes": ("meme", "memes", "shitpost", "shitposting"),
        "roast": ("roast", "roasts", "roasting"),
        "story": ("story", "stories", "storytelling", "writing", "fiction"),
        "trivia": ("trivia", "quiz", "quizzes"),
        "news": ("news", "headlines"),
        "science": ("science", "tech", "technology", "physics"),
        "finance": ("finance", "finances", "money", "stocks", "investing", "crypto", "economy"),
        "prediction": ("prediction", "predictions", "forecast", "forecasts"),
        "hypothetical": ("hypothetical", "hypotheticals", "hypothesis", "if"),
        "spiritual": ("spiritual", "spirituality", "religion", "faith", "philosophy"),
        "vent": ("vent", "venting", "rant", "rants"),
    }
)
"""Theme → the words in a channel's name that suggest it."""


class ChoiceError(ValueError):
    """An answer that is no choice from the list; the text says what is expected."""


def numbers(text: str, count: int, names: Sequence[str] = ()) -> list[int]:
    """ "1,3-5" → [1, 3, 4, 5], in the order typed and without repetition. `names`, of one word each, may stand for
    their numbers ("#debate"). Raises ChoiceError beyond 1 to `count`."""
    found: list[int] = []
    for part in re.split(r"[,\s]+", re.sub(r"(?<!\s)\s*+(?:-|–)\s*", "-", text.strip())):
        if not part:
            continue
        if not _is_number(part, count) and part.removeprefix("#") in names:
            found.append(names.index(part.removeprefix("#")) + 1)
            continue
        first, dash, last = part.partition("-")
        if not _is_number(first, count) or (dash and not _is_number(last, count)):
            raise ChoiceError(f"Type numbers from 1 to {count}, such as {example(count)}.")
        found += range(int(first), int(last or first) + 1)
        if dash and int(first) > int(last):
            raise ChoiceError(f"Type the smaller number first: {last}-{first}.")
    if not found:
        raise ChoiceError(f"Type at least one number from 1 to {count}.")
    return list(dict.fromkeys(found))


def theme_of(text: str) -> str:
    """A theme by its number, name or beginning. Raises ChoiceError."""
    names = list(THEMES)
    word = re.sub(r"[\s_]+", "-", text.strip().lower())
    if _is_number(word, len(names)):
        return names[int(word) - 1]
    begun = [word] if word in names else [name for name in names if word and name.startswith(word)]
    if len(begun) != 1:
        raise ChoiceError(f"Type the number or the name of a theme: {', '.join(names)}.")
    return begun[0]


def guessed_theme(channel: str) -> str:
    """The theme that a channel's name suggests, otherwise casual."""
    words = re.split(r"[^a-z]+", channel.lower())
    return next((theme for theme, signs in _WORDS.items() if not set(signs).isdisjoint(words)), DEFAULT_THEME)


def _is_number(text: str, count: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= count


def example(count: int) -> str:
    """How to choose several of a list this long."""
    return "1" if count == 1 else "1,2" if count < 4 else "1,3-4"
