"""The web pages below an answer: which of them a service shows, and by what title. Pure; a sink writes them its way."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentic.llm.types import Source

MAX_SOURCES = 3
MAX_TITLE = 60  # characters

_LINK = re.compile(r"https?://[^\s<>/?#]+[^\s<>]{0,1000}")
_PLAIN = str.maketrans("[]", "()", "`")


def unlinked(text: str, sources: Sequence[Source]) -> list[Source]:
    """The sources to show below a text: the first ones that it does not link itself and that are plain links."""
    return [source for source in sources if _LINK.fullmatch(source.url) and source.url not in text][:MAX_SOURCES]


def title_of(source: Source) -> str:
    """The page's title on one line, without marks of markdown; its host where it has none."""
    cleaned = " ".join(source.title.translate(_PLAIN).split())
    return cleaned[:MAX_TITLE] or source.url.split("/")[2]
