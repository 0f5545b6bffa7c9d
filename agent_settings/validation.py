"""What must fit together: settings that are right one by one and wrong or odd beside each other.

Pure functions of settings that were read already. A conflict stops the start, with the keys that it involves, so that a
key that could not be read is not blamed twice; an oddity or a likely typing error is only told.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from agent_settings.agents import STAND_INS, AgentSettings
from agent_settings.fields import in_seconds
from agent_settings.settings import Settings

_PAIRS = (
    ("schedule_min", "COORDINATOR_SCHEDULE_MIN", "schedule_max", "COORDINATOR_SCHEDULE_MAX"),
    ("turn_delay_min", "COORDINATOR_TURN_DELAY_MIN", "turn_delay_max", "COORDINATOR_TURN_DELAY_MAX"),
)


def fitted(settings: Settings) -> Settings:
    """Who sets one end of a range past the other's default means that end: COORDINATOR_SCHEDULE_MAX=0 alone is none."""
    changes: dict[str, Any] = {}
    for low, _, high, _ in _PAIRS:
        given = {low, high} & settings.model_fields_set
        if len(given) == 1 and getattr(settings, low) > getattr(settings, high):
            changes = {**changes, **dict.fromkeys((low, high), getattr(settings, given.pop()))}
    return settings.with_(**changes)


def conflicts(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """The keys of each problem between settings, and its line."""
    for low, low_key, high, high_key in _PAIRS:
        if getattr(settings, low) > getattr(settings, high):
            yield (low_key, high_key), f"{low_key}, {high_key}: expected a minimum that is not above the maximum"
    if settings.active_start == settings.active_end:
        keys = ("COORDINATOR_ACTIVE_START", "COORDINATOR_ACTIVE_END")
        yield keys, f"{', '.join(keys)}: expected two different hours (0 and 24 are the whole day)"
    if settings.events_port and settings.events_secret is None:
        yield (
            ("EVENTS_PORT", "EVENTS_SECRET"),
            "EVENTS_PORT: expected EVENTS_SECRET beside it, which signs what comes there",
        )
    if settings.agent_name and settings.agent_name not in settings.agents:
        yield ("AGENT_NAME",), f"AGENT_NAME: expected one of {', '.join(settings.agents)}"
    yield from _without_region(settings)
    if settings.commands_bot and settings.commands_bot not in settings.agents:
        yield ("COMMANDS_BOT",), f"COMMANDS_BOT: expected one of {', '.join(settings.agents)}"


def _without_region(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    for agent in settings.agents.values():
        if agent.token is not None and any(model.provider == "bedrock" and not model.aws for model in agent.models):
            yield ("AWS_REGION",), f"AWS_REGION: expected the region of the models that {agent.name} has on Bedrock"
            return


def doubled_tokens(settings: Settings) -> list[tuple[str, ...]]:
    """The names of agents that have one token between them: nobody knows whose it is, so it is none's."""
    owners: dict[str, list[str]] = {}
    for name, agent in settings.agents.items():
        if agent.token:
            owners.setdefault(agent.token.get_secret_value(), []).append(name)
    return [tuple(names) for names in owners.values() if len(names) > 1]


def unheeded(texts: Mapping[str, str]) -> Iterator[str]:
    """A line for each other name of a setting that says something else than ours, which counts. Google's name for a key
    is that of other programs too."""
    for key, stand_in in STAND_INS.items():
        said = texts.get(stand_in)
        if stand_in.endswith("_MS") and said is not None:
            said = in_seconds(said)
        if said is not None and key != "GEMINI_API_KEY" and not _same(said, texts[key]):
            yield f"{stand_in}: not used, since {key} is set"


def _same(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def oddities(settings: Settings) -> Iterator[str]:
    """A line for each thing that is set to no effect, or to a dangerous one."""
    for names in doubled_tokens(settings):
        keys = ", ".join(settings.agents[name].spec.token_setting for name in names)
        yield f"{keys}: expected a token of its own for each bot, these are the same, so none of these bots is started"
    for agent in settings.agents.values():
        yield from _odd_models(agent)
    channels = settings.channels
    if strays := [str(channel) for channel in settings.channel_theme_map if channel not in channels]:
        yield f"CHANNEL_THEME_MAP: not in AGENT_CHANNEL_IDS and therefore not used: {', '.join(strays)}"
    if strays := [str(channel) for channel in settings.priority_channels if channel not in channels]:
        yield f"COORDINATOR_PRIORITY_CHANNELS: not among the channels and therefore not used: {', '.join(strays)}"
    if not channels and any(agent.token for agent in settings.agents.values()):
        yield "AGENT_CHANNEL_IDS, CHANNEL_THEME_MAP: neither names a channel, so the bots will speak nowhere"
    if settings.budget_daily_usd is None:
        yield "BUDGET_DAILY_USD: no limit is set, so the bots together may spend any sum in a day"
    if settings.agent_runtime and settings.permission_mode == "bypassPermissions":
        yield (
            "PERMISSION_MODE=bypassPermissions: whoever may write to the coding agent can have it do anything that this"
            " program's user may do on this machine"
        )


def _odd_models(agent: AgentSettings) -> Iterator[str]:
    setting, own = agent.spec.model_setting, agent.spec.provider
    if any("/" in model.model and model.provider == own and not model.base_url for model in agent.models):
        yield f"{setting}: what stands before a slash is no provider, so all of it is taken as a model of {own}"
    if agent.token is not None and agent.usable:
        for model in agent.models:
            if model.lacks:
                yield f"{setting}: a model of {model.provider} is left out, {model.lacks} is not set"
        for server, there in agent.servers.items():
            yield from _odd_models_in(agent, server, there)


def _odd_models_in(agent: AgentSettings, server: int, there: AgentSettings) -> Iterator[str]:
    for model in there.models:
        if model.lacks:
            yield f"{agent.name} in server {server}: {model.name} is left out, {model.lacks} is not set"
    if not there.usable:
        yield f"{agent.name} in server {server}: no model is left, so it has the same as elsewhere"


def typos(in_file: Mapping[str, str], ours: Collection[str], agents: Iterable[str]) -> Iterator[str]:
    """Only for .env: the process environment is full of other programs' names. `ours` are all keys that are read."""
    for key in in_file.keys() - {*ours, *STAND_INS.values()}:
        if close := difflib.get_close_matches(key.upper(), ours, n=1, cutoff=0.85):
            yield f"{key} in .env is not a setting and not used; {close[0]} is one"
        elif key.upper().startswith("BOT_TOKEN_"):
            yield f"{key} in .env belongs to no agent and is not used; agents are {', '.join(agents)}"
