"""The settings, read once from the process environment and `.env`, and the one table of agents.

A setting has one key, spelled alike in both places; the process environment wins, an empty value means unset. Agents
are rows of AGENTS: a row brings its own keys (BOT_TOKEN_<NAME>, <NAME>_MODEL, <NAME>_IMAGE_MODEL) and its provider's
(API key, base URL), and needs no line elsewhere. Everything wrong is collected and told in one SettingsError, by key
and with what was expected; values are not repeated there, since any of them may be a secret pasted into the wrong
line. What is odd but usable becomes a line of `Settings.warnings`.

Three modules stand behind this one, and all others import from here: agent_roster is the table of agents, agent_fields
makes values of texts, agent_conflicts sees what does not fit together.

No other module reads `os.environ`; even here it is an argument, and `process_environment()` is what callers pass.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dotenv.parser import parse_stream
from pydantic import BeforeValidator, Field, SecretStr, ValidationError, create_model
from pydantic_settings import BaseSettings, EnvSettingsSource

from agent_conflicts import conflicts, fitted, oddities, typos
from agent_fields import (
    BOOL,
    CATCH_UP,
    COUNT,
    DEBOUNCE,
    DOLLARS,
    HTTP,
    ID,
    IDS,
    LIMIT,
    MILLISECONDS,
    MODES,
    PER_DAY,
    REDIS,
    SECONDS,
    SOME,
    STEPS,
    TOOLS,
    AgentRuntime,
    BargeIn,
    CatchUp,
    Count,
    Debounce,
    Dollars,
    Id,
    Ids,
    Keys,
    Limit,
    LogLevel,
    PerDay,
    PermissionMode,
    Port,
    Seconds,
    Secret,
    Some,
    Steps,
    ThemeMap,
    Words,
    address_with,
    in_seconds,
    setting,
    zero_is_none,
)
from agent_roster import AGENTS, BASE_URL_SETTINGS, STAND_INS, AgentSettings, AgentSpec, CodingSettings
from agent_themes import DEFAULT_THEME

__all__ = [
    "AGENTS",
    "BASE_URL_SETTINGS",
    "DEFAULT_BUDGET",
    "USER_SHARE",
    "AgentSettings",
    "AgentSpec",
    "CodingSettings",
    "Settings",
    "SettingsError",
    "load_settings",
    "machine_timezone",
    "missing_key_message",
    "missing_tokens_message",
    "process_environment",
    "setting_names",
]

READING_TOOLS = ("Read", "Glob", "Grep")  # what a coding agent may use where people write, while nothing is set
DEFAULT_BUDGET = 5.0  # US dollars a day, while no budget is set
USER_SHARE = 0.2


class Settings(Keys):
    """Everything the program can be told. Ids are Discord's, times are seconds, hours are local to `timezone`."""

    guild_ids: Ids = setting("GUILD_IDS", IDS, ())
    channel_ids: Ids = setting("AGENT_CHANNEL_IDS", IDS, ())
    channel_theme_map: ThemeMap = setting("CHANNEL_THEME_MAP", "channel_id:theme pairs, separated by commas", {})
    bot_ids: Ids = setting("BOT_IDS", IDS, ())
    bots_role_id: Annotated[Id | None, BeforeValidator(zero_is_none)] = setting("BOTS_ROLE_ID", ID, None)
    commands_bot: str | None = setting("COMMANDS_BOT", "the name of an agent", None)
    agent_name: str | None = setting("AGENT_NAME", "the name of an agent", None)
    agent_personality: str | None = setting("AGENT_PERSONALITY", "a text", None)
    stop_role_ids: Ids = setting("STOP_ROLE_IDS", IDS, ())
    stop_user_ids: Ids = setting("STOP_USER_IDS", IDS, ())
    barge_in: Annotated[BargeIn, BeforeValidator(lambda text: str(text).lower())] = setting(
        "BARGE_IN", "yield, finish or ignore", "yield"
    )
    agent_max_daily: Count = setting("AGENT_MAX_DAILY", COUNT, 100)
    agent_cooldown_seconds: Seconds = setting("AGENT_COOLDOWN_SECONDS", SECONDS, 15.0)
    mention_catchup_seconds: CatchUp = setting("MENTION_CATCHUP_SECONDS", CATCH_UP, 600.0)
    mention_debounce_seconds: Debounce = setting("MENTION_DEBOUNCE_SECONDS", DEBOUNCE, 0.0)
    context_window_size: Some = setting("CONTEXT_WINDOW_SIZE", SOME, 40)
    max_concurrent_turns: Some = setting("MAX_CONCURRENT_TURNS", SOME, 5)
    max_queue_depth: Some = setting("MAX_QUEUE_DEPTH", SOME, 100)
    turn_timeout_seconds: Limit = setting("TURN_TIMEOUT_SECONDS", LIMIT, 120.0)
    allow_dms: bool = setting("ALLOW_DMS", BOOL, False)
    personas_dir: Path = setting("PERSONAS_DIR", "a folder", Path("personas"))
    agent_runtime: AgentRuntime | None = setting("AGENT_RUNTIME", "claude-agent-sdk, or nothing", None)
    allowed_tools: Words = setting("ALLOWED_TOOLS", TOOLS, ())
    permission_mode: PermissionMode = setting("PERMISSION_MODE", MODES, "dontAsk")
    agent_sdk_max_steps: Steps = setting("AGENT_SDK_MAX_STEPS", STEPS, 20)
    agent_sdk_max_usd: float = setting(
        "AGENT_SDK_MAX_USD", "US dollars, more than 0 (at most 1000)", 0.5, gt=0, le=1000, allow_inf_nan=False
    )
    budget_daily_usd: Dollars = setting("BUDGET_DAILY_USD", DOLLARS, None)
    budget_agent_usd: Dollars = setting("BUDGET_AGENT_DAILY_USD", DOLLARS, None)
    budget_channel_usd: Dollars = setting("BUDGET_CHANNEL_DAILY_USD", DOLLARS, None)
    budget_user_usd: Dollars = setting("BUDGET_USER_DAILY_USD", DOLLARS, None)
    mentions_per_minute: Count = setting("MENTIONS_PER_MINUTE", COUNT, 6)
    ignore_user_ids: Ids = setting("IGNORE_USER_IDS", IDS, ())
    ignore_role_ids: Ids = setting("IGNORE_ROLE_IDS", IDS, ())
    owner_channel_id: Annotated[Id | None, BeforeValidator(zero_is_none)] = setting("OWNER_CHANNEL_ID", ID, None)
    show_cost_embeds: bool = setting("SHOW_COST_EMBEDS", BOOL, False)
    fire_on_startup: bool = setting("COORDINATOR_FIRE_ON_STARTUP", BOOL, False)
    schedule_min: PerDay = setting("COORDINATOR_SCHEDULE_MIN", PER_DAY, 3)
    schedule_max: PerDay = setting("COORDINATOR_SCHEDULE_MAX", PER_DAY, 6)
    active_start: int = setting("COORDINATOR_ACTIVE_START", "an hour from 0 to 23", 7, ge=0, le=23)
    active_end: int = setting("COORDINATOR_ACTIVE_END", "an hour from 0 to 24", 23, ge=0, le=24)
    max_rounds: Some = setting("COORDINATOR_MAX_ROUNDS", SOME, 30)
    reactive_probability: float = setting(
        "COORDINATOR_REACTIVE_PROBABILITY", "a number from 0 to 1", 0.15, ge=0, le=1, allow_inf_nan=False
    )
    turn_delay_min: Seconds = setting("COORDINATOR_TURN_DELAY_MIN", SECONDS, 15.0)
    turn_delay_max: Seconds = setting("COORDINATOR_TURN_DELAY_MAX", SECONDS, 45.0)
    priority_channels: Ids = setting("COORDINATOR_PRIORITY_CHANNELS", IDS, ())
    timeout_threshold: Some = setting("COORDINATOR_TIMEOUT_THRESHOLD", SOME, 8)
    redis_url: Annotated[str | None, address_with(("redis", "rediss", "unix"))] = setting(
        "REDIS_URL", REDIS, None, repr=False
    )
    standby: bool = setting("STANDBY", BOOL, False)
    timezone: ZoneInfo = setting("TIMEZONE", "an IANA name such as Europe/Berlin", ZoneInfo("UTC"))
    data_dir: Path = setting("DATA_DIR", "a folder", Path("data"))
    log_level: Annotated[LogLevel, BeforeValidator(lambda text: str(text).upper())] = setting(
        "LOG_LEVEL", "DEBUG, INFO, WARNING, ERROR or CRITICAL", "INFO"
    )
    log_format: Annotated[Literal["plain", "json"], BeforeValidator(lambda text: str(text).lower())] = setting(
        "LOG_FORMAT", "plain or json", "plain"
    )
    health_port: Port = setting("HEALTH_PORT", "a port from 1 to 65535, or 0 for none", 0)
    shutdown_grace_seconds: Seconds = setting("SHUTDOWN_GRACE_SECONDS", SECONDS, 20.0)
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
    known = _known(in_file, environ, agents, problems)
    if local:
        known = {key: text for key, text in known.items() if key not in _live_only(agents)}
    texts = {key: text for key, text in known.items() if _is_text(text)}
    wrong = known.keys() - texts.keys()
    problems += [f"{key}: expected text in UTF-8" for key in known if key in wrong]
    settings, wrong_settings = _validated(Settings, texts, problems)
    keys, wrong_keys = _validated(_agent_keys(agents), texts, problems)
    wrong |= wrong_settings | wrong_keys
    settings = fitted(settings)
    settings = settings.with_(
        agents={spec.name: _agent_settings(spec, keys, settings) for spec in agents.values()},
        timezone=settings.timezone if "TIMEZONE" in texts else machine_timezone(environ),
        runtime_dir=Path(environ["XDG_RUNTIME_DIR"]) if environ.get("XDG_RUNTIME_DIR") else None,
    )
    problems += [text for involved, text in conflicts(settings) if wrong.isdisjoint(involved)]
    if problems:
        raise SettingsError(problems)
    return settings.with_(warnings=(*typos(in_file, setting_names(agents), agents), *oddities(settings)))


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


def _known(
    in_file: Mapping[str, str], environ: Mapping[str, str], agents: Mapping[str, AgentSpec], problems: list[str]
) -> dict[str, str]:
    """Our keys' texts from both sources, without empty ones."""
    both = {**in_file, **{key: value.strip() for key, value in environ.items() if value.strip()}}
    for key, stand_in in STAND_INS.items():
        if key in both or stand_in not in both:
            continue
        text: str | None = both[stand_in]
        if stand_in.endswith("_MS") and (text := in_seconds(both[stand_in])) is None:
            problems.append(f"{stand_in}: expected {MILLISECONDS}")
        if text is not None:
            both[key] = text
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


_Model = TypeVar("_Model", bound=Keys)


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


def _agent_keys(agents: Mapping[str, AgentSpec]) -> type[Keys]:
    """The settings that the table's rows bring, as a model whose fields are called like their keys in small letters."""
    fields: dict[str, Any] = {}
    for spec in agents.values():
        url = Annotated[str | None, address_with(("http", "https"))]
        for key, kind, expected in (
            (spec.token_setting, Secret | None, "a Discord bot token"),
            (spec.key_setting, Secret | None, "an API key"),
            (spec.model_setting, str | None, "the name of a model"),
            (spec.image_model_setting, str | None, "the name of a picture model, or none"),
            (spec.base_url_setting, url, HTTP),
        ):
            fields[key.lower()] = (kind, setting(key, expected, None))
    return create_model("AgentKeys", __base__=Keys, **fields)


def _coding(spec: AgentSpec, shared: Settings) -> CodingSettings | None:
    """For the agents of Anthropic, where AGENT_RUNTIME says so."""
    if shared.agent_runtime is None or spec.provider != "anthropic":
        return None
    return CodingSettings(
        workspace=(shared.personas_dir / spec.name / "workspace").absolute(),
        home=(shared.data_dir / "agent-sdk" / spec.name).absolute(),
        allowed_tools=shared.allowed_tools or READING_TOOLS,
        permission_mode=shared.permission_mode,
        max_steps=shared.agent_sdk_max_steps,
        max_usd=shared.agent_sdk_max_usd,
        hidden=tuple(sorted({*setting_names(), *STAND_INS.values()} - {spec.key_setting, spec.base_url_setting})),
    )


def _agent_settings(spec: AgentSpec, keys: Keys, shared: Settings) -> AgentSettings:
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
        coding=_coding(spec, shared),
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


# --- what the owner is told at start --------------------------------------------------------------------------------


def missing_tokens_message(settings: Settings) -> str:
    """Three lines for a start without any bot token: what is missing, where it goes, and how to try without."""
    tokens = ", ".join(agent.spec.token_setting for agent in settings.agents.values())
    lacking = dict.fromkeys(agent.spec.key_setting for agent in settings.agents.values() if agent.api_key is None)
    keys = f", and its key ({', '.join(lacking)})" if lacking else ""
    return (
        f"No bot token is set; at least one is needed of {tokens}{keys}.\n"
        "To go live, copy .env.example to .env and fill in a token and its API key for each bot (README: Going live).\n"
        "To try it on this machine, with no token and no key: make local (which runs python run_all.py --local)"
    )


def missing_key_message(agent: AgentSettings) -> str:
    """The line for a bot with a token but no key."""
    spec = agent.spec
    return f"{spec.display_name} stays offline: {spec.token_setting} is set, {spec.key_setting} is not"
