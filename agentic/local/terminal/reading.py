"""Read the lines that a person types.

A terminal is read with prompt_toolkit, which keeps the typed line separate from the output. A pipe or file is read in a
thread, since an event loop cannot wait for every kind of standard input.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import select
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.document import Document

READ_BYTES = 65_536


async def joined(lines: AsyncGenerator[str]) -> AsyncGenerator[str]:
    """Join each line that ends in a backslash with the next one; a message may have several lines."""
    begun = ""
    async with aclosing(lines):
        async for line in lines:
            if line.endswith("\\"):
                begun += f"{line[:-1]}\n"
                continue
            yield begun + line
            begun = ""
    if begun:
        yield begun


async def typed_lines(
    prompt: Callable[[], str], toolbar: Callable[[], str], complete: Callable[[str], Iterable[str]]
) -> AsyncGenerator[str]:
    """Yield lines from the terminal until Ctrl-D or Ctrl-C. Output appears above the prompt meanwhile.

    `complete` is for completer_of().
    """
    from prompt_toolkit import PromptSession
    from prompt_toolkit.patch_stdout import patch_stdout

    session: PromptSession[str] = PromptSession(
        prompt,
        completer=completer_of(complete),
        complete_while_typing=False,
        erase_when_done=True,  # the message comes back from Discord's side
        bottom_toolbar=lambda: toolbar() or None,
        enable_suspend=True,  # Ctrl-Z, as in any program of a shell
        refresh_interval=1.0,
    )
    with patch_stdout(raw=True):
        while True:
            try:
                # Signals and the loop's errors are handled by the program, not by the prompt.
                line = await session.prompt_async(handle_sigint=False, set_exception_handler=False)
            except (EOFError, KeyboardInterrupt):
                return
            yield line


def completer_of(complete: Callable[[str], Iterable[str]]) -> Completer:
    """A completer for prompt_toolkit of the words that may replace the last one of the text before the cursor."""
    from prompt_toolkit.completion import Completer, Completion

    class Words(Completer):
        def get_completions(self, document: Document, complete_event: object) -> Iterator[Completion]:
            text = document.text_before_cursor
            word = text.rpartition(" ")[2]
            return (Completion(each, start_position=-len(word)) for each in complete(text))

    return Words()


async def piped_lines(fd: int) -> AsyncGenerator[str]:
    """Yield lines of UTF-8 from a file descriptor until its end. The reading thread ends with the descriptor."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def put(line: str | None) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, line)

    # A daemon, since a read of standard input cannot be cancelled; os.read holds no lock that would block the exit.
    threading.Thread(target=_read_lines, args=(fd, put), name="stdin", daemon=True).start()
    while (line := await queue.get()) is not None:
        yield line


def _read_lines(fd: int, put: Callable[[str | None], None]) -> None:
    decode, rest = codecs.getincrementaldecoder("utf-8")("replace").decode, ""
    try:
        while chunk := _read(fd):
            *lines, rest = (rest + decode(chunk)).split("\n")
            for line in lines:
                put(line)
        if rest:
            put(rest)
        put(None)
    except RuntimeError:
        return  # the loop is closed


def _read(fd: int) -> bytes:
    """Wait for bytes; b"" at the end, also if the descriptor is closed or was never open."""
    while True:
        try:
            return os.read(fd, READ_BYTES)
        except BlockingIOError:
            select.select([fd], [], [])
        except OSError:
            return b""
