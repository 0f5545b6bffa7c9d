"""Model servers on this machine are found by the shape of their answers, whatever else listens on their ports."""

import json

import pytest
from aiohttp import web

from agent_config import EndpointSettings, load_settings
from agentic.llm import home_model
from agentic.local import models as server_search
from agentic.local.models import KINDS, RunningServer, advice, looking_for_servers
from tests.support.models.local_servers import LISTS, serving, speaking

NOBODY = "http://127.0.0.1:1"


def at(address, *providers):
    """Settings in which these servers are at this address, and the others nowhere."""
    places = {name: EndpointSettings(name=name, base_url=f"{NOBODY}/v1") for name in KINDS}
    places |= {name: EndpointSettings(name=name, base_url=f"{address}/v1") for name in providers}
    return load_settings({}, env_file=None).with_(endpoints=places)


async def found_at(address, *providers):
    async with looking_for_servers(at(address, *providers)) as found:
        return {server.kind.name: list(server.models) for server in await found()}


def json_of(body, **more):
    return web.Response(text=json.dumps(body), content_type="application/json", **more)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(server_search, "PATIENCE", 5.0)  # the machine may be busy


@pytest.mark.parametrize(
    ("kind", "models"),
    [
        ("ollama", ["llama3.3", "qwen3:4b"]),
        ("lmstudio", ["qwen3-4b", "gemma-3"]),
        ("llamacpp", ["gemma-3-4b-it.gguf"]),
        ("vllm", ["Qwen/Qwen3-4B"]),
    ],
)
async def test_each_server_is_known_by_its_list_and_named_with_the_models_that_speak(kind, models):
    path, body = LISTS[kind]
    async with serving({path: json_of(body)}) as address:
        assert await found_at(address, *KINDS) == {kind: models}, "also where it listens on the others' ports"


@pytest.mark.parametrize(("kind", "body"), [("ollama", {"models": []}), ("lmstudio", {"object": "list", "data": []})])
async def test_a_server_without_a_model_says_how_to_get_one(kind, body):
    async with serving({LISTS[kind][0]: json_of(body)}) as address:
        assert await found_at(address, kind) == {kind: []}
    line = advice(RunningServer(KINDS[kind], []))
    assert line.startswith(f"{KINDS[kind].title} runs on this machine but has no model. Get one: ")


def test_the_advice_is_a_command_to_type_and_names_no_more_than_three_models():
    line = advice(RunningServer(KINDS["ollama"], ["llama3.3", "qwen3", "a", "b"]))
    assert line == (
        "Ollama runs on this machine (llama3.3, qwen3, a and 1 more). To let all four bots speak by it, at no cost:"
        " make local ARGS='--model ollama/llama3.3'"
    )


async def test_a_name_that_could_not_be_typed_is_left_out():
    body = {"models": [{"name": "'; rm -rf ~ #"}, {"name": "\x1b[31mred"}, {"name": "good"}]}
    async with serving({"/api/tags": json_of(body)}) as address:
        assert await found_at(address, "ollama") == {"ollama": ["good"]}


OTHERS = {
    "a page": web.Response(text="<html>", content_type="text/html"),
    "a list of something else": json_of({"object": "list", "data": [{"id": "x", "owned_by": "me"}]}),
    "other JSON": json_of({"models": {"a": 1}, "data": "x"}),
    "no object": json_of([1, 2]),
    "a refusal": json_of(LISTS["ollama"][1], status=401),
    "a redirect": web.Response(status=302, headers={"location": "/moved"}),
    "a longer answer than any list": web.Response(
        text=json.dumps(LISTS["ollama"][1]) + " " * home_model.MAX_BYTES, content_type="application/json"
    ),
}


@pytest.mark.parametrize("what", OTHERS)
async def test_another_program_on_such_a_port_is_not_mentioned(what):
    routes = {path: OTHERS[what] for path, _ in LISTS.values()} | {"/moved": json_of(LISTS["ollama"][1])}
    async with serving(routes) as address:
        assert await found_at(address, *KINDS) == {}


async def test_a_program_that_answers_garbage_is_not_mentioned():
    async with speaking(b"\x00\xffSSH-2.0-nonsense\r\n" * 3) as address:
        assert await found_at(address, *KINDS) == {}


async def test_a_program_that_never_answers_does_not_delay_the_start(monkeypatch):
    monkeypatch.setattr(server_search, "PATIENCE", 0.05)
    async with speaking(b"") as silent, serving({"/api/tags": json_of({"models": []})}) as address:
        settings = at(silent, "vllm", "llamacpp")
        places = settings.endpoints | {"ollama": EndpointSettings(name="ollama", base_url=f"{address}/v1")}
        async with looking_for_servers(settings.with_(endpoints=places)) as found:
            while not (servers := await found()):
                pass
        assert [server.kind.name for server in servers] == ["ollama"]


async def test_no_address_outside_of_this_machine_is_asked():
    async with serving({"/api/tags": json_of({"models": []})}) as address:
        port = address.rpartition(":")[2]
        for host, servers in (("localhost", {"ollama": []}), ("0.0.0.0", {})):  # noqa: S104 - it leads here, by accident
            assert await found_at(f"http://{host}:{port}", *KINDS) == servers
