"""Read the owner's MCP servers from config/mcp.yaml (an example is beside it).

A server is a program that runs with the owner's rights, so only the owner can add one, in this file: no pin, persona,
or message can. Secrets stay in the settings, which replace `${NAME}` in values of `env` and `headers`, and in `url`.
An invalid entry is skipped and reported with the file, line, and problem, never the value. The other servers run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from agentic.tools.tool import is_allowed

# No "__" and no "_" at the end, so that `server__tool` is unambiguous (servers.py).
_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_MAX_NAME = 24
_SETTING = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MIN_SECRET = 6  # characters; a shorter secret might also match ordinary words

Place = tuple[str | int, ...]


class ServerConfig(BaseModel):
    """A server: a `command` that speaks MCP over its standard input and output, or the `url` of a server over HTTP.

    `tools`: patterns for the names of its tools. `agents`: patterns for the agents that may use it. The last matching
    pattern decides, and `!` excludes. `start_seconds`: to start and list its tools. `call_seconds`: for a call.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str
    command: str | None = None
    args: tuple[str, ...] = Field((), repr=False)
    env: Mapping[str, str] = Field({}, repr=False)
    cwd: Path | None = None
    url: str | None = Field(None, repr=False)
    headers: Mapping[str, str] = Field({}, repr=False)
    tools: tuple[str, ...] = ("*",)
    agents: tuple[str, ...] = ("*",)
    start_seconds: float = Field(30.0, ge=1, le=300)
    call_seconds: float = Field(30.0, ge=1, le=600)
    enabled: bool = True
    _secrets: frozenset[str] = PrivateAttr(frozenset())  # the settings in its values, which are never logged

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
            raise ValueError(f"a server's name has a-z, 0-9, and single - or _, at most {_MAX_NAME} characters")
        return name

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is not None:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("the address must begin with http:// or https://")
        return url

    @field_validator("command", "args", "env", "headers")
    @classmethod
    def _can_be_passed_on(cls, value: Any) -> Any:
        texts = [value] if isinstance(value, str) else value or ()
        texts = [*texts, *value.values()] if isinstance(value, Mapping) else texts
        if any("\0" in text for text in texts) or value == "":
            raise ValueError("empty, or with a NUL character")
        return value

    @model_validator(mode="after")
    def _is_one_kind(self) -> ServerConfig:
        if (self.command is None) == (self.url is None):
            raise ValueError("a server needs either a command or a url")
        kind, others = ("command", ("headers",)) if self.command is not None else ("url", ("args", "env", "cwd"))
        for field in others:
            if field in self.model_fields_set:
                raise ValueError(f"{field} can't be combined with a {kind}")
        return self

    def redacted(self, text: str) -> str:
        """Replace secrets from the server's values."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "[redacted]")
        return text

    def may_be_used_by(self, agent: str) -> bool:
        return is_allowed(agent, self.agents)


def read_servers(path: Path, settings: Mapping[str, str]) -> tuple[tuple[ServerConfig, ...], list[str]]:
    """Return the valid and enabled servers, none without the file, and a line for each problem.

    `settings`: names and values for `${NAME}`.
    """
    if not path.is_file():
        return (), []
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except OSError as error:
        return (), [f"{path}: can't be read ({error.strerror or error})"]
    except UnicodeDecodeError:
        return (), [f"{path}: not UTF-8 text"]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        return (), [f"{path}{f':{mark.line + 1}' if mark is not None else ''}: not YAML"]
    return _ConfigReader(str(path), settings, node).read(content)


class _ConfigReader:
    def __init__(self, file: str, settings: Mapping[str, str], node: yaml.Node | None) -> None:
        self._file, self._settings = file, settings
        self._lines: dict[Place, int] = {}
        self._doubled: set[Place] = set()
        _walk(node, self._lines, self._doubled)
        self._problems: list[str] = []

    def read(self, content: object) -> tuple[tuple[ServerConfig, ...], list[str]]:
        entries = content.get("servers") if isinstance(content, dict) else None
        if content is None or (isinstance(content, dict) and content == {"servers": None}):
            return (), []
        if not isinstance(content, dict) or not isinstance(entries, dict):
            self._add((), "expected a mapping with only the key `servers`, which maps names to servers")
            return (), self._problems
        for key in content.keys() - {"servers"}:
            self._add((key,), "unknown key; only `servers` is known")
        twice = {place for place in self._doubled if place[:1] == ("servers",)}
        for place in sorted(twice, key=str):
            self._add(place, "duplicate key")
        if ("servers",) in twice:
            return (), self._problems
        wrong = {place[1] for place in twice}
        found = (self._server(name, entry) for name, entry in entries.items() if str(name) not in wrong)
        return tuple(server for server in found if server is not None), self._problems

    def _server(self, name: object, entry: object) -> ServerConfig | None:
        place: Place = ("servers", str(name))
        if not isinstance(entry, dict):
            self._add(place, "expected a mapping")
            return None
        if "name" in entry:
            self._add((*place, "name"), "unknown key; the entry's key is the server's name")
            return None
        if entry.get("enabled") is False:
            return None  # a disabled entry isn't checked
        missing: dict[Place, str] = {}
        used: set[str] = set()
        filled = {key: self._filled(value, (key,), missing, used) for key, value in entry.items()}
        for inside, setting in missing.items():
            self._add((*place, *inside), f"the setting {setting} is not set")
        if missing:
            return None
        try:
            server = ServerConfig.model_validate({**filled, "name": str(name)})
        except ValidationError as error:
            for problem in error.errors(include_input=False, include_url=False):
                text = str(problem["msg"]).removeprefix("Value error, ").replace("Input should be", "should be")
                if problem["type"] == "extra_forbidden":
                    keys = ", ".join(key for key in ServerConfig.model_fields if key != "name")
                    text = f"unknown key; the keys are {keys}"
                self._add((*place, *problem["loc"]), text)
            return None
        server._secrets = frozenset(value for value in used if len(value) >= _MIN_SECRET)
        return server

    def _filled(self, value: Any, place: Place, missing: dict[Place, str], used: set[str]) -> Any:
        """Replace `${NAME}` in a value, in the keys that allow it. Note missing settings and used values."""
        if place[0] not in ("env", "headers", "url"):
            return value
        if isinstance(value, dict):
            return {key: self._filled(one, (*place, key), missing, used) for key, one in value.items()}
        if not isinstance(value, str):
            return value
        for name in _SETTING.findall(value):
            if not self._settings.get(name):
                missing[place] = name
            else:
                used.add(self._settings[name])
        return _SETTING.sub(lambda match: self._settings.get(match[1], ""), value)

    def _add(self, place: Place, problem: str) -> None:
        inner = next((place[:end] for end in range(len(place), -1, -1) if place[:end] in self._lines), ())
        line = self._lines.get(inner, 1)
        where = ".".join(map(str, place)) + ": " if place else ""
        self._problems.append(f"{self._file}:{line}: {where}{problem}")


def _walk(node: yaml.Node | None, lines: dict[Place, int], doubled: set[Place], place: Place = ()) -> None:
    """Note the line of each key and item, from 1, and duplicate keys, which YAML readers silently overwrite."""
    if node is None:
        return
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        seen: set[Place] = set()
        for key, value in node.value:
            inside = (*place, str(key.value))
            if inside in seen:
                doubled.add(inside)
            seen.add(inside)
            _walk(value, lines, doubled, inside)
            lines[inside] = key.start_mark.line + 1  # the key's line wins over its value's
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _walk(item, lines, doubled, (*place, number))
