"""`--model`: a model that cannot be used is refused at once, in one line with what to do."""

import asyncio
import json

import pytest
from aiohttp import web

from agent_config import load_settings
from agentic.local.models import KINDS, check_model
from tests.support.models.local_servers import serving, speaking
from tests.support.models.model_server import ModelServer

NOBODY = "http://127.0.0.1:1"


async def problem(folder, name, *, at=NOBODY, warning=False, **environment):
    """The line, where every server of the owner's is at this address."""
    endpoints = {each: {"base_url": f"{at}/v1"} for each in ("ollama", "lmstudio", "llamacpp", "vllm", "lab")}
    (folder / "endpoints.yaml").write_text(json.dumps({"endpoints": endpoints}))
    environment = {"CONFIG_FILES_DIR": str(folder), **environment}
    settings = load_settings(environment, env_file=None, local=True, model=name)
    verdict = await asyncio.to_thread(check_model, settings, name)
    return verdict.warning if warning else verdict.problem or None


def listing(*names, status=200):
    body = json.dumps({"object": "list", "data": [{"id": name} for name in names]})
    return {"/v1/models": web.Response(text=body, status=status, content_type="application/json")}


@pytest.mark.parametrize(
    ("name", "routes", "line"),
    [
        ("ollama/llama3.3", listing("llama3.3:latest"), None),
        ("ollama/llama3.3:latest", listing("llama3.3:latest"), None),
        ("lab/deep/thought:free", listing("deep/thought"), None),
        ("lab/unlisted", {}, None),
        (
            "ollama/lama3.3",
            listing("qwen3:latest", "llama3.3:latest"),
            "Ollama has no such model; it has llama3.3, qwen3. To get it: ollama pull lama3.3",
        ),
        ("ollama/x", listing(), "Ollama has no such model; it has none. Get one: ollama pull llama3.2"),
        ("lmstudio/x", listing("qwen3-4b"), "LM Studio has no such model; it has qwen3-4b"),
        ("ollama", listing("a", "b"), "name one of its models: ollama/a, ollama/b"),
        ("ollama/x", {}, "the program at {at}/v1 isn't a model server (status 404)"),
        ("ollama/x", listing(status=503), "{at}/v1 is not ready (503), it may be loading its model; try again"),
        ("lab/x", listing(status=401), "{at}/v1 wants a key; set ENDPOINT_LAB_KEY in .env"),
    ],
)
async def test_an_endpoint_is_asked_for_its_models(tmp_path, name, routes, line):
    async with serving(routes) as address:
        found = await problem(tmp_path, name, at=address)
    if line is None:
        assert found is None
    else:
        assert found.startswith(f"--model {name}: {line.format(at=address)}")
        assert "\n" not in found


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("llama3.3", "expected provider/model, such as ollama/llama3.3; the providers are anthropic, bedrock, "),
        ("olama/llama3.3", "expected provider/model"),
        ("openai", "expected provider/model"),
        ("openai/gpt-6-luna", "OPENAI_API_KEY isn't set; set it in .env"),
        ("deepseek/chat", "ENDPOINT_DEEPSEEK_KEY isn't set; set it in .env"),
        ("ollama/x", f"nothing answers at {NOBODY}/v1; start Ollama (ollama serve), or correct config/endpoints.yaml"),
    ],
)
async def test_a_name_without_a_provider_a_key_or_a_server_says_what_is_missing(tmp_path, name, line):
    assert (await problem(tmp_path, name)).startswith(f"--model {name}: {line}")


async def test_a_password_in_an_address_is_not_shown(tmp_path):
    async with speaking(b"garbage\r\n") as address:
        found = await problem(tmp_path, "ollama/x", at=address.replace("//", "//me:canary@"))
    assert found.startswith(f"--model ollama/x: nothing answers at {address}/v1")
    assert "canary" not in found


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("gpt-6-luna", None),
        ("gpt-of-nobody", "openai has no such model; try gpt-6-luna"),
    ],
)
async def test_a_provider_is_asked_about_its_model_with_the_key(tmp_path, model, line):
    async with ModelServer() as server:
        found = await problem(
            tmp_path, f"openai/{model}", OPENAI_API_KEY="k", OPENAI_BASE_URL=server.base_url("openai")
        )
        assert server.requests == [], "it costs nothing"
    assert found == (None if line is None else f"--model openai/{model}: {line}")


CONTEXTS = {
    "ollama": ("/api/show", {"model_info": {"general.architecture": "phi2", "phi2.context_length": 4096}}),
    "lmstudio": ("/api/v0/models", {"data": [{"id": "x", "state": "loaded", "loaded_context_length": 4096}]}),
    "llamacpp": ("/props", {"default_generation_settings": {"n_ctx": 4096}}),
    "vllm": ("/v1/models", {"data": [{"id": "x", "max_model_len": 4096}]}),
}


@pytest.mark.parametrize("provider", CONTEXTS)
async def test_a_context_that_is_too_small_is_a_warning_that_says_how_to_get_a_longer_one(tmp_path, provider):
    path, body = CONTEXTS[provider]
    for tokens, warns in (("4096", True), ("8192", False), ('"x"', False)):
        written = json.dumps(body).replace("4096", tokens)
        answer = web.Response(text=written, content_type="application/json")
        async with serving({**listing("x"), path: answer}) as address:
            line = await problem(tmp_path, f"{provider}/x", at=address, warning=True)
        if warns:
            assert "reads 4,096 tokens at a time by this model, less than a long prompt has (8,192); " in line
            assert line.endswith(f"{KINDS[provider].longer}, or set CONTEXT_WINDOW_SIZE lower")
        else:
            assert line == ""


def test_all_agents_get_the_model_whatever_else_is_set(tmp_path):
    (tmp_path / "bots").mkdir()
    (tmp_path / "bots" / "claude.yaml").write_text("model: openai/other\n")
    environment = {"CONFIG_FILES_DIR": str(tmp_path), "GROK_MODEL": "grok-own", "XAI_API_KEY": "k"}
    settings = load_settings(environment, env_file=None, local=True, model="ollama/llama3.3")
    assert {agent.model for agent in settings.agents.values()} == {"llama3.3"}
    assert {agent.provider for agent in settings.agents.values()} == {"ollama"}
    assert len({settings.personality_of(name) for name in settings.agents}) == 4


@pytest.mark.parametrize("name", ["olama/llama3.3", "ollama/", "/"])
def test_a_wrong_name_is_not_put_down_to_settings_that_nobody_set(name):
    assert not [line for line in load_settings({}, None, local=True, model=name).warnings if "_MODEL" in line]
