"""Builds the agents from the settings that were read: token, models, addresses, keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import SecretStr, create_model

from agentic.llm.profiles import DEFAULTS
from agentic.settings.agents import BASE_URL_SETTINGS, AgentSettings, AgentSpec, CodingSettings, FrontMatter
from agentic.settings.fields import HTTP, TOOL_PATTERNS, Keys, Secret, ToolPatterns, address_with, setting
from agentic.settings.models import (
    KEY_SETTINGS,
    AwsSettings,
    Choice,
    EndpointSettings,
    ModelSettings,
    Sources,
    chosen_models,
    comma_names,
    provider_and_model,
    read_endpoints,
    shared_models,
)
from agentic.settings.names import OTHER_NAMES
from agentic.settings.personas import PersonaModels
from agentic.settings.settings import Settings
from agentic.settings.sources import is_text

READING_TOOLS = ("Read", "Glob", "Grep")  # a coding agent's tools while ALLOWED_TOOLS names none


def named_in(path: Path, both: Mapping[str, str]) -> dict[str, SecretStr]:
    """The settings that config/mcp.yaml refers to as ${NAME}, and no others."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}  # reported when the servers are read
    names = re.findall(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", text)
    return {name: SecretStr(both[name]) for name in names if name in both and is_text(both[name])}


@cache  # pydantic takes longer to make a model than to fill it
def agent_keys(agents: tuple[AgentSpec, ...], endpoint_keys: tuple[str, ...]) -> type[Keys]:
    """A model of the keys that the table's rows bring; its fields are the keys in lower case."""
    fields: dict[str, Any] = {}
    url = Annotated[str | None, address_with(("http", "https"))]

    def add(key: str, kind: Any, expected: str) -> None:
        fields[key.lower()] = (kind, setting(key, expected, None))

    for key in (*KEY_SETTINGS.values(), *endpoint_keys, *(spec.key_setting for spec in agents)):
        add(key, Secret | None, "an API key")
    for key in (*BASE_URL_SETTINGS.values(), *(spec.base_url_setting for spec in agents)):
        add(key, url, HTTP)
    for spec in agents:
        add(spec.token_setting, Secret | None, "a Discord bot token")
        add(spec.model_setting, str | None, "the name of a model, or several, separated by commas")
        add(spec.image_model_setting, str | None, "the name of a picture model, or none")
        add(spec.personality_setting, str | None, "a text")
        add(spec.tools_setting, ToolPatterns | None, TOOL_PATTERNS)
    return create_model("AgentKeys", __base__=Keys, **fields)


def with_agents(
    settings: Settings,
    keys: Keys,
    agents: Mapping[str, AgentSpec],
    folder: Path | None,
    problems: list[str],
    fronts: Mapping[str, FrontMatter],
    model: str | None = None,
    environment: Collection[str] = (),
) -> Settings:
    """The settings with their agents and endpoints. `folder` has the owner's files, None for none. A persona's front
    matter (`fronts`) overrides .env; the owner's option files override both, and `model` overrides all. `environment`:
    the names of its variables, which may be a setting's in another case."""
    endpoints, wrong = read_endpoints(folder / "endpoints.yaml") if folder else ({}, [])
    chosen, wrong_models = chosen_models(folder, agents, endpoints) if folder else ({}, [])
    problems += [*wrong, *wrong_models]
    sources, hidden = _sources(settings, keys, endpoints), _hidden(settings, keys, environment)

    def made(spec: AgentSpec, front: FrontMatter, names: tuple[str, ...]) -> AgentSettings:
        agent = _agent(spec, settings.model_retries, keys, sources, names, front)
        return replace(agent, coding=_coding(agent, settings, hidden))

    found: dict[str, AgentSettings] = {}
    for name, spec in agents.items():
        front, choice = fronts.get(name, FrontMatter()), Choice((model,)) if model else chosen.get(name, Choice())
        agent = made(spec, front, choice.everywhere or front.models)
        servers = {server: made(spec, front, names) for server, names in choice.servers.items()}
        others = {server: there for server, there in servers.items() if there.models != agent.models}
        found[name] = replace(agent, servers=others)
    personas = PersonaModels(
        sources=sources,
        specs=tuple(agents.values()),
        chosen=(model,) if model else (),
        shared=shared_models(folder, endpoints) if folder else (),
        retries=settings.model_retries,
    )
    cheap = tuple(_cheap_models(settings.cheap_model, sources, problems))
    return settings.with_(
        agents=found,
        endpoints=endpoints,
        persona_models=personas,
        cheap_models=cheap,
        embedding=_embedding_model(settings.embedding_model, sources, problems),
    )


def _cheap_models(chosen: str | None, sources: Sources, problems: list[str]) -> Iterator[ModelSettings]:
    """The model of CHEAP_MODEL; where that is not set, the default of each provider whose key is."""
    if chosen is None:
        for provider, defaults in DEFAULTS.items():
            model = sources.model(provider, defaults.model)
            if model.api_key is not None:
                yield model
        return
    provider, name = provider_and_model(chosen)
    if chosen.lower() == "none":
        return
    if not name or not sources.knows(provider):
        problems.append("CHEAP_MODEL: expected provider/model with a known provider, or none")
        return
    model = sources.model(provider, name)
    if model.lacks is not None:
        problems.append(f"CHEAP_MODEL: expected {model.lacks} too, which {model.name} needs")
        return
    yield model


def _embedding_model(chosen: str | None, sources: Sources, problems: list[str]) -> ModelSettings | None:
    """The model of EMBEDDING_MODEL: OpenAI's, or an endpoint's. The other providers' APIs have another shape, or
    none."""
    provider, _, name = (chosen or "none").partition("/")
    if provider.lower() == "none" and not name:
        return None
    if not name or not sources.knows(provider) or provider in set(KEY_SETTINGS) - {"openai"}:
        problems.append("EMBEDDING_MODEL: expected provider/model, with the provider openai or an endpoint, or none")
        return None
    model = sources.model(provider, name)
    if model.lacks is not None:
        problems.append(f"EMBEDDING_MODEL: expected {model.lacks} too, which {model.name} needs")
        return None
    return model


def _hidden(settings: Settings, keys: Keys, environment: Collection[str]) -> frozenset[str]:
    """All names of environment variables that may hold a setting."""
    fields = (*type(settings).model_fields.values(), *type(keys).model_fields.values())
    names = {str(info.validation_alias) for info in fields if info.validation_alias}
    names |= {*settings.named, *OTHER_NAMES.values()}
    return frozenset({*names, *(name for name in environment if name.upper() in names)})


def _coding(agent: AgentSettings, settings: Settings, hidden: frozenset[str]) -> CodingSettings | None:
    """For Anthropic's agents where AGENT_RUNTIME is set. Of ALLOWED_TOOLS only the names of Claude Code's own tools
    count here; these begin with a capital."""
    if settings.agent_runtime is None or agent.provider != "anthropic":
        return None
    allowed = settings.allowed_tools if agent.allowed_tools is None else agent.allowed_tools
    tools = tuple(name for name in allowed if name[:1].isupper())
    own = {agent.models[0].key_setting, agent.models[0].base_url_setting}
    return CodingSettings(
        workspace=(settings.persona_folder(agent.name) / "workspace").absolute(),
        home=(settings.data_dir / "agent-sdk" / agent.name).absolute(),
        allowed_tools=tools or READING_TOOLS,
        permission_mode=settings.permission_mode,
        max_steps=settings.agent_sdk_max_steps,
        max_usd=settings.agent_sdk_max_usd,
        hidden=tuple(sorted(hidden - own)),
    )


def _sources(settings: Settings, keys: Keys, endpoints: Mapping[str, EndpointSettings]) -> Sources:
    """The sources of all models' keys and addresses."""
    given = dict(keys)
    aws = AwsSettings(
        region=settings.aws_region or "",
        access_key=settings.aws_access_key_id,
        secret_key=settings.aws_secret_access_key,
        session_token=settings.aws_session_token,
        profile=settings.aws_profile,
    )
    return Sources(
        keys=settings.keys,
        addresses={
            name: f"{address.rstrip('/')}/v1" if name == "ollama" and not urlsplit(address).path.strip("/") else address
            for name, key in BASE_URL_SETTINGS.items()
            if (address := given[key.lower()])
        },
        endpoints=endpoints,
        aws=aws if settings.aws_region else None,
    )


def _agent(
    spec: AgentSpec, retries: int, keys: Keys, sources: Sources, chosen: tuple[str, ...], front: FrontMatter
) -> AgentSettings:
    def read(key: str) -> Any:
        return getattr(keys, key.lower())

    def model(name: str) -> ModelSettings:
        provider, bare = sources.parted(name, spec.provider)
        if provider != spec.provider:
            return sources.model(provider, bare)
        own = sources.model(
            provider, bare, key_setting=spec.key_setting, base_url_setting=spec.base_url_setting, needs_key=True
        )
        return replace(own, base_url=own.base_url or read(spec.base_url_setting))

    models = tuple(map(model, chosen or comma_names(read(spec.model_setting) or "") or (spec.model,)))
    image = front.image_model or read(spec.image_model_setting) or spec.image_model or "none"
    image_provider, image_model = sources.parted(image, spec.provider)
    draws = image.lower() != "none" and any(one.provider == image_provider for one in models)
    colour = spec.colour if front.colour is None else front.colour
    return AgentSettings(
        spec=replace(spec, display_name=front.display_name or spec.display_name, colour=colour),
        token=read(spec.token_setting),
        models=models,
        image_model=image_model if draws else None,
        image_provider=image_provider,
        retries=retries,
        personality=read(spec.personality_setting),
        allowed_tools=read(spec.tools_setting),
        front=front,
    )
