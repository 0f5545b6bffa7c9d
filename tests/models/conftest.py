"""A real model, served by llama.cpp: `make test-model`, or `make test-model MODEL=path.gguf`. Other runs skip these
tests, with the reason."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from agent_config import load_settings
from agentic.agent.persona import read_fronts
from agentic.process.root import ROOT
from agentic.quality.turns import Side

HERE = Path(__file__).parent
PYTHON = ROOT / ".venv-models" / "bin" / "python"
POLL_SECONDS = 0.05
SECONDS = 900  # for a test: a small machine takes minutes for a conversation


@dataclass(frozen=True)
class ServedModel:
    """`file` is the owner's GGUF file, or "" for the small model."""

    address: str
    file: str

    async def busy_slots(self) -> int:
        """Return how many requests the server works on."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.address}/slots") as response:
            return sum(slot["is_processing"] for slot in await response.json())

    async def wait_until_busy(self) -> None:
        async with asyncio.timeout(60):
            while not await self.busy_slots():  # noqa: ASYNC110 - another program's state
                await asyncio.sleep(POLL_SECONDS)


def reason_to_skip(marked: str) -> str | None:
    if "model" not in marked:
        return "tests with a real model run by `make test-model`"
    return None if PYTHON.exists() else "llama.cpp is not installed: `make test-model` installs it"


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.model)
    item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if reason := reason_to_skip(item.config.getoption("markexpr")):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedModel]:
    file = os.environ.get("MODEL", "")
    log = tmp_path_factory.mktemp("server") / "server.log"
    with log.open("wb") as written:
        command = [str(PYTHON), str(HERE / "serve.py"), file]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=written)  # noqa: S603
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, log.read_text(errors="replace")[-2000:]
        yield ServedModel(json.loads(line)["address"], file)
        assert process.poll() is None, f"the server ended: {log.read_text(errors='replace')[-2000:]}"
    finally:
        process.stdin.close()
        process.wait(30)


@pytest.fixture(scope="session")
def side(model: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> Side:
    config = tmp_path_factory.mktemp("config")
    endpoints = {"endpoints": {"llamacpp": {"base_url": f"{model.address}/v1"}}}
    (config / "endpoints.yaml").write_text(json.dumps(endpoints), encoding="utf-8")
    environment = {"CONFIG_FILES_DIR": str(config), "PERSONAS_DIR": str(ROOT / "personas"), "WEB_SEARCH": "false"}
    settings = load_settings(environment, env_file=None, local=True, model="llamacpp/small", fronts=read_fronts)
    return Side("the model", settings)
