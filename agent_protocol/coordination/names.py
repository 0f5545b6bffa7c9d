"""Finds agents' names in texts, alike on both sides of the wire."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

_WITHOUT_SPACES = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")  # Thai to Chinese


def folded(text: str) -> str:
    """The text as it is compared: without differences of case and of width."""
    return unicodedata.normalize("NFKC", text).casefold()


def names_in(text: str, shown: Mapping[str, str]) -> tuple[str, ...]:
    """The agents whose shown names, or keys, are in the text as whole words. `shown`: agent → shown name."""
    plain = folded(text)
    return tuple(agent for agent, name in shown.items() if _pattern(agent, name).search(plain))


@lru_cache(maxsize=1024)
def _pattern(agent: str, shown: str) -> re.Pattern[str]:
    return re.compile("|".join(_whole(name) for name in {folded(agent), folded(shown).strip()} if name))


def _whole(name: str) -> str:
    """Whole words only, where the script has spaces between words."""
    before = "" if _WITHOUT_SPACES.match(name[0]) else r"(?<!\w)"
    after = "" if _WITHOUT_SPACES.match(name[-1]) else r"(?!\w)"
    return f"{before}{re.escape(name)}{after}"
