"""Local mode in a real terminal: keys in, a screen out."""

import os
import pty
import re
import select

import pytest

from tests.flows.test_start_flow import AT_ONCE, started
from tests.support.program import wait_for

CONTROL_D = "\x04"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x1b\x07]*(?:\x07|\x1b\\)")


class Keyboard:
    """The person's side of a terminal; `seat` is the path of the program's side."""

    def __init__(self):
        self._here, there = pty.openpty()
        self.seat = os.ttyname(there)
        self._open, self._shown = (self._here, there), b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for end in self._open:
            os.close(end)
        self._open = ()

    def type(self, keys):
        os.write(self._here, keys.encode())

    @property
    def screen(self):
        """Everything that was shown, without colors and movements."""
        while select.select([self._here], [], [], 0)[0]:
            self._shown += os.read(self._here, 65_536)
        return ESCAPES.sub("", self._shown.decode(errors="replace"))

    def sees(self, words):
        try:
            wait_for(lambda: words in self.screen)
        except AssertionError as error:
            raise AssertionError(f"{words!r} {error}:\n{self.screen[-2000:]}") from None


def seated(keyboard, folder):
    """Start local mode in this terminal."""
    seat = f"seat = os.open({keyboard.seat!r}, os.O_RDWR | os.O_NOCTTY)"
    sits = f"import os; {seat}; os.dup2(seat, 0); os.dup2(seat, 1); "
    environment = {"TERM": "xterm", "COLUMNS": "200", "TIMEZONE": "UTC", "PROMPT_TOOLKIT_NO_CPR": "1"}
    return started(folder, "--local", "--scripted", before=AT_ONCE + sits, **environment)


@pytest.mark.promise(623)
def test_a_terminal_that_is_closed_ends_local_mode_in_order(tmp_path):
    with Keyboard() as keyboard, seated(keyboard, tmp_path) as running:
        keyboard.sees("›")
        keyboard.close()
        assert running.wait() == 0
        assert running.stderr == ""


@pytest.mark.promise(122)
def test_a_person_completes_replies_pins_and_stops_in_a_terminal(tmp_path):
    with Keyboard() as keyboard:
        with seated(keyboard, tmp_path) as running:
            keyboard.sees("/fire starts another")
            keyboard.type("/chan\t")
            keyboard.sees("nels")
            keyboard.type("\r")
            keyboard.sees("← you are here")
            keyboard.type("\x1b[200~.config grok\n---\nnonsense: true\x1b[201~\r")
            keyboard.sees("it takes effect once it is pinned: /pin")
            keyboard.type("/pin\r")
            keyboard.sees("Sam pinned message")
            keyboard.type("@grok hello\r")
            keyboard.sees("nonsense: unknown option")
            keyboard.type("/reply 1 why?\r")
            keyboard.sees("↱ to message 1")
            signs = keyboard.screen.count("reacted ✅ to")  # a scripted bot may react with it, too
            keyboard.type("/react 1 stop\r")
            wait_for(lambda: keyboard.screen.count("reacted ✅ to") > signs)
            keyboard.type("/fire\r/etc/passwd is a file\r")
            keyboard.sees("no conversation started: #debate is stopped")
            keyboard.sees("unknown command /etc/passwd")
            keyboard.type(CONTROL_D)
            assert running.wait() == 0, running.stderr
        assert not re.search(r"Sam +/etc/passwd", keyboard.screen), "posted all the same"
