"""What a check found: one line each, grouped. Checks append as they go, so that one that breaks off leaves the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Level(Enum):
    OK = "ok"
    NOTE = "note"  # neither good nor bad: not set up
    WARNING = "warning"  # works, but not as it could
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """`text` is what was found about `subject`, `advice` what to do about it, each in a few words."""

    level: Level
    subject: str
    text: str
    advice: str = ""


class Findings(list[Finding]):
    """In the order in which they were made."""

    def ok(self, subject: str, text: str) -> None:
        self.append(Finding(Level.OK, subject, text))

    def note(self, subject: str, text: str, advice: str = "") -> None:
        self.append(Finding(Level.NOTE, subject, text, advice))

    def warn(self, subject: str, text: str, advice: str) -> None:
        self.append(Finding(Level.WARNING, subject, text, advice))

    def wrong(self, subject: str, text: str, advice: str) -> None:
        self.append(Finding(Level.WRONG, subject, text, advice))


@dataclass(slots=True)
class Section:
    """What is told under one heading. `link` invites the bot that the section is about."""

    title: str
    findings: Findings = field(default_factory=Findings)
    link: str | None = None
