"""The four usual kinds of model servers: their names, and how their lists of models look. Data and pure functions.

Sources: https://docs.ollama.com/api/tags, https://lmstudio.ai/docs/developer/rest/endpoints,
https://github.com/ggml-org/llama.cpp/tree/master/tools/server, https://docs.vllm.ai/en/stable/serving/openai_compatible_server
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentic.llm.schemas import part, parts, text

Body = Mapping[str, Any]
_NAME = re.compile(r"[\w./:@+-]{1,120}")  # may be typed in a shell as it is
MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of server. `name` is the provider's, `path` lists its models, beside /v1. `names` returns their names, and
    None for an answer of another program. `start`, `get` and `longer` say how to start it, to get a model, and to get a
    longer context."""

    name: str
    title: str
    path: str
    names: Callable[[Body], list[str] | None]
    start: str
    get: str
    longer: str


@dataclass(frozen=True, slots=True)
class RunningServer:
    kind: Kind
    models: Sequence[str]


def advice(server: RunningServer) -> str:
    """How to let the bots speak by it."""
    kind = server.kind
    if not server.models:
        return f"{kind.title} runs on this machine, without a model. {kind.get}, then start again"
    return (
        f"{kind.title} runs on this machine ({some_of(server.models)}). To let all four bots speak by it, at no cost:"
        f" make local ARGS='--model {kind.name}/{server.models[0]}'"
    )


def some_of(names: Sequence[str], most: int = MOST_SHOWN) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def plain_name(model: str) -> str:
    """A model's name without the tag that Ollama adds by itself."""
    return model.removesuffix(":latest")


def listed_names(body: Body) -> list[str]:
    """The names in a list of models as OpenAI writes it."""
    return [plain_name(text(model, "id")) for model in parts(body, "data")]


def _ollama(body: Body) -> list[str] | None:
    if not isinstance(body.get("models"), list):
        return None
    return [plain_name(text(model, "name")) for model in parts(body, "models") if not _embeds(model)]


def _embeds(model: Body) -> bool:
    """Whether it turns texts into numbers and cannot speak."""
    return "bert" in text(part(model, "details"), "family")


def _lm_studio(body: Body) -> list[str] | None:
    models = parts(body, "data")
    if not isinstance(body.get("data"), list) or not all("state" in model for model in models):
        return None
    return [text(model, "id") for model in models if text(model, "type") in ("llm", "vlm")]


def _owned_by(owner: str, body: Body) -> list[str] | None:
    models = parts(body, "data")
    if not models or any(text(model, "owned_by") != owner for model in models):
        return None
    return listed_names(body)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "ollama",
            "Ollama",
            "/api/tags",
            _ollama,
            start="ollama serve",
            get="Get one: ollama pull llama3.2",
            longer="take a model with a longer context",
        ),
        Kind(
            "lmstudio",
            "LM Studio",
            "/api/v0/models",
            _lm_studio,
            start="lms server start",
            get="Get one: lms get qwen3-4b",
            longer="load it again: lms load MODEL --context-length 16384",
        ),
        Kind(
            "llamacpp",
            "llama.cpp",
            "/v1/models",
            partial(_owned_by, "llamacpp"),
            start="llama-server -hf ggml-org/gemma-3-4b-it-GGUF",
            get="Give it one",
            longer="start it with -c 16384",
        ),
        Kind(
            "vllm",
            "vLLM",
            "/v1/models",
            partial(_owned_by, "vllm"),
            start="vllm serve Qwen/Qwen3-4B",
            get="Give it one",
            longer="start it with --max-model-len 16384",
        ),
    )
}
"""Provider → kind."""


def named(kind: Kind, body: Body) -> RunningServer | None:
    """The server that gave this list of models; None for another program."""
    names = kind.names(body)
    return None if names is None else RunningServer(kind, [name for name in names if _NAME.fullmatch(name)])
