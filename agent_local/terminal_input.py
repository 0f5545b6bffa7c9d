"""What a person types: where the lines come from, and what each line wants.

From a terminal lines come by prompt_toolkit, which keeps what is being typed apart from what is printed; from a pipe or
a file they are read in a thread, since not every kind of standard input can be waited for by an event loop.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import select
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_local.typed_commands import KnownNames, Use, read_use

MAX_MESSAGE = 2000  # characters, Discord's own limit
READ_BYTES = 65_536
Topic = Literal["help", "who", "channels"]
_COMMANDS: Mapping[str, Topic | Literal["quit", "fire"]] = {
    "/help": "help", "/?": "help", "/who": "who", "/channels": "channels",
    "/fire": "fire", "/quit": "quit", "/exit": "quit", "/q": "quit",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Say:
    """Post as the person."""

    channel_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Move:
    channel_id: int


@dataclass(frozen=True, slots=True)
class Fire:
    """Start a conversation; None leaves the choice to the coordinator."""

    channel_id: int | None = None
    theme: str | None = None


@dataclass(frozen=True, slots=True)
class Show:
    topic: Topic


@dataclass(frozen=True, slots=True)
class Quit:
    pass


@dataclass(frozen=True, slots=True)
class Unclear:
    """Nothing is done; `hint` says what was not understood."""

    hint: str


Wish = Say | Move | Fire | Use | Show | Quit | Unclear


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that a person may type, in any case of letters: channels, `@` words of users and roles, themes;
    `commands` are those of the bots, as agent_discord.slash.definitions has them."""

    channels: Mapping[str, int]
    users: Mapping[str, int]
    roles: Mapping[str, int]
    themes: Collection[str] = ()
    commands: Sequence[Mapping[str, Any]] = ()

    def words(self) -> list[str]:
        """Everything that can be completed."""
        mentions = [f"@{name}" for name in (*self.users, *self.roles)]
        return [*mentions, *(f"#{name}" for name in self.channels), *_COMMANDS, *self._theirs(), *self.themes]

    def _theirs(self) -> list[str]:
        return [f"/{command['name']}" for command in self.commands if command["name"].islower()]


def read_line(line: str, current: int, known: Vocabulary) -> Wish | None:
    """What a typed line wants, said in the channel `current`; None for an empty one."""
    line = line.strip()
    if not line:
        return None
    if line.startswith("/"):
        return _command(line.split(), known)
    if line.startswith("#"):
        return _to_channel(line, known)
    return _said(line, current, known)


def _command(words: list[str], known: Vocabulary) -> Wish:
    match _COMMANDS.get(words[0].lower()):
        case "quit":
            return Quit()
        case "fire":
            return _fire(words[1:], known)
        case None:
            return _use(words, known)
        case topic:
            return Show(topic)


def _use(words: list[str], known: Vocabulary) -> Wish:
    """A command of the bots."""
    places = KnownNames(
        *({name.lower(): value for name, value in each.items()} for each in (known.channels, known.users))
    )
    match read_use(words, known.commands, places):
        case Use() as use:
            return use
        case None:
            return Unclear(f"{words[0]} is not known; /help lists what is")
        case hint:
            return Unclear(hint)


def _fire(words: list[str], known: Vocabulary) -> Wish:
    """A channel, a theme or both; a word that is both is the channel first."""
    channel: int | None = None
    theme: str | None = None
    for word in words:
        place = _lookup(known.channels, word.removeprefix("#"))
        if place is not None and channel is None:
            channel = place
        elif (found := _theme(word, known)) and theme is None:
            theme = found
        else:
            themes = ", ".join(known.themes)
            return Unclear(
                f"{word} is neither a channel nor a theme; /channels lists the channels, themes are {themes}"
            )
    return Fire(channel, theme)


def _theme(word: str, known: Vocabulary) -> str | None:
    return next((theme for theme in known.themes if theme.lower() == word.lower()), None)


def _to_channel(line: str, known: Vocabulary) -> Wish:
    name, _, text = line[1:].partition(" ")
    channel = _lookup(known.channels, name)
    if channel is None:
        return Unclear(f"there is no channel #{name}; /channels lists them")
    return _said(text.strip(), channel, known) if text.strip() else Move(channel)


def _said(text: str, channel: int, known: Vocabulary) -> Wish:
    text = with_mentions(text, known)
    if len(text) > MAX_MESSAGE:
        return Unclear(f"that is {len(text):,} characters, a message has at most {MAX_MESSAGE:,}")
    return Say(channel, text)


def with_mentions(text: str, known: Vocabulary) -> str:
    """`@claude` → `<@id>` and `@bots` → `<@&id>`, wherever they stand; a user goes before a role of the same name."""
    marks = {name.lower(): f"<@&{role}>" for name, role in known.roles.items()}
    marks |= {name.lower(): f"<@{user}>" for name, user in known.users.items()}
    if not marks:
        return text
    names = "|".join(re.escape(name) for name in sorted(marks, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w@<])@({names})(?!\w)", re.IGNORECASE)
    return pattern.sub(lambda match: marks[match[1].lower()], text)


def _lookup(names: Mapping[str, int], word: str) -> int | None:
    return next((value for name, value in names.items() if name.lower() == word.lower()), None)


async def typed_lines(prompt: Callable[[], str], toolbar: Callable[[], str], words: list[str]) -> AsyncGenerator[str]:
    """Lines from the terminal, until Ctrl-D or Ctrl-C. What is printed meanwhile stands above the prompt."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.patch_stdout import patch_stdout

    session: PromptSession[str] = PromptSession(
        prompt,
        completer=WordCompleter(words, ignore_case=True, WORD=True),
        complete_while_typing=False,
        erase_when_done=True,  # the message comes back from Discord's side
        bottom_toolbar=lambda: toolbar() or None,
        refresh_interval=1.0,
    )
    with patch_stdout(raw=True):
        while True:
            try:
                # Signals and the loop's errors belong to the whole program, not to a prompt in it.
                line = await session.prompt_async(handle_sigint=False, set_exception_handler=False)
            except (EOFError, KeyboardInterrupt):
                return
            yield line


async def piped_lines(fd: int) -> AsyncGenerator[str]:
    """Lines of UTF-8 from a file descriptor, until its end. The thread that reads ends with the descriptor."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def tell(line: str | None) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, line)

    # A daemon, since a read of standard input cannot be called off; os.read holds no lock that would hinder the exit.
    threading.Thread(target=_read_lines, args=(fd, tell), name="stdin", daemon=True).start()
    while (line := await queue.get()) is not None:
        yield line


def _read_lines(fd: int, tell: Callable[[str | None], None]) -> None:
    decode, rest = codecs.getincrementaldecoder("utf-8")("replace").decode, ""
    try:
        while chunk := _read(fd):
            *lines, rest = (rest + decode(chunk)).split("\n")
            for line in lines:
                tell(line)
        if rest:
            tell(rest)
        tell(None)
    except RuntimeError:
        return  # the loop is closed: nobody listens any more


def _read(fd: int) -> bytes:
    """Waits for bytes; b"" at the end, also where the descriptor was closed or never open."""
    while True:
        try:
            return os.read(fd, READ_BYTES)
        except BlockingIOError:
            select.select([fd], [], [])
        except OSError:
            return b""
