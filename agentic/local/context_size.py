"""The number of tokens that a model reads at a time, as its server has loaded it: a longer prompt fails, or loses its
older messages.

Sources: https://docs.ollama.com/api-reference/show-model-details, https://lmstudio.ai/docs/developer/rest/endpoints,
https://github.com/ggml-org/llama.cpp/tree/master/tools/server (GET /props)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp

from agentic.llm.providers.ollama import LEAST_CONTEXT
from agentic.llm.schemas import number, part, parts, text
from agentic.local.server_kinds import KINDS
from agentic.local.server_search import NoAnswer, get_json, post_json

Body = Mapping[str, Any]


async def context_warning(
    session: aiohttp.ClientSession, provider: str, address: str, model: str, key: str | None, listed: Body
) -> str | None:
    """A line for a model whose context is too small; None for one that is large enough, or not known. `listed` is the
    server's list of models."""
    kind = KINDS.get(provider)
    if kind is None or not address.endswith("/v1"):
        return None
    try:
        tokens = await _context(session, provider, address.removesuffix("/v1"), model, key, listed)
    except NoAnswer:
        return None
    if not 0 < tokens < LEAST_CONTEXT:
        return None
    return (
        f"{kind.title} reads {tokens:,} tokens at a time by this model, less than a long prompt has"
        f" ({LEAST_CONTEXT:,}); {kind.longer}, or set CONTEXT_WINDOW_SIZE lower"
    )


async def _context(
    session: aiohttp.ClientSession, provider: str, root: str, model: str, key: str | None, listed: Body
) -> int:
    """Tokens, 0 if not known. Raises NoAnswer."""
    match provider:
        case "ollama":  # which is asked for a size with each request, up to the model's own
            shown = (await post_json(session, f"{root}/api/show", key, {"model": model})).body
            family = text(part(shown, "model_info"), "general.architecture")
            return number(shown, "model_info", f"{family}.context_length")
        case "lmstudio":
            models = parts((await get_json(session, f"{root}/api/v0/models", key)).body, "data")
            return next((number(each, "loaded_context_length") for each in models if text(each, "id") == model), 0)
        case "llamacpp":
            properties = (await get_json(session, f"{root}/props", key)).body
            return number(properties, "default_generation_settings", "n_ctx")
        case _:
            models = parts(listed, "data")
            return next((number(each, "max_model_len") for each in models if text(each, "id") == model), 0)
