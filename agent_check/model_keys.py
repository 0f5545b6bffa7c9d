"""Is a bot's API key accepted, and are its models known? The provider is asked to describe them, at no cost."""

from __future__ import annotations

import asyncio

from agent_check.findings import Findings
from agent_config import AgentSettings
from agent_llm.base import ProviderModel
from agent_llm.errors import BadKey, ConnectionFailed, ModelError, QuotaUsedUp, Retryable, TimedOut
from agent_llm.registry import build_model
from agent_llm.retry import RetryPolicy

SECONDS = 15.0  # for each model, the provider's answer alone
_ONCE = RetryPolicy(attempts=1)


async def check_key(agent: AgentSettings, found: Findings) -> None:
    """The key by way of the model, then the picture model, without which the bot still speaks."""
    if agent.api_key is None:
        found.wrong("key", f"{agent.spec.key_setting} is not set", f"put the key into {agent.spec.key_setting}")
        return
    error = await _error_of(agent, agent.model)
    if error is not None and not _unknown(error):
        _key_finding(agent, error, found)
        return
    found.ok("key", f"{agent.spec.key_setting} is accepted")
    if error is None:
        found.ok("model", agent.model)
    else:
        found.wrong("model", f"{agent.model} is not known", _rename(agent, agent.spec.model_setting, agent.spec.model))
    await _check_image_model(agent, found)


async def _check_image_model(agent: AgentSettings, found: Findings) -> None:
    if agent.image_model is None or agent.image_model == agent.model:
        return
    error = await _error_of(agent, agent.image_model)
    if error is None:
        found.ok("picture model", agent.image_model)
        return
    told = f"{agent.image_model} is not known" if _unknown(error) else f"{agent.image_model}: {error.kind}"
    usual = agent.spec.image_model or "none"
    found.warn("picture model", told, _rename(agent, agent.spec.image_model_setting, usual))


async def _error_of(agent: AgentSettings, name: str) -> ModelError | None:
    """What the provider answers when it is asked about a model, None when all is well."""
    assert agent.api_key is not None
    key = agent.api_key.get_secret_value()
    # In a thread, since it imports the SDK.
    model = await asyncio.to_thread(
        build_model,
        agent.spec.provider,
        api_key=key,
        model=name,
        image_model="",
        base_url=agent.base_url,
        retry=_ONCE,
    )
    try:
        assert isinstance(model, ProviderModel)
        await model.check(timeout=SECONDS)
    except ModelError as error:
        return error
    finally:
        await model.aclose()
    return None


def _unknown(error: ModelError) -> bool:
    return error.status == 404


def _key_finding(agent: AgentSettings, error: ModelError, found: Findings) -> None:
    status = f" ({error.status})" if error.status else ""
    told = f"{error.kind}{status}"
    if isinstance(error, BadKey):
        found.wrong("key", told, f"mend {agent.spec.key_setting}")
    elif isinstance(error, QuotaUsedUp):
        found.wrong("key", told, f"add credit to the account of {agent.spec.key_setting}")
    elif isinstance(error, (ConnectionFailed, TimedOut)):
        found.wrong("key", told, f"check the network{_address(agent)}, then check again")
    elif isinstance(error, Retryable):
        found.warn("key", told, "check again later")
    else:
        found.wrong("key", told, f"check {agent.spec.model_setting}{_address(agent)}")


def _rename(agent: AgentSettings, setting: str, usual: str) -> str:
    return f"mend {setting} (usually {usual}){_address(agent)}"


def _address(agent: AgentSettings) -> str:
    return f" and {agent.spec.base_url_setting}" if agent.base_url else ""
