"""Settings and derived values.

The settings of Signal: which agent speaks under which number, and with whom.

All settings, and the values derived from them.

A line a setting: its key, the words for what is expected (fields.py), its default. agent_config reads them; import
them from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from agentic.settings.agents import AgentSettings, IdleKeys, PersonaModels
from agentic.settings.fields import (
    AGENT_NAMES,
    BOOL,
    CATCH_UP,
    COUNT,
    DAYS,
    DEBOUNCE,
    DEFAULT_TOOLS,
    DOLLARS,
    FOLDERS,
    HTTP,
    ID,
    IDS,
    LIMIT,
    MODES,
    PER_DAY,
    POLICY,
    POLICY_MAP,
    REDIS,
    RETRIES,
    SECONDS,
    SOME,
    STEPS,
    THEME_MAP,
    TOOL_PATTERNS,
    AgentNames,
    AgentRuntime,
    AwsRegion,
    BargeIn,
    CatchUp,
    Count,
    Days,
    Debounce,
    Dollars,
    Folder,
    Id,
    Ids,
    Keys,
    Limit,
    LogLevel,
    PerDay,
    PermissionMode,
    Policy,
    PolicyMap,
    Port,
    Retries,
    Seconds,
    Secret,
    Some,
    Steps,
    ThemeMap,
    ToolPatterns,
    address_with,
    comma_list,
    folder_pairs,
    setting,
    zero_is_none,
)
from agentic.settings.models import EndpointSettings, ModelSettings
from agentic.themes import DEFAULT_THEME, THEMES

Channel = Literal["discord", "signal", "both"]

_NUMBER = re.compile(r"\+[1-9][0-9]{6,14}")  # E.164
_ACCOUNT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # who hides their number has only this
_AGENT = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_SPACES = str.maketrans("", "", " ()/.-\u00a0")

NUMBERS = "agent:number pairs such as penny:+4915112345678, separated by commas"
PEOPLE = "phone numbers with + and country code, or Signal's account ids, separated by commas, or all"
LINKS = "number:id pairs, a person's phone number and Discord id, separated by commas"


def address_of(text: str) -> str | None:
    """A phone number as +4915112345678, or a Signal account id; None for anything else."""
    plain = text.strip().lower()
    if _ACCOUNT.fullmatch(plain):
        return plain
    number = plain.translate(_SPACES)
    return number if _NUMBER.fullmatch(number) else None


def _pairs(value: object, expected: str) -> object:
    """ "a:b, c:d" → [("a", "b"), ("c", "d")]. ValueError for anything else."""
    parts = comma_list(value)
    if not isinstance(parts, tuple):
        return value
    pairs = [tuple(side.strip() for side in str(part).partition(":")[::2]) for part in parts]
    if not all(left and right for left, right in pairs):
        raise ValueError(f"expected {expected}")
    return pairs


def _numbers(value: object) -> object:
    pairs = _pairs(value, NUMBERS)
    if not isinstance(pairs, list):
        return value
    found: dict[str, str] = {}
    for name, text in pairs:
        agent, number = name.lower(), address_of(text)
        if not _AGENT.fullmatch(agent) or number is None or not number.startswith("+"):
            raise ValueError(f"expected {NUMBERS}")
        if agent in found or number in found.values():
            raise ValueError("an agent, or a number, is named twice")
        found[agent] = number
    return found


def _people(value: object) -> object:
    parts = comma_list(value)
    if not isinstance(parts, tuple):
        return value
    if [part.lower() for part in parts] == ["all"]:
        return ("all",)
    people = [address_of(part) for part in parts]
    if None in people:
        raise ValueError(f"expected {PEOPLE}")
    return tuple(people)


def _links(value: object) -> object:
    pairs = _pairs(value, LINKS)
    if not isinstance(pairs, list):
        return value
    people = {address_of(person): user_id for person, user_id in pairs}
    if None in people or len(people) != len(pairs):
        raise ValueError(f"expected {LINKS}")
    return people


def _theme(value: str) -> str:
    theme = value.strip().lower().replace("_", "-").replace(" ", "-")
    if theme not in THEMES:
        raise ValueError(f"unknown theme; expected one of {', '.join(THEMES)}")
    return theme


class SignalKeys(Keys):
    """`signal_numbers`: agent → the number of its account. `linked_people`: a person's number or account id on Signal →
    their id in Discord."""

    channel: Annotated[Channel | None, BeforeValidator(lambda text: str(text).strip().lower())] = setting(
        "CHANNEL", "discord, signal or both", None
    )
    signal_api_url: Annotated[str, address_with(("http", "https"))] = setting(
        "SIGNAL_API_URL", HTTP, "http://127.0.0.1:8080"
    )
    signal_numbers: Annotated[dict[str, str], BeforeValidator(_numbers)] = setting("SIGNAL_NUMBERS", NUMBERS, {})
    signal_allowed: Annotated[tuple[str, ...], BeforeValidator(_people)] = setting("SIGNAL_ALLOWED", PEOPLE, ())
    signal_theme: Annotated[str, AfterValidator(_theme)] = setting("SIGNAL_THEME", "a theme", DEFAULT_THEME)
    linked_people: Annotated[dict[str, Id], BeforeValidator(_links)] = setting("LINKED_PEOPLE", LINKS, {})


SHORTEST_SECRET = 6  # characters of what config/mcp.yaml refers to; a shorter text would be redacted in ordinary words
DEFAULT_BUDGET = 5.0  # US dollars a day, until BUDGET_DAILY_USD says otherwise
USER_SHARE = 0.2
PEOPLES_SHARE = 0.25  # of a bot's daily turns, unless AGENT_MAX_DAILY_UNASKED is set


class Settings(SignalKeys, IdleKeys):
    """Ids are Discord's, times are seconds, hours are local to `timezone`."""

    guild_ids: Ids = setting("GUILD_IDS", IDS, ())
    channel_theme_map: ThemeMap = setting("CHANNEL_THEME_MAP", THEME_MAP, {})
    bot_ids: Ids = setting("BOT_IDS", IDS, ())
    discord_retries: Retries = setting("DISCORD_RETRIES", RETRIES, 4)
    bots_role_id: Annotated[Id | None, BeforeValidator(zero_is_none)] = setting("BOTS_ROLE_ID", ID, None)
    commands_bot: str | None = setting("COMMANDS_BOT", "the name of an agent", None)
    agent_name: str | None = setting("AGENT_NAME", "the name of an agent", None)
    agent_personality: str | None = setting("AGENT_PERSONALITY", "a text", None)
    moderator_ids: Ids = setting("MODERATOR_IDS", IDS, ())
    owner_user_ids: Ids = setting("OWNER_USER_IDS", IDS, ())
    barge_in: Annotated[BargeIn, BeforeValidator(lambda text: str(text).lower())] = setting(
        "BARGE_IN", "yield, finish or ignore", "yield"
    )
    agent_max_daily: Count = setting("AGENT_MAX_DAILY", COUNT, 100)
    agent_max_unasked: Count | None = setting("AGENT_MAX_DAILY_UNASKED", COUNT, None)
    agent_cooldown_seconds: Seconds = setting("AGENT_COOLDOWN_SECONDS", SECONDS, 15.0)
    mention_catchup_seconds: CatchUp = setting("MENTION_CATCHUP_SECONDS", CATCH_UP, 600.0)
    mention_debounce_seconds: Debounce = setting("MENTION_DEBOUNCE_SECONDS", DEBOUNCE, 0.0)
    context_window_size: Some = setting("CONTEXT_WINDOW_SIZE", SOME, 40)
    max_concurrent_turns: Some = setting("MAX_CONCURRENT_TURNS", SOME, 5)
    max_queue_depth: Count = setting("MAX_QUEUE_DEPTH", COUNT, 100)
    turn_timeout_seconds: Limit = setting("TURN_TIMEOUT_SECONDS", LIMIT, 120.0)
    allow_dms: bool = setting("ALLOW_DMS", BOOL, False)
    agent_runtime: AgentRuntime | None = setting("AGENT_RUNTIME", "claude-agent-sdk, or nothing", None)
    permission_mode: PermissionMode = setting("PERMISSION_MODE", MODES, "dontAsk")
    agent_sdk_max_steps: Steps = setting("AGENT_SDK_MAX_STEPS", STEPS, 20)
    agent_sdk_max_usd: float = setting(
        "AGENT_SDK_MAX_USD", "US dollars, more than 0 (at most 1000)", 0.5, gt=0, le=1000, allow_inf_nan=False
    )
    budget_daily_usd: Dollars = setting("BUDGET_DAILY_USD", DOLLARS, DEFAULT_BUDGET)
    budget_agent_usd: Dollars = setting("BUDGET_AGENT_DAILY_USD", DOLLARS, None)
    budget_channel_usd: Dollars = setting("BUDGET_CHANNEL_DAILY_USD", DOLLARS, None)
    budget_user_usd: Dollars = setting("BUDGET_USER_DAILY_USD", DOLLARS, None)
    mentions_per_minute: Count = setting("MENTIONS_PER_MINUTE", COUNT, 6)
    ignore_user_ids: Ids = setting("IGNORE_USER_IDS", IDS, ())
    ignore_role_ids: Ids = setting("IGNORE_ROLE_IDS", IDS, ())
    owner_channel_id: Annotated[Id | None, BeforeValidator(zero_is_none)] = setting("OWNER_CHANNEL_ID", ID, None)
    output_channel_id: Annotated[Id | None, BeforeValidator(zero_is_none)] = setting("OUTPUT_CHANNEL_ID", ID, None)
    events_port: Port = setting("EVENTS_PORT", "a port from 1 to 65535, or 0 for none", 0)
    events_host: str = setting("EVENTS_HOST", "an address of this machine", "127.0.0.1")
    events_secret: Annotated[Secret, Field(min_length=16)] | None = setting(
        "EVENTS_SECRET", "one word of 16 characters or more, without spaces or quotes", None
    )
    console: bool = setting("CONSOLE", BOOL, False)
    console_host: str = setting("CONSOLE_HOST", "an address of this machine", "127.0.0.1")
    console_port: Annotated[int, Field(ge=1, le=65_535)] = setting("CONSOLE_PORT", "a port from 1 to 65535", 8888)
    console_token: Annotated[Secret, Field(min_length=16)] | None = setting(
        "CONSOLE_TOKEN", "one word of 16 characters or more, without spaces or quotes", None
    )
    console_url: Annotated[str | None, address_with(("http", "https"))] = setting("CONSOLE_URL", HTTP, None)
    show_cost_embeds: bool = setting("SHOW_COST_EMBEDS", BOOL, False)
    fire_on_startup: bool = setting("COORDINATOR_FIRE_ON_STARTUP", BOOL, False)
    schedule_min: PerDay = setting("COORDINATOR_SCHEDULE_MIN", PER_DAY, 3)
    schedule_max: PerDay = setting("COORDINATOR_SCHEDULE_MAX", PER_DAY, 6)
    active_start: int = setting("COORDINATOR_ACTIVE_START", "an hour from 0 to 23", 7, ge=0, le=23)
    active_end: int = setting("COORDINATOR_ACTIVE_END", "an hour from 0 to 24", 23, ge=0, le=24)
    max_rounds: Some = setting("COORDINATOR_MAX_ROUNDS", SOME, 30)
    policy: Policy = setting("COORDINATOR_POLICY", POLICY, "rounds")
    policies: PolicyMap = setting("COORDINATOR_POLICIES", POLICY_MAP, {})
    reactive_probability: float = setting(
        "COORDINATOR_REACTIVE_PROBABILITY", "a number from 0 to 1", 0.15, ge=0, le=1, allow_inf_nan=False
    )
    turn_delay_min: Seconds = setting("COORDINATOR_TURN_DELAY_MIN", SECONDS, 15.0)
    turn_delay_max: Seconds = setting("COORDINATOR_TURN_DELAY_MAX", SECONDS, 45.0)
    priority_channels: Ids = setting("COORDINATOR_PRIORITY_CHANNELS", IDS, ())
    timeout_threshold: Some = setting("COORDINATOR_TIMEOUT_THRESHOLD", SOME, 8)
    model_retries: Retries = setting("MODEL_RETRIES", RETRIES, 2)
    cheap_model: str | None = setting("CHEAP_MODEL", "provider/model, or none", None)
    cheap_first: AgentNames = setting("CHEAP_FIRST", AGENT_NAMES, ())
    aws_region: AwsRegion | None = setting("AWS_REGION", "a region such as us-east-1", None)
    aws_access_key_id: Secret | None = setting("AWS_ACCESS_KEY_ID", "an access key", None)
    aws_secret_access_key: Secret | None = setting("AWS_SECRET_ACCESS_KEY", "a secret key", None)
    aws_session_token: Secret | None = setting("AWS_SESSION_TOKEN", "a session token", None)
    aws_profile: str | None = setting("AWS_PROFILE", "the name of a profile", None)
    allowed_tools: ToolPatterns = setting("ALLOWED_TOOLS", TOOL_PATTERNS, DEFAULT_TOOLS)
    web_search: bool = setting("WEB_SEARCH", BOOL, True)
    tavily_api_key: Secret | None = setting("TAVILY_API_KEY", "an API key", None)
    brave_api_key: Secret | None = setting("BRAVE_API_KEY", "an API key", None)
    perplexity_api_key: Secret | None = setting("PERPLEXITY_API_KEY", "an API key", None)
    exa_api_key: Secret | None = setting("EXA_API_KEY", "an API key", None)
    redis_url: Annotated[str | None, address_with(("redis", "rediss", "unix", "sentinel"))] = setting(
        "REDIS_URL", REDIS, None, repr=False
    )
    standby: bool = setting("STANDBY", BOOL, False)
    timezone: ZoneInfo = setting("TIMEZONE", "an IANA name such as Europe/Berlin", ZoneInfo("UTC"))
    data_dir: Path = setting("DATA_DIR", "a folder", Path("data"))
    config_files_dir: Folder = setting("CONFIG_FILES_DIR", "a folder", Path("config"))
    personas_dir: Folder = setting("PERSONAS_DIR", "a folder", Path("personas"))
    persona_folders: Annotated[dict[str, str], BeforeValidator(folder_pairs)] = setting("PERSONA_FOLDERS", FOLDERS, {})
    memory_writes: Count = setting("MEMORY_WRITES_PER_DAY", COUNT, 10)
    record_days: Days = setting("RECORD_DAYS", DAYS, 90)
    record_prompts_days: Days = setting("RECORD_PROMPTS_DAYS", DAYS, 7)
    log_level: Annotated[LogLevel, BeforeValidator(lambda text: str(text).upper())] = setting(
        "LOG_LEVEL", "DEBUG, INFO, WARNING, ERROR or CRITICAL", "INFO"
    )
    log_format: Annotated[Literal["plain", "json"], BeforeValidator(lambda text: str(text).lower())] = setting(
        "LOG_FORMAT", "plain or json", "plain"
    )
    health_port: Port = setting("HEALTH_PORT", "a port from 1 to 65535, or 0 for none", 0)
    otel_endpoint: Annotated[str | None, address_with(("http", "https"))] = setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT", HTTP, None
    )
    otel_headers: Secret | None = setting("OTEL_EXPORTER_OTLP_HEADERS", "name=value pairs, separated by commas", None)
    otel_capture_content: bool = setting("OTEL_CAPTURE_CONTENT", BOOL, False)
    shutdown_grace_seconds: Seconds = setting("SHUTDOWN_GRACE_SECONDS", SECONDS, 20.0)
    # Old names, which are still read; agentic/settings/loading.py has the others.
    channel_ids: Ids = setting("AGENT_CHANNEL_IDS", IDS, ())
    stop_role_ids: Ids = setting("STOP_ROLE_IDS", IDS, ())
    stop_user_ids: Ids = setting("STOP_USER_IDS", IDS, ())
    agents: dict[str, AgentSettings] = Field(default_factory=dict)
    endpoints: dict[str, EndpointSettings] = Field(default_factory=dict)
    cheap_models: tuple[ModelSettings, ...] = ()  # that of CHEAP_MODEL, else those of which the least expensive is used
    embedding: ModelSettings | None = None  # that of EMBEDDING_MODEL
    keys: dict[str, SecretStr] = Field(default_factory=dict)  # of agents, providers and endpoints, by setting
    named: dict[str, SecretStr] = Field(default_factory=dict)  # what config/mcp.yaml refers to
    persona_models: PersonaModels = Field(default_factory=PersonaModels, repr=False)  # of personas without a bot
    warnings: tuple[str, ...] = ()
    runtime_dir: Path | None = None  # XDG_RUNTIME_DIR: where sockets belong

    @property
    def channels(self) -> dict[int, str]:
        """Channel id → theme, of the channels that the agents may speak in. AGENT_CHANNEL_IDS, where it is set, names
        them all."""
        ids = self.channel_ids or tuple(self.channel_theme_map)
        return {channel: self.channel_theme_map.get(channel, DEFAULT_THEME) for channel in ids}

    @property
    def on_discord(self) -> bool:
        """Whether the program is on Discord: CHANNEL says so, or a bot has a token, or there is nothing else."""
        if self.channel is not None:
            return self.channel != "signal"
        return not self.signal_numbers or any(agent.token for agent in self.agents.values())

    @property
    def on_signal(self) -> bool:
        """Whether the program is on Signal: CHANNEL says so, or an agent has a number."""
        return self.channel != "discord" if self.channel is not None else bool(self.signal_numbers)

    @property
    def numbers(self) -> dict[str, str]:
        """Agent → its number on Signal; none where the program is not on Signal."""
        return dict(self.signal_numbers) if self.on_signal else {}

    @property
    def moderators(self) -> frozenset[int]:
        """Ids of the roles and people that may stop the bots, besides those who may manage messages."""
        return frozenset((*self.moderator_ids, *self.stop_role_ids, *self.stop_user_ids))

    @property
    def daily_unasked(self) -> int:
        """Turns a day that a bot may take unasked; the rest is kept for people's mentions."""
        share = self.agent_max_daily - int(self.agent_max_daily * PEOPLES_SHARE)
        return share if self.agent_max_unasked is None else min(self.agent_max_unasked, self.agent_max_daily)

    @property
    def user_budget(self) -> float | None:
        """US dollars a day that one person may cause, None for no limit. Unless set it is a share of the day's budget,
        so that nobody can use up all of it."""
        if "budget_user_usd" in self.model_fields_set or self.budget_daily_usd is None:
            return self.budget_user_usd
        return self.budget_daily_usd * USER_SHARE

    @property
    def console_is_public(self) -> bool:
        """Whether other machines can reach the console's address."""
        try:
            return not ip_address(self.console_host).is_loopback
        except ValueError:
            return self.console_host.lower() != "localhost"

    @property
    def console_link(self) -> str | None:
        """The console's address for links in Discord, without a slash at its end; None where it is off."""
        if not self.console:
            return None
        host = "127.0.0.1" if self.console_host in ("0.0.0.0", "::") else self.console_host  # noqa: S104
        shown = f"[{host}]" if ":" in host else host
        return (self.console_url or f"http://{shown}:{self.console_port}").rstrip("/")

    @property
    def records(self) -> bool:
        """Whether turns are recorded for longer than /why needs."""
        return self.record_days != 0

    @property
    def records_prompts(self) -> bool:
        """Whether prompts and completions are recorded too."""
        return self.records and self.record_prompts_days != 0

    def persona_folder(self, agent: str) -> Path:
        """The folder of the agent's persona: that of its name, unless PERSONA_FOLDERS says otherwise."""
        return self.personas_dir / self.persona_folders.get(agent, agent)

    @property
    def tools_dir(self) -> Path:
        """The folder of the tools' call log."""
        return self.data_dir / "tools"

    @property
    def record_file(self) -> Path:
        """The file of the record; its writer creates it."""
        return self.data_dir / "record.db"

    @property
    def named_texts(self) -> dict[str, str]:
        """The settings that config/mcp.yaml refers to, by name."""
        return {name: value.get_secret_value() for name, value in self.named.items()}

    @property
    def search_keys(self) -> dict[str, str]:
        """Search engine → key, in the order in which they are tried."""
        engines = ("tavily", "brave", "perplexity", "exa")
        keys = {engine: getattr(self, f"{engine}_api_key") for engine in engines}
        return {engine: key.get_secret_value() for engine, key in keys.items() if key is not None}

    def personality_of(self, agent: str) -> str:
        """The personality of the settings, else that of the table. A persona's files override only the latter."""
        return self.soul_of(agent) or self.agents[agent].spec.personality

    def soul_of(self, agent: str) -> str | None:
        """The personality that replaces the agent's soul.md: its own setting, else AGENT_PERSONALITY."""
        return self.agents[agent].personality or self.agent_personality

    def tools_of(self, agent: str) -> tuple[str, ...]:
        """The patterns of the tools that the agent may use."""
        own = self.agents[agent].allowed_tools
        return self.allowed_tools if own is None else own

    def asks_cheaply(self, agent: str) -> bool:
        """Whether a cheap model is asked first whether this agent speaks."""
        return "none" not in self.cheap_first and ("all" in self.cheap_first or agent in self.cheap_first)

    def secrets(self) -> frozenset[str]:
        """All secrets of the settings: tokens, keys, and the passwords in addresses, as written and as sent."""
        agents = self.agents.values()
        models = [model for agent in agents for each in (agent, *agent.servers.values()) for model in each.models]
        models += [self.embedding] if self.embedding is not None else []
        values = [*(getattr(self, name) for name in type(self).model_fields), *self.keys.values()]
        values += [*(agent.token for agent in agents), *(model.api_key for model in models)]
        values += [value for value in self.named.values() if len(value.get_secret_value()) >= SHORTEST_SECRET]
        found = {value.get_secret_value() for value in values if isinstance(value, SecretStr)}
        addresses = {self.redis_url, *(model.base_url for model in models)}
        for address in filter(None, (*addresses, *(endpoint.base_url for endpoint in self.endpoints.values()))):
            found |= {form for password in _passwords_in(address) for form in (password, unquote(password))}
        return frozenset(found)

    def with_(self, **changes: Any) -> Self:
        """A copy with these attributes replaced, without validation. TypeError for an unknown attribute."""
        if unknown := changes.keys() - type(self).model_fields.keys():
            raise TypeError(f"no such setting: {', '.join(sorted(unknown))}")
        return self.model_copy(update=changes)


def _passwords_in(address: str) -> Iterator[str]:
    """The password before the host, and those among the options: of `redis+sentinel://` the Sentinels'."""
    parts = urlsplit(address)
    options = (option.partition("=") for option in parts.query.split("&"))
    passwords = [parts.password, *(value for name, _, value in options if name.endswith("password"))]
    yield from filter(None, passwords)
