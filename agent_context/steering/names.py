"""Names of speakers, compared as people see them."""

from __future__ import annotations

import unicodedata
from functools import lru_cache


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """The same for names that look alike by case or width of their letters."""
    return unicodedata.normalize("NFKC", name).casefold()
