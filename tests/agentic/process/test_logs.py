import asyncio
import errno
import io
import json
import logging

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from ddgs.exceptions import DDGSException

from agent_config import load_settings
from agentic.process.logs import QUIET, set_up_logging
from agentic.process.redaction import REDACTED, Redactor
from agentic.runtime.cli import _ended
from agentic.tools.web_search import ddgs_text
from tests.support.agent_scene import Scene


@pytest.fixture
def log():
    """Sets the log up as asked and gives what is written; the set-up of the tests' runner comes back afterwards."""
    root, out = logging.getLogger(), io.StringIO()
    before = root.handlers[:], root.level, {name: logging.getLogger(name).level for name in (*QUIET, "discord.utils")}
    root.handlers[:] = []

    def set_up(level="INFO", **options):
        set_up_logging(level, (logging.StreamHandler(out),), **options)
        return out

    yield set_up
    root.handlers[:], root.level = before[:2]
    for name, level in before[2].items():
        logging.getLogger(name).setLevel(level)


REDACT = Redactor(["canary-secret"]).secrets


def fail():
    raise ValueError("canary-secret")


@pytest.mark.promise(13)
@pytest.mark.parametrize("style", ["plain", "json"])
def test_no_secret_is_in_a_record_its_arguments_its_fields_or_its_traceback(log, style):
    out = log(style=style, redact=REDACT)
    fields = {"key": "canary-secret", "agent": "claude"}
    logging.getLogger("a").info("with %s and %r", "canary-secret", {"k": "canary-secret"}, extra={"fields": fields})
    try:
        fail()
    except ValueError:
        logging.getLogger("a").exception("it broke")
    logging.getLogger("another.library").warning("canary-secret")
    assert "canary" not in out.getvalue()
    assert out.getvalue().count(REDACTED) >= 4
    assert "ValueError" in out.getvalue()


def test_a_json_line_is_one_object_also_with_line_breaks_and_a_traceback(log):
    out = log(style="json")
    logging.getLogger("a.b").warning("one\ntwo %s", "🍵", extra={"fields": {"channel": 7, "level": "not ours"}})
    try:
        fail()
    except ValueError:
        logging.getLogger("a").exception("it broke")
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first.pop("time").endswith("+00:00")
    assert first == {"level": "WARNING", "logger": "a.b", "message": "one\ntwo 🍵", "channel": 7}
    assert "Traceback" in second["exception"]


@pytest.mark.parametrize("style", ["plain", "json"])
async def test_a_turn_is_one_line_with_its_ids_and_without_anybodys_words(log, style):
    out, scene = log(style=style), await Scene().start()
    scene.answers({"text": "words of the model"})
    asked = await scene.ask("words of a person")
    await scene.aclose()
    lines = [line for line in out.getvalue().splitlines() if "trigger" in line]
    assert len(lines) == 1
    assert "words" not in out.getvalue()
    assert f"m{asked}" in lines[0]
    if style == "json":
        turn = json.loads(lines[0])
        assert (turn["agent"], turn["trigger"], turn["channel"], turn["reason"]) == ("claude", "mention", 100, None)
        assert {"turn", "message", "model", "cost", "seconds"} <= turn.keys()


def test_a_fault_that_ends_the_program_is_its_last_word_in_the_log_and_redacted(log):
    out = log(redact=REDACT)
    assert _ended(load_settings({}, None), fail) == 1
    assert "an unexpected error ended the program" in out.getvalue()
    assert f"ValueError: {REDACTED}" in out.getvalue()


def test_a_full_disk_is_one_line_without_a_traceback(log, capsys):
    def write():
        raise OSError(errno.ENOSPC, "No space left on device")

    out = log()
    assert _ended(load_settings({}, None), write) == 1
    assert capsys.readouterr().err == "Stopped: no space left for standard output. Free some space and start again.\n"
    assert not out.getvalue()


async def test_an_answer_without_a_decision_is_logged_without_its_words(log):
    out, scene = log(), await Scene().start()
    scene.answers("{words of the model", "{words of the model")
    await scene.ask("words of a person")
    await scene.instruct()
    await scene.aclose()
    assert "words" not in out.getvalue()


@pytest.mark.promise(501)
def test_a_search_without_a_key_that_fails_is_logged_without_what_was_searched_for(log, monkeypatch):
    monkeypatch.setenv("DDGS_PROXY", "http://127.0.0.1:9")  # no engine is reached
    out = log()
    with pytest.raises(DDGSException):
        ddgs_text("words of a person", 3, 2.0)
    assert "words" not in out.getvalue()


async def test_a_request_that_is_no_http_writes_no_traceback(log):
    out = log()
    async with TestServer(web.Application()) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"400"
        writer.close()
    assert out.getvalue() == ""
