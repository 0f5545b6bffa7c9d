"""The base class of every provider's model: fits the prompt, makes attempts, checks and prices the answer, and logs
failures.

A provider's module only translates: a Prompt to its request, its answer to a Reply, and its SDK's errors to ours. Its
client lives as long as the model. The SDKs' own retries are off, because retry.py owns retries.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

from agentic.llm import embeddings, errors, pricing
from agentic.llm.embeddings import Embedded
from agentic.llm.errors import ModelError
from agentic.llm.profiles import Aws, Endpoint, Profile
from agentic.llm.provider_table import profile_at, profile_of
from agentic.llm.retry import Retrier
from agentic.llm.schemas import schema_for
from agentic.llm.server_queue import ServerQueue
from agentic.llm.turns import (
    count_pictures,
    cut_at_stop,
    listen_until_stop,
    read_calls,
    rounds_in_words,
    with_newest_pictures,
    written_calls,
)
from agentic.llm.types import Drawing, Message, Prompt, Reply, Usage

# If a connection takes longer, it will fail; the remaining time is better spent on another attempt.
CONNECT_SECONDS = 10.0
# A bot's turns are tens of seconds apart: keeping the connection saves the TLS handshake.
KEEP_ALIVE_SECONDS = 90.0
REFUSED_SHAPES = (400, 422)

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a model, and its credentials.

    `image_model`: "" if the model can't draw. `base_url`: the provider's own if None. `free`: calls cost nothing.
    `rates`: the owner's prices instead of the price table. `endpoint` and `aws`: more for OpenAI-compatible addresses
    and Bedrock. `queue`: that of a model server at home.
    """

    model: str
    api_key: str = field(repr=False)
    image_model: str = ""
    base_url: str | None = None
    free: bool = False
    rates: pricing.Rates | None = None
    endpoint: Endpoint | None = None
    aws: Aws | None = None
    queue: ServerQueue | None = None


@dataclass(slots=True)
class StreamListener:
    """Receives a streamed answer: the whole text so far each time it changes, and "" when an attempt begins.

    `billed`: the attempt's cost that the provider has reported so far. An attempt that is cut off is billed too.
    """

    on_text: Callable[[str], None]
    billed: Usage | None = None
    _last: str | None = None

    def begin(self) -> None:
        """Start a new attempt."""
        self.billed, self._last = None, None
        self("")

    def __call__(self, text: str) -> None:
        if text != self._last:
            self._last = text
            self.on_text(text)


class ProviderModel:
    """Base class of every provider's model.

    Subclasses set `provider` and `_sdk_errors` (raised by the SDK, its HTTP client, and for odd answers), and implement
    the methods that raise NotImplementedError here. `draws`: there is an image API. `doubts_schema`: some servers
    behind this provider reject structured output, and then get the schema in words. `no_such_model`: HTTP statuses for
    an unknown model, so that a retry without pictures is pointless.
    """

    provider: str
    draws: ClassVar[bool] = False
    doubts_schema: ClassVar[bool] = False
    no_such_model: ClassVar[frozenset[int]] = frozenset({404})
    _sdk_errors: tuple[type[Exception], ...] = ()

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        self.access = access
        if access.endpoint is None:
            self.profile: Profile = profile_of(self.provider, access.model)
        else:
            self.provider, self.profile = access.endpoint.name, profile_at(access.endpoint, access.model)
        self._retrier = retrier or Retrier()

    @property
    def name(self) -> str:
        """`provider/model`, for logs and prices."""
        return f"{self.provider}/{self.access.model}"

    @property
    def can_draw(self) -> bool:
        return self.draws and bool(self.access.image_model)

    @property
    def free(self) -> bool:
        return self.access.free

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        """Return one answer within `prompt.timeout` seconds, including retries. Raises only ModelError."""
        if prompt.prefill is not None and not self.profile.prefill:
            raise errors.PrefillRefused(provider=self.provider, model=self.access.model)  # before a call that must fail
        ends = time.monotonic() + prompt.timeout
        if prompt.on_text is not None:
            prompt = replace(prompt, on_text=listen_until_stop(prompt.on_text, prompt.stop))
        prompt, history = with_newest_pictures(prompt, history, self.profile.max_pictures)
        reply = await self._accepted(prompt, history, ends)
        text, calls = cut_at_stop(reply.text, prompt.stop), reply.tool_calls
        if not calls and self.profile.tools and (calls := written_calls(text, prompt.tools)):
            text = ""
        return replace(
            reply,
            text=text,
            tool_calls=read_calls(calls, prompt.rounds, self.profile),
            model=self.name,
            usage=self._priced(pricing.fill_in(reply.usage, prompt, history, reply.text), self.access.model),
        )

    async def _accepted(self, prompt: Prompt, history: Sequence[Message], ends: float) -> Reply:
        """Ask again without pictures, then without this turn's tool calls, if the provider rejects the request.

        Otherwise a broken file, which anyone may post, would fail every turn while it is in the window. And a model
        that takes over in the middle of a turn may reject the other model's calls.
        """
        try:
            return await self._shaped(prompt, history, ends)
        except errors.BadRequest as error:
            if error.status in self.no_such_model or isinstance(error, errors.PrefillRefused):
                raise
            if count_pictures(prompt, history):
                prompt, history = with_newest_pictures(prompt, history, 0)
            elif prompt.rounds and self.profile.tools and not isinstance(error, errors.PromptTooLong):
                log.warning("%s rejected this turn's tool calls; sending their results as text", self.name)
                prompt = rounds_in_words(prompt)
            else:
                raise
        return await self._accepted(prompt, history, ends)

    async def _shaped(self, prompt: Prompt, history: Sequence[Message], ends: float) -> Reply:
        """Ask with structured output, tools, and everything else that servers may reject (FeatureRefused). If this one
        rejects something, ask without it from then on."""
        profile = self.profile
        tools = prompt.tools if profile.tools else ()
        search = prompt.search and bool(profile.search) and (profile.tools_with_search or not tools)
        temperature = prompt.temperature if profile.temperature else None
        thinking = prompt.thinking if prompt.thinking in profile.thinking and prompt.prefill is None else None
        fitted = prompt
        if (tools, search, temperature, thinking) != (prompt.tools, prompt.search, prompt.temperature, prompt.thinking):
            fitted = replace(prompt, tools=tools, search=search, temperature=temperature, thinking=thinking)
        if not tools:
            fitted = rounds_in_words(fitted)
        has_schema = schema_for(fitted, profile) is not None
        try:
            return await self._complete(fitted, history, ends - time.monotonic())
        except errors.FeatureRefused as error:
            asked = {"tools": bool(fitted.tools), "schema": has_schema}
            asked |= {"temperature": temperature is not None, "thinking": thinking is not None}
            asked |= {"max_tokens": profile.max_tokens, "max_stops": bool(profile.max_stops and prompt.stop)}
            asked |= {"stream_usage": profile.stream_usage and prompt.on_text is not None}
            if not asked[error.feature]:
                raise
            log.warning("%s: %s; asking without it from now on", self.name, error.kind)
            lacking: dict[str, Any] = {error.feature: type(getattr(profile, error.feature))()}  # False, 0, or {}
            self.profile = replace(self.profile, **lacking)
            return await self._shaped(prompt, history, ends)
        except errors.BadRequest as error:
            is_doubtful = self.doubts_schema and has_schema and error.status in REFUSED_SHAPES
            if not is_doubtful or isinstance(error, errors.PrefillRefused | errors.PromptTooLong):
                raise
        self.profile = replace(self.profile, schema=False)
        try:
            return await self._shaped(prompt, history, ends)
        except ModelError:
            self.profile = replace(self.profile, schema=profile.schema)  # the schema wasn't the problem
            raise

    async def _complete(self, prompt: Prompt, history: Sequence[Message], seconds: float) -> Reply:
        request = self._request(prompt, history)
        queued = self.access.queue.call(prompt) if self.access.queue is not None else None
        on_text = prompt.on_text

        def listen(text: str) -> None:
            if queued is not None and text:
                queued.begin()
            if on_text is not None:
                on_text(text)

        listener = StreamListener(listen) if on_text is not None else None

        async def attempt(seconds: float) -> Reply:
            ends = time.monotonic() + seconds

            async def ask() -> Reply:
                if listener is not None:
                    listener.begin()
                return await self._ask(request, ends - time.monotonic(), listener)

            reply = await (ask() if queued is None else queued.run(ask))
            error: ModelError | None = None
            # The model may have nothing to add to a prefilled answer.
            may_be_empty = prompt.prefill is not None and reply.stop == "stop"
            if reply.stop == "refusal":
                error = errors.Refused(request_id=reply.request_id)
            elif not reply.text.strip() and not reply.tool_calls and not may_be_empty:
                why = "cut off before the answer began" if reply.stop == "length" else "empty"
                error = errors.BadAnswer(why, request_id=reply.request_id)
            if error is not None:
                error.usage = reply.usage
                raise error
            if listener is not None:
                listener(reply.text)
            return reply

        lost = partial(pricing.expected, prompt, history)
        try:
            return await self._run(self.access.model, seconds, attempt, lost, listener, prompt.retries)
        except errors.TimedOut as error:
            if queued is None or (queued.was_asked and not queued.was_interrupted):
                raise
            raise errors.ServerBusy(provider=error.provider, model=error.model) from None

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - the Model protocol's
        """Return one picture within `timeout` seconds. Raises only ModelError."""
        if not self.can_draw:
            raise errors.CannotDraw(provider=self.provider, model=self.access.model)
        lost = partial(Usage, calls=1, pictures=1)
        model = self.access.image_model
        drawing = await self._run(model, timeout, partial(self._paint, prompt), lost)
        return replace(drawing, model=f"{self.provider}/{model}", usage=self._priced(drawing.usage, model))

    async def embed(self, texts: Sequence[str], *, timeout: float = 30.0) -> Embedded:  # noqa: ASYNC109 - as draw
        """Return a vector for each text within `timeout` seconds. Raises only ModelError."""
        sent = embeddings.texts_of(texts)
        lost = partial(embeddings.expected, sent)
        made = await self._run(self.access.model, timeout, partial(self._embed, sent), lost)
        usage = made.usage if made.usage.input_tokens else made.usage + replace(lost(), calls=0)
        return replace(made, model=self.name, usage=self._priced(usage, self.access.model))

    async def check(self, *, timeout: float = 10.0) -> None:  # noqa: ASYNC109 - all attempts, as in draw
        """Ask for the model's description, which is free. Raises a ModelError such as BadKey or BadRequest (no such
        model)."""
        await self._run(self.access.model, timeout, self._look)

    async def aclose(self) -> None:
        raise NotImplementedError

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        """Build the provider's request, once for all attempts."""
        raise NotImplementedError

    async def _ask(self, request: Mapping[str, Any], seconds: float, listener: StreamListener | None) -> Reply:
        """Make one call, streamed if there is a listener. The reply's usage isn't priced yet. Raises the SDK's errors
        or ours."""
        raise NotImplementedError

    async def _look(self, seconds: float) -> None:
        """Make one free call that needs the key and names the model."""
        raise NotImplementedError

    async def _paint(self, prompt: str, seconds: float) -> Drawing:
        raise errors.CannotDraw

    async def _embed(self, texts: Sequence[str], seconds: float) -> Embedded:
        raise errors.BadRequest("this provider makes no embeddings")

    def _explain(self, error: Exception) -> ModelError:
        """Return our error for one of `_sdk_errors`."""
        raise NotImplementedError

    async def _run(
        self,
        model: str,
        seconds: float,
        attempt: Callable[[float], Awaitable[T]],
        lost: Callable[[], Usage] = Usage,
        listener: StreamListener | None = None,
        retries: int | None = None,
    ) -> T:
        """Run the attempts. The returned or raised usage includes the failed attempts.

        `lost` estimates the cost of an attempt that was cut off and reported nothing.
        """
        paid: list[Usage] = []

        async def translated(seconds: float) -> T:
            try:
                return await attempt(seconds)
            except self._sdk_errors as error:
                # `from None`, because an SDK's text may quote the key or the prompt, and tracebacks are logged.
                raise self._explain(error) from None

        def failed(error: ModelError, number: int) -> None:
            error.provider, error.model = self.provider, model
            cost = error.usage or (listener.billed if listener else None) or (lost() if error.made else None)
            if cost is not None:
                paid.append(cost)
            log.warning("model call: attempt %d failed: %s", number, error)

        attempts = None if retries is None else retries + 1
        try:
            answer = await self._retrier.run(translated, seconds=seconds, failed=failed, attempts=attempts)
        except ModelError as error:
            error.usage = self._priced(sum(paid, Usage()), model) if paid else None
            raise
        if paid and isinstance(answer, (Reply, Drawing, Embedded)):
            return replace(answer, usage=answer.usage + sum(paid, Usage()))
        return answer

    def _priced(self, usage: Usage, model: str) -> Usage:
        return pricing.price(self.provider, model, usage, free=self.access.free, rates=self.access.rates)
