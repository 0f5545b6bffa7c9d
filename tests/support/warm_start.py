"""A process that has imported the program and forks it on request: a start costs milliseconds, not seconds of imports.

It listens on a unix socket. A request has four file descriptors (standard input, output, error, and one for the process
id and the exit code) and, as JSON, what a command line would have: entry, arguments, environment and folder,
and code to run before.
The process that is forked has its own memory, signals and exit code, as one that was started from a shell.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from agentic.process.root import ROOT

OURS = ("agentic.local.mode", "agentic.check.run", "agentic.runtime.process")
SDKS = ("openai", "anthropic", "google.genai")
ADDRESS = "WARM_START"  # the variable that tells the workers the socket's path
MOST_BYTES = 1 << 20  # of a request


# -- in the tests -----------------------------------------------------------------------------------------------------

_address = ""


def address() -> str:
    """The socket's path. The process is started at the first call and ends with the one that called."""
    if not _address:
        folder = tempfile.mkdtemp(prefix="warm-")
        use(f"{folder}/socket")
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "tests.support.warm_start", _address],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin
        assert process.stdout
        process.stdout.readline()  # it listens
        os.environ[ADDRESS] = _address
        atexit.register(shutil.rmtree, folder)
        atexit.register(process.stdin.close)
    return _address


def use(path: str) -> None:
    """Have the programs forked by the process that another test process started."""
    global _address
    _address = path


def ask(request: Mapping[str, Any], files: Sequence[int] = ()) -> None:
    """Fork a program; without files, only import."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(address())
        socket.send_fds(client, [json.dumps(request).encode()], files)
        client.recv(1)  # it has been done


def run_worker(code: str) -> int:
    """Fork one of pytest-xdist's workers, and wait for its exit code: what all workers import is imported once.

    The Makefile gives pytest-xdist this module as the workers' Python.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that leads the workers
    use(os.environ[ADDRESS])
    report, reported = os.pipe()
    request = {"worker": code, "environment": dict(os.environ), "folder": os.getcwd(), "before": ""}
    ask(request, [0, 1, 2, reported])
    os.close(reported)
    with os.fdopen(report, "rb", buffering=0) as reports:
        reports.readline()
        return int(reports.readline())


# -- in the process that forks ----------------------------------------------------------------------------------------


def serve(path: str) -> dict[str, Any]:
    """Answer requests until standard input is closed; in a forked process: return its request."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    print("listening", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait for the programs
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:  # whoever started this has ended, perhaps by force: what it had forked ends too
            os.killpg(0, signal.SIGKILL)
        client, _ = listener.accept()
        message, files, _, _ = socket.recv_fds(client, MOST_BYTES, 4)
        for name in (*OURS, *SDKS):
            importlib.import_module(name)
        if files:
            gc.freeze()
            if os.fork() == 0:
                client.close()
                listener.close()
                return _forked(json.loads(message), files)
            for file in files:
                os.close(file)
        client.close()


def _forked(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
    """Fork once more: one waits and reports, the other is the program, and returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, report = files
    if (pid := os.fork()) != 0:
        os.write(report, f"{pid}\n".encode())
        for file in (0, 1, 2, *streams):
            os.close(file)
        _, status = os.waitpid(pid, 0)
        os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    os.close(report)
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    return request


def run(request: Mapping[str, Any]) -> object:
    """Be the program; its exit code."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    exec(request["before"], {})  # noqa: S102 - a test's own code, which may put a terminal in the place of a pipe
    # New ones: those there are know whether the server's own files can be seeked.
    sys.stdin = stream(0)
    sys.stdout = stream(1, write_through="PYTHONUNBUFFERED" in os.environ)
    sys.stderr = stream(2, line_buffering=True, errors="backslashreplace")
    if "worker" in request:
        exec(request["worker"], {"__name__": "__main__"})  # noqa: S102 - pytest-xdist's
        return None
    from agentic.runtime import cli

    sys.argv = ["program", *request["arguments"]]
    entry = getattr(cli, request["entry"])
    return entry(request["arguments"]) if request["entry"] == "main" else entry()


def stream(number: int, **options: Any) -> io.TextIOWrapper | None:
    """A standard stream over its file descriptor; as in any Python, None if that is closed."""
    try:
        raw = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115 - as long as the process lives
    except OSError:
        return None
    return io.TextIOWrapper(raw, encoding="utf-8", **options)


def end(code: object) -> NoReturn:
    """Exit as Python does, but leave the memory to the system: to free each object would first copy its page."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # says what was destroyed while it was pending
    for file in (sys.stdout, sys.stderr):
        if file is not None:
            file.flush()
    os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(run_worker(sys.argv[-1]))
    end(run(serve(sys.argv[1])))
