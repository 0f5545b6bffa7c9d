"""Define the types of settings, each with its bounds and the words for the expected values.

All values are text, from the environment or from `.env`. Pydantic casts each once; a rejected value becomes
`KEY: expected …`, completed by the description of the type or field, or by a validator's own words (the message of its
ValueError).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, StringConstraints
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from agentic.policies import POLICIES, PolicyName
from agentic.themes import DEFAULT_THEME, THEMES

# Tools for files can't write by default: a stranger could talk a model into it. *__* are the tools of MCP servers.
DEFAULT_TOOLS = (
    "web_search",
    "web_fetch",
    "memory",
    "recall",
    "thread_read",
    "files_read",
    "files_glob",
    "files_grep",
    "*__*",
)
NO_LIMIT = 1_000_000  # the value of `none` for a Count: more than anyone reaches
FOLDERS = "agent:folder pairs such as claude:penny, separated by commas"
THEME_MAP = "channel_id:theme pairs separated by commas, such as 123456789012345678:debate (an id alone means casual)"
POLICY_MAP = "theme:policy or channel_id:policy pairs separated by commas, such as debate:pull"
HTTP = "an address that starts with http:// or https://, such as http://127.0.0.1:8080"
MILLISECONDS = "a number of milliseconds from 1000 to 600000, such as 120000"
TOOL_PATTERNS = "names or patterns of tools separated by commas, such as web_search,memory, or none"


class Keys(BaseSettings):
    """Settings from the arguments only; loading.py decides which texts of the environment and .env they get."""

    model_config = SettingsConfigDict(
        frozen=True,
        populate_by_name=True,
        case_sensitive=True,
        extra="forbid",
        protected_namespaces=(),
        regex_engine="python-re",  # pydantic's own engine takes 10 MB for a repeated Unicode class
    )

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def setting(key: str, default: Any, expected: str = "", **more: Any) -> Any:
    """Return a field read from `key`. `expected` completes "expected …" in the error, unless the type does."""
    if expected:
        more["description"] = expected
    return Field(default, validation_alias=key, validate_default=False, **more)


def from_text(parse: Callable[[str], object]) -> BeforeValidator:
    """Return a validator that parses a text and leaves a value of the right type as it is."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def split_list(text: str) -> tuple[str, ...]:
    """Split "1, 2,,1," into ("1", "2"), without spaces, empty entries, and duplicates."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def split_pairs(text: str, expected: str) -> list[tuple[str, str]]:
    """Split "a:b, c:d" into [("a", "b"), ("c", "d")]. Raises ValueError for anything else."""
    pairs = [(left.strip(), right.strip()) for left, _, right in (part.partition(":") for part in split_list(text))]
    if not all(left and right for left, right in pairs):
        raise ValueError(f"expected {expected}")
    return pairs


def kebab(text: str) -> str:
    return text.strip().lower().replace("_", "-").replace(" ", "-")


def _read_folders(text: str) -> dict[str, str]:
    """Parse "claude:penny" to {"claude": "penny"}. Raises ValueError for anything else and for duplicate names."""
    pairs = split_pairs(text.lower(), FOLDERS)
    if not all(re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", folder) for _, folder in pairs):
        raise ValueError(f"expected {FOLDERS}")
    if len({agent for agent, _ in pairs}) < len(pairs) or len({folder for _, folder in pairs}) < len(pairs):
        raise ValueError("an agent or a folder appears twice")
    return dict(pairs)


def _read_themes(text: str) -> dict[str, str]:
    """Parse "1:debate, 2:Memes, 3" to {"1": "debate", "2": "memes", "3": "casual"}. Raises ValueError for a missing id,
    an unknown theme, or a channel with two themes."""
    themes: dict[str, str] = {}
    for pair in split_list(text):
        channel, _, theme = (part.strip() for part in pair.partition(":"))
        if not channel.isdecimal():
            raise ValueError(f"expected {THEME_MAP}")
        channel = channel.lstrip("0") or "0"  # "07" and "7" are the same channel
        theme = kebab(theme) or DEFAULT_THEME
        if theme not in THEMES:
            # Long texts may be misplaced keys.
            shown = f" {theme!r}" if len(theme) <= 20 and theme.replace("-", "").isalpha() else ""
            raise ValueError(f"unknown theme{shown} for channel {channel}; expected one of {', '.join(THEMES)}")
        if themes.setdefault(channel, theme) != theme:
            raise ValueError(f"channel {channel} has two themes")
    return themes


def _read_policies(text: str) -> dict[str, str]:
    """Parse "debate:pull, 123:round-robin" to {"debate": "pull", "123": "round-robin"}. Raises ValueError for neither a
    theme nor an id, an unknown policy, or a place with two policies."""
    policies: dict[str, str] = {}
    for pair in split_list(text):
        place, colon, policy = (part.strip() for part in pair.partition(":"))
        place = (place.lstrip("0") or "0") if place.isdecimal() else kebab(place)
        if not colon or not (place.isdecimal() or place in THEMES):
            raise ValueError(f"expected {POLICY_MAP}")
        policy = kebab(policy)
        if policy not in POLICIES:
            raise ValueError(f"unknown policy for {place}; expected one of {', '.join(POLICIES)}")
        if policies.setdefault(place, policy) != policy:
            raise ValueError(f"{place} has two policies")
    return policies


def _none_as(instead: object) -> BeforeValidator:
    return from_text(lambda text: instead if text.strip().lower() == "none" else text)


def _check_one_word(secret: SecretStr) -> SecretStr:
    """Reject a secret that doesn't fit in an HTTP header: the HTTP client's error would show it."""
    text = secret.get_secret_value()
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("expected one word of ASCII characters, without spaces")
    return secret


def _check_path(path: Path) -> Path:
    """Reject paths above the limits of file systems (255 bytes per name, 4,096 in total)."""
    if any(len(os.fsencode(part)) > 255 for part in path.parts) or len(os.fsencode(path)) > 4_000:
        raise ValueError
    return path


_HOST = r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:[1-9]\d{0,4})?"
_SENTINELS = re.compile(rf"rediss?\+sentinel://([^@/?\s]*@)?{_HOST}(,{_HOST})*/[\w.-]+(/\d*)?(\?\S*)?")


def address_with(schemes: Iterable[str]) -> AfterValidator:
    """Return a validator that rejects other schemes. An address of Sentinels has one or more hosts and a master."""
    allowed = tuple(schemes)

    def check(value: str) -> str:
        if "sentinel" in allowed and _SENTINELS.fullmatch(value) and value.isprintable():
            return value
        try:
            parts = urlsplit(value)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError from None  # its message quotes the address, which may contain a password
        if parts.scheme not in allowed or port == 0 or not (parts.path if parts.scheme == "unix" else host):
            raise ValueError
        if not value.isprintable() or " " in value:
            raise ValueError
        if parts.scheme in ("redis", "rediss") and not (parts.path.strip("/") or "0").isdecimal():
            raise ValueError  # a client would silently use database 0
        return value

    return AfterValidator(check)


def _bounds(low: float, high: float, expected: str) -> Any:
    return Field(ge=low, le=high, allow_inf_nan=False, description=expected)


# Numbers have upper bounds: a digit too many must not become a billion list entries or a number that Redis rejects.
Flag = Annotated[bool, Field(description="true or false")]
Id = Annotated[int, Field(gt=0, lt=2**63)]
OptionalId = Annotated[
    Id | None,
    BeforeValidator(lambda value: None if value in (0, "0") else value),
    Field(description="a whole number (a Discord id), such as 123456789012345678"),
]
Ids = Annotated[
    tuple[Id, ...],
    from_text(split_list),
    Field(description="whole numbers (Discord ids) separated by commas, such as 123456789012345678"),
]
COUNT = "a whole number from 0 to 1000000, such as 20, or none for no limit"
Count = Annotated[int, Field(ge=0, le=NO_LIMIT, description=COUNT), _none_as(NO_LIMIT)]
PositiveInt = Annotated[int, Field(ge=1, le=1_000_000, description="a whole number from 1 to 1000000, such as 20")]
PerDay = Annotated[int, Field(ge=0, le=1_000, description="a whole number from 0 to 1000, such as 3")]
Retries = Annotated[int, Field(ge=0, le=10, description="a whole number from 0 to 10, such as 2")]
Steps = Annotated[int, Field(ge=1, le=200, description="a whole number from 1 to 200, such as 20")]
Port = Annotated[int, Field(ge=0, le=65_535, description="a port from 1 to 65535, such as 8080, or 0 for none")]
Seconds = Annotated[float, _bounds(0, 86_400, "a number of seconds from 0 to 86400, such as 30")]
CatchUp = Annotated[float, _bounds(0, 900, "a number of seconds from 0 to 900, such as 600")]  # as a turn's record
Debounce = Annotated[float, _bounds(0, 20, "a number of seconds from 0 to 20, such as 3")]
Limit = Annotated[float, _bounds(1, 600, "a number of seconds from 1 to 600, such as 120")]  # at most the longest turn
Hours = Annotated[float, _bounds(0, 8760, "a number of hours from 0 to 8760, such as 24")]
Share = Annotated[float, _bounds(0, 1, "a number from 0 to 1, such as 0.2")]
Days = Annotated[
    Annotated[int, Field(ge=0, le=36_500)] | None,
    _none_as(None),
    Field(description="a number of days from 0 to 36500, such as 30, or none for no limit"),
]
Dollars = Annotated[
    Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] | None,
    _none_as(None),
    Field(description="US dollars from 0 to 1000000, such as 5, or none for no limit"),
]
Secret = Annotated[SecretStr, AfterValidator(_check_one_word)]
ApiKey = Annotated[Secret | None, Field(description="an API key")]
LongSecret = Annotated[
    Annotated[Secret, Field(min_length=16)] | None,
    Field(description="one word of 16 characters or more, without spaces or quotes"),
]
HttpAddress = Annotated[str, address_with(("http", "https")), Field(description=HTTP)]
OptionalHttpAddress = Annotated[HttpAddress | None, Field(description=HTTP)]
RedisAddress = Annotated[
    str | None,
    address_with(("redis", "rediss", "unix", "sentinel")),
    Field(
        description="an address that starts with redis://, rediss://, or unix://, such as redis://127.0.0.1:6379/0,"
        " or that names Sentinels and their master, such as redis+sentinel://host:26379,host:26379/name/0"
    ),
]
Folder = Annotated[
    Path, AfterValidator(_check_path), Field(description="a folder with a shorter path (at most 255 bytes per name)")
]
FolderMap = Annotated[dict[str, str], from_text(_read_folders), Field(description=FOLDERS)]
ThemeMap = Annotated[dict[Id, str], from_text(_read_themes), Field(description=THEME_MAP)]
Policy = Annotated[
    PolicyName,
    from_text(lambda text: text.strip().lower().replace("_", "-")),
    Field(description="rounds, round-robin, moderated, or pull"),
]
PolicyMap = Annotated[dict[str, str], from_text(_read_policies), Field(description=POLICY_MAP)]
AgentRuntime = Literal["claude-agent-sdk"]
PermissionMode = Annotated[
    Literal["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"],
    Field(description="default, acceptEdits, plan, dontAsk, auto, or bypassPermissions"),
]
BargeIn = Annotated[
    Literal["yield", "finish", "ignore"], from_text(str.lower), Field(description="yield, finish, or ignore")
]
PromptProfile = Annotated[
    Literal["auto", "small", "full"], from_text(str.lower), Field(description="auto, small, or full")
]
LogLevel = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
    from_text(str.upper),
    Field(description="DEBUG, INFO, WARNING, ERROR, or CRITICAL"),
]
AwsRegion = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-\d+\Z")]
_Pattern = Annotated[str, StringConstraints(pattern=r"^!?[\w.:*?\[\]/-]{1,100}(\([^()]{1,200}\))?\Z")]
ToolPatterns = Annotated[tuple[_Pattern, ...], from_text(split_list), Field(description=TOOL_PATTERNS)]
_AgentName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}\Z")]
AgentNames = Annotated[
    tuple[_AgentName, ...],
    from_text(lambda text: split_list(text.lower())),
    Field(description="bots' names separated by commas, such as claude,grok, or all, or none"),
]
