"""Reads the lines that a person types, parses them, and completes words.

prompt_toolkit reads a terminal and keeps the typed line separate from the output. A thread reads a pipe or file, since
an event loop can't wait for every kind of standard input.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import select
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

from agentic.local.terminal.commands import (
    NumberedMessage,
    TypedCommand,
    Unclear,
    Vocabulary,
    command_names,
    look_up,
    newest_by_bot,
    next_words,
    read_use,
)

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.document import Document

READ_BYTES = 65_536
MAX_MESSAGE = 2000  # characters, Discord's own limit
LINK = "https://discord.com/channels/{guild}/{channel}/{message}"
Topic = Literal["help", "all commands", "who", "channels"]
OWN_COMMANDS = ("/help", "/who", "/channels", "/fire", "/reply", "/react", "/vote", "/pin", "/unpin", "/quit")
_PAGES: Mapping[str, Topic] = {"/help": "help", "/who": "who", "/channels": "channels"}
_OTHER_NAMES: Mapping[str, str] = {"/?": "/help", "/exit": "/quit", "/q": "/quit"}
_MEANT: Mapping[str, str] = {"help": "/help", "?": "/help", "quit": "/quit", "exit": "/quit"}  # as a whole line
EMOJI: Mapping[str, str] = {
    "stop": "🛑", "hide": "🫥", "yes": "👍", "no": "👎", "heart": "❤️", "laugh": "😂", "hot": "🔥", "wow": "😮",
}  # fmt: skip
"""Words for reactions: not every keyboard has emoji."""
_AT_WORD = re.compile(r"(?<![\w@<])@(\w{3,40})")
SIMILARITY = 0.75  # of a misspelled name, 1.0 for the same
_NUMBER = re.compile(r"\d{1,7}", re.ASCII)
_HISTORY = re.compile(r"(?:<@[!&]?\d+>\s*)*\.history\b")
_HISTORY_FIELD = re.compile(r"\b((?:first|last)\s*:\s*)(\d{1,7})(?!\S)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Say:
    """Post as the person; `reply_to` is a message of that channel."""

    channel_id: int
    text: str
    reply_to: int | None = None


@dataclass(frozen=True, slots=True)
class React:
    message: NumberedMessage
    emoji: str


@dataclass(frozen=True, slots=True)
class Vote:
    """Answer a message's poll."""

    message: NumberedMessage
    answer: str


@dataclass(frozen=True, slots=True)
class Pin:
    """Pin a message, or remove its pin."""

    message: NumberedMessage
    pinned: bool = True


@dataclass(frozen=True, slots=True)
class Move:
    channel_id: int


@dataclass(frozen=True, slots=True)
class Fire:
    """Start a conversation; None means the current channel, and its theme."""

    channel_id: int | None = None
    theme: str | None = None


@dataclass(frozen=True, slots=True)
class Show:
    topic: Topic


@dataclass(frozen=True, slots=True)
class Quit:
    pass


TypedLine = Say | React | Vote | Pin | Move | Fire | TypedCommand | Show | Quit


def read_line(line: str, current: int, known: Vocabulary) -> TypedLine | None:
    """Parse a line that was typed in the channel `current`; return None if it is empty. Raises Unclear."""
    line = line.strip()
    if not line:
        return None
    if meant := _MEANT.get(line.lower()):
        return _command(meant, current, known)
    if line.startswith("//") or re.match(r"##\w", line):  # doubled: the rest is posted as it is
        return _said(line[1:], current, known)
    if line.startswith("/"):
        return _command(line, current, known)
    if re.match(r"#\w", line):
        name, _, text = line[1:].partition(" ")
        channel = look_up(known.channels, name)
        if channel is None:
            meant = _suggest(f"#{name}", [f"#{each}" for each in known.channels]) or "/channels lists them all"
            raise Unclear(f"there's no channel #{name}; {meant} (To post it as text, type ##{name}.)")
        text = text.strip()
        if text.startswith("/"):
            match read_line(text, channel, known):
                case (TypedCommand() | Fire(channel_id=None)) as typed:  # which names no other channel
                    return replace(typed, channel_id=channel)
                case other:
                    return other
        return _said(text, channel, known) if text else Move(channel)
    return _said(line, current, known)


def _command(line: str, current: int, known: Vocabulary) -> TypedLine:
    first, _, rest = line.partition(" ")
    words = rest.split()
    match _OTHER_NAMES.get(first.lower(), first.lower()):
        case "/quit":
            return Quit()
        case "/help" if words == ["all"]:
            return Show("all commands")
        case name if name in _PAGES:
            return Show(_PAGES[name])
        case "/fire":
            return _fire(words, known)
        case "/reply":
            return _reply(rest.strip(), current, known)
        case "/react":
            return _react(words, current, known)
        case "/vote":
            return _vote(words, current, known)
        case "/pin" | "/unpin" as name:
            return _pin(name, words, current, known)
    if (use := read_use(line.split(), current, known)) is not None:
        return use
    first = line.split()[0]
    meant = _suggest(first, [*OWN_COMMANDS, *command_names(known.commands)]) or "/help all lists the commands"
    raise Unclear(f"unknown command {first}; {meant} (To post it as text, type /{first}.)")


def _suggest(word: str, known: Collection[str]) -> str:
    """Return a question that names the known word most like this one, or ""."""
    alike = get_close_matches(word.lower(), [each.lower() for each in known], n=1)
    return f"did you mean {alike[0]}?" if alike else ""


def _reply(text: str, current: int, known: Vocabulary) -> TypedLine:
    number, _, rest = text.partition(" ")
    has_number = _NUMBER.fullmatch(number) is not None
    message = _message([number] if has_number else [], current, known)
    text = rest.strip() if has_number else text
    if not text:
        raise Unclear("/reply needs a text: /reply 12 I agree")
    return _said(text, message.channel_id, known, reply_to=message.id)


def _react(words: Sequence[str], current: int, known: Vocabulary) -> TypedLine:
    numbers = [word for word in words if _NUMBER.fullmatch(word)]
    signs = [word for word in words if not _NUMBER.fullmatch(word)]
    if len(signs) != 1 or len(numbers) > 1:
        raise Unclear(f"/react needs an emoji, or one of {', '.join(EMOJI)}: /react 12 stop")
    return React(_message(numbers, current, known), EMOJI.get(signs[0].lower(), signs[0]))


def _vote(words: Sequence[str], current: int, known: Vocabulary) -> TypedLine:
    has_number = bool(words) and _NUMBER.fullmatch(words[0].removeprefix("#")) is not None
    message = _message(words, current, known) if has_number else known.messages.newest(current, has_poll=True)
    if message is None:
        raise Unclear("there's no poll in this channel yet")
    if not message.answers:
        raise Unclear(f"message {message.number} has no poll")
    answer = look_up({each: number for number, each in enumerate(message.answers)}, " ".join(words[has_number:]))
    if answer is None:
        raise Unclear(f"/vote needs one of {', '.join(message.answers)}: /vote {message.answers[0]}")
    return Vote(message, message.answers[answer])


def _pin(name: str, words: Sequence[str], current: int, known: Vocabulary) -> TypedLine:
    newest = known.messages.newest(current) if name == "/pin" and not words else None
    if newest is None and not words:
        raise Unclear(f"{name} needs the number to the left of a message: {name} 12")
    return Pin(newest or _message(words, current, known), pinned=name == "/pin")


def _message(words: Sequence[str], current: int, known: Vocabulary) -> NumberedMessage:
    """Return the message with the number in the first word; without a word, the newest bot message in this channel."""
    if not words:
        return newest_by_bot(current, known)
    number = words[0].removeprefix("#")
    found = known.messages.get(int(number)) if _NUMBER.fullmatch(number) else None
    if found is None:
        raise Unclear(f"there's no message {number}; use the number to the left of a message")
    return found


def _fire(words: Sequence[str], known: Vocabulary) -> TypedLine:
    """Read a channel, a theme, or both; a word that is both names the channel first."""
    channel: int | None = None
    theme: str | None = None
    for word in words:
        place = look_up(known.channels, word.removeprefix("#"))
        if place is not None and channel is None:
            channel = place
        elif (found := {each.lower(): each for each in known.themes}.get(word.lower())) and theme is None:
            theme = found
        else:
            meant = _suggest(word.removeprefix("#"), [*known.channels, *known.themes])
            themes = meant or f"/channels lists the channels, and the themes are {', '.join(known.themes)}"
            raise Unclear(f"{word} isn't a channel or a theme; {themes}")
    return Fire(channel, theme)


def _said(text: str, channel: int, known: Vocabulary, reply_to: int | None = None) -> TypedLine:
    names = {name.lower() for name in (*known.users, *known.roles)}
    for word in _AT_WORD.findall(text):
        near = [each for each in names if abs(len(each) - len(word)) < 2 and word.lower() not in names]
        if alike := get_close_matches(word.lower(), near, 1, SIMILARITY):
            raise Unclear(f"there's no @{word}; did you mean @{alike[0]}?")
    text = with_mentions(text, known)
    if _HISTORY.match(text):

        def with_link(match: re.Match[str]) -> str:
            found = _message([match[2]], channel, known)
            return match[1] + LINK.format(guild=known.guild, channel=found.channel_id, message=found.id)

        text = _HISTORY_FIELD.sub(with_link, text)
    if len(text) > MAX_MESSAGE:
        raise Unclear(f"that's {len(text):,} characters; a message has at most {MAX_MESSAGE:,}")
    return Say(channel, text, reply_to)


def with_mentions(text: str, known: Vocabulary) -> str:
    """Replace `@claude` by `<@id>` and `@bots` by `<@&id>`, anywhere; a user precedes a role of that name."""
    marks = {name.lower(): f"<@&{role}>" for name, role in known.roles.items()}
    marks |= {name.lower(): f"<@{user}>" for name, user in known.users.items()}
    if not marks:
        return text
    names = "|".join(re.escape(name) for name in sorted(marks, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w@<])@({names})(?!\w)", re.IGNORECASE)
    return pattern.sub(lambda match: marks[match[1].lower()], text)


def completions(text: str, known: Vocabulary) -> list[str]:
    """Return the words that may replace the last word of `text`, the line up to the cursor."""
    *before, word = text.split(" ")
    before = [each for each in before if each]
    channels = [f"#{name}" for name in known.channels]
    if before and before[0].lower() in map(str.lower, channels) and (before[1:] or [word])[0].startswith("/"):
        del before[0]  # the place of a command
    follow: Iterable[str]
    match before:
        case []:
            follow = (*OWN_COMMANDS, *command_names(known.commands)) if word.startswith("/") else channels
        case ["/help"]:
            follow = ("all",)
        case ["/fire"]:
            follow = (*channels, *known.themes)
        case ["/fire", _]:
            follow = known.themes
        case ["/react"] | ["/react", _]:
            follow = EMOJI
        case [command, *_] if command.startswith("/"):
            follow = next_words(before, known)
        case _:
            follow = ()
    mentions = (f"@{name}" for name in (*known.users, *known.roles)) if word.startswith("@") else ()
    typed = word.lower()  # in upper or lower case; # and @ may be left out
    return [
        each
        for each in dict.fromkeys((*follow, *mentions))
        if each.lower().startswith(typed) or (typed and each.lstrip("#@").lower().startswith(typed))
    ]


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
    """Yield lines from the terminal until Ctrl-D or Ctrl-C. Output appears above the prompt meanwhile."""
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
    """Make prompt_toolkit's completer of `complete`, which takes the text before the cursor."""
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

    def read() -> bytes:
        """Wait for bytes; return b"" at the end, even if the descriptor is closed or was never open."""
        while True:
            try:
                return os.read(fd, READ_BYTES)
            except BlockingIOError:
                select.select([fd], [], [])
            except OSError:
                return b""

    def read_lines() -> None:
        decode, rest = codecs.getincrementaldecoder("utf-8")("replace").decode, ""
        with suppress(RuntimeError):  # the loop is closed
            while chunk := read():
                *lines, rest = (rest + decode(chunk)).split("\n")
                for line in lines:
                    put(line)
            if rest:
                put(rest)
            put(None)

    # A daemon, because a read of standard input can't be canceled; os.read takes no lock that would block the exit.
    threading.Thread(target=read_lines, name="stdin", daemon=True).start()
    while (line := await queue.get()) is not None:
        yield line
