"""Build the tools that every agent may have, web_search and web_fetch, and the search for pictures, from settings."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from agentic.tools.picture_search import ImageSearch, PictureSearch, ddgs_images
from agentic.tools.protocol import RunnableTool
from agentic.tools.query_privacy import Redact, unchanged
from agentic.tools.search_engines import ENGINES, KeyedEngine, KeylessEngine, SearchEngine, TextSearch, ddgs_text
from agentic.tools.web_fetch import PAGE_CHARACTERS, PageFetcher, WebFetch
from agentic.tools.web_search import WebSearch

NAMES = ("web_search", "web_fetch")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """`search_keys`: engine (tavily, brave, perplexity, exa) → key, asked in this order; then ddgs, if `keyless`.

    `search_bases`: engine → another address for it. `fetch`: whether pages may be read.
    """

    search_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    search_bases: Mapping[str, str] = field(default_factory=dict)
    keyless: bool = True
    fetch: bool = True
    page_characters: int = PAGE_CHARACTERS


@dataclass(frozen=True, slots=True)
class Keyless:
    """The searches without a key: those of the ddgs package, or doubles."""

    text: TextSearch = ddgs_text
    images: ImageSearch = ddgs_images


KEYLESS = Keyless()


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """The tools, and the search for pictures; None where nothing may be asked without a key."""

    tools: tuple[RunnableTool, ...]
    pictures: PictureSearch | None


@asynccontextmanager
async def built_in_tools(
    settings: ToolSettings,
    session: aiohttp.ClientSession,
    pages: PageFetcher,
    *,
    clock: Callable[[], float] = time.time,
    keyless: Keyless = KEYLESS,
    redact: Redact = unchanged,
) -> AsyncIterator[BuiltIn]:
    """Open the tools. `session` is for the engines with keys; `pages` reads addresses; `redact` removes secrets from
    queries.

    Raises ValueError for the key of an unknown engine.
    """
    unknown = settings.search_keys.keys() - ENGINES.keys()
    if unknown:
        raise ValueError(f"not a search engine: {', '.join(sorted(unknown))}")
    engines: list[SearchEngine] = [
        KeyedEngine(name, key, session, settings.search_bases.get(name, ""))
        for name, key in settings.search_keys.items()
        if key
    ]
    ddgs, pictures = KeylessEngine(text=keyless.text), PictureSearch(pages, clock, images=keyless.images, redact=redact)
    if settings.keyless:
        engines.append(ddgs)
    tools: list[RunnableTool] = [WebSearch(engines, clock, redact)] if engines else []
    if settings.fetch:
        tools.append(WebFetch(pages, clock, settings.page_characters))
    try:
        yield BuiltIn(tuple(tools), pictures if settings.keyless else None)
    finally:
        ddgs.close()
        pictures.close()
