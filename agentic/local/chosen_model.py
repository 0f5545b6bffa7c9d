"""The model of `--model`: whether it can be used, asked before anything is opened, at no cost."""

from __future__ import annotations

import asyncio
import difflib
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from agent_config import ModelSettings, Settings
from agentic.check.agents import error_of
from agentic.llm.errors import BadKey, ModelError, Retryable
from agentic.llm.profiles import DEFAULTS
from agentic.local.context_size import context_warning
from agentic.local.server_kinds import KINDS, listed_names, plain_name, some_of
from agentic.local.server_search import JsonAnswer, NoAnswer, address_of, get_json, json_session, key_of
from agentic.local.terminal.view import one_line
from agentic.settings.models import KEY_SETTINGS, PROVIDERS, endpoint_key

MOST_NAMED = 8
NO_LIST = (404, 405)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A line each, "" for none: why the bots cannot use the model and what to do, or what will go wrong with it."""

    problem: str = ""
    warning: str = ""


def check_model(settings: Settings, name: str) -> Verdict:
    """Check the model `name`. `settings` were loaded with it, so it is the model of all agents."""
    verdict = asyncio.run(verdict_on(settings, name))
    lines = (one_line(f"--model {name}: {line}") if line else "" for line in (verdict.problem, verdict.warning))
    return Verdict(*lines)


async def verdict_on(settings: Settings, name: str) -> Verdict:
    """As `check_model`, in a running loop; the lines do not name the model."""
    provider, _, model = name.partition("/")
    known = {*PROVIDERS, *settings.endpoints}
    if provider not in known or (not model and provider in KEY_SETTINGS):
        expected = f"expected provider/model, such as ollama/llama3.3; the providers are {', '.join(sorted(known))}"
        return Verdict(expected)
    if provider not in KEY_SETTINGS:
        return await _at_endpoint(settings, provider, model)
    return Verdict(await _problem_at_provider(_of_all(settings)) or "")


def _of_all(settings: Settings) -> ModelSettings:
    return next(iter(settings.agents.values())).models[0]


async def _problem_at_provider(model: ModelSettings) -> str | None:
    if model.lacks:
        return f"{model.lacks} is not set; set it in .env"
    error = await error_of(model, model.model)
    if error is None or (isinstance(error, Retryable) and error.status is not None):
        return None  # a busy provider is no reason not to start
    if error.status == 404:
        usual = DEFAULTS.get(model.provider)
        return f"{model.provider} has no such model" + (f"; its usual one is {usual.model}" if usual else "")
    if isinstance(error, BadKey):
        return f"the key was refused; correct {model.key_setting}"
    return f"{error.kind}{_status(error)}"


def _status(error: ModelError) -> str:
    return f" ({error.status})" if error.status else "; check the network"


async def _at_endpoint(settings: Settings, provider: str, model: str) -> Verdict:
    if model and (needed := _of_all(settings).lacks):
        return Verdict(f"{needed} is not set; set it in .env")
    address, key = address_of(settings, provider), key_of(settings, provider)
    async with json_session() as session:
        try:
            answer = await get_json(session, f"{address}/models", key)
        except NoAnswer:
            return Verdict(f"nothing answers at {_shown(address)}; {_to_do(settings, provider)}")
        if problem := _problem_in(answer, provider, model, address, has_key=key is not None):
            return Verdict(problem)
        return Verdict(warning=await context_warning(session, provider, address, model, key, answer.body) or "")


def _to_do(settings: Settings, provider: str) -> str:
    kind, own = KINDS.get(provider), settings.endpoints.get(provider)
    start = f"start {kind.title} ({kind.start})" if kind else "check the network"
    return f"{start}, or correct config/endpoints.yaml" if own and own.base_url else start


def _problem_in(answer: JsonAnswer, provider: str, model: str, address: str, *, has_key: bool) -> str | None:
    """Read the list of models of an endpoint."""
    if answer.status in (401, 403):
        setting = endpoint_key(provider)
        key = f"refused the key; correct {setting}" if has_key else f"wants a key; set {setting} in .env"
        return f"{_shown(address)} {key}"
    if answer.status in NO_LIST and provider not in KINDS and model:
        return None  # not every gateway lists its models
    if answer.status == 503:
        return f"{_shown(address)} is not ready (503), it may be loading its model; try again in a moment"
    if answer.status != 200 or not isinstance(answer.body.get("data"), list):
        return f"the program at {_shown(address)} is no model server (status {answer.status})"
    names = [name for name in listed_names(answer.body) if name]
    if not model:
        return (
            f"name one of its models: {some_of([f'{provider}/{name}' for name in names], MOST_NAMED) or 'it has none'}"
        )
    return None if _has(names, model, provider) else _not_among(names, model, provider)


def _has(names: list[str], model: str, provider: str) -> bool:
    """Gateways append variants to a name, such as :free, which they do not list."""
    return plain_name(model) in names or (provider not in KINDS and model.partition(":")[0] in names)


def _not_among(names: list[str], model: str, provider: str) -> str:
    kind, close = KINDS.get(provider), difflib.get_close_matches(model, names, MOST_NAMED)
    names = [*close, *(name for name in names if name not in close)]
    owner = kind.title if kind else provider
    it_has = f"it has {some_of(names, MOST_NAMED)}" if names else f"it has none. {kind.get if kind else ''}".rstrip()
    pull = f". To get it: ollama pull {model}" if provider == "ollama" and names else ""
    return f"{owner} has no such model; {it_has}{pull}"


def _shown(address: str) -> str:
    """The address without a password."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
