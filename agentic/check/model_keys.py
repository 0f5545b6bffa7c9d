"""Check API keys and model names by asking each provider to describe its models, at no cost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agent_config import AgentSettings, ModelSettings
from agentic.agent.limits import access, endpoint_of
from agentic.check.findings import Findings
from agentic.llm.errors import BadKey, ConnectionFailed, ModelError, QuotaUsedUp, Retryable, TimedOut
from agentic.llm.registry import build_model
from agentic.llm.retry import RetryPolicy
from agentic.settings.models import AT_HOME

SECONDS = 15.0  # for a provider's answer about one model
_ONCE = RetryPolicy(attempts=1)


@dataclass(frozen=True, slots=True)
class _ModelList:
    """The models of an agent, or those set for one server."""

    agent: AgentSettings
    server: int | None = None

    @property
    def alone(self) -> bool:
        return len(self.agent.models) == 1

    @property
    def setting(self) -> str:
        """The setting that the owner has to correct."""
        if self.is_persona:
            return f"`model` in identity.md of {self.agent.name}"
        return self.agent.spec.model_setting if self.server is None else "`model` in the option files of this server"

    @property
    def is_persona(self) -> bool:
        """Whether the agent is a folder's, and no row of the table."""
        return not self.agent.spec.cog

    @property
    def instead(self) -> str:
        """The advice besides setting a model's key."""
        if not self.alone:
            return "remove the model from the list"
        if self.is_persona:
            return f"name another model in identity.md of {self.agent.name}"
        on_signal = f"{self.agent.name} from SIGNAL_NUMBERS"
        return f"remove {self.agent.spec.token_setting if self.agent.token is not None else on_signal}"

    def subject(self, what: str) -> str:
        return what if self.server is None else f"{what} in server {self.server}"


async def check_key(agent: AgentSettings, found: Findings) -> None:
    """Check each model and its key, those of single servers, and the picture model.

    A problem with one of several models is a warning; a model without a fallback must be right. A bot works without its
    picture model.
    """
    known: dict[str, bool] = {}
    await _check_list(_ModelList(agent), known, found)
    for server, there in agent.servers.items():
        await _check_list(_ModelList(there, server), known, found)
    drawing = (each for each in (agent, *agent.servers.values()) if each.image_model is not None)
    await _check_image_model(next(drawing, agent), found)


async def _check_list(models: _ModelList, known: dict[str, bool], found: Findings) -> None:
    """Check a list. `known`: results of models that were checked already."""
    names = [model.name for model in models.agent.models]
    reported = models.alone and names[0] not in known
    for model in models.agent.models:
        if model.name not in known:
            known[model.name] = await _check_model(models, model, found)
    if not reported and not any(known[name] for name in names):
        found.wrong(models.subject("models"), "none of the list can be used", f"correct {models.setting}")


async def _check_model(models: _ModelList, model: ModelSettings, found: Findings) -> bool:
    agent, key, report = models.agent, models.subject("key"), found.wrong if models.alone else found.warn
    if model.lacks:
        report(key, f"{model.lacks} is not set", f"set {model.lacks}, or {models.instead}")
        return False
    error = await error_of(model, model.model)
    if error is not None and not is_unknown(error):
        _key_finding(models, model, error, found)
        return False
    found.ok(key, _accepted(model))
    if error is None:
        found.ok(models.subject("model"), _shown(agent, model))
        return True
    is_default_known = model.provider == agent.spec.provider and not models.is_persona
    usual = f" (usually {agent.spec.model})" if is_default_known else ""
    pull = f"run: ollama pull {model.model}, or " if _is_ollamas(model) else ""
    advice = f"{pull}correct {models.setting}{usual}{_address(model)}"
    report(models.subject("model"), f"{_shown(agent, model)} is unknown to the provider", advice)
    return False


def _is_ollamas(model: ModelSettings) -> bool:
    endpoint = endpoint_of(model)
    return endpoint is not None and endpoint.api == "ollama"


def _accepted(model: ModelSettings) -> str:
    return f"{model.key_setting} is accepted" if model.api_key else f"{model.provider} answers without a key"


def _shown(agent: AgentSettings, model: ModelSettings) -> str:
    """The model's name as the settings have it."""
    return model.model if model.provider == agent.spec.provider else model.name


async def _check_image_model(agent: AgentSettings, found: Findings) -> None:
    of_provider = (model for model in agent.usable if model.provider == agent.image_provider)
    seller = next(of_provider, None)
    if agent.image_model is None or seller is None or agent.image_model == seller.model:
        return
    error = await error_of(seller, agent.image_model)
    if error is None:
        found.ok("picture model", agent.image_model)
        return
    if isinstance(error, (ConnectionFailed, TimedOut, BadKey)):
        return  # reported for the key already
    text = (
        f"{agent.image_model} is unknown to the provider" if is_unknown(error) else f"{agent.image_model}: {error.kind}"
    )
    usual = agent.spec.image_model or "none"
    advice = f"correct {agent.spec.image_model_setting} (usually {usual}){_address(seller)}"
    found.warn("picture model", text, advice)


async def error_of(settings: ModelSettings, name: str) -> ModelError | None:
    """Ask the provider about a model; return its error, or None if the model is usable."""
    # In a thread: it imports the SDK.
    try:
        model = await asyncio.to_thread(build_model, **{**access(settings), "model": name}, image_model="", retry=_ONCE)
    except ModelError as error:  # a package is missing
        return error
    try:
        await model.check(timeout=SECONDS)
    except ModelError as error:
        return error
    finally:
        await model.aclose()
    return None


def is_unknown(error: ModelError) -> bool:
    """Whether the provider took the key, but has no such model."""
    return error.status == 404


def _key_finding(models: _ModelList, model: ModelSettings, error: ModelError, found: Findings) -> None:
    status = f" ({error.status})" if error.status else ""
    key, report = models.subject("key"), found.wrong if models.alone else found.warn
    text = f"{error.kind}{status}" if models.alone else f"{model.provider}: {error.kind}{status}"
    if isinstance(error, BadKey):
        report(key, text, f"correct {model.key_setting}")
    elif isinstance(error, QuotaUsedUp):
        report(key, text, f"add credit to the account of {model.key_setting}")
    elif isinstance(error, (ConnectionFailed, TimedOut)):
        report(key, text, f"check the network{_address(model)}, then check again")
    elif isinstance(error, Retryable):
        found.warn(key, text, "check again later")
    else:
        report(key, text, f"check {models.setting}{_address(model)}")


def _address(model: ModelSettings) -> str:
    """The setting of the address that was asked, unless it is the provider's default."""
    return f" and {model.base_url_setting}" if model.base_url or model.provider in AT_HOME else ""
