"""Parse what people write as messages: `.history`, `.config`, `m continue`, `m context`, and orders to stop or resume.

    .history [targets]          .config [targets]
    ---                         ---
    first: link (optional)      options as YAML
    last: link

Targets are inner names separated by spaces: only the named bots are addressed, or all bots without a target. The line
of dashes is optional, and `.history` may be on one line (`.history claude last: link`). Permissions are checked
elsewhere. A command that can't be carried out becomes `Malformed`, with the reason in one line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import yaml

from agentic.text import folded

MAX_BODY = 4000  # characters of a `.config`
MAX_NESTING = 6
MAX_ORDER = 200  # characters, mentions included

# Mentions come before the period as names, which may contain spaces; a word with its own period is another command.
_HEAD = re.compile(
    r"\A\s*(?:@(?:(?!\s\.)[^\n]){0,200}?\s)?\.(history|config)(?![^\s])([^\n]*)(?:\n|\Z)(.*)\Z", re.DOTALL
)
_RULE = re.compile(r"\A\s*-{3,}[ \t]*(?:\n|\Z)")
_FENCED = re.compile(r"\A```\w*\n(.*?)\n?```\s*\Z", re.DOTALL)
_LINK = re.compile(
    r"<?https?://(?:\w+\.)?discord(?:app)?\.com/channels/(\d{1,20}|@me)/(\d{1,20})/(\d{1,20})/?>?", re.IGNORECASE
)
_ON_ONE_LINE = re.compile(r"(?<!\S)(?=(?:first|last)\s*+:)", re.IGNORECASE)
_FIELD = re.compile(r"\A\s*([\w-]+)\s*:\s*(\S*)\s*\Z")
_TOO_DEEP = re.compile(rf"[\[{{](?:\s*[\[{{]){{{MAX_NESTING}}}")  # the parser takes long for many of them
_M = re.compile(
    r"\A\s*(?:@[^\n]{0,200}?\s)?[mM]\s+(continue|context)[\s,.!]*+(?:(?<=\s)@[^\n]{0,200})?[\s.!]*+\Z", re.IGNORECASE
)
_MENTION_OR_EMOJI = re.compile(r"<(?:@[!&]?|a?:\w{2,32}:)\d{1,20}>")
_ORDER = re.compile(r"(stop|resume)(?:[ .,!]+\1)*(?: (\d{1,4}) ?(m|min|minutes?|h|hours?)?)?", re.IGNORECASE)
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")  # of ASCII, without what is space
_WORDS = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)  # from the first letter or digit to the last one
_QUOTED = re.compile(r"\s*>")  # someone else's words


@dataclass(frozen=True, slots=True)
class Link:
    """A message, as in its link in Discord. `guild`: None in direct messages."""

    guild: int | None
    channel: int
    message: int


@dataclass(frozen=True, slots=True)
class History:
    """`.history`: the interval from `first` (None: as far as the context reaches) to `last`. Without `last` it drops
    everything before it."""

    targets: frozenset[str] = frozenset()
    first: Link | None = None
    last: Link | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """`.config`: options as written, not validated yet."""

    targets: frozenset[str] = frozenset()
    layer: Mapping[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Malformed:
    command: Literal["history", "config"]
    targets: frozenset[str]
    reason: str


@dataclass(frozen=True, slots=True)
class CommandProblem:
    """The problems of a message that is a command, one line each. `used`: the options of a `.config` that are valid."""

    message_id: int
    command: Literal["history", "config"]
    lines: tuple[str, ...]
    used: tuple[str, ...] = ()


Command = History | Config | Malformed


@dataclass(frozen=True, slots=True)
class Order:
    """A person's order. `seconds`: None if no time was given."""

    word: Literal["stop", "resume"]
    seconds: float | None = None


@lru_cache(maxsize=1024)  # every turn reads the pins again, and YAML is slow
def parse_command(text: str) -> Command | None:
    """Return the command, or None if the message isn't one."""
    if "." not in text or (match := _HEAD.match("\n".join(text.splitlines()))) is None:
        return None
    name: Literal["history", "config"] = "history" if match[1] == "history" else "config"
    body = match[3]
    named, *fields = _ON_ONE_LINE.split(match[2]) if name == "history" else [match[2]]
    words = named.split()
    if any(":" in word for word in words):  # in no name: options, or a link
        return Malformed(name, frozenset(), "put the options or links on lines of their own, below a line with `---`")
    targets = frozenset(folded(word.lstrip("@")) for word in words)
    if name == "history":
        return _history(targets, "\n".join((*fields, body)))
    return _config(targets, body)


def _history(targets: frozenset[str], body: str) -> History | Malformed:
    fields: dict[str, Link] = {}
    for line in _body(body).splitlines():
        if not line.strip():
            continue
        match = _FIELD.match(line)
        key = match[1].lower() if match else ""
        link = _LINK.fullmatch(match[2]) if match else None
        if key not in ("first", "last") or key in fields:
            return Malformed("history", targets, "expected `first:` and `last:`, each once, with a message link")
        if link is None:
            return Malformed("history", targets, f"{key}: expected a link to a message")
        fields[key] = Link(None if link[1] == "@me" else int(link[1]), int(link[2]), int(link[3]))
    if "first" in fields and "last" not in fields:
        return Malformed("history", targets, "`last:` is missing")
    return History(targets, fields.get("first"), fields.get("last"))


def _config(targets: frozenset[str], text: str) -> Config | Malformed:
    """Read the options; `text` is the message from its second line on."""
    body = _body(text)
    first_line = 2 + text[: text.index(body)].count("\n")
    if len(body) > MAX_BODY:
        return Malformed("config", targets, f"more than {MAX_BODY} characters")
    try:
        # aliases and deep nesting turn a short text into a huge or slow value
        if _TOO_DEEP.search(body):
            raise ValueError("too deep")
        depth = 0
        for event in yaml.parse(body, Loader=yaml.SafeLoader):
            opens = isinstance(event, yaml.CollectionStartEvent)
            depth += opens - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_NESTING or isinstance(event, yaml.AliasEvent):
                raise ValueError("too deep, or an alias")
        layer = yaml.safe_load(body)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = "aliases, deep nesting, and impossible dates are not allowed"
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            reason = f"line {first_line + error.problem_mark.line}: {error.problem}"
        return Malformed("config", targets, f"not valid YAML: {reason}")
    if layer is None:
        return Malformed("config", targets, "it sets nothing")
    if not isinstance(layer, dict):
        return Malformed("config", targets, "expected lines like `option: value`")
    return Config(targets, layer)


def _body(text: str) -> str:
    """Return the text below the line of dashes, without a code fence around all of it or around the body."""
    fenced = _FENCED.match(text)
    below = _RULE.sub("", fenced[1] if fenced else text, count=1).strip()
    fenced = _FENCED.match(below)
    return fenced[1] if fenced else below


def is_for(command: Command, names: Collection[str]) -> bool:
    """Whether a bot that goes by `names` is addressed."""
    return not command.targets or not command.targets.isdisjoint(map(folded, names))


def is_whole_command(text: str) -> bool:
    """Whether a message is a command and can't be anything else: ".history of Rome" may be a question."""
    command = parse_command(text)
    if isinstance(command, History):
        return command.last is not None or not command.targets
    return isinstance(command, Config)


def parse_m(text: str) -> Literal["continue", "context"] | None:
    """Recognize `m continue` and `m context`, ignoring mentions before and after."""
    if (match := _M.match(text)) is None:
        return None
    return "continue" if match[1].lower() == "continue" else "context"


def order_in(text: str) -> Order | None:
    """Return the order that a message consists of: "stop", "stop 30" (minutes), "stop 2h", "resume".

    People write it in a hurry, so mentions, punctuation, markup, emoji, a slash before it, wide letters, and invisible
    characters are ignored.
    """
    if len(text) > MAX_ORDER or _QUOTED.match(text):
        return None
    plain = unicodedata.normalize("NFKC", _MENTION_OR_EMOJI.sub(" ", text))
    if not plain.isascii():
        plain = "".join([char for char in plain if unicodedata.category(char) not in ("Cc", "Cf") or char.isspace()])
    words = _WORDS.search(_CONTROLS.sub("", plain))
    if words is None or (found := _ORDER.fullmatch(" ".join(words[0].split()))) is None:
        return None
    if found[1].lower() == "resume":
        return Order("resume") if found[2] is None and "?" not in text else None
    unit = 3600 if (found[3] or "m").lower().startswith("h") else 60
    return Order("stop", float(found[2]) * unit if found[2] and int(found[2]) else None)
