"""Print the findings: as a table on a terminal, otherwise as plain lines.

Names come from strangers and errors from libraries, so secrets and control characters are removed from every line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent_config import Settings
from agentic.findings import Findings, Level
from agentic.process.redaction import Redactor


@dataclass(slots=True)
class ReportSection:
    """The findings under one heading. `link` is the bot's invite link."""

    title: str
    findings: Findings = field(default_factory=Findings)
    link: str | None = None


_MARKS = {Level.OK: "✓", Level.NOTE: "–", Level.WARNING: "!", Level.WRONG: "✗"}
_PLAIN_MARKS = {Level.OK: "ok", Level.NOTE: "-", Level.WARNING: "!", Level.WRONG: "X"}
_COLORS = {Level.OK: "green", Level.NOTE: "dim", Level.WARNING: "yellow", Level.WRONG: "bold red"}


def show(sections: Sequence[ReportSection], console: Console, settings: Settings) -> None:
    redact = Redactor(settings.secrets())
    marks = _MARKS if can_show("".join(_MARKS.values()), console.encoding) else _PLAIN_MARKS

    def clean(text: str) -> str:
        return printable(redact.secrets(text), console.encoding)

    def line(text: str) -> None:  # not wrapped: links must stay whole
        console.print(Text(clean(text)), soft_wrap=True)

    if linked := [section for section in sections if section.link]:
        line("Invite links (open one to add the bot to a server or to grant missing permissions):")
        for section in linked:
            line(f"  {section.title}: {section.link}")
        line("")
    if console.is_terminal:
        table = Table(show_edge=False, pad_edge=False)
        for heading in ("", "Check", "Found", "What to do"):
            table.add_column(heading, overflow="fold")
        for section in sections:
            table.add_section()
            table.add_row("", Text(clean(section.title), style="bold"))
            for finding in section.findings:
                color = _COLORS[finding.level]
                mark, subject = Text(marks[finding.level], style=color), Text(clean(finding.subject))
                text = Text(clean(finding.text), style="" if finding.level is Level.OK else color)
                table.add_row(mark, subject, text, Text(clean(finding.advice)))
        console.print(table)
    else:
        for section in sections:
            line(section.title)
            for finding in section.findings:
                end = "" if finding.text.endswith((".", "?")) else "."
                advice = f"{end} What to do: {finding.advice}" if finding.advice else ""
                line(f"  {marks[finding.level]} {finding.subject}: {finding.text}{advice}")
    line(summary(sections, marks))


def summary(sections: Sequence[ReportSection], marks: Mapping[Level, str] = _MARKS) -> str:
    """Return the verdict, with the number of findings at each level."""
    counts = Counter(finding.level for section in sections for finding in section.findings)
    shown = (Level.OK, Level.WARNING, Level.WRONG)
    numbers = ", ".join(f"{counts[level]} {marks[level]}" for level in shown if counts[level])
    verdict = "not ready to start" if counts[Level.WRONG] else "ready to start"
    return f"{verdict.capitalize()}: {numbers}. Nothing was posted."


def printable(text: str, encoding: str) -> str:
    """Replace control characters with spaces, and characters that the encoding lacks with question marks."""
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if can_show(text, encoding) else text.encode(encoding, "replace").decode(encoding)


def can_show(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
