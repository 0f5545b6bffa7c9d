"""Errors of model calls, and how a provider's HTTP error becomes one of them.

The text of a ModelError names its kind in one line and never contains a key or a prompt.

The status and the error's codes decide if possible. But many providers use one code for all errors
("invalid_request_error") and say the rest in words: no credit left (400, 402, 403, or 429), a model without tools (400,
404, 422, or 500), a prompt that is too long (400, 413, 422, 429, or 500). Only the error's own messages are searched,
never a quoted request. Only error codes are kept as detail, never the provider's text, which may quote the key or the
prompt.
"""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from agentic.llm.types import Usage


class ModelError(Exception):
    """Base of every error of a model call.

    `usage`: the failed call's cost (a refused or empty answer is billed), None if unknown. `made`: the provider may
    have worked on the call until it was cut off, at an unknown cost. `origin`: the name of the SDK's error, if it says
    more than ours.

    For retry.py: `falls_back` if another model of a list may answer instead, and `rest`, the seconds for which the
    failed model is then avoided. Only a Retryable error makes it ask the same model again.
    """

    kind = "the model failed"
    falls_back: ClassVar[bool] = False
    rest: ClassVar[float] = 0.0
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
    """Worth retrying before the deadline. `retry_after` is in seconds, or None if the provider didn't send it."""

    falls_back, rest = True, 30.0
    retry_after: float | None = None


class RateLimited(Retryable):  # 429
    kind = "the provider's rate limit was reached"


class ServerFailed(Retryable):  # 5xx, overloaded
    kind = "the provider's server failed"


class ConnectionFailed(Retryable):
    """The connection failed (then `made` is False) or broke during the answer."""

    made = True
    kind = "no connection to the provider"


class TimedOut(ModelError):
    """The call took longer than its timeout."""

    made, falls_back, rest = True, True, 60.0
    kind = "the model took too long"


class ServerBusy(ModelError):
    """The call waited in the queue of a model server at home until its time was over, or lost its place to a person's
    call and had too little time left for another attempt."""

    falls_back = True
    kind = "the model server was busy with other turns"


class Final(ModelError):
    """A retry would fail in the same way, and so would another model, unless `falls_back`."""


class BadKey(Final):  # 401, 403
    kind, falls_back, rest = "the API key was rejected", True, 900.0


class QuotaUsedUp(Final):
    kind, falls_back, rest = "the provider account's quota is used up", True, 900.0


class NotInstalled(Final):
    kind, falls_back, rest = "a package that this provider needs isn't installed", True, 900.0


class BadRequest(Final):
    """The request or the model's name is wrong (400, 404, 413, 422)."""

    kind = "the provider rejected the request"


class PrefillRefused(BadRequest):  # 400
    kind = "the model can't continue a prefilled answer"


class PromptTooLong(BadRequest):
    """The prompt is longer than the model's context. Another model's context may be larger."""

    kind, falls_back = "the prompt is longer than the model's context", True


class FeatureRefused(BadRequest):
    """The model, or its server as configured, lacks a feature of the request. `feature` is a field of Profile. model.py
    asks again without it."""

    feature: ClassVar[str]


class ToolsRefused(FeatureRefused):
    kind, feature = "the model doesn't support tools", "tools"


class SchemaRefused(FeatureRefused):
    kind, feature = "the model doesn't support structured output", "schema"


class TemperatureRefused(FeatureRefused):  # or only the default is accepted
    kind, feature = "the model doesn't support a temperature", "temperature"


class ThinkingRefused(FeatureRefused):
    kind, feature = "the model doesn't support this thinking level", "thinking"


class MaxTokensRefused(FeatureRefused):  # models of OpenAI that reason, behind Azure and gateways
    kind, feature = "the model calls its limit max_completion_tokens", "max_tokens"


class StopsRefused(FeatureRefused):
    kind, feature = "the model doesn't support stop sequences", "max_stops"


class StreamUsageRefused(FeatureRefused):
    kind, feature = "the server doesn't support stream_options", "stream_usage"


class Refused(Final):  # by the model or its filter
    kind = "the model declined to answer"


class BadAnswer(Final):  # empty, cut off, wrong shape
    kind = "the model's answer was unreadable"


class CannotDraw(Final):  # no image model is configured
    kind = "this model can't draw"


class SessionLost(Final):
    """A coding agent's session can't be resumed. It was dropped, and the next call starts a new session."""

    kind = "the session couldn't be resumed"


def not_made(error: ModelError) -> ModelError:
    """Mark the error's call as free, and return the error."""
    error.made = False
    return error


_NO_MONEY = (
    *("insufficient_quota", "billing_hard_limit_reached", "credit balance", "available credits", "billing_error"),
    *("monthly spending limit", "spending cap", "credits exhausted"),
)
_BAD_KEY = ("api_key_invalid", "api key not valid", "incorrect api key", "invalid_api_key")
_REFUSED = (
    *("content_policy_violation", "moderation_blocked", "usage guidelines", "content_filter", "safety_violations"),
)
# The words of Anthropic and Bedrock, Mistral, vLLM, and of DeepSeek outside its beta address.
_NO_PREFILL = (
    *("prefill", "must end with a user message", "expected last role", "continue_final_message"),
    "chat prefix completion",
)
_CODE = re.compile(r"[A-Za-z0-9_.:\[\]-]{1,60}")

# --- features that a model or its server lacks ----------------------------------------------------------------------

_LACKS = (
    r"(?:not (?:been )?(?:support(?:ed)?|enabled|available|allowed|permitted|implemented)"
    r"|unsupported|unavailable|disabled|\W*extra inputs are not permitted)"
)
_LACKING = (
    r"(?:(?:not|n't|cannot|no endpoints(?: found)? that) (?:support(?:s|ed|ing)?|use)|unsupported"
    r"|does not (?:allow|accept)|(?:not|n't) (?:capable of|compatible with)"
    r"|unrecognized request arguments? supplied|unknown (?:name|field|parameter)"
    r"|argument not supported on this model|extra inputs are not permitted, field)"
)
_TOOLS = (
    r"(?:tools|tool (?:use|calls?|calling)(?: with function calling)?|tool_(?:use|calls?|calling)|tool_?config"
    r"|function[ _-]?call(?:s|ing)?|functions)"
)
_SCHEMA = (
    r"(?:json[ _-]?(?:mode|schema|object)|structured[ _-]?outputs?|response[ _-]?(?:format|schema|mime[ _-]?type)"
    r"|guided[ _-]?(?:json|decoding)|output_config|grammars?)"
)


def _refusal_of(feature: str) -> re.Pattern[str]:
    """Match "the feature is not supported" and "does not support the feature", but only without other words between:
    an error in a single tool's schema must not switch off all tools."""
    quoted = rf"[`'\"\[{{(]*{feature}[`'\"\])}}]*+"
    other = r"(?: (?:and|or) [`'\"]?\w+[`'\"]?)?"
    return re.compile(
        rf"(?<!parallel )(?<!mode for )(?<!\d )\b{quoted}{other}(?: param(?:eter)?s?)?(?: (?:is|are|has|have))?"
        rf"(?: currently)? ?{_LACKS}\b"
        rf"|{_LACKING}\b:?(?: (?:the|any|parameters?:?|param|native|custom|provided|or|and)| \w+,)*[ :]*"
        rf"{quoted}(?!\w|[.\[]\w| (?:types?|choice|named?|at)\b)"
        rf"|\b(?:no|lacks?) (?:support for )?{quoted} support\b"
    )


_NO_TOOLS = re.compile(
    # OpenRouter, Groq, Mistral, DeepSeek, Together, Google AI Studio, Vertex, xAI, Bedrock, Ollama, Azure; llama.cpp
    # and vLLM
    _refusal_of(_TOOLS).pattern
    + r"|does(?: not|n't) support tool\b(?! type| choice)|\b(?:no|lacks?) tool support"
    + r"|tools? (?:param|choice) requires --|requires --(?:enable-auto-tool-choice|jinja)"
)
_NO_SCHEMA = re.compile(
    _refusal_of(_SCHEMA).pattern
    # Groq, Google, and Cerebras take tools or structured output, not both
    + rf"|{_SCHEMA}[`'\"]? (?:cannot be (?:combined|used)|is incompatible) with"
    + rf"|{_TOOLS}[`'\"]? (?:cannot be (?:combined|used) with|is incompatible with|with(?: a)?) [`'\"]?{_SCHEMA}"
)
_NO_TEMPERATURE = re.compile(
    _refusal_of("temperature").pattern
    + r"|temperature\W+does not support|temperature(?: and top_p)?\W+(?:is|are) (?:deprecated|not)"
    r"|invalid temperature: only 1 is allowed"
)
_NO_THINKING = _refusal_of(
    r"(?:reasoning(?:[._ ]?effort)?|effort|(?:adaptive |disabled )?thinking(?:[._ ]?(?:type|level|config))?)"
)
_WANTS_COMPLETION_TOKENS = re.compile(r"\buse [`'\"]?max_completion_tokens")
_NO_STOPS = _refusal_of(r"stop(?:[_ ]?sequences?)?")
_NO_STREAM_USAGE = _refusal_of(r"(?:stream_options(?:\.include_usage)?|include_usage)")
_FEATURES = (
    (ToolsRefused, ("tools", "functions"), _NO_TOOLS),
    (SchemaRefused, ("response_format", "text.format", "response_schema", "output_config"), _NO_SCHEMA),
    (TemperatureRefused, ("temperature",), _NO_TEMPERATURE),
    (ThinkingRefused, ("reasoning.effort", "reasoning_effort", "output_config.effort", "thinking"), _NO_THINKING),
    (MaxTokensRefused, (), _WANTS_COMPLETION_TOKENS),
    (StopsRefused, ("stop",), _NO_STOPS),
    (StreamUsageRefused, ("stream_options", "stream_options.include_usage"), _NO_STREAM_USAGE),
)
_FEATURE_STATUSES = (400, 404, 405, 422, 500, 501)
_UNSUPPORTED = {"unsupported_parameter", "unsupported_value", "extra_forbidden"}

# --- a prompt that is longer than the context -----------------------------------------------------------------------

_TOO_LONG_CODES = {
    *("context_length_exceeded", "context_window_exceeded", "exceed_context_size_error", "request_too_large"),
    *("model_context_window_exceeded", "tokens_limit_reached"),
    "1261",  # Zhipu, whose words may be Chinese
}
_LENGTH = r"(?:length|window|size|limit)"
_INPUT = r"(?:prompt|input|inputs|messages|request|conversation|context)"
_TOO_LONG = re.compile(
    # llama.cpp, and the codes in the prose of gateways; OpenAI, Anthropic, MiniMax, Kimi
    rf"context[ _-]?{_LENGTH}[ _-]?(?:(?:was|is|has been|been) )?exceed|exceed_context_size"
    rf"|context (?:window )?overflow|too large to process|larger than the max context size"
    rf"|exceed(?:s|ed|ing)?(?: (?!output|completion)\S+){{0,4}} (?:context|token)[ _-]?{_LENGTH}"
    rf"|context {_LENGTH} exceeds"
    rf"|exceed(?:s|ed|ing)? (?:the )?(?:model'?s? )?(?:max(?:imum)? |available )?context\b"
    # OpenAI, vLLM, DeepSeek, OpenRouter, LM Studio, xAI, Mistral, SambaNova
    rf"|max(?:imum)?[ _](?:allowed |supported )?(?:context|prompt|input|sequence|model)[ _]"
    rf"(?:length|size|window|tokens)|context length of only|too large for model with|n_keep\b.{{0,20}}\bn_ctx\b"
    # Anthropic, Bedrock, Ollama, Zhipu; Google; Cohere; vLLM; GitHub
    rf"|\b{_INPUT}\b\W+(?:(?:is|are|was|be) )?too (?:long|large)|\b{_INPUT} exceeds max|too long to fit"
    rf"|\b{_INPUT} (?:token )?(?:length|size|count)\b[^.]{{0,40}}\bexceed|request body too large"
    rf"|\b(?:input|prompt|total) tokens?(?: count)?\b[^.]{{0,60}}\bexceed|input token count is"
    rf"|too many (?:input |prompt |total )*(?:tokens|text bytes)|expected maxlength: \d+, actual"
    # SGLang, LM Studio, TabbyAPI, TGI; Groq; Alibaba, Baidu
    rf"|(?:longer|greater|larger) than (?:the )?(?:model'?s? |maximum |allowed )*(?:context|model|max_seq_len)"
    rf"|`inputs` tokens \+ `max_new_tokens` must be|`inputs` must have less than"
    rf"|reduce the length of (?:the|your) (?:input |prompt|messages)|range of input length|token length must be in"
    # OpenAI: a message's text, not an id or a name
    rf"|'(?:instructions|input|(?:messages|input)[^']{{0,30}}\.(?:content|text)[^']{{0,30}})': string too long"
    rf"|超长|超过.{{0,12}}(?:长度|上下文)"
)
_TOO_LARGE_FOR_RATE = "request too large for"  # OpenAI and Groq: more than the tokens of a whole minute

# --- statuses -------------------------------------------------------------------------------------------------------

# These fields of an error say what is wrong. Others quote the request ("input", "failed_generation", "metadata").
_CODE_FIELDS = ("code", "type", "status", "error_type", "reason", "__type")
_TEXT_FIELDS = ("message", "msg", "detail", "error", "error_message", "description", "title")
_NESTED_FIELDS = ("error", "errors", "detail", "details", "message", "metadata", "raw")
_MAX_TEXT = 4_000  # characters
_MAX_DEPTH = 8


def error_of_status(
    status: int,
    said: Any,
    *,
    code: str = "",
    headers: Mapping[str, str] | None = None,
    request_id: str | None = None,
    retry_after: float | None = None,
) -> ModelError:
    """Return the error for an HTTP status above 299. `said`, the body as text or parsed JSON, is searched but not
    kept."""
    kind = _kind(status, said, code)
    error = kind(code if _CODE.fullmatch(code) else "", status=status, request_id=request_id)
    if isinstance(error, Retryable):
        error.retry_after = retry_after if retry_after is not None else seconds_to_wait(headers or {})
    return error


def error_of_body(said: Any, request_id: str | None = None) -> ModelError:
    """Return the error for an `error` object in an answer with status 200. A numeric code is an HTTP status."""
    given = said.get("code") if isinstance(said, Mapping) else None
    if isinstance(given, int) and 300 <= given < 600:
        return error_of_status(given, said, request_id=request_id)
    kind = _kind(400, said, "")
    if kind is BadRequest:
        return ServerFailed("an error within the answer", request_id=request_id)
    return kind(request_id=request_id)


def _kind(status: int, said: Any, code: str) -> type[ModelError]:
    found = list(_facts(said))
    codes = {code.lower(), *(value for field, value in found if field in _CODE_FIELDS)}
    text = " ".join(value for field, value in found if field in _TEXT_FIELDS)[:_MAX_TEXT]
    words = f"{' '.join(codes)} {text}"
    if status == 402 or (status < 500 and any(sign in words for sign in _NO_MONEY)):
        return QuotaUsedUp
    if status in (400, 403) and any(sign in words for sign in _REFUSED):
        return Refused
    if status in (401, 403) or (status == 400 and any(sign in words for sign in _BAD_KEY)):
        return BadKey
    if status == 413 or codes & _TOO_LONG_CODES:
        return PromptTooLong
    if status == 429:
        return PromptTooLong if _TOO_LARGE_FOR_RATE in text else RateLimited
    if status in _FEATURE_STATUSES:
        parameters = {value for field, value in found if field == "param"}
        for kind, names, refusal in _FEATURES:
            if (codes & _UNSUPPORTED and parameters.intersection(names)) or refusal.search(text):
                return kind
    if status in (400, 422, 500) and _TOO_LONG.search(text):
        return PromptTooLong
    if "tool_use_failed" in codes:
        return ServerFailed  # Groq: the model wrote an unreadable call; another attempt may succeed
    if status >= 500 or status in (408, 409, 425, 499):
        return ServerFailed
    if status in (400, 422) and any(sign in words for sign in _NO_PREFILL):
        return PrefillRefused
    return BadRequest


def _facts(said: Any, field: str = "message", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield an error's fields and their texts in lower case. Gateways put a provider's error as JSON into their own
    text."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(said, Mapping):
        if isinstance(place := said.get("loc"), list):  # of FastAPI: ["body", "tools"]
            yield "param", ".".join(str(step) for step in place[1:]).lower()
        for key, value in said.items():
            if key in (*_CODE_FIELDS, *_TEXT_FIELDS, *_NESTED_FIELDS, "param"):
                yield from _facts(value, key, depth + 1)
    elif isinstance(said, list):
        for value in said[:20]:
            yield from _facts(value, field, depth + 1)
    elif isinstance(said, str):
        inner = None
        if said.lstrip().startswith(("{", "[")):
            with suppress(ValueError, RecursionError):
                inner = json.loads(said)
        if inner is not None:
            yield from _facts(inner, field, depth + 1)
        else:
            yield "message" if field == "raw" else field, said.lower()


def seconds_to_wait(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Read retry-after-ms or retry-after, in seconds. A date is relative to `now` (unix seconds)."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    date = email.utils.parsedate_tz(value)
    if date is None:
        return None
    return max(0.0, email.utils.mktime_tz(date) - (time.time() if now is None else now))


def _number(value: str) -> float | None:
    return float(value) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value.strip()) else None
