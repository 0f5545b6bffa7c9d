"""Model servers on this machine, whether the model of `--model` can be used, and which bots are thinking.

Each usual address on loopback is asked while the rest of the program starts. Any program may listen there and answer
anything, or nothing: answers are limited in size and time, redirects are not followed, and a program that does not
answer as a model server does is not mentioned. The chosen model is asked about before anything is opened, at no cost,
also for the number of tokens that it reads at a time: a longer prompt fails, or loses its older messages.

Sources: https://docs.ollama.com/api/tags, https://docs.ollama.com/api-reference/show-model-details,
https://lmstudio.ai/docs/developer/rest/endpoints, https://github.com/ggml-org/llama.cpp/tree/master/tools/server,
https://docs.vllm.ai/en/stable/serving/openai_compatible_server
"""

from __future__ import annotations

import asyncio
import difflib
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from agent_config import ModelSettings, Settings
from agentic.check.agents import error_of
from agentic.llm.errors import BadKey, Retryable
from agentic.llm.home_model import Body, JsonAnswer, NoAnswer, ask, ask_size
from agentic.llm.http import on_loopback
from agentic.llm.provider_table import ENDPOINTS, PROVIDERS
from agentic.llm.providers.ollama import MIN_CONTEXT
from agentic.llm.schemas import part, parts, text
from agentic.llm.types import Drawing, Message, Model, Prompt, Reply
from agentic.local.terminal.view import one_line
from agentic.runtime.bot import cancel
from agentic.settings.models import endpoint_key, known_providers

Found = Callable[[], Coroutine[Any, Any, list["RunningServer"]]]

PATIENCE = 0.2  # seconds from the first question; the rest of the start takes longer
MAX_SHOWN = 3  # models of a server in a line
MAX_NAMED = 8  # models in a line about a wrong name
NO_LIST = (404, 405)
SLOW = 10.0  # seconds of thinking, from which on a line is worth it
PAUSE = 60.0  # seconds between two such lines
_NAME = re.compile(r"[\w./:@+-]{1,120}")  # may be typed in a shell as it is


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of server. `name` is the provider's, `path` lists its models, beside /v1. `start`, `longer` and `pull` say
    how to start it, to get a longer context, and to get a model, "" if it is started with one."""

    name: str
    title: str
    path: str
    start: str
    longer: str
    pull: str = ""

    @property
    def get(self) -> str:
        return f"Get one: {self.pull}" if self.pull else "Give it one"


@dataclass(frozen=True, slots=True)
class RunningServer:
    kind: Kind
    models: Sequence[str]


def plain_name(model: str) -> str:
    """Remove the tag that Ollama adds to a model's name."""
    return model.removesuffix(":latest")


def listed_names(body: Body) -> list[str]:
    """Return the names in a list of models in OpenAI's format."""
    return [plain_name(text(model, "id")) for model in parts(body, "data")]


def names_in(kind: Kind, body: Body) -> list[str] | None:
    """Return the names of a server's models, or None if this isn't the answer of such a server."""
    models = parts(body, "models" if kind.name == "ollama" else "data")
    if kind.name == "ollama":
        # A "bert" turns texts into numbers and cannot speak.
        speak = (model for model in models if "bert" not in text(part(model, "details"), "family"))
        return [plain_name(text(model, "name")) for model in speak] if isinstance(body.get("models"), list) else None
    if kind.name == "lmstudio":
        if not isinstance(body.get("data"), list) or not all("state" in model for model in models):
            return None
        return [text(model, "id") for model in models if text(model, "type") in ("llm", "vlm")]
    if not models or any(text(model, "owned_by") != kind.name for model in models):
        return None
    return listed_names(body)


_RELOAD = "load it again: lms load MODEL --context-length 16384"
_KINDS = (
    Kind("ollama", "Ollama", "/api/tags", "ollama serve", "take a model with a longer context", "ollama pull llama3.2"),
    Kind("lmstudio", "LM Studio", "/api/v0/models", "lms server start", _RELOAD, "lms get qwen3-4b"),
    Kind(
        "llamacpp", "llama.cpp", "/v1/models", "llama-server -hf ggml-org/gemma-3-4b-it-GGUF", "start it with -c 16384"
    ),
    Kind("vllm", "vLLM", "/v1/models", "vllm serve Qwen/Qwen3-4B", "start it with --max-model-len 16384"),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""Provider → kind."""


@asynccontextmanager
async def looking_for_servers(settings: Settings, kinds: Iterable[Kind] = _KINDS) -> AsyncIterator[Found]:
    """Ask the addresses of these kinds. The result returns the servers that answered within PATIENCE."""
    began = time.monotonic()
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        tasks = [asyncio.create_task(_look(session, settings, kind)) for kind in kinds]

        async def found() -> list[RunningServer]:
            if not tasks:
                return []
            await asyncio.wait(tasks, timeout=max(0.0, began + PATIENCE - time.monotonic()))
            return [server for task in tasks if task.done() and (server := task.result()) is not None]

        try:
            yield found
        finally:
            await cancel(tasks)


async def _look(session: aiohttp.ClientSession, settings: Settings, kind: Kind) -> RunningServer | None:
    address = address_of(settings, kind.name)
    if not on_loopback(address) or not address.endswith("/v1"):
        return None
    try:
        answer = await ask(session, address.removesuffix("/v1") + kind.path, key_of(settings, kind.name))
    except NoAnswer:
        return None
    names = names_in(kind, answer.body) if answer.status == 200 else None
    return None if names is None else RunningServer(kind, [name for name in names if _NAME.fullmatch(name)])


def advice(server: RunningServer) -> str:
    """Say how to let the bots use the server."""
    kind = server.kind
    if not server.models:
        return f"{kind.title} runs on this machine but has no model. {kind.get}, then start again"
    return (
        f"{kind.title} runs on this machine ({some_of(server.models)}). To let all four bots speak by it, at no cost:"
        f" make local ARGS='--model {kind.name}/{server.models[0]}'"
    )


def some_of(names: Sequence[str], most: int = MAX_SHOWN) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def address_of(settings: Settings, provider: str) -> str:
    """Return the base URL of an endpoint: the owner's, or the default."""
    own = settings.endpoints.get(provider)
    return ((own.base_url if own else None) or ENDPOINTS[provider].base_url).rstrip("/")


def key_of(settings: Settings, provider: str) -> str | None:
    key = settings.keys.get(endpoint_key(provider))
    return key.get_secret_value() if key else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A line each, "" for none: why the bots cannot use the model and what to do, or what will go wrong with it."""

    problem: str = ""
    warning: str = ""


def check_model(settings: Settings, name: str) -> Verdict:
    """Check the model `name`. `settings` were loaded with it, so it is the model of all agents."""
    verdict = asyncio.run(verdict_on(settings, name))
    lines = (one_line(f"--model {name}: {line}") if line else "" for line in (verdict.problem, verdict.warning))
    return Verdict(*lines)


async def verdict_on(settings: Settings, name: str) -> Verdict:
    """Check the model in a running loop; the lines don't name it."""
    provider, _, model = name.partition("/")
    known = known_providers(settings.endpoints)
    if provider not in known or (not model and provider in PROVIDERS):
        expected = f"expected provider/model, such as ollama/llama3.3; the providers are {', '.join(sorted(known))}"
        return Verdict(expected)
    chosen = next(iter(settings.agents.values())).models[0]
    if provider not in PROVIDERS:
        return await _ask_endpoint(settings, provider, model, chosen)
    if chosen.lacks:
        return Verdict(f"{chosen.lacks} isn't set; set it in .env")
    error = await error_of(chosen, chosen.model)
    if error is None or (isinstance(error, Retryable) and error.status is not None):
        return Verdict()  # start even if the provider is busy
    if error.status == 404:
        usual = PROVIDERS[chosen.provider].model
        return Verdict(f"{chosen.provider} has no such model" + (f"; try {usual}" if usual else ""))
    if isinstance(error, BadKey):
        return Verdict(f"the key was refused; correct {chosen.key_setting}")
    return Verdict(f"{error.kind}{f' ({error.status})' if error.status else '; check the network'}")


async def _ask_endpoint(settings: Settings, provider: str, model: str, chosen: ModelSettings) -> Verdict:
    if model and (needed := chosen.lacks):
        return Verdict(f"{needed} isn't set; set it in .env")
    address, key = address_of(settings, provider), key_of(settings, provider)
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        try:
            answer = await ask(session, f"{address}/models", key)
        except NoAnswer:
            kind, own = KINDS.get(provider), settings.endpoints.get(provider)
            start = f"start {kind.title} ({kind.start})" if kind else "check the network"
            correct = ", or correct config/endpoints.yaml" if own and own.base_url else ""
            return Verdict(f"nothing answers at {_without_password(address)}; {start}{correct}")
        if problem := _find_problem(answer, provider, model, address, has_key=key is not None):
            return Verdict(problem)
        return Verdict(warning=await context_warning(session, provider, address, model, key) or "")


async def context_warning(
    session: aiohttp.ClientSession, provider: str, address: str, model: str, key: str | None
) -> str | None:
    """Return a warning if the model's context is too small, None if it's large enough or unknown."""
    kind = KINDS.get(provider)
    if kind is None or not address.endswith("/v1"):
        return None
    try:
        tokens = (await ask_size(session, provider, address, model, key)).context
    except NoAnswer:
        return None
    if not 0 < tokens < MIN_CONTEXT:
        return None
    return (
        f"{kind.title} reads {tokens:,} tokens at a time by this model, less than a long prompt has"
        f" ({MIN_CONTEXT:,}); {kind.longer}, or set CONTEXT_WINDOW_SIZE lower"
    )


def _find_problem(answer: JsonAnswer, provider: str, model: str, address: str, *, has_key: bool) -> str | None:
    """Read an endpoint's list of models. Return why the model can't be used, or None."""
    if answer.status in (401, 403):
        setting = endpoint_key(provider)
        key = f"refused the key; correct {setting}" if has_key else f"wants a key; set {setting} in .env"
        return f"{_without_password(address)} {key}"
    if answer.status in NO_LIST and provider not in KINDS and model:
        return None  # not every gateway lists its models
    if answer.status == 503:
        return f"{_without_password(address)} is not ready (503), it may be loading its model; try again in a moment"
    if answer.status != 200 or not isinstance(answer.body.get("data"), list):
        return f"the program at {_without_password(address)} isn't a model server (status {answer.status})"
    names = [name for name in listed_names(answer.body) if name]
    if not model:
        named = some_of([f"{provider}/{name}" for name in names], MAX_NAMED)
        return f"name one of its models: {named or 'it has none'}"
    # Gateways append variants to a name, such as :free, which they do not list.
    kind = KINDS.get(provider)
    if plain_name(model) in names or (kind is None and model.partition(":")[0] in names):
        return None
    close = difflib.get_close_matches(model, names, MAX_NAMED)
    names = [*close, *(name for name in names if name not in close)]
    it_has = f"it has {some_of(names, MAX_NAMED)}" if names else f"it has none. {kind.get if kind else ''}".rstrip()
    pull = f". To get it: ollama pull {model}" if provider == "ollama" and names else ""
    return f"{kind.title if kind else provider} has no such model; {it_has}{pull}"


def _without_password(address: str) -> str:
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


@dataclass(eq=False, slots=True)
class _Thought:
    bot: str
    channel: int | None
    since: float
    ahead: int = 0


class Thinking:
    """The running calls. `clock` is in seconds; `channel_name` takes a channel's id."""

    def __init__(self, clock: Callable[[], float], channel_name: Callable[[int], str]) -> None:
        self._clock, self._channel_name = clock, channel_name
        self._thoughts: list[_Thought] = []
        self._next_line = -math.inf

    @contextmanager
    def of(self, bot: str, channel: int | None) -> Iterator[_Thought]:
        """Note a call while entered. `bot` is a display name."""
        thought = _Thought(bot, channel, self._clock())
        self._thoughts.append(thought)
        try:
            yield thought
        finally:
            self._thoughts.remove(thought)

    def render(self, least: float = 0.0) -> str:
        """Return a line about the bots that have been thinking for at least `least` seconds, or ""."""
        now = self._clock()
        words = []
        for each in self._thoughts:
            if now - each.since >= least:
                place = f" in #{self._channel_name(each.channel)}" if each.channel is not None else ""
                ahead = f" ({each.ahead} ahead)" if each.ahead else ""
                words.append(f"{each.bot} is thinking{place}… {now - each.since:.0f} s{ahead}")
        return ", ".join(words)

    def slow_line(self) -> str:
        """Return a line about slow bots, at most once in PAUSE seconds."""
        line = self.render(SLOW) if self._clock() >= self._next_line else ""
        if line:
            self._next_line = self._clock() + PAUSE
        return line


class WatchedModel:
    """A model whose calls are noted in `thinking`."""

    def __init__(self, model: Model, bot: str, thinking: Thinking) -> None:
        self._model, self._bot, self._thinking = model, bot, thinking
        self.name, self.can_draw, self.free = model.name, model.can_draw, model.free

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        with self._thinking.of(self._bot, prompt.conversation) as thought:

            def wait_for(ahead: int) -> None:
                thought.ahead = ahead
                if prompt.on_wait is not None:
                    prompt.on_wait(ahead)

            on_wait = wait_for if prompt.priority == "person" else None
            return await self._model.complete(replace(prompt, on_wait=on_wait), history)

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - the Model protocol's
        with self._thinking.of(self._bot, None):
            return await self._model.draw(prompt, timeout=timeout)

    async def aclose(self) -> None:
        await self._model.aclose()
