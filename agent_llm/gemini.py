"""Google by google-genai's generate_content: https://ai.google.dev/api/generate-content

The SDK uses aiohttp where it is installed, so its connection errors are aiohttp's (or httpx2's where it is not). Parts
marked `thought` are reasoning. A prompt that is blocked has no candidates. The provider counts thinking beside the
candidates' tokens; our output tokens include it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_llm import stainless
from agent_llm.base import Access, ProviderModel
from agent_llm.errors import BadAnswer, ConnectionFailed, ModelError, QuotaUsedUp, Refused, TimedOut
from agent_llm.failures import error_of_status
from agent_llm.profiles import Profile
from agent_llm.reading import picture_from
from agent_llm.retry import Retrier
from agent_llm.shaping import Turn, schema_of, turns_of, unique_sources, wants_schema
from agent_llm.types import Drawing, Message, Prompt, Reply, Source, StopReason, Usage

if TYPE_CHECKING:
    from google.genai import errors, types

# What a model or its filter declined; the names are those of FinishReason and BlockedReason.
_REFUSALS = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "JAILBREAK",
        "ESCALATION",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)
_STOPS: Mapping[str, StopReason] = {"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length"}
_RETRY_DELAY = re.compile(r'"retryDelay":\s*"(\d{1,6}(?:\.\d{1,9})?)s"')


def load() -> None:
    """Import the SDK; takes a third of a second."""
    from google.genai import types  # noqa: F401

    stainless.load()


class GeminiModel(ProviderModel):
    """A Gemini model, and its sibling that draws."""

    provider = "google"

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        super().__init__(access, retrier)
        from google import genai
        from google.genai import types

        self._sdk_errors = _sdk_errors()
        tls = {"ssl": stainless.ssl_context(), "verify": stainless.ssl_context()}
        # One attempt: without retry options the SDK tries once more by itself after a lost connection.
        options = types.HttpOptions(
            base_url=access.base_url,
            retry_options=types.HttpRetryOptions(attempts=1),
            client_args={"verify": tls["verify"]},
            async_client_args=tls,
        )
        self._client = genai.Client(vertexai=False, api_key=access.api_key, http_options=options)

    async def aclose(self) -> None:
        await self._client.aio.aclose()
        self._client.close()

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        turns = turns_of(prompt, history, self.profile)
        return {"contents": [_content(turn) for turn in turns], "config": config_of(prompt, self.profile)}

    async def _ask(self, request: Mapping[str, Any], seconds: float) -> Reply:
        return reply_of(await self._generate(self.access.model, request["contents"], request["config"], seconds))

    async def _paint(self, prompt: str, seconds: float) -> Drawing:
        answer = await self._generate(
            self.access.image_model, prompt, {"response_modalities": ["IMAGE"], **self.profile.image}, seconds
        )
        return drawing_of(answer)

    async def _generate(
        self, model: str, contents: Any, config: Mapping[str, Any], seconds: float
    ) -> types.GenerateContentResponse:
        from google.genai import types

        options = types.HttpOptions(timeout=max(1, round(seconds * 1000)))
        settings = types.GenerateContentConfig(http_options=options, **config)
        return await self._client.aio.models.generate_content(model=model, contents=contents, config=settings)

    def _explain(self, error: Exception) -> ModelError:
        return _explained(error)


def config_of(prompt: Prompt, profile: Profile) -> dict[str, Any]:
    """The fields of a GenerateContentConfig, but for the timeout."""
    # No function of ours is to be called: without this the SDK looks for them at each call.
    config: dict[str, Any] = {
        "max_output_tokens": prompt.max_output_tokens,
        "automatic_function_calling": {"disable": True},
    }
    if prompt.system:
        config["system_instruction"] = prompt.system
    if profile.effort:
        config["thinking_config"] = {"thinking_level": profile.effort}
    if prompt.search:
        config["tools"] = [dict(profile.search)]
    if prompt.schema is not None and wants_schema(prompt, profile):
        config["response_mime_type"] = "application/json"
        config["response_json_schema"] = schema_of(prompt.schema, profile)
    return config


def _content(turn: Turn) -> types.Content:
    from google.genai import types

    role = "model" if turn.role == "assistant" else "user"
    return types.Content(
        role=role,
        parts=[
            types.Part(text=piece.text)
            if piece.picture is None
            else types.Part(inline_data=types.Blob(data=piece.picture.data, mime_type=piece.picture.media_type))
            for piece in turn.parts
        ],
    )


def reply_of(answer: types.GenerateContentResponse) -> Reply:
    """The Reply in an answer; Refused where the prompt was blocked."""
    candidate = _candidate(answer)
    return Reply(
        text="".join(piece.text for piece in _parts(candidate) if piece.text and not piece.thought),
        usage=_usage(answer, candidate),
        request_id=_request_id(answer),
        stop=_stop(candidate),
        sources=unique_sources(_sources(candidate)),
    )


def drawing_of(answer: types.GenerateContentResponse) -> Drawing:
    """The picture in an answer; Refused where there is none because of a filter."""
    candidate = _candidate(answer)
    usage = _usage(answer, candidate)
    for piece in _parts(candidate):
        if piece.inline_data is not None and piece.inline_data.data and not piece.thought:
            counted = Usage(calls=1, pictures=1, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
            return Drawing(picture=picture_from(piece.inline_data.data), usage=counted)
    error = Refused() if _stop(candidate) == "refusal" else BadAnswer("no picture")
    error.usage, error.request_id = usage, _request_id(answer)
    raise error


def _candidate(answer: types.GenerateContentResponse) -> types.Candidate:
    if answer.candidates:
        return answer.candidates[0]
    feedback = answer.prompt_feedback
    reason = feedback.block_reason if feedback else None
    if reason is not None:
        raise Refused(str(reason.value), request_id=_request_id(answer))
    raise BadAnswer("empty", request_id=_request_id(answer))


def _parts(candidate: types.Candidate) -> Sequence[types.Part]:
    return (candidate.content.parts or ()) if candidate.content else ()


def _stop(candidate: types.Candidate) -> StopReason:
    reason = str(candidate.finish_reason.value) if candidate.finish_reason else "STOP"
    return "refusal" if reason in _REFUSALS else _STOPS.get(reason, "other")


def _sources(candidate: types.Candidate) -> Iterator[Source]:
    grounding = candidate.grounding_metadata
    for chunk in (grounding.grounding_chunks or ()) if grounding else ():
        if chunk.web is not None:
            yield Source(chunk.web.title or "", chunk.web.uri or "")


def _usage(answer: types.GenerateContentResponse, candidate: types.Candidate) -> Usage:
    counted, grounding = answer.usage_metadata, candidate.grounding_metadata
    searches = len(grounding.web_search_queries or ()) if grounding else 0
    if counted is None:
        return Usage(calls=1, searches=searches)
    thoughts = counted.thoughts_token_count or 0
    return Usage(
        calls=1,
        input_tokens=(counted.prompt_token_count or 0) + (counted.tool_use_prompt_token_count or 0),
        cached_tokens=counted.cached_content_token_count or 0,
        output_tokens=(counted.candidates_token_count or 0) + thoughts,
        reasoning_tokens=thoughts,
        searches=searches,
    )


def _request_id(answer: types.GenerateContentResponse) -> str | None:
    return answer.response_id


def _sdk_errors() -> tuple[type[Exception], ...]:
    """aiohttp's too where the SDK uses it; the SDK stumbles over answers of an odd shape by the last three."""
    from google.genai import errors

    found: tuple[type[Exception], ...] = (
        errors.APIError,
        *stainless.transport_errors(),
        AttributeError,
        KeyError,
        TypeError,
    )
    try:
        import aiohttp
    except ImportError:
        return found
    return (*found, aiohttp.ClientError)


def _explained(error: Exception) -> ModelError:
    from google.genai import errors

    if isinstance(error, errors.APIError):
        return _of_status(error)
    if isinstance(error, TimeoutError):
        return TimedOut()
    if isinstance(error, (ValueError, AttributeError, KeyError, TypeError)):
        return BadAnswer("not what the API promises")
    if type(error).__module__.startswith("httpx2"):
        return stainless.explain(error, "")
    return ConnectionFailed(type(error).__name__)


def _of_status(error: errors.APIError) -> ModelError:
    """Google's 429 says "exceeded your quota" for a minute's and a day's limit alike; only the limit's id tells."""
    said = json.dumps(error.details, default=str)
    headers = getattr(error.response, "headers", None) or {}
    wait = _RETRY_DELAY.search(said)
    if error.code == 429 and "PerDay" in said:
        return QuotaUsedUp(error.status or "", status=429)
    return error_of_status(
        int(error.code or 0),
        said,
        code=error.status or "",
        headers=headers,
        request_id=headers.get("x-request-id"),
        retry_after=float(wait[1]) if wait else None,
    )
