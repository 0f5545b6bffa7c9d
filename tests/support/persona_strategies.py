"""What people write into persona files, as hypothesis makes it up."""

from __future__ import annotations

from hypothesis import strategies as st

from agentic.personas.files import PERSONA_FILES
from agentic.personas.schedules import MAX_NAME

SHOWN = ("soul", "identity", "agents", "user", "memory", "tools")

LINE_ENDS = st.sampled_from(("\n", "\r\n"))
CHARACTERS = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff\u2028\u2029\x85")
WORDS = st.text(CHARACTERS, min_size=1, max_size=40).map(lambda text: " ".join(text.split())).filter(bool)
NAMES = WORDS.filter(
    lambda name: len(name) <= MAX_NAME and "<!--" not in name and not name.endswith("#") and "#" not in name[:1]
)
"""Any name but what would be markdown's own: a comment, or the #s that may close a heading."""

PROSE = WORDS.filter(lambda line: "<!--" not in line and line.lstrip()[:1] not in ("#", "-", "*", "+", "~", "`"))
CODE = st.lists(WORDS.filter(lambda line: "~~~" not in line), min_size=1, max_size=3).map(
    lambda lines: "\n".join(("~~~", "## no heading", "<!-- no comment -->", *lines, "~~~"))
)
INSTRUCTIONS = st.builds(
    lambda first, rest: "\n\n".join((first, *rest)), PROSE, st.lists(st.one_of(PROSE, CODE), max_size=3)
)
CHANNELS = st.one_of(st.none(), st.integers(1, 2**63), st.from_regex(r"[a-z][a-z0-9_-]{0,30}", fullmatch=True))


def channel_field(channel: int | str | None) -> list[str]:
    if channel is None:
        return []
    return [f"- channel: <#{channel}>" if isinstance(channel, int) else f"- channel: #{channel}"]


CRON = st.one_of(
    st.sampled_from(
        ("@hourly", "@daily", "0 9 * * 1", "*/15 8-18 * * mon-fri", "30 2 * * *", "0 0 1 1 *", "0 12 L * *")
    ),
    st.builds(
        lambda minute, hour, day: f"{minute} {hour} * * {day}",
        st.integers(0, 59),
        st.integers(0, 23),
        st.integers(0, 7),
    ),
)
NO_CRON = st.one_of(
    st.sampled_from(("", "hello", "* * * *", "* * * * * *", "60 * * * *", "0 24 * * *", "0 0 30 2 *", "*/0 * * * *")),
    st.text(st.characters(codec="ascii", categories=("L",)), min_size=1, max_size=8).map(lambda word: f"{word} {word}"),
    st.integers(60, 999).map(lambda minute: f"{minute} * * * *"),
)
PARTS = st.one_of(
    PROSE.map(lambda text: (text, text)),
    CODE.map(lambda text: (text, text)),
    PROSE.map(lambda text: (f"<!-- for people:\n## Personality -->\n{text}", text)),
    st.sampled_from(
        (
            ("# Title", "### Title"),
            ("## Personality", "#### Personality"),
            ("## Long-Term Memory", "#### Long-Term Memory"),
            ("###### Deep", "###### Deep"),
            ("~~~\n## Identity\n~~~", "~~~\n    ## Identity\n~~~"),
            ("- Ann keeps bees.", "- Ann keeps bees."),
        )
    ),
)
"""What stands in a file, and how a model is shown that."""

FILES = st.lists(PARTS, max_size=4).map(
    lambda parts: ("\n\n".join(part for part, _ in parts), "\n\n".join(seen for _, seen in parts))
)
SETTINGS = {
    "identity": ("---\nmode: chat\n---\n", ""),
    "agents": ("", "\n\n## Cron Jobs\n\n### Plan\n- cron: @daily\n\nNobody is shown this."),
}
"""What stands before and behind a file's text and is not shown."""


@st.composite
def configs(draw: st.DrawFn) -> tuple[dict[str, str | None], dict[str, str]]:
    """The persona's files by their names without .md, None for one that is not there; and of each that says anything,
    what a model is shown."""
    files: dict[str, str | None] = {}
    seen: dict[str, str] = {}
    for name in SHOWN:
        content = draw(st.none() | st.sampled_from((("", ""), (" \n", ""))) | FILES)
        if content is None:
            files[name] = None
            continue
        before, behind = SETTINGS.get(name, ("", "")) if draw(st.booleans()) else ("", "")
        files[name] = f"{before}{content[0]}{behind}"
        if content[1]:
            seen[name] = content[1]
    return files, seen


PERSONA_NAMES = st.lists(
    st.one_of(
        st.sampled_from([name for name in PERSONA_FILES if name != "boot.md"]),
        st.from_regex(r"[a-z][a-z0-9_]{0,12}\.md", fullmatch=True).filter(lambda name: name != "boot.md"),
    ),
    unique=True,
    max_size=6,
)
