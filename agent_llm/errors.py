"""What can go wrong with a model.

    ModelError                  anything below; carries provider, model, status, request_id
      Retryable                 worth another try inside the deadline; may carry retry_after
        RateLimited             429
        ServerFailed            5xx, overloaded
        ConnectionFailed        no connection, or one cut in mid-answer
      TimedOut                  the call's whole time is used up
      Final                     another try would end the same way
        BadKey                  401, 403
        QuotaUsedUp             the account has no money or quota left
        BadRequest              400, 404, 413, 422: our request or the model's name is wrong
          PrefillRefused        400: it does not go on with an answer that was begun for it
        Refused                 the model or its filter declined to answer
        BadAnswer               an answer that cannot be read: empty, cut off, wrong shape
        CannotDraw              no picture model here
        SessionLost             the conversation that was to go on is not there any more
        NotInstalled            a package that this provider needs is not there

The text of a ModelError names the kind in one line and never holds a key or a prompt.
"""

from __future__ import annotations

from agent_llm.types import Usage


class ModelError(Exception):
    """Base of everything that can go wrong with a model.

    `usage` is what the failed call cost nevertheless (a refused or empty answer is billed), None when nothing is known.
    `made`: the provider may have worked on it until it was cut off, and nobody knows for how much.
    `origin` is the name of the SDK's own error, where it tells more than ours.
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
    """Worth another try inside the deadline. `retry_after` is in seconds, None when the provider said nothing."""

    retry_after: float | None = None


class RateLimited(Retryable):
    """The provider asks for fewer requests (429)."""

    kind = "the provider asks for fewer requests"


class ServerFailed(Retryable):
    """The provider's server failed or is overloaded (5xx)."""

    kind = "the provider's server failed"


class ConnectionFailed(Retryable):
    """No connection (`made` is False then), or one that was cut."""

    made = True
    kind = "no connection to the provider"


class TimedOut(ModelError):
    """The call's whole time is used up."""

    made = True
    kind = "the model took too long"


class Final(ModelError):
    """Another try would end the same way."""


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
    """The model does not go on with an answer that was begun for it (400)."""

    kind = "the model does not take a prefilled answer"


class Refused(Final):
    """The model or its filter declined to answer."""

    kind = "the model declined to answer"


class BadAnswer(Final):
    """An answer that cannot be read."""

    kind = "the model's answer could not be read"


class CannotDraw(Final):
    """No picture model here."""

    kind = "this model does not draw"


class SessionLost(Final):
    """The session of a coding agent cannot be resumed; it was dropped, and the next call begins another one."""

    kind = "the session to go on with is lost"


class NotInstalled(Final):
    """A package that this provider needs is not installed."""

    kind = "a package that this provider needs is not installed"


def not_made(error: ModelError) -> ModelError:
    """The same: the call never came so far as to cost anything."""
    error.made = False
    return error
