"""Names of speakers, compared as people see them."""

from __future__ import annotations

import unicodedata
from functools import lru_cache


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """Return the same for names that differ only in case or width of their letters."""
    return unicodedata.normalize("NFKC", name).casefold()
