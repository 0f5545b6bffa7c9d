"""Types of settings, each with its bounds and the words for what was expected.

All values come as text, from the environment or from `.env`. Pydantic casts each once; a refused value becomes
`KEY: expected …`, which the texts below complete. A validator may bring its own words (a ValueError with a message);
these never repeat a value that may be a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, StringConstraints
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from agentic.themes import DEFAULT_THEME, THEMES


def comma_list(value: object) -> object:
    """ "1, 2,,1," → ("1", "2"): spaces, empty entries and repetitions are dropped."""
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


FOLDERS = "agent:folder pairs such as claude:penny, separated by commas"


def folder_pairs(value: object) -> object:
    """ "claude:penny" → {"claude": "penny"}. ValueError for anything else, and for a name that occurs twice."""
    parts = comma_list(value)
    if not isinstance(parts, tuple):
        return value
    pairs = [tuple(side.strip().lower() for side in part.partition(":")[::2]) for part in parts]
    if not all(agent and re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", folder) for agent, folder in pairs):
        raise ValueError(f"expected {FOLDERS}")
    if len({agent for agent, _ in pairs}) < len(pairs) or len({folder for _, folder in pairs}) < len(pairs):
        raise ValueError("an agent, or a folder, is named twice")
    return dict(pairs)


def _theme_map(value: object) -> object:
    """ "1:debate, 2:Memes, 3" → {"1": "debate", "2": "memes", "3": "casual"}. ValueError: no id, an unknown theme, a
    channel twice."""
    if not isinstance(value, str):
        return value
    themes: dict[str, str] = {}
    for pair in (part.strip() for part in value.split(",") if part.strip()):
        channel, _, theme = (part.strip() for part in pair.partition(":"))
        if not channel.isdecimal():
            raise ValueError(f"expected {THEME_MAP}")
        channel = channel.lstrip("0") or "0"  # as numbers they would be the same channel
        theme = theme.lower().replace("_", "-").replace(" ", "-") or DEFAULT_THEME
        if theme not in THEMES:
            shown = f" {theme!r}" if len(theme) <= 20 and theme.replace("-", "").isalpha() else ""  # may be a stray key
            raise ValueError(f"unknown theme{shown} for channel {channel}; expected one of {', '.join(THEMES)}")
        if themes.setdefault(channel, theme) != theme:
            raise ValueError(f"channel {channel} has two themes")
    return themes


def _policy_map(value: object) -> object:
    """ "debate:pull, 123:round-robin" → {"debate": "pull", "123": "round-robin"}. ValueError: neither a theme nor an
    id, an unknown policy, a place twice."""
    if not isinstance(value, str):
        return value
    policies: dict[str, str] = {}
    for pair in (part.strip() for part in value.split(",") if part.strip()):
        place, colon, policy = (part.strip() for part in pair.partition(":"))
        place = (place.lstrip("0") or "0") if place.isdecimal() else place.lower().replace("_", "-").replace(" ", "-")
        if not colon or not (place.isdecimal() or place in THEMES):
            raise ValueError(f"expected {POLICY_MAP}")
        policy = policy.lower().replace("_", "-").replace(" ", "-")
        if policy not in POLICIES:
            raise ValueError(f"unknown policy for {place}; expected one of {', '.join(POLICIES)}")
        if policies.setdefault(place, policy) != policy:
            raise ValueError(f"{place} has two policies")
    return policies


def _as_policy(value: object) -> object:
    return value.strip().lower().replace("_", "-") if isinstance(value, str) else value


def zero_is_none(value: object) -> object:
    return None if value in (0, "0") else value


def _none(value: object) -> bool:
    return isinstance(value, str) and value.strip().lower() == "none"


def _unlimited(value: object) -> object:
    return NO_LIMIT if _none(value) else value


def _none_is_no_limit(value: object) -> object:
    return None if _none(value) else value


def in_seconds(milliseconds: str) -> str | None:
    """None unless it is a number of milliseconds from 1000 to 600000."""
    try:
        seconds = float(milliseconds) / 1000
    except ValueError:
        return None
    return str(seconds) if 1 <= seconds <= 600 else None


def _one_word(secret: SecretStr) -> SecretStr:
    """Refuse what does not fit into an HTTP header: the error of the HTTP client would show it."""
    text = secret.get_secret_value()
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("expected one word of ASCII characters, without spaces")
    return secret


_HOST = r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:[1-9]\d{0,4})?"
_SENTINELS = re.compile(rf"rediss?\+sentinel://([^@/?\s]*@)?{_HOST}(,{_HOST})*/[\w.-]+(/\d*)?(\?\S*)?")


def address_with(schemes: Iterable[str]) -> AfterValidator:
    """Refuse other addresses. That of Sentinels may have several hosts, and names the master."""
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


Id = Annotated[int, Field(gt=0, lt=2**63)]
Ids = Annotated[tuple[Id, ...], BeforeValidator(comma_list)]
ThemeMap = Annotated[dict[Id, str], BeforeValidator(_theme_map)]
Policy = Annotated[Literal["rounds", "round-robin", "moderated", "pull"], BeforeValidator(_as_policy)]
POLICIES: tuple[str, ...] = get_args(get_args(Policy)[0])
PolicyMap = Annotated[dict[str, str], BeforeValidator(_policy_map)]
# Bounded above too: one digit too many must not become a list of a billion entries or a number that Redis refuses.
NO_LIMIT = 1_000_000  # what `none` means for a Count: more than anybody reaches
Count = Annotated[int, Field(ge=0, le=NO_LIMIT), BeforeValidator(_unlimited)]
Some = Annotated[int, Field(ge=1, le=1_000_000)]
PerDay = Annotated[int, Field(ge=0, le=1_000)]
Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
Dollars = Annotated[
    Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] | None, BeforeValidator(_none_is_no_limit)
]
Days = Annotated[Annotated[int, Field(ge=0, le=36_500)] | None, BeforeValidator(_none_is_no_limit)]
Port = Annotated[int, Field(ge=0, le=65_535)]
CatchUp = Annotated[float, Field(ge=0, le=900, allow_inf_nan=False)]  # no longer than a turn's record is kept
Debounce = Annotated[float, Field(ge=0, le=20, allow_inf_nan=False)]
Limit = Annotated[float, Field(ge=1, le=600, allow_inf_nan=False)]  # at most the longest turn
Steps = Annotated[int, Field(ge=1, le=200)]
AgentRuntime = Literal["claude-agent-sdk"]
PermissionMode = Literal["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"]
Secret = Annotated[SecretStr, AfterValidator(_one_word)]


def _can_be_a_path(path: Path) -> Path:
    """Refuse paths beyond the limits of file systems (255 bytes a name, 4,096 in all): opening them would fail."""
    if any(len(os.fsencode(part)) > 255 for part in path.parts) or len(os.fsencode(path)) > 4_000:
        raise ValueError
    return path


Folder = Annotated[Path, AfterValidator(_can_be_a_path)]
Retries = Annotated[int, Field(ge=0, le=10)]
AwsRegion = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-\d+\Z")]
_Pattern = Annotated[str, StringConstraints(pattern=r"^!?[\w.:*?\[\]/-]{1,100}(\([^()]{1,200}\))?\Z")]
ToolPatterns = Annotated[tuple[_Pattern, ...], BeforeValidator(comma_list)]
_AgentName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}\Z")]
AgentNames = Annotated[tuple[_AgentName, ...], BeforeValidator(lambda names: comma_list(str(names).lower()))]
BargeIn = Literal["yield", "finish", "ignore"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

THEME_MAP = "channel_id:theme pairs, separated by commas (an id alone is casual)"
POLICY = "rounds, round-robin, moderated or pull"
POLICY_MAP = "theme:policy or channel_id:policy pairs, separated by commas"
DAYS = "a number of days, or none"
IDS = "whole numbers (Discord ids), separated by commas"
ID = "a whole number (a Discord id)"
COUNT = "a whole number, 0 or more (at most 1000000), or none for no limit"
SOME = "a whole number, 1 or more (at most 1000000)"
PER_DAY = "a whole number, 0 or more (at most 1000)"
SECONDS = "a number of seconds, 0 or more (at most 86400)"
DOLLARS = "US dollars, 0 or more (at most 1000000), or none for no limit"
CATCH_UP = "a number of seconds, 0 or more (at most 900)"
DEBOUNCE = "a number of seconds, 0 or more (at most 20)"
LIMIT = "a number of seconds from 1 to 600"
MILLISECONDS = "a number of milliseconds from 1000 to 600000"
STEPS = "a whole number from 1 to 200"
MODES = "default, acceptEdits, plan, dontAsk, auto or bypassPermissions"
RETRIES = "a whole number from 0 to 10"
TOOL_PATTERNS = "tools' names or patterns of them, separated by commas, or none"
READING = ("files_read", "files_glob", "files_grep")  # none that writes: a stranger may talk a model into it
# The last are those of the owner's MCP servers.
DEFAULT_TOOLS = ("web_search", "web_fetch", "memory", "recall", *READING, "*__*")
AGENT_NAMES = "agents' names, separated by commas, or all, or none"
BOOL = "true or false"
REDIS = (
    "an address that begins with redis://, rediss:// or unix:// (redis://host:6379/0), "
    "or names Sentinels and their master (redis+sentinel://host:26379,host:26379/name/0)"
)
HTTP = "an address that begins with http:// or https://"


def setting(key: str, expected: str, default: Any, **more: Any) -> Any:
    """A field read from `key`; `expected` completes "expected …" in the error message."""
    return Field(default, validation_alias=key, description=expected, validate_default=False, **more)


class Keys(BaseSettings):
    """Settings from the arguments only, never from the process environment or files."""

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
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)
