"""Ask questions in a terminal or through a pipe; read choices from numbered lists, and themes.

Secrets are typed without echo. The end of the input raises EOFError and Ctrl-C KeyboardInterrupt; both leave the setup.
"""

from __future__ import annotations

import getpass
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Protocol, TypeVar

from rich.console import Console
from rich.text import Text

from agentic.check.report import can_show, printable
from agentic.themes import DEFAULT_THEME, THEMES

T = TypeVar("T")

_WORDS: Mapping[str, tuple[str, ...]] = {
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
"""Theme → the words in a channel's name that suggest it."""


class ChoiceError(ValueError):
    """The answer isn't a valid choice; the text tells the owner what to type."""


class Reader(Protocol):
    """A source of answers. Both methods raise EOFError at the end."""

    def line(self, prompt: str) -> str: ...

    def hidden(self, prompt: str) -> str: ...


class TerminalReader:
    def __init__(self) -> None:
        with suppress(ImportError):  # some builds of Python lack it
            import readline  # noqa: F401 - lets input() edit the line

    def line(self, prompt: str) -> str:
        return input(prompt)

    def hidden(self, prompt: str) -> str:
        return getpass.getpass(prompt)


class PipedReader:
    """Reads a pipe or file: each line is an answer. Prompts are printed on their own lines."""

    def line(self, prompt: str) -> str:
        print(prompt, flush=True)
        text = sys.stdin.readline()
        if not text:
            raise EOFError
        return text.rstrip("\r\n")

    hidden = line


class Dialogue:
    """Prints lines (without wrapping, so that links stay whole) and asks questions."""

    def __init__(self, reader: Reader | None, console: Console) -> None:
        """Ask questions on the console. Without a `reader`, answers come from standard input."""
        is_terminal = sys.stdin is not None and sys.stdin.isatty()
        self._reader, self._console = reader or (TerminalReader() if is_terminal else PipedReader()), console
        self._plain = not can_show("✓✗", console.encoding)

    def say(self, *lines: str) -> None:
        for line in lines or ("",):
            self._print(Text(self._clean(line)))

    def heading(self, title: str) -> None:
        self._print(Text())
        self._print(Text(self._clean(title), style="bold"))

    def good(self, line: str) -> None:
        self._print_marked("✓", "ok", "green", line)

    def bad(self, line: str) -> None:
        self._print_marked("✗", "X", "bold red", line)

    def warn(self, line: str) -> None:
        self._print_marked("!", "!", "yellow", line)

    def _print_marked(self, mark: str, plain: str, style: str, line: str) -> None:
        self._print(Text.assemble((plain if self._plain else mark, style), " ", self._clean(line)))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)

    def _clean(self, line: str) -> str:
        return printable(line, self._console.encoding)

    def ask(self, question: str) -> str:
        return self._answer(self._reader.line, question)

    def ask_hidden(self, question: str) -> str:
        """Ask without echo. The word skip, which other questions accept, means the same as Enter."""
        answer = self._answer(self._reader.hidden, question)
        return "" if answer.lower() == "skip" else answer

    def _answer(self, read: Callable[[str], str], question: str) -> str:
        prompt = f"{self._clean(question)} "
        while True:
            try:
                return read(prompt).strip()
            except UnicodeDecodeError:
                self.bad("That isn't UTF-8 text. Type it again.")

    def agrees(self, question: str, *, default: bool = True) -> bool:
        return self.choose(question, ("yes", "no"), default="yes" if default else "no") == "yes"

    def choose(self, question: str, words: Sequence[str], *, default: str) -> str:
        """Ask for one of the words or its beginning; Enter means the default, which is capitalized."""
        shown = "/".join(word.capitalize() if word == default else word for word in words)
        while True:
            answer = self.ask(f"{question} [{shown}]").lower()
            found = [default] if not answer else [word for word in words if word.startswith(answer)]
            if len(found) == 1:
                return found[0]
            self.bad(f"Type {', '.join(words[:-1])} or {words[-1]}.")

    def pick(self, question: str, read: Callable[[str], T]) -> T:
        """Ask until `read` accepts the answer; show its ChoiceError."""
        while True:
            try:
                return read(self.ask(question))
            except ChoiceError as error:
                self.bad(str(error))

    def wants_to_continue(self, question: str) -> bool:
        """Wait for Enter; False for the word skip."""
        while (answer := self.ask(f"{question} [Enter, or skip]").lower()) not in ("", "skip", "s"):
            self.bad("Press Enter or type skip.")
        return answer == ""

    def waiting(self, what: str) -> AbstractContextManager[object]:
        return self._console.status(f"{self._clean(what)} ...")


def read_numbers(text: str, count: int, names: Sequence[str] = ()) -> list[int]:
    """Parse "1,3-5" to [1, 3, 4, 5], in the order typed and without duplicates. Single-word `names` such as "#debate"
    can be used instead of numbers. Raises ChoiceError beyond 1 to `count`."""
    found: list[int] = []
    for part in re.split(r"[,\s]+", re.sub(r"(?<!\s)\s*+(?:-|–)\s*", "-", text.strip())):
        if not part:
            continue
        if not _is_number(part, count) and part.removeprefix("#") in names:
            found.append(names.index(part.removeprefix("#")) + 1)
            continue
        first, dash, last = part.partition("-")
        if not _is_number(first, count) or (dash and not _is_number(last, count)):
            raise ChoiceError(f"Type numbers from 1 to {count}, such as {example_numbers(count)}.")
        found += range(int(first), int(last or first) + 1)
        if dash and int(first) > int(last):
            raise ChoiceError(f"Type the smaller number first, such as {last}-{first}.")
    if not found:
        raise ChoiceError(f"Type at least one number from 1 to {count}.")
    return list(dict.fromkeys(found))


def read_theme(text: str, usual: str = "") -> str:
    """Return a theme by its number, name, or beginning; `usual` if the text is empty. Raises ChoiceError."""
    names = list(THEMES)
    word = re.sub(r"[\s_]+", "-", (text or usual).strip().lower())
    if _is_number(word, len(names)):
        return names[int(word) - 1]
    begun = [word] if word in names else [name for name in names if word and name.startswith(word)]
    if len(begun) != 1:
        raise ChoiceError(f"Type the number or the name of a theme: {', '.join(names)}.")
    return begun[0]


def guess_theme(channel: str) -> str:
    """Return the theme that a channel's name suggests, or casual."""
    words = re.split(r"[^a-z]+", channel.lower())
    return next((theme for theme, signs in _WORDS.items() if not set(signs).isdisjoint(words)), DEFAULT_THEME)


def _is_number(text: str, count: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= count


def example_numbers(count: int) -> str:
    """Return an example of how to choose from a list of this length."""
    return "1" if count == 1 else "1,2" if count < 4 else "1,3-4"
