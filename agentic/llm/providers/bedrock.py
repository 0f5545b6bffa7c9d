"""Claude on AWS Bedrock, through the anthropic package's [bedrock] extra. Requests and answers are Anthropic's own.

Bedrock has two APIs. Models up to Opus 4.6 have a version in their name (`anthropic.claude-sonnet-4-5-20250929-v1:0`,
possibly after a region, or an ARN). They have their own addresses, don't accept the API version that the package sends,
and require `bedrock-2023-05-31` in the body. Later models have no such suffix and use the Messages API.
https://platform.claude.com/docs/en/build-with-claude/claude-on-amazon-bedrock-legacy

Calls are signed with AWS keys, which needs boto3, or carry a Bedrock API key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentic.llm import http
from agentic.llm.errors import BadKey, ModelError, NotInstalled
from agentic.llm.model import Access
from agentic.llm.providers import anthropic as claude
from agentic.llm.types import Message, Prompt, Reply

if TYPE_CHECKING:
    import httpx2

_VERSIONED = re.compile(r"-v\d+(:\d+)?(:\w+)?$")


def is_invoked(model: str) -> bool:
    """Return whether a model uses the older API: its name ends in a version, or it is an ARN."""
    return model.startswith("arn:") or _VERSIONED.search(model) is not None


class BedrockModel(claude.AnthropicModel):
    """A Claude model on AWS. The constructor raises NotInstalled if calls can't be signed."""

    provider = "bedrock"
    doubts_schema = True
    _takes_text = False

    def _connected(self, access: Access, transport: httpx2.AsyncClient) -> claude.Client:
        import anthropic

        aws = access.aws
        if aws is None or not aws.region:
            raise ValueError("bedrock: no AWS region is set")
        if not access.api_key:
            # The package raises a bare RuntimeError for missing keys; botocore raises its own errors.
            self._sdk_errors = (*self._sdk_errors, RuntimeError, *_signing_errors(access.model))
        if not is_invoked(access.model):
            return anthropic.AsyncAnthropicBedrockMantle(
                aws_region=aws.region,
                api_key=access.api_key or None,
                aws_access_key=aws.access_key,
                aws_secret_key=aws.secret_key,
                aws_session_token=aws.session_token,
                aws_profile=aws.profile,
                base_url=access.base_url or f"https://bedrock-mantle.{aws.region}.api.aws/anthropic",
                max_retries=0,
                http_client=transport,
            )
        client = anthropic.AsyncAnthropicBedrock(
            aws_region=aws.region,
            base_url=access.base_url or f"https://bedrock-runtime.{aws.region}.amazonaws.com",
            max_retries=0,
            http_client=transport,
        )
        # The constructor refuses keys if the environment also has a Bedrock API key.
        if access.api_key or aws.access_key or aws.profile:
            client.api_key = access.api_key or None
            client.aws_access_key, client.aws_secret_key = aws.access_key, aws.secret_key
            client.aws_session_token, client.aws_profile = aws.session_token, aws.profile
        return client

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        request = super()._request(prompt, history)
        invoked = {"anthropic_version": "bedrock-2023-05-31"} if is_invoked(self.access.model) else {}
        return {**request, **invoked}

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        """Return one answer. The older API streams in AWS's own binary format, so `on_text` gets the answer only when
        it is complete."""
        if prompt.on_text is None or not is_invoked(self.access.model):
            return await super().complete(prompt, history)
        prompt.on_text("")
        reply = await super().complete(replace(prompt, on_text=None), history)
        prompt.on_text(reply.text)
        return reply

    async def _look(self, seconds: float) -> None:
        """Make the smallest completion, because describing a model requires more permissions on AWS."""
        smallest = Prompt(text="Hello", max_output_tokens=1)
        await http.post(self._client, "/v1/messages", self._request(smallest, ()), seconds, as_text=False)

    def _explain(self, error: Exception) -> ModelError:
        if type(error) is RuntimeError or type(error).__module__.startswith("botocore"):
            return BadKey("no AWS credentials")
        if isinstance(error, RuntimeError):
            raise error
        return http.explain(error, "x-amzn-requestid")


def _signing_errors(model: str) -> tuple[type[Exception], ...]:
    """Return boto3's errors. Raises NotInstalled if it is missing."""
    try:
        import boto3  # type: ignore[import-untyped]  # noqa: F401
        from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]
    except ImportError:
        raise NotInstalled(
            "calls to AWS are signed with boto3: pip install 'anthropic[bedrock]'", provider="bedrock", model=model
        ) from None
    return (BotoCoreError,)
