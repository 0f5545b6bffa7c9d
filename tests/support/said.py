"""People, bots and what they say, for tests of the context."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from agentic.chat.outlet import DISCORD
from agentic.context.entries import Attachment, Entry, Speaker
from agentic.context.prompt import Identity, TurnContext
from agentic.context.window import Window
from agentic.themes import theme_named

ALICE = Speaker(1, "Alice", "person")
BOB = Speaker(4, "Bob", "person")
GROK = Speaker(2, "Grok", "agent", "grok")
CLAUDE = Speaker(3, "Claude", "agent", "claude")
ME = Identity("claude", "Claude", "You are thoughtful.", ("ChatGPT", "Grok"))
PICTURE = Attachment(1, "cat.png", "https://cdn/cat.png", 10, "image/png")


def said(entry_id: int, speaker: Speaker = ALICE, text: str | None = None, **more: Any) -> Entry:
    fields = {"created_at": float(entry_id), **more}
    return Entry(entry_id, speaker, f"text {entry_id}" if text is None else text, **fields)


def context(window: Window, trigger: str = "round", **more: Any) -> TurnContext:
    fields: dict[str, Any] = {
        "me": ME,
        "theme": theme_named("debate"),
        "membership": DISCORD.membership,
        "heading": DISCORD.heading_of("debate"),
        "window": window,
        "trigger": trigger,
        "now": 1_700_000_000.0,
        "timezone": UTC,
        "contract": "One JSON object.",
        "target": window.entries[-1] if window.entries else None,
        **more,
    }
    return TurnContext(**fields)


def ids(entries: Any) -> list[int]:
    return [entry.id for entry in entries]
