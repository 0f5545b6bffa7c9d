"""Check the keys and models of bots and personas, and Ollama servers, at no cost.

Each provider is asked to describe the configured models. Which personas can join rooms, and why the others can't, is
read from their folders. Each Ollama server is asked which models it has (one GET /api/tags; servers with `api: openai`
aren't asked).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from agent_config import AgentSettings, ModelSettings, Settings
from agentic.agent.roster import PersonaFolders, RosterEntry, list_agents
from agentic.agent.side_calls import cheapest
from agentic.check.costs import prices_in, room_cost
from agentic.check.odd_settings import options_in
from agentic.findings import Findings
from agentic.llm.errors import BadKey, ConnectionFailed, ModelError, QuotaUsedUp, Retryable, TimedOut
from agentic.llm.providers.ollama import OllamaModel
from agentic.llm.registry import build_model
from agentic.state.rooms import DEFAULT_TURNS

MODEL_SECONDS = 15.0  # to wait for a provider's answer about one model
PULLED_SECONDS = 10.0  # to wait for a list of downloaded models
MAX_NAMED = 12


class _ModelList:
    """An agent's models, everywhere or in a server. `setting`: where they are set. `instead`: other than a key."""

    def __init__(self, agent: AgentSettings, server: int | None = None, account_setting: str = "") -> None:
        self.agent, self.server, self.alone = agent, server, len(agent.models) == 1
        self.is_persona = not agent.spec.cog  # the agent isn't in the table: it comes from a folder
        self.setting = "`model` in the option files of this server"
        if self.is_persona:
            self.setting = f"`model` in identity.md of {agent.name}"
        elif server is None:
            self.setting = agent.spec.model_setting
        if not self.alone:
            self.instead = "remove the model from the list"
        elif self.is_persona:
            self.instead = f"name another model in identity.md of {agent.name}"
        else:
            there = agent.spec.token_setting if agent.token is not None else f"{agent.name} from {account_setting}"
            self.instead = f"remove {there}"

    def subject(self, what: str) -> str:
        return what if self.server is None else f"{what} in server {self.server}"


async def check_key(agent: AgentSettings, found: Findings, account_setting: str = "") -> None:
    """Check each model and its key, including models for single servers, and the picture model. A problem is a warning
    if there is a fallback; else it is an error. A bot works without its picture model."""
    known: dict[str, bool] = {}
    await _check_list(_ModelList(agent, account_setting=account_setting), known, found)
    for server, there in agent.servers.items():
        await _check_list(_ModelList(there, server), known, found)
    drawing = (each for each in (agent, *agent.servers.values()) if each.image_model is not None)
    await _check_image_model(next(drawing, agent), found)


async def _check_list(models: _ModelList, known: dict[str, bool], found: Findings) -> None:
    """Check a list of models. `known` has the results of models that were checked already."""
    names = [model.name for model in models.agent.models]
    reported = models.alone and names[0] not in known
    for model in models.agent.models:
        if model.name not in known:
            known[model.name] = await _check_model(models, model, found)
    if not reported and not any(known[name] for name in names):
        found.wrong(models.subject("models"), "none of them can be used (see above)", f"correct {models.setting}")


async def _check_model(models: _ModelList, model: ModelSettings, found: Findings) -> bool:
    agent, key, report = models.agent, models.subject("key"), found.wrong if models.alone else found.warn
    if model.lacks:
        report(key, f"{model.lacks} isn't set", f"set {model.lacks}, or {models.instead}")
        return False
    error = await error_of(model, model.model)
    if error is not None and not is_unknown(error):
        _report_error(models, model, error, found)
        return False
    found.ok(key, f"{model.key_setting} works" if model.api_key else f"{model.provider} answers without a key")
    if error is None:
        found.ok(models.subject("model"), _configured_name(agent, model))
        return True
    is_default_known = model.provider == agent.spec.provider and not models.is_persona
    usual = f" (default: {agent.spec.model})" if is_default_known else ""
    endpoint = model.endpoint
    pull = f"run: ollama pull {model.model}, or " if endpoint is not None and endpoint.api == "ollama" else ""
    advice = f"{pull}correct {models.setting}{usual}{_address(model)}"
    report(models.subject("model"), f"the provider has no model {_configured_name(agent, model)}", advice)
    return False


def _configured_name(agent: AgentSettings, model: ModelSettings) -> str:
    return model.model if model.provider == agent.spec.provider else model.name


async def _check_image_model(agent: AgentSettings, found: Findings) -> None:
    seller = next((model for model in agent.usable if model.provider == agent.image_provider), None)
    if agent.image_model is None or seller is None or agent.image_model == seller.model:
        return
    error = await error_of(seller, agent.image_model)
    if error is None:
        found.ok("picture model", agent.image_model)
        return
    if isinstance(error, (ConnectionFailed, TimedOut, BadKey)):
        return  # reported for the key already
    text = f"{agent.image_model}: {error.kind}"
    if is_unknown(error):
        text = f"the provider has no model {agent.image_model}, so this bot can't draw"
    usual = agent.spec.image_model or "none"
    advice = f"correct {agent.spec.image_model_setting} (default: {usual}){_address(seller)}"
    found.warn("picture model", text, advice)


async def error_of(settings: ModelSettings, name: str) -> ModelError | None:
    """Ask the provider about a model. Returns the error, or None if the model is usable."""
    # In a thread: it imports the SDK.
    try:
        model = await asyncio.to_thread(build_model, **{**settings.access, "model": name}, image_model="", attempts=1)
    except ModelError as error:  # a package is missing
        return error
    try:
        await model.check(timeout=MODEL_SECONDS)
    except ModelError as error:
        return error
    finally:
        await model.aclose()
    return None


def is_unknown(error: ModelError) -> bool:
    """Whether the provider accepted the key but has no such model."""
    return error.status == 404


def _report_error(models: _ModelList, model: ModelSettings, error: ModelError, found: Findings) -> None:
    status = f" ({error.status})" if error.status else ""
    key, report = models.subject("key"), found.wrong if models.alone else found.warn
    text = f"{error.kind}{status}" if models.alone else f"{model.provider}: {error.kind}{status}"
    if isinstance(error, BadKey):
        report(key, text, f"correct {model.key_setting}")
    elif isinstance(error, QuotaUsedUp):
        report(key, text, f"add credit to the provider account that {model.key_setting} belongs to")
    elif isinstance(error, (ConnectionFailed, TimedOut)):
        report(key, text, f"check your network{_address(model)}, then run this check again")
    elif isinstance(error, Retryable):
        found.warn(key, text, "run this check again later")
    else:
        report(key, text, f"check {models.setting}{_address(model)}")


def _address(model: ModelSettings) -> str:
    """Name the setting of the address, unless the address is the provider's default."""
    return f" and {model.base_url_setting}" if model.base_url or not model.needs_key else ""


def check_personas(settings: Settings, found: Findings) -> list[RosterEntry]:
    """Add a line for the personas that can join rooms, and one for each reason why others can't. Returns all personas.
    Rooms need Discord: without it, it only adds notes about thinking levels."""
    agents = list_agents(settings, PersonaFolders(settings.personas_dir).refresh())
    _check_thinking(settings, agents, found)
    personas = [one for one in agents if one.key not in settings.agents]
    if not settings.on_discord:
        return personas
    if able := [one for one in personas if one.why_not is None]:
        dollars = room_cost([prices_in(None, one.settings) for one in able if one.settings is not None])
        price = f"a room of {DEFAULT_TURNS} turns costs about ${dollars:.2g}"
        price = price if dollars else "their models are free"
        found.ok("personas", f"{_names(able)} can join rooms, although they aren't bots; {price}")
    refused: dict[str, list[RosterEntry]] = defaultdict(list)
    for persona in personas:
        if persona.why_not is not None:
            refused[persona.why_not].append(persona)
    for why, those in refused.items():
        file = f"identity.md in {settings.personas_dir / those[0].key}"
        has_model = those[0].settings is not None
        advice = f"set that key, or name another model in {file}" if has_model else f"correct {file} or the setting"
        found.note("personas", f"{_names(those)} can't join rooms: {why}", advice)
    _check_pictures(settings, personas, found)
    return personas


def _check_thinking(settings: Settings, agents: Iterable[RosterEntry], found: Findings) -> None:
    """Note the models that don't have the thinking level that their agent's options ask for."""
    for one in agents:
        if one.settings is None or one.why_not is not None:
            continue
        options = options_in(one.key, settings)
        for level in dict.fromkeys(options(server).thinking for server in (None, *settings.guild_ids)):
            for model in one.settings.without_level(level):
                levels = ", ".join(model.profile.thinking)
                advice = f"use {levels}" if levels else "remove it"
                found.note("thinking", f"{one.shown}: {model.name} has no level {level}, so it thinks as usual", advice)


def _check_pictures(settings: Settings, personas: Iterable[RosterEntry], found: Findings) -> None:
    """Note the personas whose pictures are files that can't be shown."""
    files = [one for one in personas if one.front.avatar and not one.front.avatar.startswith("https://")]
    missing = [one for one in files if not (settings.persona_folder(one.key) / (one.front.avatar or "")).is_file()]
    for persona in missing:
        file = settings.persona_folder(persona.key) / (persona.front.avatar or "")
        found.note("personas", f"{persona.shown} has no picture: {file} is missing", "add it, or change avatar")
    if settings.owner_channel_id is None and (waiting := [one for one in files if one not in missing]):
        how = "to show theirs, set OWNER_CHANNEL_ID, and a bot uploads them to that channel"
        found.ok("personas", f"{_names(waiting)} post with Discord's default pictures; {how}")


def _names(personas: Iterable[RosterEntry]) -> str:
    return ", ".join(one.shown for one in personas)


async def check_pulled(settings: Settings, personas: Iterable[RosterEntry], found: Findings) -> None:
    """Add a line for each Ollama server, and a warning for each configured model that it hasn't downloaded."""
    wanted: dict[str, dict[str, ModelSettings]] = defaultdict(dict)
    for model in _models_in_use(settings, personas):
        endpoint = model.endpoint
        if endpoint is not None and endpoint.api == "ollama":
            wanted[model.base_url or endpoint.base_url].setdefault(model.model, model)
    for address, models in wanted.items():
        place = urlsplit(address).netloc.rpartition("@")[2]  # without a password or a path
        await _check_ollama(place, list(models.values()), found)


def _models_in_use(settings: Settings, personas: Iterable[RosterEntry]) -> Iterator[ModelSettings]:
    for agent in settings.agents.values():
        if agent.token is not None or agent.name in settings.account_agents:
            yield from (model for each in (agent, *agent.servers.values()) for model in each.usable)
    for persona in personas:
        if persona.settings is not None and persona.why_not is None:
            yield from persona.settings.usable
    if (cheap := cheapest(settings.cheap_models)) is not None:
        yield cheap
    if settings.embedding is not None:
        yield settings.embedding


async def _check_ollama(place: str, models: list[ModelSettings], found: Findings) -> None:
    try:
        # In a thread: it imports the client.
        model = await asyncio.to_thread(build_model, **models[0].access, image_model="", attempts=1)
        try:
            pulled = await model.pulled(PULLED_SECONDS) if isinstance(model, OllamaModel) else ()
        finally:
            await model.aclose()
    except ModelError as error:
        names = ", ".join(model.name for model in models)
        text = f"{place} didn't list its models: {error.detail or error.kind}"
        found.warn("Ollama", text, f"start Ollama there: it is needed for {names}")
        return
    more = f" and {len(pulled) - MAX_NAMED} more" if len(pulled) > MAX_NAMED else ""
    found.ok("Ollama", f"{place} has {', '.join(pulled[:MAX_NAMED]) or 'no model'}{more}")
    for wanted in models:
        if not {wanted.model, f"{wanted.model}:latest"} & set(pulled):
            found.warn("Ollama", f"{wanted.name} isn't downloaded", f"run: ollama pull {wanted.model}")
