"""Tab completion: the words that may stand where the cursor is."""

from __future__ import annotations

from collections.abc import Iterable

from agentic.local.terminal.bot_commands import command_names, next_words
from agentic.local.terminal.typed_lines import EMOJI, OWN_COMMANDS, Vocabulary


def completions(text: str, current: int, known: Vocabulary) -> list[str]:
    """The words that may replace the last one of `text`, which stands before the cursor in the channel `current`."""
    *before, word = text.split(" ")
    before = [each for each in before if each]
    return [each for each in dict.fromkeys(_fitting(before, word, current, known)) if _begins(each, word)]


def _fitting(before: list[str], word: str, current: int, known: Vocabulary) -> Iterable[str]:
    if not before and word.startswith("/"):
        return (*OWN_COMMANDS, *command_names(known.commands))
    if before and before[0].startswith("/"):
        follow = _options(before, current, known)
    elif not before:
        follow = (f"#{name}" for name in known.channels)
    else:
        follow = ()
    mentions = (f"@{name}" for name in (*known.users, *known.roles)) if word.startswith("@") else ()
    return (*follow, *mentions)


def _options(before: list[str], current: int, known: Vocabulary) -> Iterable[str]:
    """The words that may follow those of a command."""
    match before:
        case ["/fire"]:
            return (*(f"#{name}" for name in known.channels), *known.themes)
        case ["/fire", _]:
            return known.themes
        case ["/react"] | ["/react", _]:
            return EMOJI
    return next_words(before, known.commands, known.names(current))


def _begins(offered: str, word: str) -> bool:
    """Whether an offered word begins with what is typed, in upper or lower case; # and @ may be left out."""
    typed = word.lower()
    return offered.lower().startswith(typed) or (bool(typed) and offered.lstrip("#@").lower().startswith(typed))
