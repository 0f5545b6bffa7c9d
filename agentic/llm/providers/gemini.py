"""Google's API with google-genai's client: https://ai.google.dev/api/generate-content

Requests and answers are plain JSON: the request goes into the SDK's `extra_body`, and the answer is its raw response.
The SDK's models cost 0.2 ms for each part of a history and fail on odd answers, so only its transport is used: address,
authentication, connections, and errors. The SDK uses aiohttp if it is installed, so connection errors are aiohttp's.

Parts marked `thought` are reasoning. A blocked prompt has no candidates. The provider's output tokens exclude thinking;
our output tokens include it. A call's part has the model's signature, which is sent back in the same place:
https://ai.google.dev/gemini-api/docs/thought-signatures. Each event of a stream is a separate answer with the next
parts of the one candidate.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

from agentic.llm import http, turns
from agentic.llm.errors import BadAnswer, ConnectionFailed, ModelError, QuotaUsedUp, Refused, error_of_status
from agentic.llm.model import KEEP_ALIVE_SECONDS, Access, ProviderModel, StreamListener
from agentic.llm.profiles import Profile
from agentic.llm.retry import Retrier
from agentic.llm.schemas import json_object, number, part, parts, picture_of, schema_for, text
from agentic.llm.turns import Part, build_turns
from agentic.llm.types import Drawing, Message, Prompt, Reply, Source, StopReason, ToolCall, ToolRound, Usage

if TYPE_CHECKING:
    import aiohttp
    from google.genai import types

# The names of FinishReason and BlockedReason that mean that a model or its filter declined.
_REFUSALS = frozenset(
    {
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK", "ESCALATION"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    }
)
_STOPS: Mapping[str, StopReason] = {"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length"}
_RETRY_DELAY = re.compile(r'"retryDelay":\s*"(\d{1,6}(?:\.\d{1,9})?)s"')
_ODD_ANSWERS = (AttributeError, KeyError, TypeError)  # what the SDK raises for them


class GeminiModel(ProviderModel):
    provider = "google"
    draws = True

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        super().__init__(access, retrier)
        from google import genai
        from google.genai import errors, types

        self._sdk_errors = (errors.APIError, ErrorWithin, *http.transport_errors(), *_ODD_ANSWERS)
        tls = http.ssl_context()
        # One attempt: without retry options the SDK itself retries once after a lost connection.
        options = types.HttpOptions(
            base_url=access.base_url,
            retry_options=types.HttpRetryOptions(attempts=1),
            client_args={"verify": tls},
            async_client_args={"ssl": tls, "verify": tls, "middlewares": (http.bound_middleware,)},
        )
        self._client = genai.Client(vertexai=False, api_key=access.api_key, http_options=options)
        self._session: aiohttp.ClientSession | None = None

    async def aclose(self) -> None:
        await self._client.aio.aclose()
        self._client.close()
        if self._session is not None:
            await self._session.close()

    @property
    def _api(self) -> Any:
        """The SDK's sender with our own session: the SDK's session uses two threads per request to look for proxies and
        passwords."""
        import aiohttp

        api = self._client.aio.models._api_client
        if self._session is None:
            proxies = bool(getproxies()) and not http.on_loopback(self.access.base_url or "")
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=proxies)
            api._http_options.aiohttp_client = self._session
        return api

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        """Return the body of POST /v1beta/models/{model}:generateContent."""
        profile = self.profile
        config: dict[str, Any] = {"maxOutputTokens": prompt.max_output_tokens}
        if effort := turns.effort_of(prompt, profile):
            thoughts = {"includeThoughts": True} if prompt.thinking is not None else {}
            config["thinkingConfig"] = {"thinkingLevel": effort, **thoughts}
        if (schema := schema_for(prompt, profile)) is not None:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = schema
        config |= turns.sampling_of(prompt, profile, "stopSequences")
        contents: list[dict[str, Any]] = [
            {"role": "model" if turn.role == "assistant" else "user", "parts": [_part(piece) for piece in turn.parts]}
            for turn in build_turns(prompt, history, profile)
        ]
        for place, step in enumerate(prompt.rounds):
            contents += _round(step, place, profile, self.name)
        request: dict[str, Any] = {"contents": contents, "generationConfig": config}
        tools: list[dict[str, Any]] = [dict(profile.search)] if prompt.search else []
        functions = [turns.function_of(tool, profile, "parametersJsonSchema") for tool in prompt.tools]
        for function in functions:
            if not function["parametersJsonSchema"]["properties"]:  # an object without properties is refused
                del function["parametersJsonSchema"]
        tools += [{"functionDeclarations": functions}] if functions else []
        if tools:
            request["tools"] = tools
        if prompt.search and prompt.tools:
            request |= profile.tool_and_search_extra
        if prompt.system:
            request["systemInstruction"] = {"parts": [{"text": prompt.system}]}
        return request

    async def _ask(self, request: Mapping[str, Any], seconds: float, listener: StreamListener | None) -> Reply:
        if listener is None:
            (body,) = await self._send(self.access.model, "generateContent", request, seconds)
            return _reply(json_object(body), self.name)

        # The SDK's own stream fails on comments and has no size limit.
        method = "streamGenerateContent?alt=sse"
        response = await self._send(self.access.model, method, request, seconds, stream=True)
        try:
            answer = await gather(response.content.iter_any(), listener)
        finally:
            response.close()  # a response that was read to its end has released its connection already
        return _reply(answer, self.name)

    async def _send(
        self, model: str, method: str, request: Mapping[str, Any], seconds: float, *, stream: bool = False
    ) -> Any:
        """Do the last two steps of the SDK's `generate_content`, with its authentication and errors. Its earlier steps
        are slow, because they check every field of the request."""
        api = self._api
        path = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        # The SDK deep-copies its configuration at each call, with the whole conversation in it.
        uncopied = {
            key: list(map(_Uncopied, value)) if isinstance(value, list) else value for key, value in request.items()
        }
        asked = api._build_request("post", f"{path}:{method}", {}, _options(seconds, uncopied))
        return (await api._async_request_once(asked, stream, implicit_retry=False)).response_stream

    async def _paint(self, prompt: str, seconds: float) -> Drawing:
        request = {
            "contents": [{"role": "user", "parts": [{"text": prompt}]}],
            "generationConfig": {"responseModalities": ["IMAGE"], **self.profile.image},
        }
        (body,) = await self._send(self.access.image_model, "generateContent", request, seconds)
        answer = json_object(body)
        candidate = _candidate(answer)
        usage = _usage(answer, candidate)
        for piece in parts(part(candidate, "content"), "parts"):
            data = text(part(piece, "inlineData"), "data")
            if data and not piece.get("thought"):
                counted = Usage(calls=1, pictures=1, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
                return Drawing(picture=picture_of(data), usage=counted)
        error = Refused() if _stop(candidate) == "refusal" else BadAnswer("no picture")
        error.usage, error.request_id = usage, text(answer, "responseId") or None
        raise error

    async def _look(self, seconds: float) -> None:
        from google.genai import types

        assert self._api is not None  # sets our session, which this call uses too
        config = types.GetModelConfig(http_options=_options(seconds))
        await self._client.aio.models.get(model=self.access.model, config=config)

    def _explain(self, error: Exception) -> ModelError:
        """Return our error. Google's 429 says "exceeded your quota" for limits per minute and per day; only the id
        differs."""
        from google.genai import errors

        if isinstance(error, ErrorWithin):
            error = errors.APIError(0, {"error": error.details})
        if not isinstance(error, errors.APIError):
            odd = isinstance(error, _ODD_ANSWERS)
            return BadAnswer("not what the API promises") if odd else http.explain(error, "")
        said = json.dumps(error.details, default=str)
        headers = getattr(error.response, "headers", None) or {}
        wait = _RETRY_DELAY.search(said)
        if error.code == 429 and "PerDay" in said:
            return QuotaUsedUp(error.status or "", status=429)
        return error_of_status(
            int(error.code or 0),
            error.details,
            code=error.status or "",
            headers=headers,
            request_id=headers.get("x-request-id"),
            retry_after=float(wait[1]) if wait else None,
        )


class _Uncopied(dict[str, Any]):
    """A dict that `deepcopy` doesn't copy."""

    def __deepcopy__(self, _: dict[int, Any]) -> _Uncopied:
        return self


def _options(seconds: float, body: dict[str, Any] | None = None) -> types.HttpOptions:
    from google.genai import types

    return types.HttpOptions(timeout=max(1, round(seconds * 1000)), extra_body=body)


# --- requests -------------------------------------------------------------------------------------------------------


def _part(piece: Part) -> dict[str, Any]:
    if piece.picture is None:
        return {"text": piece.text}
    return {"inlineData": {"mimeType": piece.picture.media_type, "data": turns.base64_of(piece.picture)}}


def _round(step: ToolRound, place: int, profile: Profile, asked_by: str) -> list[dict[str, Any]]:
    """Return the model's text and calls, then the user's responses to them in the same order. A response has the id of
    its call, if the call has one."""
    own, pairs = turns.own_round(step, place, asked_by)
    said: list[Mapping[str, Any]] = list(own)
    if not own:
        said += [{"text": step.text}] if step.text.strip() else []
        for at, (call, _) in enumerate(pairs):
            signature = {"thoughtSignature": profile.foreign_signature} if profile.foreign_signature and not at else {}
            function = {"id": call.id, "name": call.name, "args": dict(call.arguments)}
            said.append({"functionCall": function, **signature})
    ids = [text(part(piece, "functionCall"), "id") for piece in said if part(piece, "functionCall")]
    responses: list[dict[str, Any]] = []
    follow: list[dict[str, Any]] = []
    for at, (call, result) in enumerate(pairs):
        shown, pictures = turns.visible_result(result, profile)
        seen = [_part(Part(picture=picture)) for picture in pictures]
        response: dict[str, Any] = {"name": call.name, "response": {"error" if result.is_error else "output": shown}}
        response |= {"id": ids[at]} if at < len(ids) and ids[at] else {}
        if seen and profile.pictures_in_results:
            response["parts"] = seen
        else:
            follow += seen
        responses.append({"functionResponse": response})
    return [{"role": "model", "parts": said}, {"role": "user", "parts": responses + follow}]


# --- answers --------------------------------------------------------------------------------------------------------


async def gather(chunks: AsyncIterator[bytes], listener: StreamListener) -> Mapping[str, Any]:
    """Return the whole answer, without a candidate if none has come, as for a blocked prompt.

    After the end the stream is read for another moment, because counts and sources may come last. Raises
    ConnectionFailed if the stream ends before the answer does, and ErrorWithin.
    """
    answer, candidate, pieces = dict[str, Any](), dict[str, Any](), list[dict[str, Any]]()
    said, ended = "", False
    try:
        async with aclosing(http.objects_in(chunks)) as events, asyncio.timeout(None) as rest:
            async for event in events:
                if "error" in event:
                    raise ErrorWithin(part(event, "error"))
                answer |= {key: value for key, value in event.items() if key != "candidates"}
                for more in parts(event, "candidates")[:1]:
                    candidate |= {key: value for key, value in more.items() if key != "content"}
                    for piece in parts(part(more, "content"), "parts"):
                        said += "" if piece.get("thought") else text(piece, "text")
                        _add_piece(pieces, piece)
                if "usageMetadata" in event:  # totals, so the last ones count
                    listener.billed = _usage(answer, {})
                listener(said)
                ended = "finishReason" in candidate or bool(text(part(event, "promptFeedback"), "blockReason"))
                if ended and rest.when() is None:
                    rest.reschedule(asyncio.get_running_loop().time() + http.REST_SECONDS)
    except TimeoutError:
        if not ended:
            raise
    if not ended:
        raise ConnectionFailed("cut in mid-answer")
    content = {"role": "model", "parts": pieces}
    return {**answer, "candidates": [{**candidate, "content": content}]} if candidate else answer


def _add_piece(pieces: list[dict[str, Any]], piece: Mapping[str, Any]) -> None:
    """Add a part. Consecutive texts become one part, unless one of them carries further fields."""
    last = pieces[-1] if pieces else {}
    if last.keys() == piece.keys() and "text" in piece and piece.keys() <= {"text", "thought"}:
        pieces[-1] = {**last, "text": text(last, "text") + text(piece, "text")}
    else:
        pieces.append(dict(piece))


class ErrorWithin(Exception):
    """An event reported an error. `details` is its object, in Google's usual shape."""

    def __init__(self, details: Mapping[str, Any]) -> None:
        super().__init__("an error within the stream")
        self.details = details


def _reply(answer: Mapping[str, Any], asked_by: str) -> Reply:
    """Return the Reply in an answer. Raises Refused for a blocked prompt."""
    candidate = _candidate(answer)
    pieces = parts(part(candidate, "content"), "parts")
    called = [part(piece, "functionCall") for piece in pieces if part(piece, "functionCall")]
    # Older models give calls no ids.
    calls = tuple(
        ToolCall(text(call, "id"), text(call, "name"), turns.arguments_of(call.get("args"))) for call in called
    )
    pages = [part(chunk, "web") for chunk in parts(part(candidate, "groundingMetadata"), "groundingChunks")]
    return Reply(
        text="".join(text(piece, "text") for piece in pieces if not piece.get("thought")),
        usage=_usage(answer, candidate),
        request_id=text(answer, "responseId") or None,
        stop=_stop(candidate),
        sources=turns.unique_sources(Source(text(page, "title"), text(page, "uri")) for page in pages),
        tool_calls=calls,
        reasoning=turns.join_thoughts(text(piece, "text") for piece in pieces if piece.get("thought")),
        echo=turns.echo_of(asked_by, pieces) if calls else None,
    )


def _candidate(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    candidates = parts(answer, "candidates")
    if candidates:
        return candidates[0]
    reason = text(part(answer, "promptFeedback"), "blockReason")
    if reason:
        raise Refused(reason, request_id=text(answer, "responseId") or None)
    raise BadAnswer("empty", request_id=text(answer, "responseId") or None)


def _stop(candidate: Mapping[str, Any]) -> StopReason:
    reason = text(candidate, "finishReason")
    return "refusal" if reason in _REFUSALS else _STOPS.get(reason, "other")


def _usage(answer: Mapping[str, Any], candidate: Mapping[str, Any]) -> Usage:
    queries = part(candidate, "groundingMetadata").get("webSearchQueries")
    counted = part(answer, "usageMetadata")
    thoughts = number(counted, "thoughtsTokenCount")
    return Usage(
        calls=1,
        input_tokens=number(counted, "promptTokenCount") + number(counted, "toolUsePromptTokenCount"),
        cached_tokens=number(counted, "cachedContentTokenCount"),
        output_tokens=number(counted, "candidatesTokenCount") + thoughts,
        reasoning_tokens=thoughts,
        searches=len(queries) if isinstance(queries, list) else 0,
    )
