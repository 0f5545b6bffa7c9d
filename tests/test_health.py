import json
import socket

import aiohttp
import pytest

from agent_health import Health, main, serving_health


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


async def answers(port):
    found = {}
    async with aiohttp.ClientSession() as session:
        for path in ("/healthz", "/readyz"):
            async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                found[path] = response.status, json.loads(await response.text())["status"]
    return found


@pytest.mark.parametrize(
    ("health", "status"),
    [
        (Health(("claude",), bus=True), (200, "ready")),
        (Health((), bus=True), (503, "not ready")),
        (Health(("claude",), bus=False), (503, "not ready")),
        (Health(("claude",), bus=True, stopping=True), (503, "stopping")),
    ],
)
async def test_live_and_ready_are_told_apart(port, health, status):
    async with serving_health(port, lambda: health):
        assert await answers(port) == {"/healthz": (200, "live"), "/readyz": status}


async def test_without_a_port_nothing_is_served_and_a_taken_one_is_a_warning(port, caplog):
    async with serving_health(0, lambda: Health((), bus=True)):
        pass
    assert caplog.text == ""
    with socket.create_server(("127.0.0.1", port)):
        async with serving_health(port, lambda: Health((), bus=True)):
            assert f"HEALTH_PORT {port} cannot be served" in caplog.text


def test_the_question_of_a_service_manager_is_answered_by_an_exit_code(monkeypatch, tmp_path, port, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0  # HEALTH_PORT is not set: nothing to ask
    monkeypatch.setenv("HEALTH_PORT", str(port))
    assert main([]) == main(["ready"]) == 1
    assert main(["well?"]) == 2
    monkeypatch.setenv("HEALTH_PORT", "none")
    assert main([]) == 2
    assert "HEALTH_PORT" in capsys.readouterr().err
