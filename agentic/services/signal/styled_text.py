"""Runs as the styled text that signal-cli-rest-api reads (its src/utils/textstyleparser.go).

Its parser toggles a style at each mark and knows no rules beyond that: a mark without its partner styles the rest of
the message, or is swallowed. So each mark that belongs to the text gets a backslash. A run keeps its style only if
its marks cannot be misread: not beside a backslash, which would take the mark's meaning, and not beside the same sign,
as `*` and `**` are distinguished by the next sign alone. A spoiler always keeps its marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentic.services.signal.markdown import Run, Style

MARKS = {Style.ITALIC: "*", Style.STRIKE: "~", Style.BOLD: "**", Style.MONO: "`", Style.SPOILER: "||"}

SEPARATOR = "\u2060"  # invisible (WORD JOINER): stands between a spoiler's mark and a sign that would take its meaning
_SIGNS = re.compile(r"[*~`|]")


def styled(runs: Iterable[Run]) -> str:
    """The runs as styled text."""
    text = ""
    for run in runs:
        mark = MARKS.get(run.style, "")
        beside = (text[-1:], run.text[-1:])
        before, after = "", ""
        if run.style is Style.SPOILER:
            before, after = (SEPARATOR if sign and sign in "\\|" else "" for sign in beside)
        elif not run.text.strip() or "\\" in beside or mark[:1] in beside:
            mark = ""
        text += f"{before}{mark}{_SIGNS.sub(_escaped, run.text)}{after}{mark}"
    return text


def _escaped(sign: re.Match[str]) -> str:
    return f"\\{sign[0]}"
