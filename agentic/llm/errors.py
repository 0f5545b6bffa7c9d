"""Errors of model calls.

    ModelError                  base; carries provider, model, status, request_id
      Retryable                 worth retrying within the deadline; may carry retry_after
        RateLimited             429
        ServerFailed            5xx, overloaded
        ConnectionFailed        no connection, or one cut in mid-answer
      TimedOut                  the call's whole time is used up
      Final                     a retry would end the same way
        BadKey                  401, 403
        QuotaUsedUp             the account has no money or quota left
        BadRequest              400, 404, 413, 422: our request or the model's name is wrong
          PrefillRefused        400: the model does not continue a prefilled answer
          PromptTooLong         400, 413, 422, 429, 500: the prompt is longer than the model's context
          FeatureRefused        400, 404, 422, 500: the model, or its server as it was started, lacks a feature
            ToolsRefused        it calls no functions
            SchemaRefused       it takes no structured output
            TemperatureRefused  it takes no temperature
        Refused                 the model or its filter declined to answer
        BadAnswer               an unusable answer: empty, cut off, wrong shape
        CannotDraw              no picture model is configured
        SessionLost             the session to resume does not exist any more
        NotInstalled            a package that this provider needs is missing

The text of a ModelError names its kind in one line and never contains a key or a prompt.
"""

from __future__ import annotations

from typing import ClassVar

from agentic.llm.types import Usage


class ModelError(Exception):
    """Base of every error of a model call.

    `usage`: the cost of the failed call (a refused or empty answer is billed), None if unknown. `made`: the provider
    may have worked on the call until it was cut off, at an unknown cost. `origin`: the name of the SDK's error, where
    it says more than ours.
    """

    kind = "the model failed"
    usage: Usage | None = None
    made = False
    origin = ""

    def __init__(
        self,
        detail: str = "",
        *,
        provider: str = "",
        model: str = "",
        status: int | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(detail or self.kind)
        self.detail, self.provider, self.model = detail, provider, model
        self.status, self.request_id = status, request_id

    def __str__(self) -> str:
        facts = [f"provider={self.provider}", f"model={self.model}"]
        if self.status is not None:
            facts.append(f"status={self.status}")
        if self.request_id:
            facts.append(f"request_id={self.request_id}")
        return f"{self.kind} ({' '.join(facts)}){': ' + self.detail if self.detail else ''}"


class Retryable(ModelError):
    """Worth retrying within the deadline. `retry_after` is in seconds, None if the provider gave none."""

    retry_after: float | None = None


class RateLimited(Retryable):
    """The provider asks for fewer requests (429)."""

    kind = "the provider asks for fewer requests"


class ServerFailed(Retryable):
    """The provider's server failed or is overloaded (5xx)."""

    kind = "the provider's server failed"


class ConnectionFailed(Retryable):
    """No connection (then `made` is False), or one that was cut."""

    made = True
    kind = "no connection to the provider"


class TimedOut(ModelError):
    """The call's whole time is used up."""

    made = True
    kind = "the model took too long"


class Final(ModelError):
    """A retry would end the same way."""


class BadKey(Final):
    """The API key is refused (401, 403)."""

    kind = "the API key was refused"


class QuotaUsedUp(Final):
    """The account has no money or quota left."""

    kind = "the provider account's quota is used up"


class BadRequest(Final):
    """The request or the model's name is wrong (400, 404, 413, 422)."""

    kind = "the provider did not accept the request"


class PrefillRefused(BadRequest):
    """The model does not continue a prefilled answer (400)."""

    kind = "the model does not continue a prefilled answer"


class PromptTooLong(BadRequest):
    """The prompt is longer than the model's context, as its server has loaded it."""

    kind = "the prompt is longer than the model's context"


class FeatureRefused(BadRequest):
    """The model, or its server as it was started, lacks what the request asked for. `feature` is a field of Profile."""

    feature: ClassVar[str]


class ToolsRefused(FeatureRefused):
    """The model calls no functions."""

    kind, feature = "the model calls no tools", "tools"


class SchemaRefused(FeatureRefused):
    """The model takes no structured output."""

    kind, feature = "the model takes no structured output", "schema"


class TemperatureRefused(FeatureRefused):
    """The model takes no temperature, or only its own."""

    kind, feature = "the model takes no temperature", "temperature"


class Refused(Final):
    """The model or its filter declined to answer."""

    kind = "the model declined to answer"


class BadAnswer(Final):
    """An answer that cannot be used."""

    kind = "the model's answer could not be read"


class CannotDraw(Final):
    """No picture model is configured."""

    kind = "this model does not draw"


class SessionLost(Final):
    """The session of a coding agent cannot be resumed. It was dropped; the next call starts a new one."""

    kind = "the session could not be resumed"


class NotInstalled(Final):
    """A package that this provider needs is not installed."""

    kind = "a package that this provider needs is not installed"


def not_made(error: ModelError) -> ModelError:
    """Mark the error as that of a call that cost nothing, and return it."""
    error.made = False
    return error
