"""Is a bot's API key accepted, and are its models known? The provider is asked to describe them, at no cost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agent_check.findings import Findings
from agent_cogs.limits.model_access import access
from agent_config import AgentSettings, ModelSettings
from agent_llm.errors import BadKey, ConnectionFailed, ModelError, QuotaUsedUp, Retryable, TimedOut
from agent_llm.registry import build_model
from agent_llm.retry import RetryPolicy
from agent_settings.models import AT_HOME

SECONDS = 15.0  # for each model, the provider's answer alone
_ONCE = RetryPolicy(attempts=1)


@dataclass(frozen=True, slots=True)
class _List:
    """The models of an agent, or those that it has in one server."""

    agent: AgentSettings
    server: int | None = None

    @property
    def alone(self) -> bool:
        return len(self.agent.models) == 1

    @property
    def setting(self) -> str:
        """Where it is written."""
        return self.agent.spec.model_setting if self.server is None else "`model` in the option files of this server"

    def subject(self, what: str) -> str:
        return what if self.server is None else f"{what} in server {self.server}"


async def check_key(agent: AgentSettings, found: Findings) -> None:
    """Each model by way of its key, then the picture model, without which the bot still speaks; what single servers
    have besides.

    A model that others stand in for is warned of; one that stands alone must be right.
    """
    known: dict[str, bool] = {}
    await _check_list(_List(agent), known, found)
    for server, there in agent.servers.items():
        await _check_list(_List(there, server), known, found)
    drawing = (each for each in (agent, *agent.servers.values()) if each.image_model is not None)
    await _check_image_model(next(drawing, agent), found)


async def _check_list(models: _List, known: dict[str, bool], found: Findings) -> None:
    """`known`: whether a model that was asked about can be used; it is not asked about again."""
    names = [model.name for model in models.agent.models]
    told = models.alone and names[0] not in known
    for model in models.agent.models:
        if model.name not in known:
            known[model.name] = await _check_model(models, model, found)
    if not told and not any(known[name] for name in names):
        found.wrong(models.subject("models"), "none of the list can be used", f"mend {models.setting}")


async def _check_model(models: _List, model: ModelSettings, found: Findings) -> bool:
    agent, key, tell = models.agent, models.subject("key"), found.wrong if models.alone else found.warn
    if model.lacks:
        tell(key, f"{model.lacks} is not set", f"set {model.lacks}, or take the model out of the list")
        return False
    error = await _error_of(model, model.model)
    if error is not None and not _unknown(error):
        _key_finding(models, model, error, found)
        return False
    found.ok(key, _accepted(model))
    if error is None:
        found.ok(models.subject("model"), _shown(agent, model))
        return True
    usual = f" (usually {agent.spec.model})" if model.provider == agent.spec.provider else ""
    advice = f"mend {models.setting}{usual}{_address(model)}"
    tell(models.subject("model"), f"{_shown(agent, model)} is not known", advice)
    return False


def _accepted(model: ModelSettings) -> str:
    return f"{model.key_setting} is accepted" if model.api_key else f"{model.provider} answers without one"


def _shown(agent: AgentSettings, model: ModelSettings) -> str:
    """As it is written in the settings."""
    return model.model if model.provider == agent.spec.provider else model.name


async def _check_image_model(agent: AgentSettings, found: Findings) -> None:
    of_provider = (model for model in agent.usable if model.provider == agent.image_provider)
    seller = next(of_provider, None)
    if agent.image_model is None or seller is None or agent.image_model == seller.model:
        return
    error = await _error_of(seller, agent.image_model)
    if error is None:
        found.ok("picture model", agent.image_model)
        return
    if isinstance(error, (ConnectionFailed, TimedOut, BadKey)):
        return  # told of the key, in the line before
    told = f"{agent.image_model} is not known" if _unknown(error) else f"{agent.image_model}: {error.kind}"
    usual = agent.spec.image_model or "none"
    advice = f"mend {agent.spec.image_model_setting} (usually {usual}){_address(seller)}"
    found.warn("picture model", told, advice)


async def _error_of(settings: ModelSettings, name: str) -> ModelError | None:
    """What the provider answers when it is asked about a model, None when all is well."""
    # In a thread, since it imports the SDK.
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


def _unknown(error: ModelError) -> bool:
    return error.status == 404


def _key_finding(models: _List, model: ModelSettings, error: ModelError, found: Findings) -> None:
    status = f" ({error.status})" if error.status else ""
    key, tell = models.subject("key"), found.wrong if models.alone else found.warn
    told = f"{error.kind}{status}" if models.alone else f"{model.provider}: {error.kind}{status}"
    if isinstance(error, BadKey):
        tell(key, told, f"mend {model.key_setting}")
    elif isinstance(error, QuotaUsedUp):
        tell(key, told, f"add credit to the account of {model.key_setting}")
    elif isinstance(error, (ConnectionFailed, TimedOut)):
        tell(key, told, f"check the network{_address(model)}, then check again")
    elif isinstance(error, Retryable):
        found.warn(key, told, "check again later")
    else:
        tell(key, told, f"check {models.setting}{_address(model)}")


def _address(model: ModelSettings) -> str:
    """Where the address is that was asked, unless it is the provider's own."""
    return f" and {model.base_url_setting}" if model.base_url or model.provider in AT_HOME else ""
