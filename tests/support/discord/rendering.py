"""What people see of a message: its characters without marks, each with its styles, by Discord's own rules."""

from __future__ import annotations

import re
from collections.abc import Iterator

Seen = tuple[str, frozenset[str]]

RULES = {
    "block": re.compile(r"```(?:[A-Za-z0-9_+\-.#]{1,32}\n)?([\s\S]*?)```"),
    "code": re.compile(r"(?P<run>`{1,2})(?!`)([\s\S]*?[^`])(?P=run)(?!`)"),
    "spoiler": re.compile(r"\|\|([\s\S]+?)\|\|"),
    "bold italics": re.compile(r"\*\*\*(?=\S)([\s\S]+?)\*\*\*(?!\*)"),
    "bold": re.compile(r"\*\*(?!\*)([\s\S]+?)\*\*(?!\*)"),
    "underline": re.compile(r"__(?!_)([\s\S]+?)__(?!_)"),
    "italics": re.compile(r"\*(?=[^\s*])((?:\*\*|\s+(?:[^\s*]|\*\*)|[^\s*])+?)\*(?!\*)|\b_((?:__|[^_])+?)_(?!\w)"),
    "strikethrough": re.compile(r"~~([\s\S]+?)~~"),
}
LINE = re.compile(r"(?:(>>> )|(> ))?((?:#{1,3}|-#) )?(?=\S)")


def render(text: str) -> list[Seen]:
    """Every character that people see, but for white space, with the names of its styles."""
    return list(_rendered(text, frozenset(), starts_line=True))


def _rendered(text: str, styles: frozenset[str], *, starts_line: bool) -> Iterator[Seen]:
    at, line = 0, frozenset[str]()
    quoted = "quote" in styles
    while at < len(text):
        if starts_line and (marks := LINE.match(text, at)):
            if marks[1] and not quoted:
                yield from _rendered(text[marks.end(1) :], styles | {"quote"}, starts_line=True)
                return
            if not (marks[1] or marks[2]) or not quoted:
                line = frozenset({"quote"} if marks[2] else ()) | ({"heading"} if marks[3] else frozenset())
                at = marks.end()
        starts_line = False
        for style, rule in RULES.items():
            if found := rule.match(text, at):
                inner = next(group for group in reversed(found.groups()) if group is not None)
                if style in ("block", "code"):
                    own = inner.replace("\n> ", "\n").removeprefix("> ") if "quote" in line else inner
                    yield from ((char, styles | line | {style}) for char in own if not char.isspace())
                else:
                    yield from _rendered(inner, styles | line | set(style.split()), starts_line=False)
                at = found.end()
                break
        else:
            char, at = text[at], at + 1
            if char == "\n":
                starts_line, line = True, frozenset()
            elif not char.isspace():
                yield char, styles | line
