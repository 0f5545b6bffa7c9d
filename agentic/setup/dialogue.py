"""Questions and answers: in a terminal, or line by line through a pipe.

Secrets are typed without echo. The end of the input is EOFError, Ctrl-C is KeyboardInterrupt; both leave the set-up.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Protocol, TypeVar

from rich.console import Console
from rich.text import Text

from agentic.check.report import can_show, printable
from agentic.setup.choices import ChoiceError

T = TypeVar("T")

_MARKS = {"good": ("✓", "ok", "green"), "bad": ("✗", "X", "bold red"), "warning": ("!", "!", "yellow")}


class Reader(Protocol):
    """Where answers come from. Both raise EOFError at the end."""

    def line(self, prompt: str) -> str: ...

    def hidden(self, prompt: str) -> str: ...


class TerminalReader:
    """A person at a terminal."""

    def __init__(self) -> None:
        with suppress(ImportError):  # some builds of Python lack it
            import readline  # noqa: F401 - lets input() edit the line

    def line(self, prompt: str) -> str:
        return input(prompt)

    def hidden(self, prompt: str) -> str:
        return getpass.getpass(prompt)


class PipedReader:
    """A pipe or file: each line is an answer, and the prompts are shown on lines of their own."""

    def line(self, prompt: str) -> str:
        print(prompt, flush=True)
        text = sys.stdin.readline()
        if not text:
            raise EOFError
        return text.rstrip("\r\n")

    hidden = line


def standard_reader() -> Reader:
    return TerminalReader() if sys.stdin is not None and sys.stdin.isatty() else PipedReader()


class Dialogue:
    """Prints lines without wrapping, so that links stay whole, and asks."""

    def __init__(self, reader: Reader, console: Console) -> None:
        self._reader, self._console = reader, console
        self._plain = not can_show("✓✗", console.encoding)

    def say(self, *lines: str) -> None:
        for line in lines or ("",):
            self._print(Text(self._clean(line)))

    def heading(self, title: str) -> None:
        self._print(Text())
        self._print(Text(self._clean(title), style="bold"))

    def good(self, line: str) -> None:
        self._marked("good", line)

    def bad(self, line: str) -> None:
        self._marked("bad", line)

    def warn(self, line: str) -> None:
        self._marked("warning", line)

    def _marked(self, kind: str, line: str) -> None:
        mark, plain, style = _MARKS[kind]
        self._print(Text.assemble((plain if self._plain else mark, style), " ", self._clean(line)))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)

    def _clean(self, line: str) -> str:
        return printable(line, self._console.encoding)

    def ask(self, question: str) -> str:
        """The answer without surrounding blanks."""
        return self._answer(self._reader.line, question)

    def ask_hidden(self, question: str) -> str:
        """As `ask`, without echo; the word skip, which other questions take, counts as Enter."""
        answer = self._answer(self._reader.hidden, question)
        return "" if answer.lower() == "skip" else answer

    def _answer(self, read: Callable[[str], str], question: str) -> str:
        prompt = f"{self._clean(question)} "
        while True:
            try:
                return read(prompt).strip()
            except UnicodeDecodeError:
                self.bad("That is not text in UTF-8. Type it again.")

    def agrees(self, question: str, *, default: bool = True) -> bool:
        """Ask for yes or no; Enter is the default."""
        return self.choose(question, ("yes", "no"), default="yes" if default else "no") == "yes"

    def choose(self, question: str, words: Sequence[str], *, default: str) -> str:
        """One of the words, or its beginning; Enter is the default, shown with a capital."""
        shown = "/".join(word.capitalize() if word == default else word for word in words)
        while True:
            answer = self.ask(f"{question} [{shown}]").lower()
            found = [default] if not answer else [word for word in words if word.startswith(answer)]
            if len(found) == 1:
                return found[0]
            self.bad(f"Type {', '.join(words[:-1])} or {words[-1]}.")

    def pick(self, question: str, read: Callable[[str], T]) -> T:
        """Ask until `read` accepts the answer; its ChoiceError is shown."""
        while True:
            try:
                return read(self.ask(question))
            except ChoiceError as error:
                self.bad(str(error))

    def goes_on(self, question: str) -> bool:
        """Wait for Enter; False for the word skip."""
        while (answer := self.ask(f"{question} [Enter, or skip]").lower()) not in ("", "skip", "s"):
            self.bad(f"{'That' if len(answer) > 20 else answer} is neither. Press Enter, or type skip.")
        return answer == ""

    def waiting(self, what: str) -> AbstractContextManager[object]:
        """Show, on a terminal, that an answer is awaited."""
        return self._console.status(f"{self._clean(what)} ...")
