"""Any address that speaks OpenAI's Chat Completions: gateways, and model servers on the owner's machines.

OpenAI's SDK provides authentication and errors. Such servers agree on little beyond the shape. What one lacks is in its
`Endpoint`, in the profile "compatible", or learnt when it refuses (structured output).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentic.llm import http as sdk_http
from agentic.llm import http as sse
from agentic.llm.embeddings import Embedded
from agentic.llm.errors import ModelError
from agentic.llm.model import Access, ProviderModel, StreamListener
from agentic.llm.profiles import profile_at
from agentic.llm.providers import chat_completions
from agentic.llm.providers.compatible_stream import gathered
from agentic.llm.providers.openai import embedded, load
from agentic.llm.retry import Retrier
from agentic.llm.schemas import json_object
from agentic.llm.types import Message, Prompt, Reply

if TYPE_CHECKING:
    import httpx2
    import openai

__all__ = ["CompatibleModel", "load"]


@dataclass(frozen=True, slots=True)
class EndpointCall:
    """A request and its path."""

    path: str
    body: Mapping[str, Any]


class CompatibleModel(ProviderModel):
    """A model behind an `Endpoint`, whose name is its provider. It draws nothing and has no search of its own."""

    provider = "compatible"
    doubts_schema = True
    no_such_model = frozenset()  # OpenRouter also answers 404 for a model that sees no pictures

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        if access.endpoint is None:
            raise ValueError("compatible: no endpoint is given")
        super().__init__(access, retrier)
        import openai

        self.endpoint = access.endpoint
        self.provider = self.endpoint.name
        self.profile = profile_at(self.endpoint, access.model)
        self._sdk_errors = (openai.OpenAIError, *sdk_http.transport_errors())
        address = (access.base_url or self.endpoint.base_url).rstrip("/")
        unsigned = () if access.api_key else (_without_key,)
        self._client: openai.AsyncOpenAI = openai.AsyncOpenAI(
            api_key=access.api_key or "none",
            base_url=access.base_url or self.endpoint.base_url,
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(**sdk_http.http_options(address, *unsigned)),
            default_headers=_others_left_out(),
        )

    @property
    def can_draw(self) -> bool:
        return False

    async def aclose(self) -> None:
        await self._client.close()

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        body, plain = chat_completions.body_for(self.endpoint, prompt, history, self.access.model, self.profile)
        path = "/completions" if plain else "/chat/completions"
        if prompt.on_text and self.endpoint.stream_usage:
            body["stream_options"] = {"include_usage": True}
        return {"call": EndpointCall(path, body | dict(self.endpoint.fields) | dict(prompt.fields))}

    async def _ask(self, request: Mapping[str, Any], seconds: float, listener: StreamListener | None) -> Reply:
        call: EndpointCall = request["call"]
        if listener is None:
            response = await sdk_http.post(self._client, call.path, call.body, seconds)
            answer, request_id = json_object(response.content), response.headers.get("x-request-id")
        else:
            async with aclosing(sse.objects(self._client, call.path, call.body, seconds)) as pieces:
                answer, request_id = await gathered(pieces, listener), None
        return chat_completions.reply_of(answer, self.provider, request_id)

    async def _embed(self, texts: Sequence[str], seconds: float) -> Embedded:
        return await embedded(self._client, self.access.model, texts, seconds)

    async def _look(self, seconds: float) -> None:
        """List the models, since not every server describes a single one."""
        await sdk_http.get(self._client, "/models", seconds)

    def _explain(self, error: Exception) -> ModelError:
        return sdk_http.explain(error, "x-request-id")


def _others_left_out() -> dict[str, Any]:
    """Omit OPENAI_ORG_ID and OPENAI_PROJECT_ID, which the SDK reads from the environment: other providers must not get
    them."""
    import openai

    return {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}


async def _without_key(request: httpx2.Request) -> None:
    """Remove the authorization header: the SDK insists on a key, and a server on this machine needs none."""
    del request.headers["Authorization"]
