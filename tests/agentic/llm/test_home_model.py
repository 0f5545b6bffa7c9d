"""What a model server at home reports about its model, and how fast it is."""

import aiohttp
import pytest
from aiohttp import web

from agentic.llm.home_model import HomeModel, ModelSize, ask_size
from agentic.llm.types import Usage
from tests.support.models.local_servers import serving

REPORTED = {
    "ollama": {
        "/api/show": {
            "model_info": {
                "general.architecture": "phi2",
                "phi2.context_length": 4096,
                "general.parameter_count": 9_000_000_000,
            }
        }
    },
    "llamacpp": {
        "/v1/models": {"data": [{"id": "x", "meta": {"n_params": 9_000_000_000}}]},
        "/props": {"default_generation_settings": {"n_ctx": 4096}},
    },
    "lmstudio": {"/api/v0/models": {"data": [{"id": "x", "loaded_context_length": 4096}]}},
    "vllm": {"/v1/models": {"data": [{"id": "x", "max_model_len": 4096}]}},
}


@pytest.mark.parametrize("provider", REPORTED)
async def test_each_server_reports_the_size_in_its_own_place(provider):
    routes = {path: web.json_response(answer) for path, answer in REPORTED[provider].items()}
    async with serving(routes) as address, aiohttp.ClientSession() as session:
        size = await ask_size(session, provider, f"{address}/v1", "x", None)
    assert size == ModelSize(9_000_000_000 if provider in ("ollama", "llamacpp") else 0, 4096)
    assert size.is_small, "its context is too short for the usual prompt"


async def test_a_model_is_small_by_its_speed_only_after_two_slow_calls():
    home = HomeModel("lab", "x", "http://127.0.0.1:1/v1", None)
    assert not await home.is_small(), "nothing is known about it"
    slow = Usage(input_tokens=900, cached_tokens=100, output_tokens=20)
    home.note(slow, 40.0)
    assert not await home.is_small()
    home.note(slow, 50.0)
    assert await home.is_small()
    home.note(slow, 4.0)
    assert not await home.is_small(), "the machine was busy"
