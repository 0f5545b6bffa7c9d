"""Google's requests and answers: https://ai.google.dev/api/generate-content. Pure functions.

Parts marked `thought` are reasoning. A blocked prompt has no candidates. The provider counts thinking beside the
candidates' tokens; our output tokens include it. A call's part carries the model's signature, which is sent back in the
same place: https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentic.llm import turns as stop_sequences
from agentic.llm.errors import BadAnswer, Refused
from agentic.llm.profiles import Profile
from agentic.llm.schemas import number, part, parts, picture_of, schema_of, text, wants_schema
from agentic.llm.turns import (
    Part,
    Turn,
    arguments_of,
    base64_of,
    calls_with_results,
    echo_of,
    own_echo,
    parameters_of,
    shown,
    turns_of,
    unique_sources,
)
from agentic.llm.types import Drawing, Message, Prompt, Reply, Source, StopReason, Tool, ToolCall, ToolRound, Usage

# The names of FinishReason and BlockedReason that mean that a model or its filter declined.
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


def request_of(prompt: Prompt, history: Sequence[Message], profile: Profile, *, asked_by: str = "") -> dict[str, Any]:
    """Return the body of POST /v1beta/models/{model}:generateContent. `asked_by`: the model that recognises its own
    echoes."""
    config: dict[str, Any] = {"maxOutputTokens": prompt.max_output_tokens}
    if profile.effort:
        config["thinkingConfig"] = {"thinkingLevel": profile.effort}
    if prompt.schema is not None and wants_schema(prompt, profile):
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = schema_of(prompt.schema, profile)
    if wanted := stop_sequences.for_request(prompt.stop, profile.max_stops):
        config["stopSequences"] = wanted
    if prompt.temperature is not None:
        config["temperature"] = prompt.temperature
    contents = [_content(turn) for turn in turns_of(prompt, history, profile)]
    for place, step in enumerate(prompt.rounds):
        contents += _round(step, place, profile, asked_by)
    request: dict[str, Any] = {"contents": contents, "generationConfig": config, **_tools(prompt, profile)}
    if prompt.system:
        request["systemInstruction"] = {"parts": [{"text": prompt.system}]}
    return request


def _tools(prompt: Prompt, profile: Profile) -> dict[str, Any]:
    tools = [dict(profile.search)] if prompt.search else []
    if prompt.tools:
        tools.append({"functionDeclarations": [_function(tool, profile) for tool in prompt.tools]})
    both = profile.tool_and_search_extra if prompt.search and prompt.tools else {}
    return ({"tools": tools} if tools else {}) | dict(both)


def _function(tool: Tool, profile: Profile) -> dict[str, Any]:
    """Declare a function. An object without properties is refused, so parameters are left out if there are none."""
    parameters = parameters_of(tool.parameters, profile)
    declared = {"name": tool.name, "description": tool.description}
    return declared | ({"parametersJsonSchema": parameters} if parameters["properties"] else {})


def _round(step: ToolRound, place: int, profile: Profile, asked_by: str) -> list[dict[str, Any]]:
    """Return the model's text and calls, then the user's responses: as many, in the same order.

    A response has the id of its call, if the call has one.
    """
    own = own_echo(step, asked_by)
    pairs = calls_with_results(step, place, own=bool(own))
    said: list[Mapping[str, Any]] = list(own) or [
        *([{"text": step.text}] if step.text.strip() else []),
        *(_call(call, profile.foreign_signature if at == 0 else "") for at, (call, _) in enumerate(pairs)),
    ]
    ids = [text(part(piece, "functionCall"), "id") for piece in said if part(piece, "functionCall")]
    responses: list[dict[str, Any]] = []
    follow: list[dict[str, Any]] = []
    for at, (call, result) in enumerate(pairs):
        text_shown, pictures = shown(result, profile)
        seen = [_part(Part(picture=picture)) for picture in pictures]
        response: dict[str, Any] = {
            "name": call.name,
            "response": {"error" if result.is_error else "output": text_shown},
        }
        response |= {"id": ids[at]} if at < len(ids) and ids[at] else {}
        if seen and profile.pictures_in_results:
            response["parts"] = seen
        else:
            follow += seen
        responses.append({"functionResponse": response})
    return [{"role": "model", "parts": said}, {"role": "user", "parts": responses + follow}]


def _call(call: ToolCall, signature: str) -> dict[str, Any]:
    said = {"functionCall": {"id": call.id, "name": call.name, "args": dict(call.arguments)}}
    return said | ({"thoughtSignature": signature} if signature else {})


def _content(turn: Turn) -> dict[str, Any]:
    return {"role": "model" if turn.role == "assistant" else "user", "parts": [_part(piece) for piece in turn.parts]}


def _part(piece: Part) -> dict[str, Any]:
    if piece.picture is None:
        return {"text": piece.text}
    return {"inlineData": {"mimeType": piece.picture.media_type, "data": base64_of(piece.picture)}}


def reply_of(answer: Mapping[str, Any], asked_by: str = "") -> Reply:
    """Return the Reply in an answer. Raises Refused for a blocked prompt."""
    candidate = _candidate(answer)
    pieces = parts(part(candidate, "content"), "parts")
    said = [piece for piece in pieces if not piece.get("thought")]
    calls = _calls(pieces)
    return Reply(
        text="".join(text(piece, "text") for piece in said),
        usage=usage_of(answer, candidate),
        request_id=_request_id(answer),
        stop=_stop(candidate),
        sources=unique_sources(_sources(candidate)),
        tool_calls=calls,
        echo=echo_of(asked_by, pieces) if calls else None,
    )


def _calls(pieces: Sequence[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    """Return the calls. Older models give them no ids."""
    called = [part(piece, "functionCall") for piece in pieces if part(piece, "functionCall")]
    return tuple(ToolCall(text(call, "id"), text(call, "name"), arguments_of(call.get("args"))) for call in called)


def drawing_of(answer: Mapping[str, Any]) -> Drawing:
    """Return the picture in an answer. Raises Refused if a filter removed it."""
    candidate = _candidate(answer)
    usage = usage_of(answer, candidate)
    for piece in parts(part(candidate, "content"), "parts"):
        data = text(part(piece, "inlineData"), "data")
        if data and not piece.get("thought"):
            counted = Usage(calls=1, pictures=1, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
            return Drawing(picture=picture_of(data), usage=counted)
    error = Refused() if _stop(candidate) == "refusal" else BadAnswer("no picture")
    error.usage, error.request_id = usage, _request_id(answer)
    raise error


def _candidate(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    candidates = parts(answer, "candidates")
    if candidates:
        return candidates[0]
    reason = text(part(answer, "promptFeedback"), "blockReason")
    if reason:
        raise Refused(reason, request_id=_request_id(answer))
    raise BadAnswer("empty", request_id=_request_id(answer))


def _stop(candidate: Mapping[str, Any]) -> StopReason:
    reason = text(candidate, "finishReason")
    return "refusal" if reason in _REFUSALS else _STOPS.get(reason, "other")


def _sources(candidate: Mapping[str, Any]) -> Iterator[Source]:
    for chunk in parts(part(candidate, "groundingMetadata"), "groundingChunks"):
        web = part(chunk, "web")
        yield Source(text(web, "title"), text(web, "uri"))


def usage_of(answer: Mapping[str, Any], candidate: Mapping[str, Any]) -> Usage:
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


def _request_id(answer: Mapping[str, Any]) -> str | None:
    return text(answer, "responseId") or None
