"""Translate a configured model into the arguments of agentic.llm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent_config import EndpointSettings, ModelSettings
from agentic.llm.endpoints import ENDPOINTS, Aws, Endpoint, profile_at
from agentic.llm.pricing import Rates, at_home
from agentic.llm.profiles import Profile, profile_of


def access(model: ModelSettings) -> dict[str, Any]:
    """The arguments of `agentic.llm.registry.build_model` for this model."""
    endpoint = model.endpoint
    return {
        "provider": model.provider,
        "api_key": model.api_key.get_secret_value() if model.api_key else "",
        "model": model.model,
        "base_url": model.base_url,
        "price_in": endpoint.price_in if endpoint else None,
        "price_out": endpoint.price_out if endpoint else None,
        "endpoint": _endpoint(endpoint) if endpoint else None,
        "aws": _aws(model),
    }


def profile(model: ModelSettings) -> Profile:
    """The model's capabilities, with the owner's settings of its endpoint."""
    endpoint = endpoint_of(model)
    return profile_at(endpoint, model.model) if endpoint else profile_of(model.provider, model.model)


def is_free(model: ModelSettings) -> bool:
    """Whether calls cost nothing: the server is the owner's, and no price is set."""
    known = ENDPOINTS.get(model.provider)
    return rates(model) is None and at_home(model.base_url or (known.base_url if known else None))


def rates(model: ModelSettings) -> Rates | None:
    """The owner's prices; None where none is set."""
    endpoint = model.endpoint
    if endpoint is None or (endpoint.price_in is None and endpoint.price_out is None):
        return None
    return Rates(endpoint.price_in or 0.0, endpoint.price_out or 0.0)


def endpoint_of(model: ModelSettings) -> Endpoint | None:
    """The model's endpoint with the owner's changes; None for a provider with an SDK of its own."""
    return _endpoint(model.endpoint) if model.endpoint else ENDPOINTS.get(model.provider)


def _endpoint(wanted: EndpointSettings) -> Endpoint:
    known = ENDPOINTS.get(wanted.name) or Endpoint(name=wanted.name, base_url="")
    given = {name: getattr(wanted, name) for name in ("base_url", "api", "prefill", "stream_usage")}
    return replace(
        known,
        **{name: value for name, value in given.items() if value is not None},
        fields={**known.fields, **wanted.fields},
        profile={**known.profile, **wanted.profile.changes},
    )


def _aws(model: ModelSettings) -> Aws | None:
    if model.aws is None:
        return None
    secrets = {name: getattr(model.aws, name) for name in ("access_key", "secret_key", "session_token")}
    return Aws(
        region=model.aws.region,
        profile=model.aws.profile,
        **{name: value.get_secret_value() for name, value in secrets.items() if value is not None},
    )
