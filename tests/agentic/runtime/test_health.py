import json
import re
import socket

import aiohttp
import pytest

from agent_config import Settings
from agentic.net.http_server import Connections
from agentic.process.root import ROOT
from agentic.runtime import health
from agentic.runtime.health import Health, main, serving_health
from tests.support.ports import free_port


@pytest.fixture
def port():
    return free_port()


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
        (Health((), bus=True, needs_bots=False), (200, "ready")),
        (Health((), bus=False, needs_bots=False), (503, "not ready")),
        (Health(("claude",), bus=False), (503, "not ready")),
        (Health(("claude",), bus=True, stopping=True), (503, "stopping")),
    ],
)
async def test_live_and_ready_are_told_apart(port, health, status):
    async with serving_health(port, lambda: health, Connections()):
        assert await answers(port) == {"/healthz": (200, "live"), "/readyz": status}


async def test_a_record_that_cannot_be_written_is_in_the_body_and_the_bots_are_ready_all_the_same(port):
    url, health = f"http://127.0.0.1:{port}/readyz", Health(("claude",), bus=True, record="record.db: the disk is full")
    async with (
        serving_health(port, lambda: health, Connections()),
        aiohttp.ClientSession() as client,
        client.get(url) as response,
    ):
        assert (response.status, (await response.json())["record"]) == (200, "record.db: the disk is full")


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("127.0.0.1:1", 200), ("bots.example", 403), ("127.0.0.1.bots.example", 403)],
)
async def test_a_foreign_page_that_leads_its_name_to_this_machine_reads_nothing(port, host, status):
    async with (
        serving_health(port, lambda: Health(("claude",), bus=True), Connections()),
        aiohttp.ClientSession() as client,
        client.get(f"http://127.0.0.1:{port}/readyz", headers={"Host": host}) as response,
    ):
        assert response.status == status


async def test_without_a_port_nothing_is_served_and_a_taken_one_is_a_warning(port, caplog):
    async with serving_health(0, lambda: Health((), bus=True), Connections()):
        pass
    assert caplog.text == ""
    with socket.create_server(("127.0.0.1", port)):
        async with serving_health(port, lambda: Health((), bus=True), Connections()):
            assert f"HEALTH_PORT {port} is in use by another program, so health checks may reach" in caplog.text


def test_the_question_of_a_service_manager_is_answered_by_an_exit_code(monkeypatch, tmp_path, port, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0  # HEALTH_PORT is not set: nothing to ask
    monkeypatch.setenv("HEALTH_PORT", str(port))
    assert main([]) == main(["ready"]) == 1
    with pytest.raises(SystemExit):
        main(["well?"])
    monkeypatch.setenv("HEALTH_PORT", "none")
    assert main([]) == 2
    assert "HEALTH_PORT" in capsys.readouterr().err


def test_a_start_is_waited_for_as_long_as_is_asked(monkeypatch, tmp_path, port):
    answers, waits = [0, 503, 200], []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEALTH_PORT", str(port))
    monkeypatch.setattr(health, "ask", lambda port, question: answers.pop(0))
    monkeypatch.setattr(health.time, "sleep", waits.append)
    assert main(["live", "--wait", "30"]) == 0
    assert (answers, len(waits)) == ([], 2)


@pytest.mark.parametrize("file", ["Dockerfile", "compose.yaml", "deploy/agentic-discord.service"])
def test_the_files_that_run_it_as_a_service_set_a_port_and_leave_running_turns_their_time(file):
    text = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(r"HEALTH_PORT[=:] ?\"?\d+", text)
    asked = re.search(r"agentic\.runtime\.health[\" ,]*(?:live|ready)?( --wait \d+)?", text)
    assert asked or file == "compose.yaml"  # it uses the image's
    stop = re.search(r"(?:stop_grace_period: |TimeoutStopSec=)(\d+)", text)
    grace = Settings.model_fields["shutdown_grace_seconds"].default
    assert file == "Dockerfile" or int(stop[1]) >= grace + 15
