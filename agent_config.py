"""The settings, read once from the process environment and `.env`, and the one table of agents.

A setting has one key, spelled alike in both places; the process environment wins, an empty value means unset. Agents
are rows of AGENTS: a row brings its own keys (BOT_TOKEN_<NAME>, <NAME>_MODEL, <NAME>_IMAGE_MODEL) and its provider's
(API key, base URL), and needs no line elsewhere. Everything wrong is collected and told in one SettingsError, by key
and with what was expected; values are not repeated there, since any of them may be a secret pasted into the wrong
line. What is odd but usable becomes a line of `Settings.warnings`.

No other module reads `os.environ`; even here it is an argument, and `process_environment()` is what callers pass.
"""

from __future__ import annotations

import difflib
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dotenv.parser import parse_stream
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, create_model
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from agent_themes import DEFAULT_THEME, THEMES

# --- the agents -----------------------------------------------------------------------------------------------------

BASE_URL_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "openai": "OPENAI_BASE_URL",
        "anthropic": "ANTHROPIC_BASE_URL",
        "google": "GOOGLE_GEMINI_BASE_URL",
        "xai": "XAI_BASE_URL",
    }
)
"""Provider → the key of its base URL: the name that the provider's own SDK reads, where it has one."""

_STAND_INS = {"GEMINI_API_KEY": "GOOGLE_API_KEY"}  # Google's SDK knows both names; ours wins when both are set


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One row of the table: an agent before anybody configured it. `colour` is 0xRRGGBB, `cog` is "module:Class"."""

    name: str
    display_name: str
    provider: str
    key_setting: str
    personality: str
    model: str
    image_model: str | None
    colour: int
    cog: str

    @property
    def token_setting(self) -> str:
        return f"BOT_TOKEN_{self.name.upper()}"

    @property
    def model_setting(self) -> str:
        return f"{self.name.upper()}_MODEL"

    @property
    def image_model_setting(self) -> str:
        return f"{self.name.upper()}_IMAGE_MODEL"

    @property
    def base_url_setting(self) -> str:
        return BASE_URL_SETTINGS.get(self.provider, f"{self.provider.upper()}_BASE_URL")

    @property
    def settings(self) -> tuple[str, ...]:
        """Every key that this row brings; those of the provider are shared with its other agents."""
        return (
            self.token_setting,
            self.key_setting,
            self.model_setting,
            self.image_model_setting,
            self.base_url_setting,
        )


_CHATGPT = AgentSpec(
    name="chatgpt",
    display_name="ChatGPT",
    provider="openai",
    key_setting="OPENAI_API_KEY",
    personality=(
        "You are the friend who turns a mess into a plan. You like a question best when it ends in something one"
        " could do tomorrow, and you say which option you would take and why. Warm, quick, a little too fond of"
        " structure: two points, rarely three, never ten. You believe most problems are smaller than they look, so you"
        " grow impatient with doubt that leads nowhere and with provocation for its own sake. When somebody shows you"
        " that your tidy answer left out what mattered, you say so cheerfully and mend it in the open."
    ),
    model="gpt-6-luna",
    image_model="gpt-image-2.6-flare",
    colour=0x10A37F,
    cog="agent_cogs.openai_agent:OpenAIAgentCog",
)
_CLAUDE = AgentSpec(
    name="claude",
    display_name="Claude",
    provider="anthropic",
    key_setting="ANTHROPIC_API_KEY",
    personality=(
        "You listen for the assumption under the sentence. You would rather understand a view you reject than win"
        " against a weak copy of it, so you often state the other side better than it was stated to you, and then say"
        " where it breaks. Dry humour, plain words, one good question instead of three caveats. You change your mind"
        " aloud when an argument earns it, and hold still when only the volume rises. Neat plans make you look for the"
        " person they forgot; confident numbers make you ask where they came from; a cheap shot gets a raised eyebrow"
        " and a better joke."
    ),
    model="claude-haiku-5-5",
    image_model=None,
    colour=0xD97757,
    cog="agent_cogs.anthropic_agent:AnthropicAgentCog",
)
_GEMINI = AgentSpec(
    name="gemini",
    display_name="Gemini",
    provider="google",
    key_setting="GEMINI_API_KEY",
    personality=(
        "You are curious about everything and unable to keep it to yourself. You argue by connection: a quarrel about"
        " pizza reminds you of plate tectonics, and by the third sentence it makes sense. You love a fact with a"
        " number, a date or an odd animal in it, and you say how sure you are of it. You want evidence before opinion,"
        " tease those who argue from principle alone, and defend a surprising result against everybody's common"
        " sense. Caught out on a fact, you are delighted to have learned the right one."
    ),
    model="gemini-3.8-flash",
    image_model="gemini-3.1-flash-image",
    colour=0x4285F4,
    cog="agent_cogs.gemini_agent:GeminiAgentCog",
)
_GROK = AgentSpec(
    name="grok",
    display_name="Grok",
    provider="xai",
    key_setting="XAI_API_KEY",
    personality=(
        "You are the one who says what the room avoids. When everybody agrees you get suspicious and take the other"
        " side, seriously enough to defend it for three rounds. Short sentences, quick wit, no reverence for experts,"
        " brands or the others in this channel, least of all for yourself. You aim at ideas and egos, never at the"
        " vulnerable, and you stop when somebody is hurt. Underneath the cheek there is a real point each time, and"
        " when you lose the argument you concede in one line and make it funny."
    ),
    model="grok-4.7",
    image_model="grok-imagine-image",  # https://docs.x.ai/developers/model-capabilities/images/generation
    colour=0x8E8E93,
    cog="agent_cogs.grok_agent:GrokAgentCog",
)

AGENTS: Mapping[str, AgentSpec] = MappingProxyType({spec.name: spec for spec in (_CHATGPT, _CLAUDE, _GEMINI, _GROK)})
"""The one table of agents, by name, in the order in which they are listed everywhere."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """An agent as configured. `image_model` is None for one that does not draw, `base_url` for the provider's own."""

    spec: AgentSpec
    token: SecretStr | None
    api_key: SecretStr | None
    model: str
    image_model: str | None
    base_url: str | None = field(default=None, repr=False)  # an address may carry a password

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def display_name(self) -> str:
        return self.spec.display_name


# --- from text to values --------------------------------------------------------------------------------------------


def _comma_list(value: object) -> object:
    """ "1, 2,,1," → ("1", "2"): spaces, empty places and repetitions are harmless."""
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def _theme_map(value: object) -> object:
    """ "1:debate, 2:Memes" → {"1": "debate", "2": "memes"}. ValueError: no pair, an unknown theme, a channel twice."""
    if not isinstance(value, str):
        return value
    themes: dict[str, str] = {}
    for pair in (part.strip() for part in value.split(",") if part.strip()):
        channel, colon, theme = (part.strip() for part in pair.partition(":"))
        if not colon or not channel.isdecimal():
            raise ValueError("expected channel_id:theme pairs, separated by commas")
        theme = theme.lower().replace("_", "-").replace(" ", "-")
        if theme not in THEMES:
            shown = f" {theme!r}" if len(theme) <= 20 and theme.replace("-", "").isalpha() else ""  # may be a stray key
            raise ValueError(f"the theme{shown} of channel {channel} is not known; known are {', '.join(THEMES)}")
        if themes.setdefault(channel, theme) != theme:
            raise ValueError(f"channel {channel} has two themes")
    return themes


def _zero_is_none(value: object) -> object:
    return None if value in (0, "0") else value


def _one_word(secret: SecretStr) -> SecretStr:
    """A token or key goes into an HTTP header, and one that does not fit there would be shown in the error."""
    text = secret.get_secret_value()
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("expected one word of plain characters, without spaces or quotes")
    return secret


def _address(schemes: Iterable[str]) -> AfterValidator:
    allowed = tuple(schemes)

    def check(value: str) -> str:
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
            raise ValueError  # a client would take the database 0 without a word
        return value

    return AfterValidator(check)


DEFAULT_BUDGET = 5.0  # US dollars a day, while no budget is set
USER_SHARE = 0.2

_Id = Annotated[int, Field(gt=0, lt=2**63)]
_Ids = Annotated[tuple[_Id, ...], NoDecode, BeforeValidator(_comma_list)]
_ThemeMap = Annotated[dict[_Id, str], NoDecode, BeforeValidator(_theme_map)]
# Bounded above as well: a stray digit too many must not become a list of a billion or a number that Redis refuses.
_Count = Annotated[int, Field(ge=0, le=1_000_000)]
_Some = Annotated[int, Field(ge=1, le=1_000_000)]
_PerDay = Annotated[int, Field(ge=0, le=1_000)]
_Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
_Dollars = Annotated[float | None, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
_Port = Annotated[int, Field(ge=0, le=65_535)]
_CatchUp = Annotated[float, Field(ge=0, le=900, allow_inf_nan=False)]  # a turn's record lives no longer
_Debounce = Annotated[float, Field(ge=0, le=20, allow_inf_nan=False)]
_Secret = Annotated[SecretStr, AfterValidator(_one_word)]
_BargeIn = Literal["yield", "finish", "ignore"]
_LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

_IDS = "whole numbers (Discord ids), separated by commas"
_ID = "a whole number (a Discord id)"
_COUNT = "a whole number, 0 or more (at most 1000000)"
_SOME = "a whole number, 1 or more (at most 1000000)"
_PER_DAY = "a whole number, 0 or more (at most 1000)"
_SECONDS = "a number of seconds, 0 or more (at most 86400)"
_DOLLARS = "US dollars, 0 or more (at most 1000000)"
_CATCH_UP = "a number of seconds, 0 or more (at most 900)"
_DEBOUNCE = "a number of seconds, 0 or more (at most 20)"
_BOOL = "true or false"
_REDIS = "an address that begins with redis://, rediss:// or unix:// (redis://host:6379/0)"
_HTTP = "an address that begins with http:// or https://"


def _setting(key: str, expected: str, default: Any, **more: Any) -> Any:
    """A field read from `key`; `expected` completes "expected …" in the error message."""
    return Field(default, validation_alias=key, description=expected, validate_default=False, **more)


class _Keys(BaseSettings):
    """Reads nothing by itself: what is given is what there is, so that no test depends on its machine's environment."""

    model_config = SettingsConfigDict(
        frozen=True, populate_by_name=True, case_sensitive=True, extra="forbid", protected_namespaces=()
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


class Settings(_Keys):
    """Everything the program can be told. Ids are Discord's, times are seconds, hours are local to `timezone`."""

    guild_ids: _Ids = _setting("GUILD_IDS", _IDS, ())
    channel_ids: _Ids = _setting("AGENT_CHANNEL_IDS", _IDS, ())
    channel_theme_map: _ThemeMap = _setting("CHANNEL_THEME_MAP", "channel_id:theme pairs, separated by commas", {})
    bot_ids: _Ids = _setting("BOT_IDS", _IDS, ())
    bots_role_id: Annotated[_Id | None, BeforeValidator(_zero_is_none)] = _setting("BOTS_ROLE_ID", _ID, None)
    agent_name: str | None = _setting("AGENT_NAME", "the name of an agent", None)
    agent_personality: str | None = _setting("AGENT_PERSONALITY", "a text", None)
    stop_role_ids: _Ids = _setting("STOP_ROLE_IDS", _IDS, ())
    stop_user_ids: _Ids = _setting("STOP_USER_IDS", _IDS, ())
    barge_in: Annotated[_BargeIn, BeforeValidator(lambda text: str(text).lower())] = _setting(
        "BARGE_IN", "yield, finish or ignore", "yield"
    )
    agent_max_daily: _Count = _setting("AGENT_MAX_DAILY", _COUNT, 100)
    agent_cooldown_seconds: _Seconds = _setting("AGENT_COOLDOWN_SECONDS", _SECONDS, 15.0)
    mention_catchup_seconds: _CatchUp = _setting("MENTION_CATCHUP_SECONDS", _CATCH_UP, 600.0)
    mention_debounce_seconds: _Debounce = _setting("MENTION_DEBOUNCE_SECONDS", _DEBOUNCE, 0.0)
    context_window_size: _Some = _setting("CONTEXT_WINDOW_SIZE", _SOME, 40)
    max_concurrent_turns: _Some = _setting("MAX_CONCURRENT_TURNS", _SOME, 5)
    max_queue_depth: _Some = _setting("MAX_QUEUE_DEPTH", _SOME, 100)
    budget_daily_usd: _Dollars = _setting("BUDGET_DAILY_USD", _DOLLARS, None)
    budget_agent_usd: _Dollars = _setting("BUDGET_AGENT_DAILY_USD", _DOLLARS, None)
    budget_channel_usd: _Dollars = _setting("BUDGET_CHANNEL_DAILY_USD", _DOLLARS, None)
    budget_user_usd: _Dollars = _setting("BUDGET_USER_DAILY_USD", _DOLLARS, None)
    mentions_per_minute: _Count = _setting("MENTIONS_PER_MINUTE", _COUNT, 6)
    ignore_user_ids: _Ids = _setting("IGNORE_USER_IDS", _IDS, ())
    ignore_role_ids: _Ids = _setting("IGNORE_ROLE_IDS", _IDS, ())
    owner_channel_id: Annotated[_Id | None, BeforeValidator(_zero_is_none)] = _setting("OWNER_CHANNEL_ID", _ID, None)
    show_cost_embeds: bool = _setting("SHOW_COST_EMBEDS", _BOOL, False)
    fire_on_startup: bool = _setting("COORDINATOR_FIRE_ON_STARTUP", _BOOL, False)
    schedule_min: _PerDay = _setting("COORDINATOR_SCHEDULE_MIN", _PER_DAY, 3)
    schedule_max: _PerDay = _setting("COORDINATOR_SCHEDULE_MAX", _PER_DAY, 6)
    active_start: int = _setting("COORDINATOR_ACTIVE_START", "an hour from 0 to 23", 7, ge=0, le=23)
    active_end: int = _setting("COORDINATOR_ACTIVE_END", "an hour from 0 to 24", 23, ge=0, le=24)
    max_rounds: _Some = _setting("COORDINATOR_MAX_ROUNDS", _SOME, 30)
    reactive_probability: float = _setting(
        "COORDINATOR_REACTIVE_PROBABILITY", "a number from 0 to 1", 0.15, ge=0, le=1, allow_inf_nan=False
    )
    turn_delay_min: _Seconds = _setting("COORDINATOR_TURN_DELAY_MIN", _SECONDS, 15.0)
    turn_delay_max: _Seconds = _setting("COORDINATOR_TURN_DELAY_MAX", _SECONDS, 45.0)
    priority_channels: _Ids = _setting("COORDINATOR_PRIORITY_CHANNELS", _IDS, ())
    timeout_threshold: _Some = _setting("COORDINATOR_TIMEOUT_THRESHOLD", _SOME, 8)
    redis_url: Annotated[str | None, _address(("redis", "rediss", "unix"))] = _setting(
        "REDIS_URL", _REDIS, None, repr=False
    )
    standby: bool = _setting("STANDBY", _BOOL, False)
    timezone: ZoneInfo = _setting("TIMEZONE", "an IANA name such as Europe/Berlin", ZoneInfo("UTC"))
    data_dir: Path = _setting("DATA_DIR", "a folder", Path("data"))
    log_level: Annotated[_LogLevel, BeforeValidator(lambda text: str(text).upper())] = _setting(
        "LOG_LEVEL", "DEBUG, INFO, WARNING, ERROR or CRITICAL", "INFO"
    )
    log_format: Annotated[Literal["plain", "json"], BeforeValidator(lambda text: str(text).lower())] = _setting(
        "LOG_FORMAT", "plain or json", "plain"
    )
    health_port: _Port = _setting("HEALTH_PORT", "a port from 1 to 65535, or 0 for none", 0)
    shutdown_grace_seconds: _Seconds = _setting("SHUTDOWN_GRACE_SECONDS", _SECONDS, 20.0)
    agents: dict[str, AgentSettings] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    runtime_dir: Path | None = None  # XDG_RUNTIME_DIR: where sockets belong

    @property
    def channels(self) -> dict[int, str]:
        """Channel id → theme, of every channel the agents may speak in."""
        ids = self.channel_ids or tuple(self.channel_theme_map)
        return {channel: self.channel_theme_map.get(channel, DEFAULT_THEME) for channel in ids}

    @property
    def daily_budget(self) -> float | None:
        """US dollars a day for all agents; None for any sum, where an owner has set other budgets only."""
        others = (self.budget_agent_usd, self.budget_channel_usd, self.budget_user_usd)
        if self.budget_daily_usd is None and all(budget is None for budget in others):
            return DEFAULT_BUDGET
        return self.budget_daily_usd

    @property
    def user_budget(self) -> float | None:
        """US dollars a day that one person may bring about: a share of all, so that nobody empties the day."""
        if self.budget_user_usd is not None or self.daily_budget is None:
            return self.budget_user_usd
        return self.daily_budget * USER_SHARE

    def personality_of(self, agent: str) -> str:
        """AGENT_PERSONALITY where it is set, the table's own otherwise."""
        return self.agent_personality or self.agents[agent].spec.personality

    def secrets(self) -> frozenset[str]:
        """Every secret text of the settings: tokens, keys, and the passwords that addresses carry, as they are sent."""
        agents = self.agents.values()
        values = [*(getattr(self, name) for name in type(self).model_fields), *(a.token for a in agents)]
        values += [agent.api_key for agent in agents]
        found = {value.get_secret_value() for value in values if isinstance(value, SecretStr)}
        for address in filter(None, (self.redis_url, *(agent.base_url for agent in agents))):
            if password := urlsplit(address).password:
                found |= {password, unquote(password)}
        return frozenset(found)

    def with_(self, **changes: Any) -> Self:
        """A copy with these attributes replaced; values are taken as they are. TypeError for an unknown attribute."""
        if unknown := changes.keys() - type(self).model_fields.keys():
            raise TypeError(f"no such setting: {', '.join(sorted(unknown))}")
        return self.model_copy(update=changes)


class SettingsError(Exception):
    """The settings cannot be used. `problems` has one line for each thing that is wrong, `KEY: what was expected`."""

    def __init__(self, problems: list[str]) -> None:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__("\n".join([f"The settings cannot be used ({count}):", *(f"  {line}" for line in problems)]))
        self.problems = problems


# --- reading --------------------------------------------------------------------------------------------------------


def process_environment() -> Mapping[str, str]:
    """The environment of this process, to be handed to load_settings()."""
    return os.environ


def setting_names(agents: Mapping[str, AgentSpec] = AGENTS) -> tuple[str, ...]:
    """Every key that is read, AGENT_NAME included, each once."""
    keys = [str(info.validation_alias) for info in Settings.model_fields.values() if info.validation_alias]
    keys += [key for spec in agents.values() for key in spec.settings]
    return tuple(dict.fromkeys(keys))


def load_settings(
    environ: Mapping[str, str],
    env_file: Path | None = Path(".env"),
    agents: Mapping[str, AgentSpec] = AGENTS,
    *,
    local: bool = False,
) -> Settings:
    """Read, check and join both sources. Raises SettingsError with all problems at once.

    `local`: what only a real Discord server and its Redis need is as if it were not set.
    """
    problems: list[str] = []
    in_file = _read_env_file(env_file, problems)
    known = _known(in_file, environ, agents)
    if local:
        known = {key: text for key, text in known.items() if key not in _live_only(agents)}
    texts = {key: text for key, text in known.items() if _is_text(text)}
    wrong = known.keys() - texts.keys()
    problems += [f"{key}: expected text in UTF-8" for key in known if key in wrong]
    settings, wrong_settings = _validated(Settings, texts, problems)
    keys, wrong_keys = _validated(_agent_keys(agents), texts, problems)
    wrong |= wrong_settings | wrong_keys
    settings = _fitted(settings).with_(
        agents={spec.name: _agent_settings(spec, keys) for spec in agents.values()},
        timezone=settings.timezone if "TIMEZONE" in texts else machine_timezone(environ),
        runtime_dir=Path(environ["XDG_RUNTIME_DIR"]) if environ.get("XDG_RUNTIME_DIR") else None,
    )
    problems += [text for involved, text in _conflicts(settings) if wrong.isdisjoint(involved)]
    if problems:
        raise SettingsError(problems)
    return settings.with_(warnings=(*_typos(in_file, agents), *_oddities(settings)))


def _live_only(agents: Mapping[str, AgentSpec]) -> frozenset[str]:
    places = ("GUILD_IDS", "AGENT_CHANNEL_IDS", "CHANNEL_THEME_MAP", "COORDINATOR_PRIORITY_CHANNELS")
    others = ("OWNER_CHANNEL_ID", "IGNORE_USER_IDS", "IGNORE_ROLE_IDS", "BOT_IDS", "BOTS_ROLE_ID", "REDIS_URL")
    return frozenset({*places, *others, *(spec.token_setting for spec in agents.values())})


def _read_env_file(path: Path | None, problems: list[str]) -> dict[str, str]:
    """The file's filled lines. `${NAME}` is not replaced: that would read the process environment."""
    try:
        text = path.read_text(encoding="utf-8-sig") if path and path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path}: cannot be read as UTF-8 text ({type(error).__name__})")
        return {}
    bindings = list(parse_stream(io.StringIO(text)))
    problems += [f"{path}, line {line.original.line}: expected KEY=value" for line in bindings if line.error]
    lines = {line.key: line.value for line in bindings if line.key and not line.error}
    filled = {key: value.strip() for key, value in lines.items() if value and value.strip()}
    if filled.pop("AGENT_NAME", None):
        problems.append("AGENT_NAME: belongs to one process (AGENT_NAME=gemini python run_bot.py), not into .env")
    return filled


def _known(in_file: Mapping[str, str], environ: Mapping[str, str], agents: Mapping[str, AgentSpec]) -> dict[str, str]:
    """Our keys' texts from both sources, without empty ones."""
    both = {**in_file, **{key: value.strip() for key, value in environ.items() if value.strip()}}
    for key, stand_in in _STAND_INS.items():
        if key not in both and stand_in in both:
            both[key] = both[stand_in]
    return {key: both[key] for key in setting_names(agents) if key in both}


def _is_text(value: str) -> bool:
    """No byte that is not UTF-8 (in os.environ a surrogate) and no NUL: no file and no server would take them."""
    return "\0" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)


class _Texts(EnvSettingsSource):
    """pydantic-settings' reading of environment variables, from a mapping instead of the process."""

    def __init__(self, model: type[BaseSettings], texts: Mapping[str, str]) -> None:
        self._texts = texts
        super().__init__(model)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return dict(self._texts)


_Model = TypeVar("_Model", bound=_Keys)


def _validated(model: type[_Model], texts: Mapping[str, str], problems: list[str]) -> tuple[_Model, set[str]]:
    """The model with its wrong keys left at their defaults, and those keys; each adds one line to `problems`."""
    values = _Texts(model, texts)()
    try:
        return model(**values), set()
    except ValidationError as error:
        # include_input=False: an input may be a secret
        found = {str(one["loc"][0]): one for one in reversed(error.errors(include_url=False, include_input=False))}
    expected = {info.validation_alias: info.description for info in model.model_fields.values()}
    for key in (key for key in values if key in found):
        own_words = str(found[key].get("ctx", {}).get("error", "")) if found[key]["type"] == "value_error" else ""
        problems.append(f"{key}: {own_words or f'expected {expected[key]}'}")
    return model(**{key: value for key, value in values.items() if key not in found}), set(found)


def _agent_keys(agents: Mapping[str, AgentSpec]) -> type[_Keys]:
    """The settings that the table's rows bring, as a model whose fields are called like their keys in small letters."""
    fields: dict[str, Any] = {}
    for spec in agents.values():
        url = Annotated[str | None, _address(("http", "https"))]
        for key, kind, expected in (
            (spec.token_setting, _Secret | None, "a Discord bot token"),
            (spec.key_setting, _Secret | None, "an API key"),
            (spec.model_setting, str | None, "the name of a model"),
            (spec.image_model_setting, str | None, "the name of a picture model, or none"),
            (spec.base_url_setting, url, _HTTP),
        ):
            fields[key.lower()] = (kind, _setting(key, expected, None))
    return create_model("AgentKeys", __base__=_Keys, **fields)


def _agent_settings(spec: AgentSpec, keys: _Keys) -> AgentSettings:
    def read(key: str) -> Any:
        return getattr(keys, key.lower())

    image_model = read(spec.image_model_setting) or spec.image_model
    return AgentSettings(
        spec=spec,
        token=read(spec.token_setting),
        api_key=read(spec.key_setting),
        model=read(spec.model_setting) or spec.model,
        image_model=None if image_model and image_model.lower() == "none" else image_model,
        base_url=read(spec.base_url_setting),
    )


def machine_timezone(environ: Mapping[str, str], localtime: Path = Path("/etc/localtime")) -> ZoneInfo:
    """TZ where it names a zone, else the zone that /etc/localtime is, else UTC."""
    names = [environ.get("TZ", "").removeprefix(":"), os.path.realpath(localtime)]
    for name in names:
        try:
            return ZoneInfo(name.rpartition("zoneinfo/")[2].removeprefix("posix/"))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            continue
    try:
        with localtime.open("rb") as file:
            return ZoneInfo.from_file(file, key="localtime")
    except (OSError, ValueError):
        return ZoneInfo("UTC")


# --- what must fit together -----------------------------------------------------------------------------------------

_PAIRS = (
    ("schedule_min", "COORDINATOR_SCHEDULE_MIN", "schedule_max", "COORDINATOR_SCHEDULE_MAX"),
    ("turn_delay_min", "COORDINATOR_TURN_DELAY_MIN", "turn_delay_max", "COORDINATOR_TURN_DELAY_MAX"),
)


def _fitted(settings: Settings) -> Settings:
    """Who sets one end of a range past the other's default means that end: COORDINATOR_SCHEDULE_MAX=0 alone is none."""
    changes: dict[str, Any] = {}
    for low, _, high, _ in _PAIRS:
        given = {low, high} & settings.model_fields_set
        if len(given) == 1 and getattr(settings, low) > getattr(settings, high):
            changes = {**changes, **dict.fromkeys((low, high), getattr(settings, given.pop()))}
    return settings.with_(**changes)


def _conflicts(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """The keys of each problem between settings, and its line."""
    for low, low_key, high, high_key in _PAIRS:
        if getattr(settings, low) > getattr(settings, high):
            yield (low_key, high_key), f"{low_key}, {high_key}: expected a minimum that is not above the maximum"
    if settings.active_start == settings.active_end:
        keys = ("COORDINATOR_ACTIVE_START", "COORDINATOR_ACTIVE_END")
        yield keys, f"{', '.join(keys)}: expected two different hours (0 and 24 are the whole day)"
    if settings.agent_name and settings.agent_name not in settings.agents:
        yield ("AGENT_NAME",), f"AGENT_NAME: expected one of {', '.join(settings.agents)}"
    owners: dict[str, list[str]] = {}
    for agent in settings.agents.values():
        if agent.token:
            owners.setdefault(agent.token.get_secret_value(), []).append(agent.spec.token_setting)
    for doubled in (keys for keys in owners.values() if len(keys) > 1):
        yield tuple(doubled), f"{', '.join(doubled)}: expected a token of its own for each bot, these are the same"


def _oddities(settings: Settings) -> Iterator[str]:
    channels = settings.channels
    if strays := [str(channel) for channel in settings.channel_theme_map if channel not in channels]:
        yield f"CHANNEL_THEME_MAP: not in AGENT_CHANNEL_IDS and therefore not used: {', '.join(strays)}"
    if strays := [str(channel) for channel in settings.priority_channels if channel not in channels]:
        yield f"COORDINATOR_PRIORITY_CHANNELS: not among the channels and therefore not used: {', '.join(strays)}"
    if not channels and any(agent.token for agent in settings.agents.values()):
        yield "AGENT_CHANNEL_IDS, CHANNEL_THEME_MAP: neither names a channel, so the bots will speak nowhere"


def _typos(in_file: Mapping[str, str], agents: Mapping[str, AgentSpec]) -> Iterator[str]:
    """Only for .env: the process environment is full of other programs' names."""
    ours = setting_names(agents)
    for key in in_file.keys() - {*ours, *_STAND_INS.values()}:
        if close := difflib.get_close_matches(key.upper(), ours, n=1, cutoff=0.85):
            yield f"{key} in .env is not a setting and not used; {close[0]} is one"
        elif key.upper().startswith("BOT_TOKEN_"):
            yield f"{key} in .env belongs to no agent and is not used; agents are {', '.join(agents)}"


# --- what the owner is told at start --------------------------------------------------------------------------------


def missing_tokens_message(settings: Settings) -> str:
    """Three lines for a start without any bot token: what is missing, where it goes, and how to try without."""
    keys = ", ".join(agent.spec.token_setting for agent in settings.agents.values())
    return (
        f"No bot token is set; at least one is needed of {keys}.\n"
        "To go live, copy .env.example to .env and fill in a token and its API key for each bot (README: Going live).\n"
        "To try it on this machine, with no token and no key: make local (which runs python run_all.py --local)"
    )


def missing_key_message(agent: AgentSettings) -> str:
    """The line for a bot with a token but no key."""
    spec = agent.spec
    return f"{spec.display_name} stays offline: {spec.token_setting} is set, {spec.key_setting} is not"
