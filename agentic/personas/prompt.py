"""Build the part of a prompt that says who the agent is, from its persona's files.

It has a preamble and a section for each file. The memory is returned separately and comes last in the prompt, because a
prompt cache ends at the first change and memory.md changes most.

Empty sections and a memory without entries are left out. A file can't imitate this structure: its headings are moved
below ours, and an open code block is closed. That matters for memory.md, where an agent writes what strangers said.
Comments are for people and not shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import dropwhile, takewhile

from agentic.personas.files import PersonaFiles
from agentic.personas.identity import body_of
from agentic.personas.markdown import UNCLOSED, Line, open_comment, scan, text_of, without
from agentic.text import first_sentences

SECTIONS = {
    "Identity": "identity.md",
    "Personality": "soul.md",
    "Operating Rules": "agents.md",
    "User Context": "user.md",
    "Long-Term Memory": "memory.md",
    "Tool Configuration": "tools.md",
}
"""Section → its file, in order. In a prompt the memory comes last."""

MEMORY_SECTION = "Long-Term Memory"
UNUSED_MEMORY = "# Memory"  # the text of a new file
HOW_TO_TALK = re.compile(r"\b(?:talk|speak|sound|write|voice|style|tone)", re.IGNORECASE)  # in a heading of soul.md
EXAMPLE = re.compile(r"[^.!?\"“]{1,80}\? [\"“]")  # a question with its answer, which small models repeat
MAX_IDENTITY = 300  # characters that a small model is shown
MAX_TALK = 220
SCHEDULES = ("Cron Jobs", "Hooks")  # sections of agents.md that are settings
_HEADERS = frozenset(f"## {section}" for section in SECTIONS)


@dataclass(frozen=True, slots=True)
class PersonaPrompt:
    """`stable` changes when a person edits a file, `memory` when the agent learns something; both may be empty.
    `short` is the identity and how the agent talks, for small models. `people`: those whose words are in the memory."""

    stable: str
    memory: str
    short: str = ""
    people: frozenset[int] = frozenset()


def laid_out(files: PersonaFiles, memory_tool: str | None = "memory") -> PersonaPrompt:
    """Return the sections in the order of SECTIONS, and the memory. Both are empty if all files are. `memory_tool` is
    the name of the agent's memory tool, or None."""
    contents = {section: shown(name, files.text(name)) for section, name in SECTIONS.items()}
    parts = {section: f"## {section}\n\n{content}\n\n" for section, content in contents.items() if content}
    memory = parts.pop(MEMORY_SECTION, "")
    if (files.memory or "").strip() == UNUSED_MEMORY:
        memory = ""
    stable = preamble(memory_tool) + "".join(parts.values()) if parts or memory else ""
    identity, soul = contents["Identity"], contents["Personality"]
    return PersonaPrompt(stable, memory, short_persona(identity, soul))


def short_persona(identity: str, soul: str) -> str:
    """Return the identity, and the beginning of the soul's section about how the agent talks, or of the soul if it has
    none: whole sentences, without headings and examples."""
    lines = [line for line in scan(soul) if not line.fence]
    named = next((number for number, line in enumerate(lines) if line.level and HOW_TO_TALK.search(line.title)), None)
    rest = lines if named is None else lines[named + 1 :]
    section = list(
        takewhile(lambda line: not (line.level or EXAMPLE.match(line.text)), dropwhile(lambda line: line.level, rest))
    )
    about = " ".join(" ".join(line.text for line in scan(identity) if not line.level).split())
    talk = " ".join(" ".join(line.text for line in section).split())
    return "\n".join(filter(None, (first_sentences(about, MAX_IDENTITY), first_sentences(talk, MAX_TALK))))


def unclosed_comments(files: PersonaFiles) -> tuple[str, ...]:
    """Report each file with an unclosed comment, which hides its end. Parsing its jobs does that for agents.md."""
    names = [name for name in SECTIONS.values() if name != "agents.md"]
    lines = ((name, open_comment(files.text(name) or "")) for name in names)
    return tuple(f"{name}:{line}: {UNCLOSED}" for name, line in lines if line)


def preamble(memory_tool: str | None) -> str:
    text = "The sections below say who you are. Be that, and never quote them."
    if memory_tool:
        text += f" Keep your long-term memory up to date with the `{memory_tool}` tool."
    return f"{text}\n\n"


@lru_cache(maxsize=128)  # files.py returns the same text object while a file doesn't change
def shown(name: str, text: str | None) -> str:
    """Return a file's text for the model: trimmed, without comments and settings, with lowered headings."""
    if not text:
        return ""
    lines = scan(body_of(text) if name == "identity.md" else text)
    kept = without(lines, SCHEDULES) if name == "agents.md" else lines
    return text_of(map(_lower, kept)).strip()


def _lower(line: Line) -> Line:
    """Move a heading below ours, which have two marks."""
    if line.level:
        level = min(line.level + 2, 6)
        return replace(line, text=f"{'#' * level} {line.title}".rstrip(), level=level)
    # In a code block, headings stay as they are, but ours must not appear at the margin.
    return replace(line, text=f"    {line.text}") if line.text.rstrip() in _HEADERS else line
