"""Check settings against each other.

A conflict prevents the start. It names its keys, so that a key with a wrong value isn't reported twice. An oddity is
only a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentic.settings.agents import AgentSettings
from agentic.settings.services import service_keys, service_settings
from agentic.settings.settings import ALL, Settings

PERSONA_FILES = ("identity.md", "soul.md")  # a folder with one of them is a persona
_PAIRS = (("schedule_min", "schedule_max"), ("turn_delay_min", "turn_delay_max"))
_SPENDING = ("agent_max_daily", "budget_daily_usd", "budget_agent_usd", "budget_channel_usd", "budget_user_usd")


def with_ranges(settings: Settings) -> Settings:
    """Return the settings with consistent ranges.

    If only one bound is set and it crosses the other's default, both become the set value. A schedule of at most 0
    conversations is off, whatever its minimum. Swapped delays between turns are swapped back, with a warning: the
    public agentic-discord accepts them that way.
    """
    changes: dict[str, Any] = {"schedule_min": 0} if settings.schedule_max == 0 else {}
    for low, high in _PAIRS:
        given = {low, high} & settings.model_fields_set
        if len(given) == 1 and getattr(settings, low) > getattr(settings, high):
            changes = {**changes, **dict.fromkeys((low, high), getattr(settings, given.pop()))}
    if {"turn_delay_min", "turn_delay_max"} <= settings.model_fields_set:
        shorter, longer = sorted((settings.turn_delay_min, settings.turn_delay_max))
        if shorter != settings.turn_delay_min:
            line = "COORDINATOR_TURN_DELAY_MIN is above COORDINATOR_TURN_DELAY_MAX, so the two were swapped"
            changes = {**changes, "turn_delay_min": shorter, "turn_delay_max": longer, "warnings": (line,)}
    return settings.with_(**changes)


def conflicts(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the keys of each conflict, and its line."""
    if settings.schedule_min > settings.schedule_max:
        keys = ("COORDINATOR_SCHEDULE_MIN", "COORDINATOR_SCHEDULE_MAX")
        yield keys, f"{', '.join(keys)}: the minimum is above the maximum; set them to, for example, 3 and 6"
    if settings.active_start == settings.active_end:
        keys = ("COORDINATOR_ACTIVE_START", "COORDINATOR_ACTIVE_END")
        yield keys, f"{', '.join(keys)}: expected two different hours, such as 7 and 23 (0 and 24 are the whole day)"
    if settings.events_port and settings.events_secret is None:
        yield (
            ("EVENTS_PORT", "EVENTS_SECRET"),
            "EVENTS_PORT: expected EVENTS_SECRET, too, the secret that signs the requests to that port",
        )
    if settings.console and settings.console_is_public and settings.console_token is None:
        yield (
            ("CONSOLE_HOST", "CONSOLE_TOKEN"),
            "CONSOLE_HOST: expected CONSOLE_TOKEN, too: other machines can reach that address (127.0.0.1 needs none)",
        )
    runs = tuple(dict.fromkeys((*settings.agents, *settings.account_agents)))
    if settings.agent_name and settings.agent_name not in runs:
        yield ("AGENT_NAME",), f"AGENT_NAME: expected one of {', '.join(runs)}"
    for bot in settings.agents.values():
        if bot.token is not None and any(model.provider == "bedrock" and not model.aws for model in bot.models):
            yield ("AWS_REGION",), f"AWS_REGION: expected the region of {bot.name}'s models on Bedrock"
            break
    yield from _account_conflicts(settings)
    for agent, name in settings.persona_folders.items():
        folder = settings.personas_dir / name
        if agent not in settings.agents:
            line = f"{agent} isn't a bot: expected one of {', '.join(settings.agents)}"
        elif name in settings.agents.keys() - settings.persona_folders.keys() - {agent}:
            line = f"the folder {name} belongs to the bot {name}"
        elif not any((folder / file).is_file() for file in PERSONA_FILES):
            line = f"{folder} isn't a persona: expected a folder with {' or '.join(PERSONA_FILES)}"
        else:
            continue
        yield ("PERSONA_FOLDERS", "PERSONAS_DIR"), f"PERSONA_FOLDERS: {line}"
    if settings.commands_bot and settings.commands_bot not in settings.agents:
        yield ("COMMANDS_BOT",), f"COMMANDS_BOT: expected one of {', '.join(settings.agents)}"


def _account_conflicts(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    if settings.channel not in (None, ALL, *service_keys()):
        yield ("CHANNEL",), f"CHANNEL: expected {', '.join(service_keys())} or {ALL}"
    for key, service in service_settings().items():
        setting, accounts = service.accounts_setting(), settings.accounts[key]
        is_wanted = settings.channel == key or (settings.channel == ALL and not settings.account_agents)
        if is_wanted and not accounts:
            yield ("CHANNEL", setting), f"CHANNEL: expected {setting}, too, such as {service.accounts_example}"
        for name in accounts if settings.is_on(key) else ():
            if owner := next((agent for agent, its in settings.persona_folders.items() if its == name), None):
                line = f"{setting}: {name} is {owner}'s persona (PERSONA_FOLDERS), so write {owner} here"
                yield (setting, "PERSONA_FOLDERS"), line
                continue
            folder = settings.personas_dir / name
            if name not in settings.agents and not any((folder / file).is_file() for file in PERSONA_FILES):
                known = f"{', '.join(settings.agents)}, or a folder in {settings.personas_dir}"
                yield (setting, "PERSONAS_DIR"), f"{setting}: {name} isn't a bot or persona: expected one of {known}"


def shared_tokens(settings: Settings) -> list[tuple[str, ...]]:
    """Return the names of agents that share a token: the program can't know whose token it is."""
    owners: dict[str, list[str]] = {}
    for name, agent in settings.agents.items():
        if agent.token:
            owners.setdefault(agent.token.get_secret_value(), []).append(name)
    return [tuple(names) for names in owners.values() if len(names) > 1]


def warnings_of(settings: Settings, *, own_models: bool = True) -> Iterator[str]:
    """Yield a line for each dangerous or useless setting. `own_models`: no model of the command line is used."""
    for names in shared_tokens(settings):
        keys = ", ".join(settings.agents[name].spec.token_setting for name in names)
        yield f"{keys}: the same token, so none of these bots starts; each bot needs its own token"
    for agent in settings.agents.values() if own_models else ():
        yield from _model_warnings(agent)
    channels = settings.channels
    if strays := [str(channel) for channel in settings.channel_theme_map if channel not in channels]:
        yield f"CHANNEL_THEME_MAP: ignored, because AGENT_CHANNEL_IDS doesn't list them: {', '.join(strays)}"
    if strays := [str(channel) for channel in settings.priority_channels if channel not in channels]:
        yield f"COORDINATOR_PRIORITY_CHANNELS: ignored, because the bots don't speak there: {', '.join(strays)}"
    if strays := [place for place in settings.policies if place.isdecimal() and int(place) not in channels]:
        yield f"COORDINATOR_POLICIES: ignored, because the bots don't speak there: {', '.join(strays)}"
    if not channels and any(agent.token for agent in settings.agents.values()):
        yield "CHANNEL_THEME_MAP: no channel is set, so the bots stay silent; set at least one channel"
    for key, service in service_settings().items():
        if settings.is_on(key):
            yield from service.warnings_of(settings)
        elif settings.accounts[key]:
            yield f"{service.accounts_setting()}: not used, because CHANNEL={settings.channel}"
    if settings.budget_daily_usd is None:
        yield "BUDGET_DAILY_USD: no limit, so the bots may spend any amount in a day"
    for field in _SPENDING:  # in other programs a limit of 0 often means no limit
        if getattr(settings, field) == 0:
            name = Settings.model_fields[field].validation_alias
            yield f"{name}=0: only free models answer; for no limit, set none"
    if settings.mentions_per_minute == 0:
        yield "MENTIONS_PER_MINUTE=0: the bots answer no mentions; for no limit, set none"
    if settings.agent_runtime and settings.permission_mode == "bypassPermissions":
        yield (
            "PERMISSION_MODE=bypassPermissions: anyone who can write to the coding agent can make it do anything that"
            " this program's user can do on this machine"
        )


def _model_warnings(agent: AgentSettings) -> Iterator[str]:
    setting, own = agent.spec.model_setting, agent.spec.provider
    if any("/" in model.model and model.provider == own and not model.base_url for model in agent.models):
        yield f"{setting}: the part before the slash isn't a provider, so {own} gets the whole name as a model's name"
    if agent.token is not None and agent.usable:
        for model in agent.models:
            if model.lacks:
                yield f"{setting}: {model.name} is skipped, because {model.lacks} isn't set"
        for server, there in agent.servers.items():
            for model in there.models:
                if model.lacks:
                    yield f"{agent.name} in server {server}: {model.name} is skipped, because {model.lacks} isn't set"
            if not there.usable:
                instead = "none of its models can be used, so it uses its models for other servers"
                yield f"{agent.name} in server {server}: {instead}"
