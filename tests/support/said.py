"""People, bots and what they say, for tests of the context."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC
from typing import Any

from agentic.context.entries import Attachment, Entry, Speaker
from agentic.context.prompt import Abilities, Identity, KeptText, Place, PromptContext, TalkContext, Task
from agentic.context.window import Window
from agentic.services.discord.view import DISCORD
from agentic.themes import theme_named

ALICE = Speaker(1, "Alice", "person")
BOB = Speaker(4, "Bob", "person")
GROK = Speaker(2, "Grok", "agent", "grok")
CLAUDE = Speaker(3, "Claude", "agent", "claude")
ME = Identity("claude", "Claude", "You are thoughtful.", ("ChatGPT", "Grok"))
PICTURE = Attachment(1, "cat.png", "https://cdn/cat.png", 10, "image/png")


def said(entry_id: int, speaker: Speaker = ALICE, text: str | None = None, **more: Any) -> Entry:
    given = {"created_at": float(entry_id), **more}
    return Entry(entry_id, speaker, f"text {entry_id}" if text is None else text, **given)


def context(window: Window, trigger: str = "round", **more: Any) -> PromptContext:
    """The context of a prompt; `more` are fields of it and of its parts."""
    given: dict[str, Any] = {
        "me": ME,
        "theme": theme_named("debate"),
        "membership": DISCORD.membership,
        "heading": DISCORD.heading.format("debate"),
        "trigger": trigger,
        "now": 1_700_000_000.0,
        "timezone": UTC,
        "contract": "One JSON object.",
        "target": window.entries[-1] if window.entries else None,
        **more,
    }
    parts: dict[str, Any] = {
        "place": Place,
        "task": Task,
        "talk": TalkContext,
        "abilities": Abilities,
        "kept": KeptText,
    }
    for name, kind in parts.items():
        parts[name] = kind(**{each.name: given.pop(each.name) for each in fields(kind) if each.name in given})
    return PromptContext(window=window, **parts, **given)


def ids(entries: Any) -> list[int]:
    return [entry.id for entry in entries]
