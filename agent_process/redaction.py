"""What may leave this program in no text: secrets, and where it lives on its machine.

Two nets. The known secrets of the settings are searched word by word, also as an address would quote them. What only
looks like a secret (a bot token, a provider's key, a webhook's address) may be anybody's: a model repeats what it
reads, and a channel is read by many. No shape takes a quotation mark, so that JSON stays JSON. Tracebacks and paths go
where they are ours; those that people talk about stay.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

REDACTED = "[redacted]"
LEAST_SHAPE = 15  # characters without a space that each shape has, but for a private key's
MIN_SECRET = 6  # characters; a shorter one would be found in ordinary words

_SHAPES = re.compile(
    r"""
      (?<![\w-])[MNO][\w-]{22,28}\.[\w-]{6,7}\.[\w-]{27,45}(?![\w-])           # a Discord bot token
    | (?<![\w-])mfa\.[\w-]{60,}                                                 # a Discord user token
    | https?://(?:\w+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/[\w-]{20,}
    | (?<![\w-])(?:sk|rk|pk)-(?=[\w-]*\d)[\w-]{20,}                             # OpenAI, Anthropic and others
    | (?<![\w-])AIza[\w-]{30,}                                                  # Google
    | (?<![\w-])xai-(?=\w*\d)\w{20,}
    | (?<![\w-])(?:gsk|pplx|tvly|hf|glpat)[-_](?=[\w-]*\d)[\w-]{20,}
    | (?<![\w-])(?:gh[pousr]_|github_pat_)\w{20,}
    | (?<![\w-])xox[abeprs]-[\w-]{10,}                                          # Slack
    | (?<![\w-])(?:AKIA|ASIA)[0-9A-Z]{16}(?![\w-])                              # Amazon
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----(?:(?:\\[nr]|\s)+[A-Za-z0-9+/=]{16,})*
        (?:(?:\\[nr]|\s)*[A-Za-z0-9+/=]*(?:\\[nr]|\s)*-----END[ ][A-Z ]*PRIVATE[ ]KEY-----)?
    | (?i:(?<=bearer[ ]))(?=[\w.~+/-]*\d)[\w.~+/-]{20,}=*
    """,
    re.VERBOSE,
)
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t>|+~^-].*\n?|\n)+(?:[\w.]+(?::.*)?)?")
_DEEP = 3  # parts of a path that is nobody else's; /app and /opt are many people's
_OF_OURS = r"/(?:agent_|run_all|run_bot|personas/|data/|\.env)"
_PATH_END = r"[^\s\"'`<>|)\]]*"


class Redactor:
    """Called with a text, gives it back without what may not leave. `folders` are those of the program."""

    def __init__(self, secrets: Iterable[str] = (), folders: Iterable[Path] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= MIN_SECRET}
        known |= {quote(secret, safe="") for secret in known}
        places = {str(folder.absolute()) for folder in folders}
        # Most texts hold nothing of all this, and to see that costs a search for words a tenth of one by patterns.
        self._words, self._places = tuple(known), tuple(places)
        self._known = _any_of(re.escape(secret) for secret in known)
        self._paths = _any_of(map(_paths_in, places))

    def __call__(self, text: str) -> str:
        """For Discord. The same text where there is nothing to remove."""
        if self._paths is not None and any(place in text for place in self._places) and self._paths.search(text):
            text = _TRACEBACK.sub(self._traceback, text)
            text = self._paths.sub(REDACTED, text)
        return self.secrets(text)

    def secrets(self, text: str) -> str:
        """Secrets only: for the owner's own log, where paths help."""
        if self._known is not None and any(word in text for word in self._words):
            text = self._known.sub(REDACTED, text)
        may_have = "-----BEGIN" in text or any(len(word) >= LEAST_SHAPE for word in text.split())
        return _SHAPES.sub(REDACTED, text) if may_have else text

    def everywhere(self, value: Any) -> Any:
        """Every text in lists and dicts of JSON, as an embed is."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self.everywhere(one) for one in value]
        if isinstance(value, dict):
            return {key: self.everywhere(one) for key, one in value.items()}
        return value

    def _traceback(self, match: re.Match[str]) -> str:
        ours = self._paths is not None and self._paths.search(match[0])
        return REDACTED if ours else match[0]


def _any_of(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """Longest first: a secret that begins with another one goes whole."""
    found = sorted(patterns, key=lambda pattern: (-len(pattern), pattern))
    return re.compile("|".join(found)) if found else None


def _paths_in(folder: str) -> str:
    end = rf"(?:/{_PATH_END})?(?![\w-])" if len(Path(folder).parts) >= _DEEP else _OF_OURS + _PATH_END
    return re.escape(folder) + end


def own_folders(data_dir: Path) -> tuple[Path, ...]:
    """Where the program lives on this machine: its code, its data, its virtual environment."""
    environment = (Path(sys.prefix),) if sys.prefix != sys.base_prefix else ()
    return (Path(__file__).parent.parent, data_dir, *environment)
