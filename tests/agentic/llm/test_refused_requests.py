"""What servers answer to a request that asks for too much, word for word: a feature that the model lacks, a prompt that
is longer than its context. Seen through the official SDKs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from agentic.llm.errors import BadRequest, ModelError, PromptTooLong, RateLimited, ServerFailed
from agentic.llm.provider_table import ENDPOINTS
from agentic.llm.registry import build_model
from agentic.llm.retry import Fallbacks
from agentic.llm.types import Message, Prompt, Reply, Tool
from agentic.tools.tool import collect_tools
from tests.support.models.chat_api import ChatAnswer, ChatRequest, ChatServer
from tests.support.models.chat_doubles import chatting
from tests.support.models.model_doubles import SCHEMA, talking
from tests.support.models.wire.values import Answer
from tests.support.tools.tool_doubles import CONTEXT, FakeTool, run_tools

WEATHER = Tool("weather", "The weather of a town", {"type": "object", "properties": {"town": {"type": "string"}}})
INVALID = "invalid_request_error"


def said(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": INVALID, "param": None, "code": None, **more}}


def refusal(status: int, body: Any) -> ChatAnswer:
    return ChatAnswer(status=status, body=(body if isinstance(body, str) else json.dumps(body)).encode())


def routed(body: Any) -> dict[str, Any]:
    """A provider's error as OpenRouter passes it on."""
    raw = {"raw": json.dumps(body), "provider_name": "X"}
    return {"error": {"message": "Provider returned error", "code": 400, "metadata": raw}}


NO_TOOLS = {
    "OpenRouter": (
        404,
        {"error": {"message": 'No endpoints found that support tool use. Try disabling "x".', "code": 404}},
    ),
    "Groq": (400, said("`tool calling` is not supported with this model")),
    "Mistral": (
        400,
        {"object": "error", "message": "Function calling is not enabled for this model", "type": INVALID, "code": "3"},
    ),
    "DeepSeek": (400, said("deepseek-reasoner does not support Function Calling", code=INVALID)),
    "DeepSeek at OpenRouter": (400, routed(said("deepseek-reasoner does not support Function Calling"))),
    "Together": (400, said("Tool calling is not supported for model google/gemma-2-27b-it")),
    "LiteLLM": (400, said("together_ai does not support parameters: ['tools'], for model=x", type=None)),
    "OpenAI": (400, said("tools is not supported in this model. For a list, see the docs.", param="tools")),
    "OpenAI by its code": (400, said("Not here.", param="tools", code="unsupported_parameter")),
    "Ark": (
        400,
        said("The parameter `tools` specified are not valid: the requested model r1 does not support function call."),
    ),
    "Vertex": (400, said("Tool use with function calling is unsupported by the model.")),
    "Bedrock": (400, {"message": "This model doesn't support tool use."}),
    "xAI": (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "Invalid request content: The model does not support tool use or function calling but tools or "
            "tool_choice have been specified on the request.",
        },
    ),
    "vLLM": (
        400,
        {
            "object": "error",
            "message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "llama.cpp": (
        500,
        {"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}},
    ),
    "Azure": (404, said("Unrecognized request arguments supplied: tool_choice, tools")),
    "Bedrock, streamed": (400, {"message": "This model doesn't support tool use in streaming mode."}),
    "Bedrock's field": (400, {"message": "This model doesn't support the toolConfig field. Remove toolConfig."}),
    "FastAPI's place": (
        422,
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "tools"], "msg": "Extra inputs", "input": [{}]}]},
    ),
    "an unknown field": (400, said('Invalid JSON payload received. Unknown name "tools": Cannot find field.')),
    "tools and their choice": (400, said("`tools` and `tool_choice` are not supported with this model")),
    "a gateway that quotes another": (404, said('{"error":{"message":"No endpoints found that support tool use."}}')),
    "a server in its own words": (501, {"detail": "Tools are currently not supported."}),
    "plain text": (400, "this model does not support tools"),
}


@pytest.mark.promise(535)
@pytest.mark.parametrize(("status", "body"), NO_TOOLS.values(), ids=NO_TOOLS)
async def test_a_server_that_refuses_tools_is_asked_without_them_and_remembered(status: int, body: Any) -> None:
    async with chatting(refusal(status, body), "hello") as (model, server):
        for _ in range(2):
            assert (await model.complete(Prompt(text="hi", tools=(WEATHER,), schema=SCHEMA))).text == "hello"
    assert [bool(each.body.get("tools")) for each in server.requests] == [True, False, False]
    assert all("response_format" in each.body for each in server.requests[1:])


async def test_a_model_of_google_ai_studio_that_refuses_tools_and_json_mode_is_asked_without_both() -> None:
    def not_enabled(what: str) -> Answer:
        error = {
            "code": 400,
            "message": f"{what} is not enabled for models/gemma-3-12b-it",
            "status": "INVALID_ARGUMENT",
        }
        return Answer(status=400, body=json.dumps({"error": error}).encode())

    refusals = (not_enabled("Function calling"), not_enabled("JSON mode"))
    async with talking("google", *refusals, "hello", model="gemma-3-12b-it") as (model, server):
        for _ in range(2):
            assert (await model.complete(Prompt(text="hi", tools=(WEATHER,), schema=SCHEMA))).text == "hello"
    assert [bool(each.tools) for each in server.requests] == [True, False, False, False]
    assert [each.has_schema for each in server.requests[2:]] == [False, False]


async def test_a_model_that_takes_no_temperature_is_asked_without_it_and_remembered() -> None:
    message = (
        "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) is supported."
    )
    refused = refusal(400, said(message, param="temperature", code="unsupported_value"))
    async with chatting(refused, "hello") as (model, server):
        for _ in range(2):
            assert (await model.complete(Prompt(text="hi", temperature=0.7))).text == "hello"
    assert ["temperature" in each.body for each in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    "error",
    [
        said("Unsupported value: 'none' is not supported.", param="reasoning_effort", code="unsupported_value"),
        said("reasoning_effort is not supported with this model"),
        said("Model grok-4.20 does not support parameter reasoningEffort."),
    ],
)
async def test_a_model_that_takes_no_thinking_level_is_asked_without_it_and_remembered(error: Any) -> None:
    async with chatting(refusal(400, error), "hello", model="gpt-oss") as (model, server):
        for _ in range(2):
            assert (await model.complete(Prompt(text="hi", thinking="high"))).text == "hello"
    assert ["reasoning_effort" in each.body for each in server.requests] == [True, False, False]


@pytest.mark.promise(616)
async def test_a_model_that_calls_its_limit_otherwise_is_asked_so_and_remembered() -> None:
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    )
    refused = refusal(400, said(message, param="max_tokens", code="unsupported_parameter"))
    async with chatting(refused, "hello") as (model, server):
        for _ in range(2):
            assert (await model.complete(Prompt(text="hi", max_output_tokens=70))).text == "hello"
    limits = [(each.body.get("max_tokens"), each.body.get("max_completion_tokens")) for each in server.requests]
    assert limits == [(70, None), (None, 70), (None, 70)]


async def test_a_limit_that_is_too_high_is_not_sent_under_another_name() -> None:
    message = "max_tokens is too large: 70. This model supports at most 50 completion tokens."
    async with chatting(refusal(400, said(message, param="max_tokens", code="invalid_value"))) as (model, server):
        with pytest.raises(BadRequest):
            await model.complete(Prompt(text="hi", max_output_tokens=70))
    assert ["max_tokens" in each.body for each in server.requests] == [True]


@pytest.mark.promise(616)
@pytest.mark.parametrize(
    "error",
    [
        said("Unsupported parameter: 'stop' is not supported with this model.", param="stop"),
        {"code": "Client specified an invalid argument", "error": "Argument not supported on this model: stop"},
        said("Not here.", param="stop", code="unsupported_parameter"),
    ],
)
async def test_a_model_that_takes_no_stop_sequences_is_asked_without_them_and_still_stops(error: Any) -> None:
    async with chatting(refusal(400, error), "hello Ann: and on") as (model, server):
        for _ in range(2):
            assert (await model.complete(Prompt(text="hi", stop=("Ann:",)))).text == "hello "
    assert ["stop" in each.body for each in server.requests] == [True, False, False]


@pytest.mark.promise(616)
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, said("Extra inputs are not permitted, field: 'stream_options'")),
        (400, said("stream_options: Extra inputs are not permitted")),
        (400, said("Unrecognized request argument supplied: stream_options")),
        (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra", "input": 1}]}),
    ],
)
async def test_a_server_that_counts_no_tokens_of_a_stream_is_asked_without_and_remembered(
    status: int, error: Any
) -> None:
    async with chatting(refusal(status, error), "hello") as (model, server):
        for _ in range(2):
            assert (await model.complete(Prompt(text="hi", on_text=lambda _: None))).text == "hello"
    assert ["stream_options" in each.body for each in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    "message",
    [
        "json mode cannot be combined with tool/function calling",
        "Function calling with a response mime type: 'application/json' is unsupported",
        '"tools" is incompatible with "response_format"',
    ],
)
async def test_a_server_that_takes_tools_or_structured_output_keeps_the_tools(message: str) -> None:
    async with chatting(refusal(400, said(message)), "hello", provider="groq", api_key="k") as (model, server):
        model.profile = replace(model.profile, schema_with_tools=True)
        assert (await model.complete(Prompt(text="hi", tools=(WEATHER,), schema=SCHEMA))).text == "hello"
    assert ["tools" in each.body for each in server.requests] == [True, True]
    assert ["response_format" in each.body for each in server.requests] == [True, False]


ABOUT_ONE_TOOL = {
    "its schema": said(
        "Invalid schema for function 'weather': In context=(), 'oneOf' is not permitted.",
        param="tools[0].function.parameters",
        code="invalid_function_parameters",
    ),
    "a field of it": said("tools[0].function.strict is not supported"),
    "a kind of tool": said("'claude-x' does not support tool types: web_search_20250305"),
    "several calls at once": said("Parallel tool calls are not supported"),
    "a field's place": {"detail": [{"type": "extra_forbidden", "loc": ["body", "tools", 0, "strict"], "msg": "Extra"}]},
    "a field that is unknown": said(
        "Invalid JSON payload. Unknown name \"functions\" at 'tools[0]': Cannot find field."
    ),
    "their number": said("tools with more than 128 functions are not supported"),
    "a missing result": said("No tool output found for function call call_1."),
    "the order of messages": said("An assistant message with 'tool_calls' must be followed by tool messages"),
    "the prompt, quoted": {
        "detail": [
            {
                "type": "missing",
                "loc": ["body", "x"],
                "msg": "Field required",
                "input": {"messages": [{"content": "My prompt is too long. This model does not support tools."}]},
            }
        ]
    },
}


@pytest.mark.parametrize("body", ABOUT_ONE_TOOL.values(), ids=ABOUT_ONE_TOOL)
async def test_an_error_that_only_mentions_tools_takes_none_away(body: Any) -> None:
    async with chatting(refusal(400, body), "hello") as (model, server):
        with pytest.raises(BadRequest) as caught:
            await model.complete(Prompt(text="hi", tools=(WEATHER,)))
        assert type(caught.value) is BadRequest
        await model.complete(Prompt(text="hi", tools=(WEATHER,)))
    assert [bool(each.body.get("tools")) for each in server.requests] == [True, True]


async def test_a_call_that_the_model_wrote_wrongly_is_tried_again_with_tools() -> None:
    failed = refusal(400, said("Failed to call a function. See 'failed_generation'.", code="tool_use_failed"))
    async with chatting(failed, "hello") as (model, server):
        assert (await model.complete(Prompt(text="hi", tools=(WEATHER,)))).text == "hello"
    assert [bool(each.body.get("tools")) for each in server.requests] == [True, True]


TOO_LONG = {
    "OpenAI": (400, said("Your input exceeds the context window of this model.", code="context_length_exceeded")),
    "OpenAI's older words": (400, said("This model's maximum context length is 8192 tokens. However, you requested")),
    "OpenAI, more than a minute's tokens": (
        429,
        said(
            "Request too large for gpt-4o in organization x on tokens per min (TPM): Limit 1, Requested 2",
            type="tokens",
        ),
    ),
    "Groq, more than a minute's tokens": (413, said("Request too large for model `x`", code="rate_limit_exceeded")),
    "Groq": (400, said("Please reduce the length of the messages or completion.")),
    "xAI": (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
        },
    ),
    "Bedrock": (400, {"message": "Input is too long for requested model."}),
    "Bedrock's Claude": (
        400,
        {"message": "The model returned the following errors: prompt is too long: 903884 tokens > 200000 maximum"},
    ),
    "Claude with its answer": (400, said("input length and `max_tokens` exceed context limit: 199000 + 4000 > 200000")),
    "Kimi": (400, said("Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)")),
    "Mistral": (
        400,
        {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"},
    ),
    "MiniMax": (400, said("invalid params, context window exceeds limit (2013)")),
    "Zhipu": (400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}),
    "Alibaba": (400, said("Range of input length should be [1, 129024]", code="invalid_parameter_error")),
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
            }
        },
    ),
    "LM Studio": (
        400,
        {"error": "The number of tokens to keep from the initial prompt is greater than the context length."},
    ),
    "Ollama": (400, {"error": "the input length exceeds the context length"}),
    "Ollama's other words": (400, {"error": "prompt too long; exceeded max context length by 12 tokens"}),
    "SGLang": (400, said("The input (70000 tokens) is longer than the model's context length (65536 tokens).")),
    "TGI": (
        422,
        {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097", "error_type": "x"},
    ),
    "Vertex": (
        400,
        said("Unable to submit request because the input token count is 40000 but model only supports up to 32768."),
    ),
    "OpenRouter": (
        400,
        routed(said("This endpoint's maximum context length is 131072 tokens. However, you requested")),
    ),
    "SambaNova": (
        400,
        said("The provided prompt is 4309 tokens long, but the maximum supported sequence length is just 4096!"),
    ),
    "LM Studio's other words": (400, {"error": "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"}),
    "Bedrock's Titan": (400, {"message": "Malformed input request: expected maxLength: 2048, actual: 2049"}),
    "TGI's other words": (422, said("Input validation error: `inputs` must have less than 4096 tokens. Given: 5000")),
    "llama.cpp, a text to embed": (
        500,
        said("input (1034 tokens) is too large to process. increase the physical batch size (current batch size: 512)"),
    ),
    "GitHub": (400, said("Request body too large for gpt-4o model. Max size: 8000 tokens.")),
    "vLLM": (400, said("The prompt (total length 9000) is too long to fit into the model (context length 8192).")),
    "Poolside": (400, said("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.")),
    "Zhipu in China": (400, {"error": {"code": "1261", "message": "Prompt 超长"}}),
    "a server in its own words": (500, {"error": "the prompt exceeds the model's context"}),
    "a proxy": (413, "<html><h1>413 Request Entity Too Large</h1></html>"),
    "within an answer": (200, said("too many tokens", code="context_length_exceeded")),
}


class Large:
    """A model with a large context."""

    name, can_draw, free = "other/large", False, False

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        return Reply(text="from the large one", model=self.name)


@pytest.mark.promise(536)
@pytest.mark.parametrize(("status", "body"), TOO_LONG.values(), ids=TOO_LONG)
async def test_a_prompt_that_is_too_long_goes_to_the_next_model_and_the_first_is_not_avoided(
    status: int, body: Any
) -> None:
    async with chatting(refusal(status, body), "short enough") as (model, server):
        models = Fallbacks([model, Large()])  # type: ignore[list-item]
        assert (await models.complete(Prompt(text="long", schema=SCHEMA))).text == "from the large one"
        assert len(server.requests) == 1
        assert (await models.complete(Prompt(text="short"))).text == "short enough"


@pytest.mark.parametrize(
    ("provider", "code", "message"),
    [
        ("google", "", "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."),
        ("anthropic", INVALID, "prompt is too long: 213462 tokens > 200000 maximum"),
        ("openai", "context_length_exceeded", "Your input exceeds the context window of this model."),
        ("xai", "", "This model's maximum prompt length is 131072 but the request contains 136973 tokens."),
    ],
)
async def test_every_makers_own_api_says_that_the_prompt_is_too_long(provider: str, code: str, message: str) -> None:
    async with talking(provider, Answer(status=400, error_code=code, error_message=message)) as (model, server):
        with pytest.raises(PromptTooLong):
            await model.complete(Prompt(text="long", schema=SCHEMA))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (400, "max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens for claude", BadRequest),
        (400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens", BadRequest),
        (400, "max_tokens (100000) exceeds the maximum output token limit of 8192", BadRequest),
        (400, "Invalid 'messages[3].tool_calls[0].id': string too long. Expected maximum length 40", BadRequest),
        (429, "This request would exceed the rate limit of 40,000 input tokens per minute", RateLimited),
        (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum", BadRequest),
        (429, "Too many tokens, please wait before trying again.", RateLimited),
        (503, "The request took too long", ServerFailed),
    ],
)
async def test_another_limit_is_not_a_prompt_that_is_too_long(
    status: int, message: str, error: type[ModelError]
) -> None:
    async with chatting(refusal(status, said(message))) as (model, _):
        with pytest.raises(error) as caught:
            await model.complete(Prompt(text="hi"))
        assert type(caught.value) is error


# --- in the middle of a turn ----------------------------------------------------------------------------------------

CALL = ChatAnswer(text="", calls=(("weather", '{"town": "Rome"}'),))
REFUSED = refusal(400, said("`tool calling` is not supported with this model"))
LONG = refusal(400, said("prompt is too long: 213462 tokens > 200000 maximum"))
ODD = refusal(400, said("Conversation roles must alternate user/assistant/user/assistant/..."))
NO_FORMAT = refusal(422, said("Extra inputs are not permitted"))
ORDERS: dict[str, Sequence[Sequence[ChatAnswer | str]]] = {
    "the same model refuses": ((CALL, REFUSED, "sunny"),),
    "the same model rejects the results": ((CALL, ODD, "sunny"),),
    "the next model refuses": ((CALL, LONG), (REFUSED, "sunny")),
    "the next model rejects the results": ((CALL, LONG), (ODD, "sunny")),
    "refused, then too long as text": ((CALL, LONG), (REFUSED, LONG), (REFUSED, "sunny")),
    "too long, then refused": ((CALL, LONG), (LONG,), (REFUSED, "sunny")),
    "rejected, then again because of structured output": ((CALL, LONG), (ODD, NO_FORMAT, "sunny")),
}


@pytest.mark.promise(557)
@pytest.mark.parametrize("models", ORDERS.values(), ids=ORDERS)
async def test_a_turn_whose_tools_are_refused_halfway_is_answered_with_their_results_as_text(
    models: Sequence[Sequence[ChatAnswer | str]],
) -> None:
    tool = FakeTool("weather", lambda arguments: f"dry in {arguments['town']}")
    box, _ = collect_tools([tool])
    context = replace(CONTEXT, deadline=4_000_000_000.0)
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(chatting(*answers)) for answers in models]
        fallbacks = Fallbacks([model for model, _ in made])
        prompt = Prompt(text="How is it?", schema=SCHEMA)
        outcome = await run_tools(fallbacks.complete, prompt, box, context=context)
        assert outcome.reply.text == "sunny"
        assert [len(server.requests) for _, server in made] == [len(answers) for answers in models]
        last = made[-1][1].requests[-1]
        assert "tools" not in last.body
        assert {each["role"] for each in last.messages} <= {"system", "user"}
        assert "dry in Rome" in last.messages[-1]["content"]
        assert len(tool.ran) == 1


async def test_two_turns_at_once_both_learn_what_a_server_refuses() -> None:
    both_asked = asyncio.Barrier(2)

    def answer(request: ChatRequest) -> ChatAnswer | str:
        refused = refusal(400, said("response_format is not supported"))
        return replace(refused, after=both_asked.wait) if "response_format" in request.body else "hello"

    async with ChatServer(answer) as server:
        two_slots = replace(ENDPOINTS["llamacpp"], base_url=server.base_url, slots=2)
        model = build_model("llamacpp", model="local", api_key="", endpoint=two_slots)
        replies = await asyncio.gather(*(model.complete(Prompt(text="hi", schema=SCHEMA)) for _ in range(2)))
        await model.aclose()
    assert [reply.text for reply in replies] == ["hello", "hello"]
