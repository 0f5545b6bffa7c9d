"""Claude on AWS by the official package, unpatched, against its two doors on loopback."""

from __future__ import annotations

import builtins
import random
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp import web
from botocore.auth import SigV4Auth  # type: ignore[import-untyped]
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]
from botocore.credentials import Credentials  # type: ignore[import-untyped]

from agentic.llm.errors import BadKey, BadRequest, NotInstalled, PrefillRefused
from agentic.llm.model import ProviderModel
from agentic.llm.profiles import Aws
from agentic.llm.providers.bedrock import is_invoked
from agentic.llm.registry import build_model
from agentic.llm.retry import Retrier
from agentic.llm.types import Message, Prompt
from tests.support.models.model_doubles import KEY, Waits
from tests.support.models.wire import anthropic as wire
from tests.support.models.wire.values import Answer

KEYS = Aws(region="eu-central-1", access_key="AKIDCANARY", secret_key=KEY)
SONNET = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
HAIKU = "anthropic.claude-haiku-5-5"


class Door:
    """Answers as Bedrock does; keeps path, headers and body of what came."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.paths: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.signed: list[bool] = []

    async def handle(self, http: web.Request) -> web.Response:
        body = await http.json()
        self.signed.append(is_signed(http, await http.read()))
        self.paths.append(unquote(http.path))
        self.headers.append(dict(http.headers))
        self.bodies.append(body)
        if self.answer.status != 200:
            return web.json_response({"message": self.answer.error_message}, status=self.answer.status)
        read = wire.read_messages("bedrock", {"model": "m", **body})
        return web.json_response(wire.write_message(read, self.answer, 1), headers={"x-amzn-requestid": "aws-1"})


def is_signed(http: web.Request, body: bytes) -> bool:
    """Whether the signature is that of the request as it arrived: address, headers and body."""
    found = re.search(
        r"Credential=[^/]+/\d+/(.+?)/(.+?)/aws4_request, SignedHeaders=(.+?),", http.headers["Authorization"]
    )
    if found is None:
        return False
    region, service, names = found.groups()
    headers = {name: http.headers[name] for name in names.split(";")}
    arrived = AWSRequest(http.method, f"http://{http.host}{http.raw_path}", headers, body)
    arrived.context["timestamp"] = http.headers["X-Amz-Date"]
    signer = SigV4Auth(Credentials("AKIDCANARY", KEY), service, region)
    signature = signer.signature(signer.string_to_sign(arrived, signer.canonical_request(arrived)), arrived)
    return bool(http.headers["Authorization"].endswith(f"Signature={signature}"))


@asynccontextmanager
async def talking(
    model: str, answer: Answer | None = None, *, aws: Aws = KEYS, api_key: str = ""
) -> AsyncIterator[tuple[ProviderModel, Door]]:
    door = Door(answer or Answer(text="hello", cached_tokens=50, cache_write_tokens=20))
    app = web.Application()
    app.add_routes([web.post("/{path:.*}", door.handle)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    built = build_model("bedrock", model=model, api_key=api_key, aws=aws, base_url=base_url)
    built._retrier = Retrier(rng=random.Random(1), sleep=Waits())
    try:
        yield built, door
    finally:
        await built.aclose()
        await runner.cleanup()


async def test_an_older_model_is_invoked_in_the_version_that_it_knows_by_a_signed_call() -> None:
    prompt = Prompt(text="tail", system="stable", cache_ttl="1h", temperature=0.7, stop=("Ann:",), search=True)
    async with talking(SONNET) as (model, door):
        reply = await model.complete(prompt, [Message("user", "old", cache=True)])
    assert door.paths == [f"/model/{SONNET}/invoke"]
    assert door.headers[0]["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDCANARY/")
    assert "/eu-central-1/bedrock/aws4_request" in door.headers[0]["Authorization"]
    assert KEY not in str(door.headers)
    body = door.bodies[0]
    assert body["anthropic_version"] == "bedrock-2023-05-31"
    assert not {"model", "stream", "tools"} & body.keys()
    assert (body["temperature"], body["stop_sequences"]) == (0.7, ["Ann:"])
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert body["system"][0]["cache_control"] == mark
    assert body["messages"][0]["content"][0]["cache_control"] == mark
    assert (reply.text, reply.model) == ("hello", f"bedrock/{SONNET}")
    assert (reply.usage.input_tokens, reply.usage.cached_tokens) == (100, 50)
    assert reply.usage.cost_usd > 0


@pytest.mark.parametrize(
    "model",
    [SONNET, HAIKU, "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-v1:0"],
)
async def test_what_is_signed_is_what_arrives(model: str) -> None:
    async with talking(model) as (built, door):
        await built.complete(Prompt(text="tail, and a word with ümläuts", system="stable"))
    assert door.signed == [True]


async def test_an_older_models_answer_is_heard_when_it_is_whole() -> None:
    heard: list[str] = []
    async with talking(SONNET) as (model, door):
        await model.complete(Prompt(text="tail", on_text=heard.append))
    assert heard == ["", "hello"]
    assert door.paths == [f"/model/{SONNET}/invoke"]


async def test_a_newer_model_stands_behind_the_messages_api() -> None:
    async with talking(HAIKU) as (model, door):
        reply = await model.complete(Prompt(text="tail", temperature=0.7))
    assert door.paths == ["/v1/messages"]
    assert door.headers[0]["anthropic-version"] == "2026-10-21"
    assert "/eu-central-1/bedrock-mantle/aws4_request" in door.headers[0]["Authorization"]
    assert door.bodies[0]["model"] == HAIKU
    assert not {"anthropic_version", "temperature"} & door.bodies[0].keys()
    assert reply.text == "hello"


@pytest.mark.parametrize("model", [SONNET, HAIKU])
async def test_a_bedrock_key_is_a_bearer_token_whatever_the_environment_says(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "env-canary")
    async with talking(model, api_key=KEY, aws=Aws(region="us-east-1")) as (built, door):
        await built.complete(Prompt(text="tail"))
    assert door.headers[0]["Authorization"] == f"Bearer {KEY}"
    async with talking(model) as (built, door):
        await built.complete(Prompt(text="tail"))
    assert "env-canary" not in str(door.headers)


async def test_a_begun_answer_goes_last_and_without_whitespace_at_its_end() -> None:
    prompt = Prompt(text="", prefill="Claude: \n", system="The system is in CLI simulation mode.")
    history = [Message("user", "<cmd>cat untitled.txt</cmd>"), Message("assistant", "Ann: hi\n\n", cache=True)]
    async with talking(SONNET, Answer(text=" Hello.")) as (model, door):
        reply = await model.complete(prompt, history)
    assert reply.text == " Hello."
    last = door.bodies[0]["messages"][-1]
    assert last["role"] == "assistant"
    assert [block["text"] for block in last["content"]] == ["Ann: hi\n\n", "Claude:"]
    assert "cache_control" in last["content"][0]


async def test_a_model_that_refuses_a_begun_answer_says_so() -> None:
    prompt = Prompt(text="", prefill="Claude:")
    async with talking(HAIKU) as (model, door):
        with pytest.raises(PrefillRefused):
            await model.complete(prompt, [Message("user", "cat")])
    assert not door.bodies
    refused = Answer(status=400, error_message="This model does not support assistant message prefill.")
    async with talking(SONNET, refused) as (model, _door):
        with pytest.raises(PrefillRefused) as caught:
            await model.complete(prompt, [Message("user", "cat")])
    assert (caught.value.provider, caught.value.model) == ("bedrock", SONNET)


async def test_a_refused_call_is_told_apart() -> None:
    async with talking(SONNET, Answer(status=403, error_message="no access")) as (model, _door):
        with pytest.raises(BadKey):
            await model.complete(Prompt(text="tail"))
    async with talking(SONNET, Answer(status=404, error_message="no such model")) as (model, _door):
        with pytest.raises(BadRequest):
            await model.check()


async def test_credentials_that_are_not_there_are_a_bad_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(SONNET, aws=Aws(region="us-east-1", profile="nobody-of-this-name")) as (model, door):
        with pytest.raises(BadKey, match="no AWS credentials"):
            await model.complete(Prompt(text="tail"))
    assert not door.bodies


def test_without_boto3_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name.partition(".")[0] in ("boto3", "botocore"):
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "boto3", raising=False)
    with pytest.raises(NotInstalled, match=r"pip install 'anthropic\[bedrock\]'"):
        build_model("bedrock", model=SONNET, api_key="", aws=KEYS)
    assert build_model("bedrock", model=SONNET, api_key=KEY, aws=KEYS).name == f"bedrock/{SONNET}"


@pytest.mark.parametrize("aws", [None, Aws(region="")])
def test_without_a_region_nothing_is_built(aws: Aws | None) -> None:
    with pytest.raises(ValueError, match="region"):
        build_model("bedrock", model=SONNET, api_key="", aws=aws)


@pytest.mark.parametrize(
    ("model", "invoked"),
    [
        (SONNET, True),
        ("anthropic.claude-opus-4-6-v1", True),
        ("anthropic.claude-3-haiku-20240307-v1:0:200k", True),
        ("arn:aws:bedrock:us-east-1:123:application-inference-profile/abc", True),
        (HAIKU, False),
        ("us.anthropic.claude-opus-4-8", False),
    ],
)
def test_the_name_says_which_door(model: str, invoked: bool) -> None:
    assert is_invoked(model) is invoked
