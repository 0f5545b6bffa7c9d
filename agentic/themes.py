"""The themes of channels: one for each table of themes.toml.

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
    """How to behave in a channel. `summary` says in a few words what it is, for the owner who chooses one.

    `window_share` is the part of the context window (0 to 1) that this talk needs: a joke stands by itself, a debate or
    a story does not. `search`: look things up before speaking. `always_draw`: every post carries a picture if the
    provider can draw; `maybe_draw`: a picture now and then is welcome.
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
    """The theme of that name, in any case and with blanks around it; an unknown one is casual."""
    return THEMES.get(name.strip().lower(), THEMES[DEFAULT_THEME])
