"""Prefill mode (stage 9): a transcript that the model continues as the agent.

    user        <cmd>cat untitled.txt</cmd>
    assistant   Alice: Hello⏎⏎Claude: Hi, how are you?⏎⏎Claude:

The assistant's turn is split only at pictures and at cache marks, including earlier marks since the cut: a provider
finds a cache only with the same split. Its last part is the prefill, and the model's continuation is the message. If
the agent spoke last, the prefill ends with its words. No part ends in whitespace, which providers reject.

Labels tell speakers apart, so no other text may look like a label. If a further line of a message could be read as a
label or a note, `escaped` puts a backslash before it, even if it already begins with one; `unescaped` removes one
backslash. Notes and tools' lines are paragraphs in square brackets. Reactions aren't shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agentic.context.blocks import Line, Note, ToolLine, quoted_in
from agentic.context.chat_layout import NO_PICTURES, cached_blocks, pictures_of
from agentic.context.entries import Entry, Speaker, words
from agentic.context.prompt import Identity, PromptContext, build_persona, memory_part
from agentic.context.render import MAX_TEXT, NO_FILES, content_marks, quoted_files, speaker_label
from agentic.llm.types import Message, Picture

SYSTEM = "The system is in CLI simulation mode."
OPENING = "<cmd>cat untitled.txt</cmd>"
GAP = "\n\n"

_COLONS = ":：꞉˸∶︓﹕"
_RISKY = re.compile(  # a label, with or without a space after it, but no address, no time of day; or a bracket
    rf"[\s\\]*+(?:\[|[^\s{_COLONS}][^{_COLONS}]{{0,47}}[{_COLONS}](?=\s|\Z)"
    rf"|(?=[^{_COLONS}]*[^\W\d])[^\s{_COLONS}][^{_COLONS}]{{0,47}}[{_COLONS}](?!//))"
)
_BEGINS = re.compile(r"[\w\"“«*_]")
_NOT_IN_LABELS = re.compile(rf"[{_COLONS}\s\\\[\]]+")


@dataclass(frozen=True, slots=True)
class PrefillLayout:
    """The parts of a Prompt. `others`: labels that end a completion. `own`: the agent's label. `opener`: its message's
    first words, at the end of `prefill`."""

    system: str
    history: tuple[Message, ...]
    prefill: str
    stops: tuple[str, ...]
    own: str
    others: tuple[str, ...]
    opener: str = ""


def build_prefill(
    context: PromptContext,
    pictures: Mapping[int, tuple[Picture, ...]] = NO_PICTURES,
    files: Mapping[int, str] = NO_FILES,
    *,
    bare: bool = False,
    stop_names: int = 10,
    ephemeral: str = "",
) -> PrefillLayout:
    """Lay out the transcript. `stop_names`: how many of the most recent participants' labels end the completion.
    `ephemeral`: shown as `[system] …` just before the agent's words, in this prompt only."""
    me = context.me
    own = label(Speaker(0, me.display_name, "agent", me.key), me)
    parts, tail = _parts(context, pictures, files)
    begins, blocks = f"{own}:", context.window.laid
    last = blocks[-1].lines[-1] if blocks else None
    if ephemeral:
        begins = f"[system] {escaped(ephemeral)}{GAP}{begins}"
    elif isinstance(last, Entry) and last.speaker.agent == me.key and (tail or not parts[-1].pictures):
        begins, tail = "", tail or parts.pop().text
    between = GAP if begins and (parts or tail) else ""
    others, room = labels(context.window.entries, me), context.talk.room
    length = f"{GAP}Length of a message: {context.place.theme.length}."
    if room is not None and room.format is not None:  # the phase sets it
        length = ""
    return PrefillLayout(
        system=SYSTEM if bare else f"{SYSTEM}{GAP}{build_persona(context)}{length}{memory_part(context)}",
        history=(Message("user", OPENING), *parts),
        prefill=f"{tail}{between}{begins}",
        stops=tuple(f"\n{name}:" for name in others[:stop_names]),
        own=own,
        others=tuple(others),
    )


def _parts(
    context: PromptContext, pictures: Mapping[int, tuple[Picture, ...]], files: Mapping[int, str]
) -> tuple[list[Message], str]:
    """Return the assistant's parts that end in pictures or a cache mark, and the text after the last of them."""
    blocks = context.window.laid
    marks = {index for index in cached_blocks(blocks, context.window.marker) if blocks[index].closed}
    parts: list[Message] = []
    text = f"[summary] {escaped(words(context.kept.summary))}" if context.kept.summary else ""
    for index, block in enumerate(blocks):
        key = ("prefill", quoted_in(block, files))
        paragraphs = block.texts.get(key)
        if paragraphs is None:
            rendered = (_render_line(line, context.me, files) for line in block.lines)
            paragraphs = block.texts[key] = GAP.join(filter(None, rendered))
        if paragraphs:
            text += f"{GAP if text or parts else ''}{paragraphs}"
        found = pictures_of(block, pictures)
        if text and (found or (block.closed and index >= min(marks))):
            parts.append(Message("assistant", text, found, cache=index in marks))
            text = ""
    return parts, text


def _render_line(line: Line, me: Identity, files: Mapping[int, str]) -> str:
    if isinstance(line, ToolLine):
        return f"[tool] {escaped(line.text)}".rstrip()
    if isinstance(line, Note):
        if line.kind == "reactions":
            return ""
        return f"[note: {label(line.about.speaker, me)} changed a message, it now reads] {_body(line.about, files)}"
    return f"{label(line.speaker, me)}: {_body(line, files)}".rstrip()


def _body(entry: Entry, files: Mapping[int, str]) -> str:
    text = escaped(entry.text[: MAX_TEXT * len(entry.units)])
    head = " ".join([*([text] if text else []), *content_marks(entry)])
    return "\n".join((head or "(no text)", *(f"| {line}" for line in quoted_files(entry, files))))


def label(speaker: Speaker, me: Identity) -> str:
    """Return a name as it is before the colon. The agent's own name has no addition."""
    name = _NOT_IN_LABELS.sub(" ", speaker.name).strip() or "someone"
    shown = replace(speaker, name=name)
    return name if speaker.agent == me.key else speaker_label(shown, me.key, me.agents)


def labels(entries: Sequence[Entry], me: Identity) -> list[str]:
    """Return everyone's label except the agent's, the most recent speaker first."""
    others = (entry.speaker for entry in reversed(entries) if entry.speaker.agent != me.key)
    return list(dict.fromkeys(label(speaker, me) for speaker in others))


def escaped(text: str) -> str:
    """Escape every line after the first that could be read as the beginning of a message or a note."""
    first, *lines = text.strip().splitlines() or [""]
    return "\n".join(
        (first.rstrip(), *(f"\\{line}" if _RISKY.match(line) else line for line in map(str.rstrip, lines)))
    )


def unescaped(text: str) -> str:
    """Undo `escaped`."""
    first, *lines = text.split("\n")
    return "\n".join((first, *(line[1:] if line.startswith("\\") and _RISKY.match(line) else line for line in lines)))


def cut_at_other_speaker(completion: str, names: Iterable[str], *, in_line: bool = False) -> str:
    """Cut the completion before it continues as another speaker, and strip it. `in_line`: a label after a
    sentence, on the same line, ends it, too: small models write so."""
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name)
    if known:
        before = r"\A|\n|(?<=[.!?…\"”])[ ]" if in_line else r"\A|\n"
        head = re.search(rf"(?:{before})[ \t*_]{{0,4}}(?:{known})[*_]{{0,3}}[ \t]?[{_COLONS}]", completion)
        completion = completion[: head.start()] if head else completion
    return completion.strip()


def read_completion(completion: str, transcript: PrefillLayout, *, in_line: bool = False) -> str:
    """Return the text to post, or "" if there is none, without repeated labels of the agent itself. `in_line` is as for
    cut_at_other_speaker."""
    # Some servers begin a new message instead of continuing the opener.
    if transcript.opener and completion.strip() and not _BEGINS.match(completion):
        completion = transcript.opener + completion
    text = cut_at_other_speaker(completion, transcript.others, in_line=in_line)
    own = rf"(?:\A|(?<!\n)\n++)[ \t]*{re.escape(transcript.own)}[{_COLONS}][ \t]*"
    return unescaped(re.sub(own, lambda found: "\n" if found.start() else "", text)).strip()
