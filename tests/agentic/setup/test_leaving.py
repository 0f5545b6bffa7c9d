"""Leaving the set-up, at any question and in any way, leaves the folder as it was."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import select
import signal
import stat
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from agent_config import AGENTS
from agentic.check.discord import Application
from agentic.setup.answers import FoundBot
from agentic.setup.wizard import run_setup
from tests.support import warm_start
from tests.support.check_doubles import KEYS, TOKENS
from tests.support.discord.stand_in import DiscordStandIn
from tests.support.program import Program, at, wait_for
from tests.support.redis_server import RedisServer
from tests.support.setup_scene import CHANNELS, HABITS, YES, Typist, only, setup_scene


@pytest.fixture
def quick_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Discord and the providers say yes at once; there is no server yet."""

    def bot(token: str) -> FoundBot:
        number = list(TOKENS.values()).index(token) + 1
        return FoundBot(number, list(AGENTS)[number - 1], Application(number, True, False))

    monkeypatch.setattr("agentic.setup.discord.look_up_bot", bot)
    monkeypatch.setattr("agentic.setup.answers.model_error", lambda model: None)
    monkeypatch.setattr("agentic.setup.discord.look_up_servers", lambda tokens: ({one: {} for one in tokens}, {}))


TYPED = [*only("claude", "grok"), ("Are they in your server now?", "skip"), *HABITS, *YES]


@pytest.mark.promise(119)
@pytest.mark.usefixtures("quick_answers")
@pytest.mark.parametrize("leaving", [KeyboardInterrupt, EOFError, ZeroDivisionError])
def test_leaving_at_any_question_writes_nothing(
    tmp_path: Path, leaving: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    typed_so_far: list[str] = []

    def leave() -> str:
        raise leaving(typed_so_far)  # a crash may quote what was typed

    old = "LOG_LEVEL=debug\n"
    (tmp_path / ".env").write_text(old)
    codes = set()
    for number, (words, _) in enumerate(TYPED):
        typed_so_far[:] = [str(answer) for _, answer in TYPED[:number]]
        typist, console = Typist([*TYPED[:number], (words, leave)]), Console(file=io.StringIO())
        codes.add(run_setup(lambda: 0, environ={}, folder=tmp_path, reader=typist, console=console))
        assert typist.left == []
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {".env": old}
        assert console.file.getvalue().rstrip().endswith("Nothing was written.")
    assert codes == {130 if leaving is KeyboardInterrupt else 1}
    shown = capsys.readouterr().err
    assert ("ZeroDivisionError" in shown) == (leaving is ZeroDivisionError)
    assert not any(secret in shown for secret in (*TOKENS.values(), *KEYS.values()))
    assert (
        run_setup(lambda: 0, environ={}, folder=tmp_path, reader=Typist(TYPED), console=Console(file=io.StringIO()))
        == 0
    )
    assert (tmp_path / ".env").read_text().startswith(f"{old}BOT_TOKEN_CLAUDE={TOKENS['claude']}\n")


@pytest.mark.usefixtures("quick_answers")
def test_ctrl_c_in_the_check_says_that_the_file_is_written(tmp_path: Path) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    console = Console(file=io.StringIO())
    assert run_setup(interrupted, environ={}, folder=tmp_path, reader=Typist(TYPED), console=console) == 130
    assert "You stopped the check; .env is written." in console.file.getvalue()
    assert (tmp_path / ".env").exists()


@pytest.mark.promise(119)
async def test_answers_may_come_through_a_pipe_and_the_check_is_the_real_one(tmp_path: Path) -> None:
    """In a process of its own, with a real Redis."""
    async with setup_scene(tmp_path) as scene:
        with RedisServer() as redis:
            environment = {**scene.environ, "REDIS_URL": redis.url}
            answers = [answer for _, answer in (*only("claude"), ("also answer on Signal", "no"), *CHANNELS, *HABITS)]
            typed = "\n".join(map(str, answers))
            with Program(tmp_path, "--setup", typed=typed, before=at(scene.discord), environment=environment) as left:
                assert await left.ended() == 1
                assert left.stdout.rstrip().endswith("The input ended. Nothing was written."), left.stdout
                assert scene.files() == {}
            typed += "\nyes\n"
            with Program(tmp_path, "--setup", typed=typed, before=at(scene.discord), environment=environment) as done:
                assert await done.ended() == 0, done.stdout + done.stderr
                assert "Ready to start: " in done.stdout
                assert "To start or restart the bots:  make run" in done.stdout
                assert "systemctl restart agentic-discord" in done.stdout
                assert "Traceback" not in done.stderr
            assert stat.S_IMODE(scene.env.stat().st_mode) == 0o600


@contextmanager
def terminal(folder: Path, server: DiscordStandIn, environment: dict[str, str]) -> Iterator[tuple[int, int, int]]:
    """The program at a terminal: the terminal's two ends, and the process id."""
    ours, its = pty.openpty()
    report, reported = os.pipe()
    request = {
        "entry": "main",
        "arguments": ["--setup"],
        "environment": {"PATH": os.environ["PATH"], "TERM": "xterm", **environment},
        "folder": str(folder),
        "before": at(server),
    }
    warm_start.ask(request, [its, its, its, reported])
    os.close(reported)
    with os.fdopen(report, "rb", buffering=0) as reports:
        process = int(reports.readline())
        try:
            yield ours, its, process
            assert int(reports.readline()) == 130
        finally:
            os.close(ours)
            os.close(its)


def shown(ours: int, until: str) -> str:
    text, end = "", time.monotonic() + 30
    while until not in text:
        assert time.monotonic() < end, text
        if select.select([ours], [], [], 1)[0]:
            text += os.read(ours, 65536).decode(errors="replace")
    return text


def echoes(terminal_end: int) -> bool:
    return bool(termios.tcgetattr(terminal_end)[3] & termios.ECHO)


@pytest.mark.promise(119)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_terminal_hides_the_token_and_has_its_echo_back_after_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    def walk() -> None:
        with terminal(tmp_path, scene.discord, scene.environ) as (ours, its, process):
            shown(ours, "Set up ChatGPT? [Yes/no]")
            os.write(ours, b"y\n")
            text = shown(ours, "ChatGPT's token (hidden while you paste; Enter skips this bot):")
            wait_for(lambda: not echoes(its))
            os.write(ours, f"{TOKENS['chatgpt']}\n".encode())
            text += shown(ours, "OPENAI_API_KEY (hidden")
            wait_for(lambda: not echoes(its))
            os.kill(process, number)
            text += shown(ours, "Stopped. Nothing was written.")
            assert TOKENS["chatgpt"] not in text
            wait_for(lambda: echoes(its))

    async with setup_scene(tmp_path) as scene:
        await asyncio.to_thread(walk)
        assert scene.files() == {}
