"""The themes of channels, one for each table in themes.toml.

A theme says how the bots behave in a channel (`rules`, put into the prompt word for word), how long their messages are
in conversations (`length`), how much of the context window they need, whether answers gain from a web search, and
whether pictures belong there. `topic_hints` are openings for a starter without an idea of its own. Nothing here knows
Discord, models, or Redis.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Theme:
    """How the bots talk in a channel. `summary` describes it briefly for the owner who chooses a theme.

    `window_share` is the part of the context window (0 to 1) that it needs: a joke needs little, a debate or a story
    much. `search`: look things up before speaking. `always_draw`: every post has a picture if the provider can draw;
    `maybe_draw`: an occasional picture is welcome.
    """

    name: str
    summary: str
    length: str
    rules: str
    window_share: float
    topic_hints: tuple[str, ...]
    search: bool = False
    always_draw: bool = False
    maybe_draw: bool = False


_TABLES = tomllib.loads(Path(__file__).with_name("themes.toml").read_text(encoding="utf-8"))
THEMES: Mapping[str, Theme] = MappingProxyType(
    {name: Theme(name, **{**table, "topic_hints": tuple(table["topic_hints"])}) for name, table in _TABLES.items()}
)
DEFAULT_THEME = "casual"


def theme_named(name: str) -> Theme:
    """Return the theme with this name, in any case and with surrounding spaces; for an unknown name, casual."""
    return THEMES.get(name.strip().lower(), THEMES[DEFAULT_THEME])
