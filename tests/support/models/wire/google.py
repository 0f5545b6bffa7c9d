"""Google's: generateContent, Models."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.models.wire.values import Answer, ModelRequest

_STOPS = {"stop": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def read_content(provider: str, model: str, body: Mapping[str, Any]) -> ModelRequest:
    """POST /v1beta/models/{model}:generateContent."""
    said = [(content.get("role", "user"), part) for content in body["contents"] for part in content["parts"]]
    texts = [(role, part["text"]) for role, part in said if "text" in part]
    results = [part["functionResponse"] for _, part in said if "functionResponse" in part]
    _check_calls(body["contents"], len(results))
    in_results = [part for result in results for part in result.get("parts", ())]
    config = body.get("generationConfig", {})
    return ModelRequest(
        provider=provider,
        model=model,
        kind="picture" if "IMAGE" in config.get("responseModalities", ()) else "text",
        system="\n\n".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", ())),
        texts=tuple(text for _, text in texts),
        roles=tuple("assistant" if role == "model" else role for role, _ in texts),
        pictures=sum("inlineData" in part for part in [*in_results, *(part for _, part in said)]),
        has_schema="responseJsonSchema" in config or "responseSchema" in config,
        tools=tuple(name for tool in body.get("tools", ()) for name in _names(tool)),
        results=tuple((result.get("id", ""), "".join(result["response"].values())) for result in results),
        raw=body,
    )


def _check_calls(contents: Iterable[Mapping[str, Any]], results: int) -> None:
    """Raises ValueError where a call has no response, or the first one of a step no signature."""
    steps = [[part for part in content["parts"] if "functionCall" in part] for content in contents]
    if sum(len(calls) for calls in steps) != results:
        raise ValueError("as many functionResponses as functionCalls")
    if any(calls and "thoughtSignature" not in calls[0] for calls in steps):
        raise ValueError("Function call is missing a thought_signature")


def _names(tool: Mapping[str, Any]) -> list[str]:
    if "functionDeclarations" in tool:
        return [function["name"] for function in tool["functionDeclarations"]]
    return list(tool)


def write_content(request: ModelRequest, answer: Answer, number: int) -> dict[str, Any]:
    """A GenerateContentResponse: thoughts, then the text or the picture."""
    parts: list[dict[str, Any]] = [{"text": answer.thinking, "thought": True}] if answer.thinking else []
    if answer.stop == "refusal":
        parts = []
    elif request.kind == "picture":
        data = base64.b64encode(answer.picture).decode("ascii")
        parts.append({"inlineData": {"mimeType": "image/png", "data": data}})
    else:
        parts += [{"text": answer.text}] if answer.text or not answer.calls else []
        parts += _calls(answer, number)
    candidate: dict[str, Any] = {
        "content": {"role": "model", "parts": parts},
        "finishReason": _STOPS[answer.stop],
        "index": 0,
    }
    if answer.searches or answer.sources:
        chunks = [{"web": {"title": title, "uri": url}} for title, url in answer.sources]
        queries = [f"query {search}" for search in range(answer.searches)]
        candidate["groundingMetadata"] = {"groundingChunks": chunks, "webSearchQueries": queries}
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": answer.input_tokens,
            "cachedContentTokenCount": answer.cached_tokens,
            "candidatesTokenCount": answer.output_tokens - answer.reasoning_tokens,
            "thoughtsTokenCount": answer.reasoning_tokens,
            "totalTokenCount": answer.input_tokens + answer.output_tokens,
        },
        "modelVersion": request.model,
        "responseId": f"google-{number}",
    }


def _calls(answer: Answer, number: int) -> list[dict[str, Any]]:
    """Calls side by side: only the first carries a signature."""
    calls: list[dict[str, Any]] = [
        {"functionCall": {"id": f"fc_{number}_{place}", "name": name, "args": json.loads(arguments)}}
        for place, (name, arguments) in enumerate(answer.calls)
    ]
    for call in calls[:1]:
        call["thoughtSignature"] = "c2lnbmF0dXJl"
    return calls


def write_error(answer: Answer) -> dict[str, Any]:
    details = [{"reason": answer.error_code}] if answer.error_code else []
    return {
        "error": {
            "code": answer.status,
            "message": answer.error_message,
            "status": _STATUSES.get(answer.status, "UNKNOWN"),
            "details": details,
        }
    }


def write_model(model: str) -> dict[str, Any]:
    return {"name": f"models/{model}", "displayName": model, "supportedGenerationMethods": ["generateContent"]}


def write_models(models: Iterable[str]) -> dict[str, Any]:
    return {"models": [write_model(model) for model in models]}
