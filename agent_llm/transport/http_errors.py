"""Map a provider's HTTP error to one of ours.

Statuses mean the same everywhere, except for money: "no credit left" comes as 400, 402, 403 or 429, recognisable only
by its words. Only error codes are kept as detail, never the provider's prose, which may quote the key or the prompt.
"""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping

from agent_llm.errors import (
    BadKey,
    BadRequest,
    ModelError,
    PrefillRefused,
    PromptTooLong,
    QuotaUsedUp,
    RateLimited,
    Refused,
    Retryable,
    ServerFailed,
    ToolsRefused,
)

_NO_MONEY = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "credit balance",
    "available credits",
    "monthly spending limit",
    "spending cap",
    "credits exhausted",
    "billing_error",
)
_BAD_KEY = ("api_key_invalid", "api key not valid", "incorrect api key", "invalid_api_key")
_REFUSED = (
    "content_policy_violation",
    "moderation_blocked",
    "usage guidelines",
    "content_filter",
    "safety_violations",
)
# The words of Anthropic and Bedrock, Mistral, vLLM, and of DeepSeek outside its beta address.
_NO_PREFILL = (
    "prefill",
    "must end with a user message",
    "expected last role",
    "continue_final_message",
    "chat prefix completion",
)
# The words of Ollama, llama.cpp (with status 500) and vLLM.
_NO_TOOLS = ("does not support tools", "tools param requires --jinja", "requires --enable-auto-tool-choice")
# The words of OpenAI and most others, vLLM, llama.cpp, LM Studio (two), Anthropic.
_TOO_LONG = (
    "context_length_exceeded",
    "maximum context length",
    "exceed_context_size",
    "context length of only",
    "context size has been exceeded",
    "prompt is too long",
)
_CODE = re.compile(r"[A-Za-z0-9_.:\[\]-]{1,60}")


def error_of_status(
    status: int,
    said: str,
    *,
    code: str = "",
    headers: Mapping[str, str] | None = None,
    request_id: str | None = None,
    retry_after: float | None = None,
) -> ModelError:
    """Return the error for an HTTP status above 299. `said`, the whole body, is searched but not kept."""
    words = f"{code} {said}".lower()
    kind = _kind(status, words)
    error = kind(code if _CODE.fullmatch(code) else "", status=status, request_id=request_id)
    if isinstance(error, Retryable):
        error.retry_after = retry_after if retry_after is not None else seconds_to_wait(headers or {})
    return error


def _kind(status: int, words: str) -> type[ModelError]:
    if status == 402 or (status < 500 and any(sign in words for sign in _NO_MONEY)):
        return QuotaUsedUp
    if status in (400, 403) and any(sign in words for sign in _REFUSED):
        return Refused
    if status in (401, 403) or (status == 400 and any(sign in words for sign in _BAD_KEY)):
        return BadKey
    if status == 429:
        return RateLimited
    if status in (400, 422, 500) and any(sign in words for sign in _NO_TOOLS):
        return ToolsRefused
    if status in (400, 413, 500) and any(sign in words for sign in _TOO_LONG):
        return PromptTooLong
    if status >= 500 or status in (408, 409, 425, 499):
        return ServerFailed
    if status in (400, 422) and any(sign in words for sign in _NO_PREFILL):
        return PrefillRefused
    return BadRequest


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
