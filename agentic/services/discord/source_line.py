"""The line of sources below a post."""

from __future__ import annotations

from agentic.chat.formatting import FENCE
from agentic.chat.outlet import Post, title_of, unlinked


def text_with_sources(post: Post) -> str:
    """The post's text, "" for none, with a line of the sources that it does not link; addresses in <> so that none has
    a preview."""
    text = post.text or ""
    shown = unlinked(text, post.sources) if text else []
    if not shown:
        return text
    links = " · ".join(f"[{title_of(source)}](<{source.url}>)" for source in shown)
    closing = f"\n{FENCE}" if text.count(FENCE) % 2 else ""
    return f"{text}{closing}\n-# {links}"
