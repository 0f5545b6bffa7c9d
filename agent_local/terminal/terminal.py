"""The terminal of local mode: shows what happens in the channels and lets a person take part.

Events come from the Discord stand-in as gateway payloads (view.py renders them), typed lines go back to it
(typed_lines.py parses them). Knows no agents, models or Redis.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Any, Literal, Protocol

from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agent_local.terminal.bot_commands import Use
from agent_local.terminal.reading import piped_lines, typed_lines
from agent_local.terminal.typed_lines import (
    Fire,
    Move,
    Quit,
    Say,
    Show,
    TypedLine,
    Unclear,
    Vocabulary,
    read_line,
)
from agent_local.terminal.view import Names, View, harmless, one_line

__all__ = ["Header", "Names", "StandIn", "Terminal"]

Ending = Literal["quit", "eof"]
UseCommand = Callable[[int, Use], Awaitable[str]]
FireConversation = Callable[[int, str | None], Awaitable[str]]
"""Hold a conversation in a channel; return why none started, "" if one was held."""

HELP = (
    ("@claude hello", "mention a bot, anywhere in the line; several are fine, @bots calls all"),
    ("hello", "write into the channel; the next bot of a running conversation responds"),
    ("#debate", "go to another channel; #debate hello writes there"),
    ("/fire [channel] [theme]", "start a conversation, by default in this channel"),
    (
        "/bots status",
        "as in Discord: /bots, /stop, /resume, /ask, /reset, /why, /why-not, /agent-file, /forget me",
    ),
    ("/who  /channels", "list the bots and people, list the channels"),
    ("/quit", "leave; Ctrl-D does the same"),
)

log = logging.getLogger(__name__)


class StandIn(Protocol):
    """The part of the Discord stand-in that the terminal uses."""

    def subscribe(self, callback: Callable[[str, dict[str, Any]], None]) -> Callable[[], None]:
        """Call `callback` with (event name, gateway payload) from the loop; return a function that ends this."""
        ...

    async def say(self, author: int | str, channel: int | str, text: str) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Header:
    """The header of the start: each bot's display name with its model, None for a scripted voice; `free` are the models
    that cost nothing, on the owner's machines."""

    voices: Mapping[str, str | None] = field(default_factory=dict)
    free: Collection[str] = ()
    data_dir: str = ""


class Terminal:
    """Shows events and obeys typed lines until `/quit` or the end of the input.

    `me` is the author of typed lines, `mention_ids` the words that mention a user after `@`, `channel` the first
    channel (default: the first of `names.channels`). `fire` may take as long as a conversation: it runs in a task of
    its own, which is cancelled with the terminal; so does `use`, which carries out the bots' own `commands`. `lines`
    replaces the standard input.
    """

    def __init__(
        self,
        console: Console,
        stand_in: StandIn,
        *,
        names: Names,
        me: int | str,
        fire: FireConversation,
        mention_ids: Mapping[str, int],
        themes: Collection[str] = (),
        use: UseCommand | None = None,
        commands: Sequence[Mapping[str, Any]] = (),
        header: Header | None = None,
        channel: int | None = None,
        lines: AsyncGenerator[str] | None = None,
        clock: Callable[[], float] = time.time,
        timezone: tzinfo | None = None,
    ) -> None:
        self._console, self._stand_in, self._names, self._me = console, stand_in, names, me
        self._fire, self._lines, self._header = fire, lines, header or Header()
        self._mention_ids, self._themes = mention_ids, themes
        self._use, self._commands = use, commands if use is not None else ()
        self._channel = channel if channel is not None else next(iter(names.channels))
        self._view = View(names, clock=clock, timezone=timezone)
        self._fires: set[asyncio.Task[None]] = set()
        self._watched = False

    @property
    def channel(self) -> int:
        """The channel of typed lines."""
        return self._channel

    async def run(self) -> Ending:
        """Obey typed lines and show events; return how it ended."""
        async with self.watching(), aclosing(self._lines or self._standard_input()) as lines:
            async for line in lines:
                typed = read_line(line, self._channel, self._vocabulary())
                if isinstance(typed, Quit):
                    return "quit"
                if typed is not None:
                    await self._obey(typed)
        return "eof"

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Show the header and then events while entered; at the end cancel conversations started by `/fire`.

        Around `run()` it keeps showing events after the end of the input; alone it needs no input.
        """
        if self._watched:
            yield
            return
        self._watched, unsubscribe = True, self._stand_in.subscribe(self.show)
        try:
            self._console.print(self._title())
            yield
        finally:
            self._watched = False
            unsubscribe()
            await self._stop_fires()

    async def fires_done(self) -> None:
        """Wait for the end of the conversations started by `/fire`."""
        await asyncio.gather(*self._fires)

    def show(self, event: str, data: Mapping[str, Any]) -> None:
        """Print an event if it is worth a line."""
        shown = self._view.shown(event, data, self._console.width)
        if shown is not None:
            self._console.print(shown)

    def note(self, text: str) -> None:
        """Print a dim line, or several, of the program's own; continuation lines are indented."""
        row = Table.grid(padding=(0, 1))
        row.add_column(width=7)
        row.add_column(overflow="fold")
        row.add_row(Text("      ·", "dim"), Text(harmless(text), "dim"))
        self._console.print(row)

    def export_svg(self, path: Path, title: str = "agentic-discord") -> None:
        """Write everything printed as an SVG that loads nothing. Needs `Console(record=True)`."""
        if not self._console.record:
            raise RuntimeError("export_svg() needs a Console(record=True)")
        svg = self._console.export_svg(title=title, clear=False)
        path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL), encoding="utf-8")

    def _standard_input(self) -> AsyncGenerator[str]:
        if sys.stdin.isatty() and self._console.is_terminal:
            return typed_lines(self._prompt, self._view.typing, self._vocabulary().words())
        return piped_lines(sys.stdin.fileno())

    def _prompt(self) -> str:
        return f"#{self._names.channels.get(self._channel, 'channel')} › "

    def _vocabulary(self) -> Vocabulary:
        channels = {name: channel_id for channel_id, name in self._names.channels.items()}
        roles = {name: role_id for role_id, name in self._names.roles.items()}
        return Vocabulary(channels, self._mention_ids, roles, self._themes, self._commands)

    async def _obey(self, line: TypedLine) -> None:
        match line:
            case Say(channel_id, text):
                await self._stand_in.say(self._me, channel_id, text)
            case Move(channel_id):
                self._channel = channel_id
                self.note(f"you are in #{self._names.channels[channel_id]}")
            case Fire(channel_id, theme):
                self._start(channel_id or self._channel, theme)
            case Use() as use:
                self._start_task(self._used(use), "command")
            case Show(topic):
                self._console.print({"help": _help, "who": self._who, "channels": self._channels}[topic]())
            case Unclear(hint):
                self.note(hint)

    def _start(self, channel_id: int, theme: str | None) -> None:
        about = f", with the theme {theme}" if theme else ""
        self.note(f"starting a conversation in #{self._names.channels[channel_id]}{about}")
        self._start_task(self._fired(channel_id, theme), "fire")

    def _start_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._fires.add(task)
        task.add_done_callback(self._fires.discard)

    async def _fired(self, channel_id: int, theme: str | None) -> None:
        try:
            if why_not := await self._fire(channel_id, theme):
                self.note(f"no conversation started: {why_not}")
        except Exception as error:
            # The outermost edge of a task of its own: a failed command must not end the terminal.
            log.exception("a conversation started by /fire failed")
            self.note(f"the conversation failed: {type(error).__name__}")

    async def _used(self, use: Use) -> None:
        assert self._use is not None
        try:
            answer = await self._use(self._channel, use)
        except (LookupError, ValueError, TimeoutError) as error:
            answer = f"the command failed: {error}"
        if words := self._view.plain(answer):
            self.note(words)

    async def _stop_fires(self) -> None:
        tasks = list(self._fires)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _title(self) -> Panel:
        scripted = [name for name, model in self._header.voices.items() if model is None]
        models = {name: model for name, model in self._header.voices.items() if model is not None}
        free = [f"{name} ({model})" for name, model in models.items() if model in self._header.free]
        paid = [f"{name} ({model})" for name, model in models.items() if model not in self._header.free]
        lines = []
        if scripted:
            lines.append(_labelled("scripted", f"{', '.join(scripted)}: prepared lines, no model, no cost"))
        if free:
            lines.append(_labelled("local", f"{', '.join(free)}: a model on your own machines, no cost"))
        if paid:
            lines.append(_labelled("paid", f"{', '.join(paid)}: calls cost money"))
        if self._header.data_dir:
            lines.append(_labelled("data", self._header.data_dir))
        lines.append(_labelled("type", '"@claude hello", "#debate", "/fire", "/quit", "/help"'))
        return Panel(
            Group(*lines), title="agentic-discord, local", title_align="left", border_style="dim", padding=(0, 1)
        )

    def _who(self) -> Group:
        rows = []
        for name, colour in self._names.users.values():
            model = self._header.voices.get(name, "")
            rows.append(Text.assemble("      ", (name, f"bold {colour}"), (f"  {model or ''}", "dim")))
            if model is None:
                rows[-1].append("scripted", "dim")
        return Group(*rows)

    def _channels(self) -> Group:
        here = ((name, channel_id == self._channel) for channel_id, name in self._names.channels.items())
        return Group(*(Text(f"      #{name}{'  ← you are here' if at else ''}", "dim") for name, at in here))


def _help() -> Padding:
    rows = Table.grid(padding=(0, 2))
    for what, why in HELP:
        rows.add_row(Text(what, "bold", no_wrap=True), Text(why, "dim"))
    return Padding(rows, (0, 0, 0, 6))


def _labelled(label: str, text: str) -> Text:
    return Text.assemble((label.ljust(10), "bold"), one_line(text))
