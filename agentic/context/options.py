"""The options of an agent in a channel, how their layers are merged, and pinned `.config` messages as layers.

    built in < .env < front matter < shared < guild < bot < bot and guild < live (/config set)
             < pins, older first (a thread's parent first)

A layer maps option names to values that `read_options` has validated. Invalid options are skipped and reported, so that
a bad line never silences a bot. Maps merge one level deep, lists replace. Pins are written by people in Discord: only
people with permission may set options this way, only PINNABLE ones, and they can only remove tools. See
docs/channel-options.md for an example of each.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from agentic.context.commands import CommandProblem, Config, History, is_for, parse_command
from agentic.context.entries import Entry
from agentic.llm.types import Thinking

MAX_MESSAGES = 400  # of a context; the transcript keeps about as many
MAX_STEP = 100  # messages by which a window grows when no threshold is set
SHOWN_KEY = 40  # characters of an unknown name that are repeated to its author


def _listed(value: object) -> object:
    """Wrap a single value in a list; None is an empty one."""
    return () if value is None else (value,) if isinstance(value, str | int) else value


def _role_ids(value: object) -> object:
    """Split a text of role ids or mentions: "<@&5>, 6"."""
    if isinstance(value, str):
        return tuple(part.strip().removeprefix("<@&").removesuffix(">") for part in value.split(","))
    return _listed(value)


def _switch(value: object) -> object:
    """Accept enabled and disabled, besides what YAML and pydantic accept for true and false."""
    words = {"enabled": True, "enable": True, "disabled": False, "disable": False}
    return words.get(value.strip().lower(), value.strip()) if isinstance(value, str) else value


# The word none means no limit, as in the settings.
_Unlimited = BeforeValidator(lambda value: None if str(value).strip().lower() == "none" else value)
_Switch = Annotated[bool, BeforeValidator(_switch)]
_Name = Annotated[str, StringConstraints(pattern=r"^[^\s:@<>\[\]()`\\]{1,32}\Z")]
_Model = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]{1,40}/\S{1,120}\Z")]
_Models = Annotated[tuple[_Model, ...], BeforeValidator(_listed), Field(max_length=8)]
_Pattern = Annotated[str, StringConstraints(pattern=r"^[\w.:*/-]{1,100}\Z")]
_Patterns = Annotated[tuple[_Pattern, ...], BeforeValidator(_listed), Field(max_length=200)]
_Stops = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1, max_length=100)], ...],
    BeforeValidator(_listed),
    Field(max_length=16),
]
_Roles = Annotated[tuple[Annotated[int, Field(gt=0, lt=2**63)], ...], BeforeValidator(_role_ids), Field(max_length=200)]


class Options(BaseModel):
    """All options of an agent in one channel. Characters are Unicode code points, tokens the model's."""

    # Python's own patterns: pydantic's take 10 MB for a repetition of Unicode classes.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, regex_engine="python-re")

    name: _Name | None = None  # the inner name; None: the agent's own
    mode: Literal["chat", "prefill"] = "chat"
    prefill_bare: _Switch = False
    prompt_profile: Literal["auto", "small", "full"] = "auto"
    model: _Models = ()  # tried in this order; empty: the agent's own
    max_messages: int = Field(default=40, ge=1, le=MAX_MESSAGES)
    max_characters: Annotated[int | None, Field(ge=500, le=2_000_000), _Unlimited] = None
    rolling_threshold: int | None = Field(default=None, ge=0, le=MAX_MESSAGES)
    marker_depth: int = Field(default=0, ge=0, le=100)
    include_images: _Switch = True
    max_images: int = Field(default=4, ge=0, le=20)
    include_files: _Switch = True
    max_file_characters: int = Field(default=8_000, ge=0, le=100_000)
    history_roles: _Roles = ()
    config_roles: _Roles = ()
    moderator_roles: _Roles = ()
    bot_mentions: _Switch = True
    max_bot_chain: int = Field(default=2, ge=0, le=20)
    answer_all: _Switch = False
    split_at: int = Field(default=1_800, ge=200, le=2_000)
    stop: _Stops = ()  # where an answer ends, whatever the mode
    stop_names: int = Field(default=10, ge=0, le=50)
    tools: _Patterns = ("*",)
    max_tool_depth: int = Field(default=100, ge=0, le=100)
    tool_output_visible: _Switch = False
    always_search: _Switch = False
    search_pictures: _Switch = False
    chain_messages: int = Field(default=20, ge=0, le=50)
    message_log: _Switch = False
    recall: _Switch = False
    stream: _Switch = False
    temperature: float | None = Field(default=None, ge=0, le=2)
    thinking: Thinking | None = None  # None: the model's usual level
    max_output_tokens: int = Field(default=4_000, ge=16, le=64_000)
    cache_ttl: Literal["5m", "1h"] = "5m"
    retries: int = Field(default=2, ge=0, le=10)
    custom_fields: Mapping[str, Any] = Field(default_factory=dict)

    def step(self, wanted: int) -> int:
        """Return how many new messages a window of `wanted` takes in before it is cut back.

        A cut costs a whole window at full price; a kept message costs a tenth of its price at every turn. With four
        bots talking, the sum is near its minimum for a window that doubles.
        """
        return min(wanted, MAX_STEP) if self.rolling_threshold is None else self.rolling_threshold


OWNERS_LIVE = frozenset({"always_search", "answer_all", "search_pictures", "message_log", "recall"})
"""Options that only the bots' owner may set while they run: they cost money, or store people's messages."""

OF_SERVERS = frozenset({"moderator_roles"})
"""Options that apply to a whole server and all bots."""

NOT_PINNABLE = frozenset({"model", "history_roles", "config_roles", "custom_fields"}) | OWNERS_LIVE | OF_SERVERS
"""These, permissions, and request addresses can only be set in files on the owner's machine."""

PINNABLE = frozenset(Options.model_fields) - NOT_PINNABLE
"""Options that a pinned `.config` may set."""

LIVE = PINNABLE | OWNERS_LIVE | OF_SERVERS
"""Options that `/config set` may set. As in pins, `tools` can only be removed."""

_WANTED = {
    "max_characters": "a whole number from 500 to 2,000,000, or none for no limit",
    "name": "one word of at most 32 characters",
    "model": "provider/model, or a list of these",
    "history_roles": "ids of roles",
    "config_roles": "ids of roles",
    "moderator_roles": "roles, separated by commas",
    "stop": "at most 16 texts, of at most 100 characters each",
    "tools": "names of tools, with * for any letters",
    "custom_fields": "a map of fields and their values",
}
"""Expected values of options that aren't a number, choice, or switch."""


def read_options(
    mapping: Mapping[Any, Any], allowed: Collection[str] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return the valid options of a layer, and one line for each invalid one.

    `allowed`: the options that this layer may set (None: all). The lines repeat no values.
    """
    layer: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in mapping.items():
        if not isinstance(key, str) or key not in Options.model_fields:
            text = " ".join(str(key).split())[:SHOWN_KEY]
            near = difflib.get_close_matches(text, Options.model_fields, n=1)
            problems.append(f"{text}: unknown option" + (f"; did you mean {near[0]}?" if near else ""))
        elif allowed is not None and key not in allowed:
            problems.append(f"{key}: can't be set here")
        else:
            try:
                layer[key] = getattr(Options.model_validate({key: value}), key)
            except ValidationError:
                problems.append(f"{key}: expected {wanted(key)}")
    return layer, problems


def wanted(option: str) -> str:
    """Describe the value that the option expects, for an owner or member who wrote something else."""
    if option in _WANTED:
        return _WANTED[option]
    schema = Options.model_json_schema()["properties"][option]
    schema = next((kind for kind in schema.get("anyOf", ()) if kind["type"] != "null"), schema)
    if "enum" in schema:
        return " or ".join(schema["enum"])
    if schema["type"] == "boolean":
        return "true or false"
    number = "a whole number" if schema["type"] == "integer" else "a number"
    return f"{number} from {schema['minimum']:,} to {schema['maximum']:,}"


def options_of(layers: Iterable[Mapping[str, Any]], pins: Iterable[Mapping[str, Any]] = ()) -> Options:
    """Return the options from validated layers, lowest first, with pins above them, older first."""
    pinned = list(pins)
    merged = merge_layers(layers)
    tools = merged.get("tools", Options.model_fields["tools"].default)
    for pin in pinned:
        if "tools" in pin:
            tools = narrow_tools(tools, pin["tools"])
    return Options.model_validate({**merge_layers((merged, *pinned)), "tools": tools})


def merge_layers(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge layers, later ones over earlier ones: maps merge one level deep, everything else replaces."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            before = merged.get(key)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            merged[key] = {**before, **value} if both else value  # type: ignore[dict-item]
    return merged


def narrow_tools(allowed: Collection[str], wanted: Collection[str]) -> tuple[str, ...]:
    """Return the tools that both lists of patterns match. `*` is the only wildcard, so a pattern that matches another
    pattern's text covers it."""
    inner = [name for name in wanted if any(fnmatchcase(name, pattern) for pattern in allowed)]
    outer = [name for name in allowed if any(fnmatchcase(name, pattern) for pattern in wanted)]
    return tuple(dict.fromkeys((*inner, *outer)))


@dataclass(frozen=True, slots=True)
class Pin:
    """A pinned `.config` for this agent. `layer`: its valid options. `problems`: one line for each invalid one."""

    message_id: int
    author_id: int
    layer: Mapping[str, Any]
    problems: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[CommandProblem, ...]:
        if not self.problems:
            return ()
        return (CommandProblem(self.message_id, "config", self.problems, tuple(self.layer)),)


def read_pins(entries: Iterable[Entry], config_roles: Collection[int], names: Collection[str]) -> tuple[Pin, ...]:
    """Return the pins for a bot that goes by `names`, older first. For a thread: the parent's, then its own."""
    pins = []
    for entry in sorted(entries, key=lambda entry: entry.id):
        command = parse_command(entry.text) if entry.pinned and may_configure(entry, config_roles) else None
        if command is None or isinstance(command, History) or not is_for(command, names):
            continue
        if isinstance(command, Config):
            layer, problems = read_options(command.layer, PINNABLE)
            pins.append(Pin(entry.id, entry.speaker.id, layer, tuple(problems)))
        elif command.command == "config":
            pins.append(Pin(entry.id, entry.speaker.id, {}, (command.reason,)))
    return tuple(pins)


def may_command(entry: Entry, roles: Collection[int]) -> bool:
    """Whether its author is a person with one of `roles`, or without roles, with Manage Messages."""
    if entry.speaker.kind != "person":
        return False
    return not entry.speaker.roles.isdisjoint(roles) if roles else entry.speaker.may_manage


def may_configure(entry: Entry, roles: Collection[int]) -> bool:
    """Whether its author is a person with Manage Messages or one of `roles`."""
    return entry.speaker.kind == "person" and (entry.speaker.may_manage or not entry.speaker.roles.isdisjoint(roles))
