"""Define all settings and the values derived from them.

Each setting has one line: its key, its default, and the words for the expected values, unless its type (fields.py) has
them. agent_config reads the settings; import them from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo

from pydantic import Field, SecretStr

from agentic.background_tasks import TaskName, read_task_names
from agentic.settings import fields as f
from agentic.settings.agents import AgentSettings, PersonaModels, Unprompted
from agentic.settings.fields import Keys, from_text, setting, split_list
from agentic.settings.models import EndpointSettings, ModelSettings
from agentic.themes import DEFAULT_THEME

DISCORD, ALL = "discord", "both"  # values of CHANNEL
MIN_REDACTED = 6  # characters; redacting a shorter text of config/mcp.yaml would hit ordinary words
DEFAULT_BUDGET = 5.0  # US dollars a day, until BUDGET_DAILY_USD says otherwise
USER_SHARE = 0.2
PEOPLES_SHARE = 0.25  # the share of a bot's daily turns kept for people, unless AGENT_MAX_DAILY_UNASKED is set


class Settings(Keys):
    """All settings. Ids are Discord's, times are in seconds, and hours are local to `timezone`. A persona's front
    matter overrides `idle_tasks` and `unprompted` for its agent."""

    # Background tasks, and the data stored for them
    idle_tasks: Annotated[tuple[TaskName, ...], from_text(lambda text: read_task_names(split_list(text)))] = setting(
        "IDLE_TASKS", (), "tasks separated by commas (summarize, profile, follow_up, discover), or none"
    )
    unprompted: Annotated[Unprompted, from_text(lambda text: text.strip().lower().replace("-", "_"))] = setting(
        "UNASKED_MESSAGES", "opt_in", "opt_in or everyone"
    )
    idle_after: f.Seconds = setting("IDLE_AFTER_SECONDS", 300.0)
    follow_up_min: f.Seconds = setting("IDLE_FOLLOW_UP_MIN_SECONDS", 3600.0)
    follow_up_max: f.Seconds = setting("IDLE_FOLLOW_UP_MAX_SECONDS", 7200.0)
    discover_min: f.Seconds = setting("IDLE_DISCOVER_MIN_SECONDS", 7200.0)
    discover_max: f.Seconds = setting("IDLE_DISCOVER_MAX_SECONDS", 14_400.0)
    discover_again: f.Hours = setting("IDLE_DISCOVER_AGAIN_HOURS", 0.0)  # 0: only after somebody wrote
    summarise_exchanges: f.Flag = setting("IDLE_SUMMARISE_EXCHANGES", False)
    idle_budget_share: f.Share = setting("IDLE_BUDGET_SHARE", 0.2)
    unprompted_person_hours: f.Hours = setting("UNASKED_PERSON_HOURS", 24.0)
    unprompted_channel_hours: f.Hours = setting("UNASKED_CHANNEL_HOURS", 6.0)
    message_log_days: f.Days = setting("MESSAGE_LOG_DAYS", 30)
    embedding_model: str | None = setting("EMBEDDING_MODEL", None, "provider/model, or none")
    channel: Annotated[str | None, from_text(lambda text: text.strip().lower())] = setting("CHANNEL", None, "a service")
    # All other settings
    guild_ids: f.Ids = setting("GUILD_IDS", ())
    channel_theme_map: f.ThemeMap = setting("CHANNEL_THEME_MAP", {})
    bot_ids: f.Ids = setting("BOT_IDS", ())
    discord_retries: f.Retries = setting("DISCORD_RETRIES", 4)
    bots_role_id: f.OptionalId = setting("BOTS_ROLE_ID", None)
    commands_bot: Annotated[str | None, from_text(str.lower)] = setting("COMMANDS_BOT", None, "the name of an agent")
    agent_name: Annotated[str | None, from_text(str.lower)] = setting("AGENT_NAME", None, "the name of an agent")
    agent_personality: str | None = setting("AGENT_PERSONALITY", None, "a text")
    moderator_ids: f.Ids = setting("MODERATOR_IDS", ())
    owner_user_ids: f.Ids = setting("OWNER_USER_IDS", ())
    barge_in: f.BargeIn = setting("BARGE_IN", "yield")
    agent_max_daily: f.Count = setting("AGENT_MAX_DAILY", 100)
    agent_max_unprompted: f.Count | None = setting("AGENT_MAX_DAILY_UNASKED", None, f.COUNT)
    agent_cooldown_seconds: f.Seconds = setting("AGENT_COOLDOWN_SECONDS", 15.0)
    mention_catchup_seconds: f.CatchUp = setting("MENTION_CATCHUP_SECONDS", 600.0)
    mention_debounce_seconds: f.Debounce = setting("MENTION_DEBOUNCE_SECONDS", 0.0)
    context_window_size: f.PositiveInt = setting("CONTEXT_WINDOW_SIZE", 40)
    prompt_profile: f.PromptProfile = setting("PROMPT_PROFILE", "auto")
    max_concurrent_turns: f.PositiveInt = setting("MAX_CONCURRENT_TURNS", 5)
    max_queue_depth: f.Count = setting("MAX_QUEUE_DEPTH", 100)
    turn_timeout_seconds: f.Limit = setting("TURN_TIMEOUT_SECONDS", 120.0)
    allow_dms: f.Flag = setting("ALLOW_DMS", False)
    agent_runtime: f.AgentRuntime | None = setting("AGENT_RUNTIME", None, "claude-agent-sdk, or nothing")
    permission_mode: f.PermissionMode = setting("PERMISSION_MODE", "dontAsk")
    agent_sdk_max_steps: f.Steps = setting("AGENT_SDK_MAX_STEPS", 20)
    agent_sdk_max_usd: float = setting(
        "AGENT_SDK_MAX_USD", 0.5, "US dollars above 0, at most 1000, such as 0.5", gt=0, le=1000, allow_inf_nan=False
    )
    budget_daily_usd: f.Dollars = setting("BUDGET_DAILY_USD", DEFAULT_BUDGET)
    budget_agent_usd: f.Dollars = setting("BUDGET_AGENT_DAILY_USD", None)
    budget_channel_usd: f.Dollars = setting("BUDGET_CHANNEL_DAILY_USD", None)
    budget_user_usd: f.Dollars = setting("BUDGET_USER_DAILY_USD", None)
    budget_rooms_usd: f.Dollars = setting("BUDGET_ROOMS_DAILY_USD", 0.5)
    debate_supporters: f.PositiveInt = setting("DEBATE_SUPPORTERS", 3)
    mentions_per_minute: f.Count = setting("MENTIONS_PER_MINUTE", 6)
    ignore_user_ids: f.Ids = setting("IGNORE_USER_IDS", ())
    ignore_role_ids: f.Ids = setting("IGNORE_ROLE_IDS", ())
    owner_channel_id: f.OptionalId = setting("OWNER_CHANNEL_ID", None)
    output_channel_id: f.OptionalId = setting("OUTPUT_CHANNEL_ID", None)
    events_port: f.Port = setting("EVENTS_PORT", 0)
    events_host: str = setting("EVENTS_HOST", "127.0.0.1", "an address of this machine")
    events_secret: f.LongSecret = setting("EVENTS_SECRET", None)
    console: f.Flag = setting("CONSOLE", False)
    console_host: str = setting("CONSOLE_HOST", "127.0.0.1", "an address of this machine")
    console_port: Annotated[int, Field(ge=1, le=65_535)] = setting(
        "CONSOLE_PORT", 8888, "a port from 1 to 65535, such as 8888"
    )
    console_token: f.LongSecret = setting("CONSOLE_TOKEN", None)
    console_url: f.OptionalHttpAddress = setting("CONSOLE_URL", None)
    show_cost_embeds: f.Flag = setting("SHOW_COST_EMBEDS", False)
    fire_on_startup: f.Flag = setting("COORDINATOR_FIRE_ON_STARTUP", False)
    schedule_min: f.PerDay = setting("COORDINATOR_SCHEDULE_MIN", 3)
    schedule_max: f.PerDay = setting("COORDINATOR_SCHEDULE_MAX", 6)
    active_start: int = setting("COORDINATOR_ACTIVE_START", 7, "an hour from 0 to 23, such as 7", ge=0, le=23)
    active_end: int = setting("COORDINATOR_ACTIVE_END", 23, "an hour from 0 to 24, such as 23", ge=0, le=24)
    max_rounds: f.PositiveInt = setting("COORDINATOR_MAX_ROUNDS", 30)
    policy: f.Policy = setting("COORDINATOR_POLICY", "rounds")
    policies: f.PolicyMap = setting("COORDINATOR_POLICIES", {})
    reactive_probability: f.Share = setting("COORDINATOR_REACTIVE_PROBABILITY", 0.15)
    turn_delay_min: f.Seconds = setting("COORDINATOR_TURN_DELAY_MIN", 15.0)
    turn_delay_max: f.Seconds = setting("COORDINATOR_TURN_DELAY_MAX", 45.0)
    priority_channels: f.Ids = setting("COORDINATOR_PRIORITY_CHANNELS", ())
    timeout_threshold: f.PositiveInt = setting("COORDINATOR_TIMEOUT_THRESHOLD", 8)
    model_retries: f.Retries = setting("MODEL_RETRIES", 2)
    cheap_model: str | None = setting("CHEAP_MODEL", None, "provider/model, or none")
    cheap_first: f.AgentNames = setting("CHEAP_FIRST", ())
    aws_region: f.AwsRegion | None = setting("AWS_REGION", None, "a region such as us-east-1")
    aws_access_key_id: f.Secret | None = setting("AWS_ACCESS_KEY_ID", None, "an access key")
    aws_secret_access_key: f.Secret | None = setting("AWS_SECRET_ACCESS_KEY", None, "a secret key")
    aws_session_token: f.Secret | None = setting("AWS_SESSION_TOKEN", None, "a session token")
    aws_profile: str | None = setting("AWS_PROFILE", None, "the name of a profile")
    allowed_tools: f.ToolPatterns = setting("ALLOWED_TOOLS", f.DEFAULT_TOOLS)
    web_search: f.Flag = setting("WEB_SEARCH", True)
    tavily_api_key: f.ApiKey = setting("TAVILY_API_KEY", None)
    brave_api_key: f.ApiKey = setting("BRAVE_API_KEY", None)
    perplexity_api_key: f.ApiKey = setting("PERPLEXITY_API_KEY", None)
    exa_api_key: f.ApiKey = setting("EXA_API_KEY", None)
    redis_url: f.RedisAddress = setting("REDIS_URL", None, repr=False)
    standby: f.Flag = setting("STANDBY", False)
    timezone: ZoneInfo = setting("TIMEZONE", ZoneInfo("UTC"), "an IANA time zone such as Europe/Berlin")
    data_dir: Path = setting("DATA_DIR", Path("data"), "a folder")
    config_files_dir: f.Folder = setting("CONFIG_FILES_DIR", Path("config"))
    personas_dir: f.Folder = setting("PERSONAS_DIR", Path("personas"))
    persona_folders: f.FolderMap = setting("PERSONA_FOLDERS", {})
    memory_writes: f.Count = setting("MEMORY_WRITES_PER_DAY", 10)
    record_days: f.Days = setting("RECORD_DAYS", 90)
    record_prompts_days: f.Days = setting("RECORD_PROMPTS_DAYS", 7)
    log_level: f.LogLevel = setting("LOG_LEVEL", "INFO")
    log_format: Annotated[Literal["plain", "json"], from_text(str.lower)] = setting(
        "LOG_FORMAT", "plain", "plain or json"
    )
    health_port: f.Port = setting("HEALTH_PORT", 0)
    otel_endpoint: f.OptionalHttpAddress = setting("OTEL_EXPORTER_OTLP_ENDPOINT", None)
    otel_headers: f.Secret | None = setting("OTEL_EXPORTER_OTLP_HEADERS", None, "name=value pairs separated by commas")
    otel_capture_content: f.Flag = setting("OTEL_CAPTURE_CONTENT", False)
    shutdown_grace_seconds: f.Seconds = setting("SHUTDOWN_GRACE_SECONDS", 20.0)
    # Old names that are still read; agentic/settings/loading.py has the others.
    channel_ids: f.Ids = setting("AGENT_CHANNEL_IDS", ())
    stop_role_ids: f.Ids = setting("STOP_ROLE_IDS", ())
    stop_user_ids: f.Ids = setting("STOP_USER_IDS", ())
    # Values from other places
    agents: dict[str, AgentSettings] = Field(default_factory=dict)
    accounts: dict[str, dict[str, str]] = Field(default_factory=dict)  # chat service → agent → its account there
    endpoints: dict[str, EndpointSettings] = Field(default_factory=dict)
    cheap_models: tuple[ModelSettings, ...] = ()  # CHEAP_MODEL's model, else candidates: the least expensive is used
    embedding: ModelSettings | None = None  # EMBEDDING_MODEL's model
    keys: dict[str, SecretStr] = Field(default_factory=dict)  # of agents, providers, and endpoints, by setting
    named: dict[str, SecretStr] = Field(default_factory=dict)  # the settings that config/mcp.yaml refers to
    persona_models: PersonaModels = Field(default_factory=PersonaModels, repr=False)  # of personas without a bot
    warnings: tuple[str, ...] = ()
    runtime_dir: Path | None = None  # XDG_RUNTIME_DIR: where sockets belong

    @property
    def channels(self) -> dict[int, str]:
        """The channels that the agents may speak in: id → theme. If AGENT_CHANNEL_IDS is set, it names all of them."""
        ids = self.channel_ids or tuple(self.channel_theme_map)
        return {channel: self.channel_theme_map.get(channel, DEFAULT_THEME) for channel in ids}

    def is_on(self, service: str) -> bool:
        """Whether the program uses a chat service: CHANNEL names it, or it has credentials. The fallback is Discord."""
        if self.channel not in (None, ALL):
            return self.channel == service
        if service != DISCORD:
            return bool(self.accounts.get(service))
        has_token = any(agent.token for agent in self.agents.values())
        return self.channel == ALL or has_token or not any(self.accounts.values())

    @property
    def on_discord(self) -> bool:
        return self.is_on(DISCORD)

    @property
    def account_agents(self) -> tuple[str, ...]:
        """The agents with an account on another service in use, with or without a bot."""
        used = (agents for service, agents in self.accounts.items() if self.is_on(service))
        return tuple(dict.fromkeys(agent for agents in used for agent in agents))

    @property
    def moderators(self) -> frozenset[int]:
        """The ids of owners, roles, and people who may stop the bots even if they can't manage messages."""
        return frozenset((*self.owner_user_ids, *self.moderator_ids, *self.stop_role_ids, *self.stop_user_ids))

    @property
    def daily_unprompted(self) -> int:
        """The unprompted turns that a bot may take in a day; the rest is kept for people's mentions."""
        share = self.agent_max_daily - int(self.agent_max_daily * PEOPLES_SHARE)
        return share if self.agent_max_unprompted is None else min(self.agent_max_unprompted, self.agent_max_daily)

    @property
    def user_budget(self) -> float | None:
        """US dollars that one person may cause in a day (None: no limit). By default a share of the daily budget, so
        that nobody can use up all of it."""
        if "budget_user_usd" in self.model_fields_set or self.budget_daily_usd is None:
            return self.budget_user_usd
        return self.budget_daily_usd * USER_SHARE

    @property
    def console_is_public(self) -> bool:
        try:
            return not ip_address(self.console_host).is_loopback
        except ValueError:
            return self.console_host.lower() != "localhost"

    @property
    def console_link(self) -> str | None:
        """The console's address without a trailing slash, or None if the console is off."""
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
        return self.records and self.record_prompts_days != 0

    def persona_folder(self, agent: str) -> Path:
        """Return the folder of the agent's persona: by default the folder with the agent's name."""
        return self.personas_dir / self.persona_folders.get(agent, agent)

    @property
    def tools_dir(self) -> Path:
        return self.data_dir / "tools"

    @property
    def record_file(self) -> Path:
        return self.data_dir / "record.db"

    @property
    def named_texts(self) -> dict[str, str]:
        """The settings that config/mcp.yaml refers to, by name."""
        return {name: value.get_secret_value() for name, value in self.named.items()}

    @property
    def search_keys(self) -> dict[str, str]:
        """The keys by search engine, in the order in which the engines are tried."""
        engines = ("tavily", "brave", "perplexity", "exa")
        keys = {engine: getattr(self, f"{engine}_api_key") for engine in engines}
        return {engine: key.get_secret_value() for engine, key in keys.items() if key is not None}

    def personality_of(self, agent: str) -> str:
        """Return the personality from the settings, else from the table. A persona's files override only the latter."""
        return self.soul_of(agent) or self.agents[agent].spec.personality

    def soul_of(self, agent: str) -> str | None:
        """Return the personality that replaces the agent's soul.md: its own setting, else AGENT_PERSONALITY."""
        return self.agents[agent].personality or self.agent_personality

    def tools_of(self, agent: str) -> tuple[str, ...]:
        own = self.agents[agent].allowed_tools
        return self.allowed_tools if own is None else own

    def asks_cheaply(self, agent: str) -> bool:
        """Whether a cheap model decides first if this agent speaks."""
        return "none" not in self.cheap_first and ("all" in self.cheap_first or agent in self.cheap_first)

    def secrets(self) -> frozenset[str]:
        """Return all secrets in the settings: tokens, keys, and the passwords in addresses, as written and as sent."""
        agents = self.agents.values()
        models = [model for agent in agents for each in (agent, *agent.servers.values()) for model in each.models]
        models += [self.embedding] if self.embedding is not None else []
        values = [*(getattr(self, name) for name in type(self).model_fields), *self.keys.values()]
        values += [*(agent.token for agent in agents), *(model.api_key for model in models)]
        values += [value for value in self.named.values() if len(value.get_secret_value()) >= MIN_REDACTED]
        found = {value.get_secret_value() for value in values if isinstance(value, SecretStr)}
        addresses = {self.redis_url, *(model.base_url for model in models)}
        for address in filter(None, (*addresses, *(endpoint.base_url for endpoint in self.endpoints.values()))):
            found |= {form for password in _passwords_in(address) for form in (password, unquote(password))}
        return frozenset(found)

    def with_(self, **changes: Any) -> Self:
        """Return a copy with these attributes replaced, unvalidated. Raises TypeError for an unknown attribute."""
        if unknown := changes.keys() - type(self).model_fields.keys():
            raise TypeError(f"no such setting: {', '.join(sorted(unknown))}")
        return self.model_copy(update=changes)


def _passwords_in(address: str) -> Iterator[str]:
    """Yield the password before the host and the passwords among the options (for Sentinels)."""
    parts = urlsplit(address)
    options = (option.partition("=") for option in parts.query.split("&"))
    passwords = [parts.password, *(value for name, _, value in options if name.endswith("password"))]
    yield from filter(None, passwords)
