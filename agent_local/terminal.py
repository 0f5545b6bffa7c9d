"""The terminal of local mode: shows what happens in the channels and lets a person take part.

Events come from the Discord stand-in as gateway payloads (terminal_view.py shows them), typed lines go back to it
(terminal_input.py reads them). Nothing here knows agents, models or Redis.
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

from agent_local.terminal_input import (
    Fire,
    Move,
    Quit,
    Say,
    Show,
    Unclear,
    Vocabulary,
    Wish,
    piped_lines,
    read_line,
    typed_lines,
)
from agent_local.terminal_view import Names, View, harmless, one_line
from agent_local.typed_commands import Use

__all__ = ["Header", "Names", "StandIn", "Terminal"]

Ending = Literal["quit", "eof"]
UseCommand = Callable[[int, Use], Awaitable[str]]
FireConversation = Callable[[int, str | None], Awaitable[str]]
"""Holds a conversation in a channel; why none began, "" where one was held."""

HELP = (
    ("@claude hello", "talk to one of the bots, anywhere in the line; several are fine, @bots calls all"),
    ("hello", "write into the channel; whoever speaks next takes it up"),
    ("#debate", "go to another channel; #debate hello writes there"),
    ("/fire [channel] [theme]", "start a conversation, here where no channel is named"),
    ("/bots status", "the bots' own commands, as in Discord: /bots, /stop, /resume, /ask, /reset, /why, /why-not,"),
    ("", "/agent-file, /forget me"),
    ("/who  /channels", "who is here, where one can go"),
    ("/quit", "leave; Ctrl-D does the same"),
)

log = logging.getLogger(__name__)


class StandIn(Protocol):
    """What the terminal needs of the Discord stand-in."""

    def subscribe(self, callback: Callable[[str, dict[str, Any]], None]) -> Callable[[], None]:
        """Calls back with (event name, gateway payload) from the loop; returns what ends it."""
        ...

    async def say(self, author: int | str, channel: int | str, text: str) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Header:
    """What is told at the start: each bot's shown name with the model it uses, None for a scripted voice; `free` are
    those models that cost nothing, on a machine of the owner's."""

    voices: Mapping[str, str | None] = field(default_factory=dict)
    free: Collection[str] = ()
    data_dir: str = ""


class Terminal:
    """Shows and obeys until `/quit` or the end of the input.

    `me` is whom typed lines are posted as, `mention_ids` are the words that mention a user after `@`, `channel` is
    where one stands at first (the first of `names.channels` otherwise). `fire` may take as long as a conversation
    lasts: it runs beside the terminal and is cancelled with it; so does `use`, which answers to the bots' own
    `commands`. `lines` replaces the standard input.
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
        """Where typed lines go."""
        return self._channel

    async def run(self) -> Ending:
        """Obeys typed lines as they come, and shows events meanwhile. Says how it ended."""
        async with self.watching(), aclosing(self._lines or self._standard_input()) as lines:
            async for line in lines:
                wish = read_line(line, self._channel, self._vocabulary())
                if isinstance(wish, Quit):
                    return "quit"
                if wish is not None:
                    await self._obey(wish)
        return "eof"

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Shows the header and then events, while it is entered; cancels conversations begun by `/fire` at its end.

        Around `run()` it goes on showing what happens after the end of the input; alone it needs no input.
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
        """Waits until no conversation begun by `/fire` runs any more."""
        await asyncio.gather(*self._fires)

    def show(self, event: str, data: Mapping[str, Any]) -> None:
        """Prints an event, where it is worth a line."""
        shown = self._view.shown(event, data, self._console.width)
        if shown is not None:
            self._console.print(shown)

    def note(self, text: str) -> None:
        """A quiet line of the program's own, or several; what goes on stands below where it began."""
        row = Table.grid(padding=(0, 1))
        row.add_column(width=7)
        row.add_column(overflow="fold")
        row.add_row(Text("      ·", "dim"), Text(harmless(text), "dim"))
        self._console.print(row)

    def export_svg(self, path: Path, title: str = "agentic-discord") -> None:
        """Writes all that was printed as a picture that loads nothing from elsewhere. Needs `Console(record=True)`."""
        if not self._console.record:
            raise RuntimeError("only a Console(record=True) can be exported")
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

    async def _obey(self, wish: Wish) -> None:
        match wish:
            case Say(channel_id, text):
                await self._stand_in.say(self._me, channel_id, text)
            case Move(channel_id):
                self._channel = channel_id
                self.note(f"you are in #{self._names.channels[channel_id]}")
            case Fire(channel_id, theme):
                self._start(channel_id or self._channel, theme)
            case Use() as use:
                self._beside(self._used(use), "a command")
            case Show(topic):
                self._console.print({"help": _help, "who": self._who, "channels": self._channels}[topic]())
            case Unclear(hint):
                self.note(hint)

    def _start(self, channel_id: int, theme: str | None) -> None:
        about = f", with the theme {theme}" if theme else ""
        self.note(f"starting a conversation in #{self._names.channels[channel_id]}{about}")
        self._beside(self._fired(channel_id, theme), "fire")

    def _beside(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._fires.add(task)
        task.add_done_callback(self._fires.discard)

    async def _fired(self, channel_id: int, theme: str | None) -> None:
        try:
            if why_not := await self._fire(channel_id, theme):
                self.note(f"no conversation began: {why_not}")
        except Exception as error:
            # The outermost edge of a task of its own: a failed wish must not end the terminal.
            log.exception("a conversation could not be held")
            self.note(f"the conversation failed: {type(error).__name__}")

    async def _used(self, use: Use) -> None:
        assert self._use is not None
        try:
            answer = await self._use(self._channel, use)
        except (LookupError, ValueError, TimeoutError) as error:
            answer = f"the command did not come to anything: {error}"
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
            lines.append(_labelled("at home", f"{', '.join(free)}: a model of your own, no cost"))
        if paid:
            lines.append(_labelled("paid key", f"{', '.join(paid)}: calls cost money"))
        if self._header.data_dir:
            lines.append(_labelled("data", self._header.data_dir))
        lines.append(_labelled("you type", '"@claude hello", "#debate", "/fire", "/quit", "/help"'))
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
