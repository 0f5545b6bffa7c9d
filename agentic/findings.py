"""The findings of the setup checks. Each check appends as it goes, so a check that fails keeps its earlier findings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    OK = "ok"
    NOTE = "note"  # not set up
    WARNING = "warning"  # the bots start, but something does not work
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: what a check found about a subject, and what the owner should do."""

    level: Level
    subject: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}; {self.advice}"


class Findings(list[Finding]):
    def ok(self, subject: str, text: str) -> None:
        self.append(Finding(Level.OK, subject, text))

    def note(self, subject: str, text: str, advice: str = "") -> None:
        self.append(Finding(Level.NOTE, subject, text, advice))

    def warn(self, subject: str, text: str, advice: str) -> None:
        self.append(Finding(Level.WARNING, subject, text, advice))

    def wrong(self, subject: str, text: str, advice: str) -> None:
        self.append(Finding(Level.WRONG, subject, text, advice))
