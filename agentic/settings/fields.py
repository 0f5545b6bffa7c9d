"""Define the types of settings, each with its bounds and the words for what was expected.

All values come as text, from the environment or from `.env`. Pydantic casts each once; a rejected value becomes
`KEY: expected …`, which the description of the type (or of the field) completes. A validator may bring its own words
(a ValueError with a message). No message repeats a value, since any value may be a secret.
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

READING = ("files_read", "files_glob", "files_grep")  # none that writes: a stranger may talk a model into it
# The last are those of the owner's MCP servers.
DEFAULT_TOOLS = ("web_search", "web_fetch", "memory", "recall", *READING, "*__*")
NO_LIMIT = 1_000_000  # what `none` means for a Count: more than anybody reaches
FOLDERS = "agent:folder pairs such as claude:penny, separated by commas"
THEME_MAP = "channel_id:theme pairs, separated by commas (an id alone is casual)"
POLICY_MAP = "theme:policy or channel_id:policy pairs, separated by commas"
HTTP = "an address that begins with http:// or https://"
MILLISECONDS = "a number of milliseconds from 1000 to 600000"
TOOL_PATTERNS = "tools' names or patterns of them, separated by commas, or none"


class Keys(BaseSettings):
    """Settings from the arguments only; loading.py decides what the environment and .env may add."""

    model_config = SettingsConfigDict(
        frozen=True,
        populate_by_name=True,
        case_sensitive=True,
        extra="forbid",
        protected_namespaces=(),
        regex_engine="python-re",  # pydantic's own takes 10 MB for a repeated Unicode class
    )

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def setting(key: str, default: Any, expected: str = "", **more: Any) -> Any:
    """A field read from `key`. `expected` completes "expected …" in the error message, unless the type does."""
    if expected:
        more["description"] = expected
    return Field(default, validation_alias=key, validate_default=False, **more)


def from_text(parse: Callable[[str], object]) -> BeforeValidator:
    """Parse a text; a value of the right type stays as it is."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def split_list(text: str) -> tuple[str, ...]:
    """ "1, 2,,1," → ("1", "2"): spaces, empty entries and repetitions are dropped."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def split_pairs(text: str, expected: str) -> list[tuple[str, str]]:
    """ "a:b, c:d" → [("a", "b"), ("c", "d")]. ValueError for anything else."""
    pairs = [(left.strip(), right.strip()) for left, _, right in (part.partition(":") for part in split_list(text))]
    if not all(left and right for left, right in pairs):
        raise ValueError(f"expected {expected}")
    return pairs


def kebab(text: str) -> str:
    return text.strip().lower().replace("_", "-").replace(" ", "-")


def _read_folders(text: str) -> dict[str, str]:
    """ "claude:penny" → {"claude": "penny"}. ValueError for anything else, and for a name that occurs twice."""
    pairs = split_pairs(text.lower(), FOLDERS)
    if not all(re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", folder) for _, folder in pairs):
        raise ValueError(f"expected {FOLDERS}")
    if len({agent for agent, _ in pairs}) < len(pairs) or len({folder for _, folder in pairs}) < len(pairs):
        raise ValueError("an agent, or a folder, is named twice")
    return dict(pairs)


def _read_themes(text: str) -> dict[str, str]:
    """ "1:debate, 2:Memes, 3" → {"1": "debate", "2": "memes", "3": "casual"}. ValueError: no id, an unknown theme, a
    channel twice."""
    themes: dict[str, str] = {}
    for pair in split_list(text):
        channel, _, theme = (part.strip() for part in pair.partition(":"))
        if not channel.isdecimal():
            raise ValueError(f"expected {THEME_MAP}")
        channel = channel.lstrip("0") or "0"  # as numbers they would be the same channel
        theme = kebab(theme) or DEFAULT_THEME
        if theme not in THEMES:
            shown = f" {theme!r}" if len(theme) <= 20 and theme.replace("-", "").isalpha() else ""  # may be a stray key
            raise ValueError(f"unknown theme{shown} for channel {channel}; expected one of {', '.join(THEMES)}")
        if themes.setdefault(channel, theme) != theme:
            raise ValueError(f"channel {channel} has two themes")
    return themes


def _read_policies(text: str) -> dict[str, str]:
    """ "debate:pull, 123:round-robin" → {"debate": "pull", "123": "round-robin"}. ValueError: neither a theme nor an
    id, an unknown policy, a place twice."""
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
    """Reject a secret that doesn't fit into an HTTP header: the error of the HTTP client would show it."""
    text = secret.get_secret_value()
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("expected one word of ASCII characters, without spaces")
    return secret


def _check_path(path: Path) -> Path:
    """Reject paths beyond the limits of file systems (255 bytes a name, 4,096 in all): opening them would fail."""
    if any(len(os.fsencode(part)) > 255 for part in path.parts) or len(os.fsencode(path)) > 4_000:
        raise ValueError
    return path


_HOST = r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:[1-9]\d{0,4})?"
_SENTINELS = re.compile(rf"rediss?\+sentinel://([^@/?\s]*@)?{_HOST}(,{_HOST})*/[\w.-]+(/\d*)?(\?\S*)?")


def address_with(schemes: Iterable[str]) -> AfterValidator:
    """Reject other addresses. An address of Sentinels may have several hosts, and names the master."""
    allowed = tuple(schemes)

    def check(value: str) -> str:
        if "sentinel" in allowed and _SENTINELS.fullmatch(value) and value.isprintable():
            return value
        try:
            parts = urlsplit(value)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError from None  # its own words quote the address, which may hold a password
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


# Numbers are bounded above too: one digit too many must not become a list of a billion entries, or a number that Redis
# rejects.
Flag = Annotated[bool, Field(description="true or false")]
Id = Annotated[int, Field(gt=0, lt=2**63)]
OptionalId = Annotated[
    Id | None,
    BeforeValidator(lambda value: None if value in (0, "0") else value),
    Field(description="a whole number (a Discord id)"),
]
Ids = Annotated[
    tuple[Id, ...], from_text(split_list), Field(description="whole numbers (Discord ids), separated by commas")
]
COUNT = "a whole number, 0 or more (at most 1000000), or none for no limit"
Count = Annotated[int, Field(ge=0, le=NO_LIMIT, description=COUNT), _none_as(NO_LIMIT)]
PositiveInt = Annotated[int, Field(ge=1, le=1_000_000, description="a whole number, 1 or more (at most 1000000)")]
PerDay = Annotated[int, Field(ge=0, le=1_000, description="a whole number, 0 or more (at most 1000)")]
Retries = Annotated[int, Field(ge=0, le=10, description="a whole number from 0 to 10")]
Steps = Annotated[int, Field(ge=1, le=200, description="a whole number from 1 to 200")]
Port = Annotated[int, Field(ge=0, le=65_535, description="a port from 1 to 65535, or 0 for none")]
Seconds = Annotated[float, _bounds(0, 86_400, "a number of seconds, 0 or more (at most 86400)")]
CatchUp = Annotated[float, _bounds(0, 900, "a number of seconds, 0 or more (at most 900)")]  # as a turn's record
Debounce = Annotated[float, _bounds(0, 20, "a number of seconds, 0 or more (at most 20)")]
Limit = Annotated[float, _bounds(1, 600, "a number of seconds from 1 to 600")]  # at most the longest turn
Hours = Annotated[float, _bounds(0, 8760, "a number of hours, 0 or more (at most 8760)")]
Share = Annotated[float, _bounds(0, 1, "a number from 0 to 1")]
Days = Annotated[
    Annotated[int, Field(ge=0, le=36_500)] | None, _none_as(None), Field(description="a number of days, or none")
]
Dollars = Annotated[
    Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] | None,
    _none_as(None),
    Field(description="US dollars, 0 or more (at most 1000000), or none for no limit"),
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
        description="an address that begins with redis://, rediss:// or unix:// (redis://host:6379/0), "
        "or names Sentinels and their master (redis+sentinel://host:26379,host:26379/name/0)"
    ),
]
Folder = Annotated[Path, AfterValidator(_check_path), Field(description="a folder")]
FolderMap = Annotated[dict[str, str], from_text(_read_folders), Field(description=FOLDERS)]
ThemeMap = Annotated[dict[Id, str], from_text(_read_themes), Field(description=THEME_MAP)]
Policy = Annotated[
    PolicyName,
    from_text(lambda text: text.strip().lower().replace("_", "-")),
    Field(description="rounds, round-robin, moderated or pull"),
]
PolicyMap = Annotated[dict[str, str], from_text(_read_policies), Field(description=POLICY_MAP)]
AgentRuntime = Literal["claude-agent-sdk"]
PermissionMode = Annotated[
    Literal["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"],
    Field(description="default, acceptEdits, plan, dontAsk, auto or bypassPermissions"),
]
BargeIn = Annotated[
    Literal["yield", "finish", "ignore"], from_text(str.lower), Field(description="yield, finish or ignore")
]
LogLevel = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
    from_text(str.upper),
    Field(description="DEBUG, INFO, WARNING, ERROR or CRITICAL"),
]
AwsRegion = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-\d+\Z")]
_Pattern = Annotated[str, StringConstraints(pattern=r"^!?[\w.:*?\[\]/-]{1,100}(\([^()]{1,200}\))?\Z")]
ToolPatterns = Annotated[tuple[_Pattern, ...], from_text(split_list), Field(description=TOOL_PATTERNS)]
_AgentName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}\Z")]
AgentNames = Annotated[
    tuple[_AgentName, ...],
    from_text(lambda text: split_list(text.lower())),
    Field(description="agents' names, separated by commas, or all, or none"),
]
