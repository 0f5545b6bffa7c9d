"""Checks of settings against each other, as pure functions.

A conflict prevents the start; it names the keys that it involves, so that a key with a wrong value is not reported
twice. An oddity or a likely typing error is only a warning.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from agent_settings.agents import OTHER_NAMES, AgentSettings
from agent_settings.fields import in_seconds
from agent_settings.settings import Settings

_PAIRS = (
    ("schedule_min", "COORDINATOR_SCHEDULE_MIN", "schedule_max", "COORDINATOR_SCHEDULE_MAX"),
    ("turn_delay_min", "COORDINATOR_TURN_DELAY_MIN", "turn_delay_max", "COORDINATOR_TURN_DELAY_MAX"),
)


def with_ranges(settings: Settings) -> Settings:
    """If only one bound is set and it crosses the other's default, both become the set value: with
    COORDINATOR_SCHEDULE_MAX=0 alone there are no conversations."""
    changes: dict[str, Any] = {}
    for low, _, high, _ in _PAIRS:
        given = {low, high} & settings.model_fields_set
        if len(given) == 1 and getattr(settings, low) > getattr(settings, high):
            changes = {**changes, **dict.fromkeys((low, high), getattr(settings, given.pop()))}
    return settings.with_(**changes)


def conflicts(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """The keys of each conflict, and its line."""
    for low, low_key, high, high_key in _PAIRS:
        if getattr(settings, low) > getattr(settings, high):
            yield (low_key, high_key), f"{low_key}, {high_key}: expected a minimum not above the maximum"
    if settings.active_start == settings.active_end:
        keys = ("COORDINATOR_ACTIVE_START", "COORDINATOR_ACTIVE_END")
        yield keys, f"{', '.join(keys)}: expected two different hours (0 and 24 mean the whole day)"
    if settings.events_port and settings.events_secret is None:
        yield (
            ("EVENTS_PORT", "EVENTS_SECRET"),
            "EVENTS_PORT: expected EVENTS_SECRET too, the secret that signs the requests to that port",
        )
    if settings.agent_name and settings.agent_name not in settings.agents:
        yield ("AGENT_NAME",), f"AGENT_NAME: expected one of {', '.join(settings.agents)}"
    yield from _without_region(settings)
    if settings.commands_bot and settings.commands_bot not in settings.agents:
        yield ("COMMANDS_BOT",), f"COMMANDS_BOT: expected one of {', '.join(settings.agents)}"


def _without_region(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    for agent in settings.agents.values():
        if agent.token is not None and any(model.provider == "bedrock" and not model.aws for model in agent.models):
            yield ("AWS_REGION",), f"AWS_REGION: expected the region of {agent.name}'s models on Bedrock"
            return


def shared_tokens(settings: Settings) -> list[tuple[str, ...]]:
    """The names of agents that share a token: it cannot be known whose it is."""
    owners: dict[str, list[str]] = {}
    for name, agent in settings.agents.items():
        if agent.token:
            owners.setdefault(agent.token.get_secret_value(), []).append(name)
    return [tuple(names) for names in owners.values() if len(names) > 1]


def ignored_names(texts: Mapping[str, str]) -> Iterator[str]:
    """A line for each alternative name whose value differs from our key's, which wins. Not for GOOGLE_API_KEY, which
    other programs use too."""
    for key, other_name in OTHER_NAMES.items():
        text = texts.get(other_name)
        if other_name.endswith("_MS") and text is not None:
            text = in_seconds(text)
        if text is not None and key != "GEMINI_API_KEY" and not _same(text, texts[key]):
            yield f"{other_name}: ignored, since {key} is set"


def _same(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def warnings_of(settings: Settings) -> Iterator[str]:
    """A line for each setting that has no effect, or a dangerous one."""
    for names in shared_tokens(settings):
        keys = ", ".join(settings.agents[name].spec.token_setting for name in names)
        yield f"{keys}: the same token, so none of these bots starts; each bot needs a token of its own"
    for agent in settings.agents.values():
        yield from _odd_models(agent)
    channels = settings.channels
    if strays := [str(channel) for channel in settings.channel_theme_map if channel not in channels]:
        yield f"CHANNEL_THEME_MAP: ignored, since not in AGENT_CHANNEL_IDS: {', '.join(strays)}"
    if strays := [str(channel) for channel in settings.priority_channels if channel not in channels]:
        yield f"COORDINATOR_PRIORITY_CHANNELS: ignored, since not among the bots' channels: {', '.join(strays)}"
    if not channels and any(agent.token for agent in settings.agents.values()):
        yield "AGENT_CHANNEL_IDS, CHANNEL_THEME_MAP: no channel is set, so the bots stay silent; set at least one"
    if settings.budget_daily_usd is None:
        yield "BUDGET_DAILY_USD: no limit, so the bots may spend any amount in a day"
    if settings.agent_runtime and settings.permission_mode == "bypassPermissions":
        yield (
            "PERMISSION_MODE=bypassPermissions: anybody who can write to the coding agent can have it do anything that"
            " this program's user may do on this machine"
        )


def _odd_models(agent: AgentSettings) -> Iterator[str]:
    setting, own = agent.spec.model_setting, agent.spec.provider
    if any("/" in model.model and model.provider == own and not model.base_url for model in agent.models):
        yield f"{setting}: the part before the slash is not a provider, so the whole is taken as a model of {own}"
    if agent.token is not None and agent.usable:
        for model in agent.models:
            if model.lacks:
                yield f"{setting}: {model.name} is skipped, since {model.lacks} is not set"
        for server, there in agent.servers.items():
            yield from _odd_models_in(agent, server, there)


def _odd_models_in(agent: AgentSettings, server: int, there: AgentSettings) -> Iterator[str]:
    for model in there.models:
        if model.lacks:
            yield f"{agent.name} in server {server}: {model.name} is skipped, since {model.lacks} is not set"
    if not there.usable:
        yield f"{agent.name} in server {server}: none of its models can be used, so it has the same as in other servers"


def typos(in_file: Mapping[str, str], ours: Collection[str], agents: Iterable[str]) -> Iterator[str]:
    """Likely typing errors in .env; the process environment has many other programs' names. `ours`: all keys."""
    for key in in_file.keys() - {*ours, *OTHER_NAMES.values()}:
        if close := difflib.get_close_matches(key.upper(), ours, n=1, cutoff=0.85):
            yield f"{key} in .env: ignored, not a setting; did you mean {close[0]}?"
        elif key.upper().startswith("BOT_TOKEN_"):
            yield f"{key} in .env: ignored, no such agent; agents are {', '.join(agents)}"
