"""Read the settings once, from the process environment and `.env`; import the table of agents from here, too.

A setting has the same name in both places, in upper or lower case. The environment overrides `.env`, and an empty value
means unset. Each row of AGENTS has its own keys (BOT_TOKEN_<NAME>, <NAME>_MODEL, <NAME>_IMAGE_MODEL) and its provider's
(API key, base URL). One SettingsError reports all problems: the key, the expected values, and the value if it can't be
a secret. Odd but usable settings become lines of `Settings.warnings`.

Other packages import the settings from here, not from agentic.settings.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import SecretStr

from agentic.settings.agents import (
    AGENTS,
    BASE_URL_SETTINGS,
    AgentSettings,
    AgentSpec,
    FrontMatter,
    NoModel,
    ReadFronts,
)
from agentic.settings.fields import NO_LIMIT, Keys
from agentic.settings.loading import (
    OLD_NAMES,
    OTHER_NAMES,
    agent_keys,
    env_file_lines,
    in_capitals,
    is_text,
    machine_timezone,
    name_warnings,
    named_in,
    not_for_personas,
    typos,
    validated,
    with_agents,
    with_other_names,
)
from agentic.settings.models import ENDPOINT_KEY, KEY_SETTINGS, EndpointSettings, ModelSettings
from agentic.settings.services import load_class, service_settings, services_in_use, settings_class, with_accounts
from agentic.settings.settings import ALL, DEFAULT_BUDGET, USER_SHARE, Settings
from agentic.settings.validation import conflicts, shared_tokens, warnings_of, with_ranges

LIVE_ONLY = frozenset(
    (
        *("GUILD_IDS", "AGENT_CHANNEL_IDS", "CHANNEL_THEME_MAP", "COORDINATOR_PRIORITY_CHANNELS"),
        *("OWNER_CHANNEL_ID", "OUTPUT_CHANNEL_ID", "BOT_IDS", "BOTS_ROLE_ID", "IGNORE_USER_IDS", "IGNORE_ROLE_IDS"),
        *("MODERATOR_IDS", "STOP_ROLE_IDS", "STOP_USER_IDS", "OWNER_USER_IDS", "REDIS_URL", "DISCORD_BOT_TOKEN"),
        *("MENTIONS_PER_MINUTE", "CHANNEL"),
    )
)
"""Settings that only a real Discord server and its Redis need (besides bots' tokens and other chat services)."""


class SettingsError(Exception):
    """Some settings are wrong. `problems` has a line `KEY: expected …` for each; the message also shows `warnings`, so
    that the owner can correct everything at once."""

    def __init__(self, problems: list[str], warnings: Iterable[str] = ()) -> None:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = [f"The settings can't be used ({count}):", *(f"  {line}" for line in problems)]
        super().__init__("\n".join([*lines, *(f"Warning: {line}" for line in warnings)]))
        self.problems = problems


# --- reading --------------------------------------------------------------------------------------------------------


def process_environment() -> Mapping[str, str]:
    return os.environ


def names_in(settings: type[Keys]) -> list[str]:
    return [str(info.validation_alias) for info in settings.model_fields.values() if info.validation_alias]


def setting_names(agents: Mapping[str, AgentSpec] = AGENTS) -> tuple[str, ...]:
    """Return the names of all settings, without old names."""
    keys = [key for key in names_in(settings_class()) if key not in OLD_NAMES]
    keys += [
        *KEY_SETTINGS.values(),
        *BASE_URL_SETTINGS.values(),
        *(key for spec in agents.values() for key in spec.settings),
    ]
    return tuple(dict.fromkeys(keys))


def load_settings(
    environ: Mapping[str, str],
    env_file: Path | None = Path(".env"),
    agents: Mapping[str, AgentSpec] = AGENTS,
    *,
    local: bool = False,
    model: str | None = None,
    fronts: ReadFronts | None = None,
) -> Settings:
    """Read, check, and merge both sources. Raises SettingsError with all problems.

    `local` ignores the settings that only a real Discord server and its Redis need. All agents use `model`
    (`provider/model`) if it is given. `fronts` reads the front matter of the personas.
    """
    problems: list[str] = []
    odd_names: list[str] = []
    in_file, in_environment = _read(environ, env_file, agents, problems, odd_names)
    given = {**in_file, **in_environment}
    if local:
        live_only = LIVE_ONLY | {spec.token_setting for spec in agents.values()}
        live_only |= {name for service in service_settings().values() for name in names_in(service)}
        given = {key: text for key, text in given.items() if key.upper() not in live_only}
        given = {"CONSOLE": "true", **given}
    both = with_other_names(given, problems)
    ours = _own_names(agents)
    texts = {key: text for key, text in both.items() if key in ours or ENDPOINT_KEY.fullmatch(key)}
    wrong = {key for key, text in texts.items() if not is_text(text)}
    problems += [f"{key}: expected UTF-8 text, without NUL bytes" for key in texts if key in wrong]
    texts = {key: text for key, text in texts.items() if key not in wrong}
    settings, wrong_settings = validated(settings_class(), texts, problems)
    endpoint_keys = tuple(sorted(filter(ENDPOINT_KEY.fullmatch, texts)))
    keys, wrong_keys = validated(agent_keys(tuple(agents.values()), endpoint_keys), texts, problems)
    wrong |= wrong_settings | wrong_keys
    # Without an .env file the owner's folder isn't read either, unless CONFIG_FILES_DIR names it.
    folder = settings.config_files_dir if env_file is not None or "CONFIG_FILES_DIR" in texts else None
    settings = with_ranges(with_accounts(settings)).with_(
        keys={key.upper(): value for key, value in keys if isinstance(value, SecretStr)},
        named=named_in(folder / "mcp.yaml", both) if folder else {},
        timezone=settings.timezone if "TIMEZONE" in texts else machine_timezone(environ),
        runtime_dir=Path(environ["XDG_RUNTIME_DIR"]) if environ.get("XDG_RUNTIME_DIR") else None,
    )
    if fronts is not None and (not local or "PERSONAS_DIR" in texts):  # else nothing writes to that folder
        named_as = "CONFIG_DIR" if "CONFIG_DIR" in given and "PERSONAS_DIR" not in given else "PERSONAS_DIR"
        problems += not_for_personas(settings.personas_dir, named_as, agents)
    folders = {name: settings.persona_folders.get(name, name) for name in agents}
    read = fronts(settings.personas_dir, tuple(folders.values())) if fronts is not None else {}
    own = {name: read[folder] for name, folder in folders.items() if folder in read}
    settings = with_agents(settings, keys, agents, folder, problems, own, model, in_environment)
    if not settings.on_discord:  # no bot logs in, so its agent has no bot
        settings = settings.with_(agents={name: replace(one, token=None) for name, one in settings.agents.items()})
    problems += [text for involved, text in conflicts(settings) if wrong.isdisjoint(involved)]
    odd_names += typos(in_file, (*setting_names(agents), *settings.keys, *settings.named), agents.values())
    odd_names += name_warnings(given)
    if problems:
        raise SettingsError(problems, odd_names)
    odd_names += [*settings.warnings, *warnings_of(settings, own_models=model is None)]
    return settings.with_(warnings=tuple(odd_names))


def _read(
    environ: Mapping[str, str],
    env_file: Path | None,
    agents: Mapping[str, AgentSpec],
    problems: list[str],
    odd_names: list[str],
) -> tuple[dict[str, str], dict[str, str]]:
    names = {*_own_names(agents), *OTHER_NAMES.values()}

    def is_ours(name: str) -> bool:
        return name in names or ENDPOINT_KEY.fullmatch(name) is not None

    in_file = in_capitals(env_file_lines(env_file, problems), is_ours, ".env", odd_names)
    if in_file.pop("AGENT_NAME", None):
        problems.append("AGENT_NAME: set it for one process (AGENT_NAME=gemini python run_bot.py), not in .env")
    return in_file, in_capitals(environ.items(), is_ours, "the environment", odd_names)


def _own_names(agents: Mapping[str, AgentSpec]) -> set[str]:
    return {*setting_names(agents), *OLD_NAMES, *BASE_URL_SETTINGS.values()}


# --- messages at start ----------------------------------------------------------------------------------------------


def missing_tokens_message(settings: Settings, env_file: Path = Path(".env")) -> str:
    """Return the message for a start without any bot token: the missing settings, and ways to start without tokens."""
    tokens = ", ".join(agent.spec.token_setting for agent in settings.agents.values())
    also = f" (CHANNEL={ALL})" if settings.channel == ALL else ""
    alone = "".join(f"{service.alone}\n" for service in service_settings().values() if service.alone)
    lacking = dict.fromkeys(agent.spec.key_setting for agent in settings.agents.values() if agent.api_key is None)
    keys = f", and its API key ({', '.join(lacking)})" if lacking else ""
    no_file = "" if env_file.exists() else f", and there is no {env_file.absolute()}"
    return (
        f"No bot token is set{also}{no_file}. Set at least one of {tokens}{keys}.\n"
        "To go live, run make setup, and answer its questions. Or copy .env.example to .env and fill it in.\n"
        f"{alone}"
        "To try it on this machine without tokens or keys, run make local (or python run_all.py --local)."
    )


def missing_key_message(agent: AgentSettings) -> str:
    """Return the line for a bot that has a token but no API key."""
    lacking = ", ".join(dict.fromkeys(model.lacks for model in agent.models if model.lacks))
    return f"{agent.display_name} stays offline: {agent.spec.token_setting} is set, but {lacking} isn't"
