"""One entry of the transcript as the model reads it.

    [msg:123 3h ago] Grok: Hot take  [reactions: 🔥 (Claude)]
      a second line of the same message

Structure, not punctuation, tells speakers apart: only a line that begins at the margin with `[msg:` starts a message,
every further line of it is indented, so nothing that anybody types can pose as somebody else's message.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent_context.entries import Entry, Reaction, Speaker
from agent_context.untrusted import one_line, poses, words

INDENT = "  "
MAX_TEXT = 4000  # characters of one message that a model sees; Discord's own limit is 2,000, or 4,000 with Nitro
MAX_FILENAME = 80  # characters, and so for an emoji, a custom one with its name and id
MAX_EMOJI = 60


def ago(seconds: float) -> str:
    """A distance in time in one unit: "just now", "5m ago", "3h ago", "2d ago"."""
    return "just now" if seconds < 60 else f"{_unit(seconds)} ago"


def after(seconds: float) -> str:
    """A distance after the cut: "+20s", "+4m", "+2h"."""
    return f"+{int(seconds)}s" if seconds < 60 else f"+{_unit(seconds)}"


def _unit(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{name}"
    return "0m"


def time_label(created_at: float, cut_at: float) -> str:
    return ago(cut_at - created_at) if created_at <= cut_at else after(created_at - cut_at)


def reactions_note(reactions: Iterable[Reaction]) -> str:
    """`  [reactions: 🔥 (grok) 💯 (gemini) 👍 x3]`, or nothing."""
    notes = []
    for reaction in reactions:
        note = one_line(reaction.emoji, MAX_EMOJI)
        if reaction.by:
            note += f" ({', '.join(reaction.by)})"
        if reaction.count > max(1, len(reaction.by)):
            note += f" x{reaction.count}"
        notes.append(note)
    return f"  [reactions: {' '.join(notes)}]" if notes else ""


def indented(entry: Entry) -> str:
    """What was said, with every line but the first moved off the margin."""
    lines = words(entry.text[:MAX_TEXT], own_notes=entry.speaker.kind == "agent").splitlines()
    return f"\n{INDENT}".join(line.rstrip() for line in lines)


def speaker_label(speaker: Speaker, me: str, agents: Iterable[str] = ()) -> str:
    """The name, and what else must be known; `agents` are the folded names of all agents, which people may take too."""
    if speaker.agent == me:
        return f"{speaker.name} (you)"
    if speaker.kind == "stranger":
        return f"{speaker.name} (another bot)"
    if speaker.kind == "person" and poses(speaker.name, agents):
        return f"{speaker.name} (a person)"
    return speaker.name


def entry_body(entry: Entry) -> str:
    """Text, then attachments, in one string; never empty."""
    parts = [indented(entry)] if entry.text.strip() else []
    for attachment in entry.attachments:
        kind = "picture" if attachment.is_picture else "file"
        parts.append(f"[{kind}: {one_line(attachment.filename, MAX_FILENAME)}]")
    return " ".join(parts) or "(no text)"


def render_entry(entry: Entry, cut_at: float, me: str, agents: Iterable[str] = ()) -> str:
    head = f"[msg:{entry.id} {time_label(entry.created_at, cut_at)}]"
    who = speaker_label(entry.speaker, me, agents)
    reply = f" (reply to msg:{entry.reply_to})" if entry.reply_to else ""
    return f"{head} {who}{reply}: {entry_body(entry)}{reactions_note(entry.reactions)}"
