"""Remove secrets from texts, and the program's own paths from texts for Discord.

Known secrets of the settings are searched literally, and as URLs, JSON, and Python write them. Anything that looks like
a secret (a bot token, a provider's key, a webhook's address) is removed, too: it may be anyone's, because models repeat
text that they read. No pattern matches a quotation mark, so JSON stays valid. Only our own tracebacks and paths are
removed, not paths that people talk about.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agentic.process.root import ROOT

REDACTED = "[redacted]"
LEAST_SHAPE = 15  # characters of the shortest secret
MIN_SECRET = 6  # characters; a shorter one would be found in ordinary words
MAX_REMEMBERED = 20_000  # hashes of lines without a secret

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
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----(?:(?:\\[nr]|\s)++[A-Za-z0-9+/=]{16,}+)*+
        (?:(?:\\[nr]|\s)*+[A-Za-z0-9+/=]*+(?:\\[nr]|\s)*+-----END[ ][A-Z ]*PRIVATE[ ]KEY-----)?
    | (?i:(?<=bearer[ ]))(?=[\w.~+/-]*\d)[\w.~+/-]{20,}=*
    """,
    re.VERBOSE,
)
# Each shape contains one of these or the last part of a bot token, so most texts don't need a search for all shapes.
MARKS = (
    *("mfa.", "webhooks/", "sk-", "rk-", "pk-", "AIza", "xai-", "gsk", "pplx", "tvly", "hf-", "hf_", "glpat", "xox"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "AKIA", "ASIA", "-----BEGIN"),
)
_TOKEN_END = re.compile(r"\.[\w-]{27}")
_ESCAPED = re.compile(r"\\(?:u[0-9a-f]{4}|.)")  # in JSON
_NEVER_ESCAPED = re.compile(r'[^"\\\x00-\x1f]+')
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t>|+~^-].*\n?|\n)+(?:[\w.]+(?::.*)?)?")
_DEEP = 3  # parts of a path that is surely ours; others use /app and /opt, too
_OF_OURS = r"/(?:agentic/|agent_|run_all|run_bot|personas/|data/|\.env)"
_PATH_END = r"[^\s\"'`<>|)\]]*"


class Redactor:
    """Call it with a text to redact it. `folders` are the program's own."""

    def __init__(self, secrets: Iterable[str] = (), folders: Iterable[Path] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= MIN_SECRET}
        known |= {form for secret in known for form in _forms_of(secret)}
        places = {str(folder.absolute()) for folder in folders}
        # Most texts have nothing to redact; a literal search finds that out in a tenth of a pattern's time.
        self._words, self._places = tuple(known), tuple(places)
        self._words_in_json = [max(_NEVER_ESCAPED.findall(secret), key=len) for secret in known]
        self._clean: set[int] = set()  # hashes of lines
        self._known = _any_of(re.escape(secret) for secret in known)
        self._paths = _any_of(map(_paths_in, places))

    def __call__(self, text: str) -> str:
        """Redact secrets and paths, for Discord."""
        if self._paths is not None and _has_any(self._places, text) and self._paths.search(text):
            ours = self._paths
            text = _TRACEBACK.sub(lambda match: REDACTED if ours.search(match[0]) else match[0], text)
            text = ours.sub(REDACTED, text)
        return self.secrets(text)

    def secrets(self, text: str) -> str:
        """Redact only secrets, for the owner's log, where paths help."""
        if self._known is not None and _has_any(self._words, text):
            text = self._known.sub(REDACTED, text)
        return _SHAPES.sub(REDACTED, text) if may_have_shape(text) else text

    def is_clean(self, text: bytes) -> bool:
        """Whether the strings of this JSON surely contain no secret; False if they may.

        It checks every prompt, and prompts repeat most of the previous prompt, so it remembers lines. While a pattern
        searches a long text, no other thread runs, not even the event loop.
        """
        # Split at line ends within strings and at `,"`, which no secret contains.
        lines = text.replace(rb"\\", b" ").replace(b',"', rb"\n").split(rb"\n")
        hashes = [*map(hash, lines)]
        if self._clean.issuperset(hashes):
            return True
        new = b"\n".join(line for line, known in zip(lines, hashes, strict=True) if known not in self._clean).decode()
        # Spaces for other escapes: their letters would hide where a secret begins.
        if _has_any(self._words_in_json, new) or (may_have_shape(new) and _SHAPES.search(_ESCAPED.sub(" ", new))):
            return False
        if len(self._clean) > MAX_REMEMBERED:
            self._clean.clear()
        self._clean.update(hashes)
        return True

    def everywhere(self, value: Any) -> Any:
        """Redact every text in JSON, such as an embed."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self.everywhere(one) for one in value]
        if isinstance(value, dict):
            return {key: self.everywhere(one) for key, one in value.items()}
        return value


def _forms_of(secret: str) -> Iterator[str]:
    """Yield the secret as URLs, JSON, and Python write it. Most secrets are the same everywhere."""
    yield from (quote(secret, safe=""), quote(secret))
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])


def may_have_shape(text: str) -> bool:
    """Whether a text may contain something that looks like a secret: a quick check that is False for most texts."""
    if len(text) < LEAST_SHAPE:
        return False
    return _has_any(MARKS, text) or _TOKEN_END.search(text) is not None or "bearer " in text.lower()


def _has_any(words: Iterable[str], text: str) -> bool:
    for word in words:  # noqa: SIM110 - a generator costs a call for each word, in a function that runs all the time
        if word in text:
            return True
    return False


def _any_of(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """Join patterns, longest first, so that a secret that starts with another secret is matched whole."""
    found = sorted(patterns, key=lambda pattern: (-len(pattern), pattern))
    return re.compile("|".join(found)) if found else None


def _paths_in(folder: str) -> str:
    end = rf"(?:/{_PATH_END})?(?![\w-])" if len(Path(folder).parts) >= _DEEP else _OF_OURS + _PATH_END
    return re.escape(folder) + end


def own_folders(data_dir: Path) -> tuple[Path, ...]:
    environment = (Path(sys.prefix),) if sys.prefix != sys.base_prefix else ()
    return (ROOT, data_dir, *environment)
