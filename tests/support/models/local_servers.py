"""Lists of models as the four usual model servers write them, and other programs on their ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

OLLAMA = {
    "models": [
        {"name": "llama3.3:latest", "model": "llama3.3:latest", "size": 42, "details": {"family": "llama"}},
        {"name": "qwen3:4b", "model": "qwen3:4b", "size": 2, "details": {"family": "qwen3"}},
        {"name": "nomic-embed-text:latest", "size": 1, "details": {"family": "nomic-bert"}},
    ]
}
LM_STUDIO = {
    "object": "list",
    "data": [
        {"id": "qwen3-4b", "object": "model", "type": "llm", "state": "not-loaded", "max_context_length": 32768},
        {"id": "gemma-3", "object": "model", "type": "vlm", "state": "loaded", "loaded_context_length": 4096},
        {"id": "text-embedding-nomic", "object": "model", "type": "embeddings", "state": "not-loaded"},
    ],
}
LLAMA_CPP = {
    "models": [{"name": "gemma-3-4b-it.gguf"}],
    "object": "list",
    "data": [{"id": "gemma-3-4b-it.gguf", "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}],
}
VLLM = {
    "object": "list",
    "data": [{"id": "Qwen/Qwen3-4B", "object": "model", "owned_by": "vllm", "max_model_len": 40960}],
}
LISTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ollama": ("/api/tags", OLLAMA),
    "lmstudio": ("/api/v0/models", LM_STUDIO),
    "llamacpp": ("/v1/models", LLAMA_CPP),
    "vllm": ("/v1/models", VLLM),
}
"""Provider → path and answer."""


@asynccontextmanager
async def serving(routes: Mapping[str, web.Response]) -> AsyncIterator[str]:
    """The address of an HTTP server with these answers, by path."""

    async def handle(request: web.Request) -> web.Response:
        found = routes.get(request.path)
        if found is None:
            return web.Response(status=404)
        return web.Response(status=found.status, body=found.body, headers=found.headers)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(app, host="127.0.0.1") as server:
        yield f"http://127.0.0.1:{server.port}"


@asynccontextmanager
async def speaking(first: bytes) -> AsyncIterator[str]:
    """The address of a program that says this to every connection, whatever it is asked, and then nothing more."""
    done = asyncio.Event()

    async def handle(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await done.wait()
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            done.set()
