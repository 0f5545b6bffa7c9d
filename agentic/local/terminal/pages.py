"""Pages that the terminal shows by itself: the header at the start, the help, and the lists of names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agentic.local.terminal.threads import Threads
from agentic.local.terminal.view import NARROW, Names, one_line

HELP = (
    ("@claude hello", "mention a bot, anywhere in the line; several are fine, @bots calls all"),
    ("hello", "write into the channel; the next bot of a running conversation responds"),
    ("#debate  #room-1", "go to another channel or room; #debate hello writes there"),
    ("/fire [channel] [theme]", "start a conversation, by default in this channel"),
    ("/reply 12 I agree", "reply to message 12; the number stands before each message"),
    ("/react 12 stop", "react with an emoji or a word for one (stop is 🛑, hide 🫥); again removes it"),
    ("/pin 12  /unpin 12", "pin a message, so that its .config takes effect, or remove the pin"),
    ("/room create", "open a room in which personas debate; /room list, stop, resume, close"),
    ("/bots status  /why 12", "the bots' commands, as in Discord; Tab lists them"),
    (".history last: 12", "numbers of messages stand for their links"),
    ("/who  /channels", "list the bots and people, the channels with their ids"),
    ("//text  ##text", "post a line that begins with / or #"),
    ("a line with \\ at its end", "goes on in the next line"),
    ("/quit", "leave; Ctrl-D does the same"),
)
"""Commands that need a message mean the newest one of a bot if no number is given."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of the start: each bot's display name with its model, None for a scripted voice; `free` are the models
    that cost nothing, on the owner's machines."""

    voices: Mapping[str, str | None] = field(default_factory=dict)
    free: Collection[str] = ()
    data_dir: str = ""
    console: str | None = None  # its address
    joinable: bool = True  # a person can type; not with --once
    room: str = ""  # the topic of the room that is opened at the start

    def panel(self) -> Panel:
        scripted = [name for name, model in self.voices.items() if model is None]
        models = dict.fromkeys(model for model in self.voices.values() if model is not None)
        free = [self._speakers(model) for model in models if model in self.free]
        paid = [self._speakers(model) for model in models if model not in self.free]
        lines = []
        if scripted:
            lines.append(_labelled("scripted", f"{', '.join(scripted)}: prepared lines, no model, no cost"))
        if free:
            lines.append(_labelled("local", f"{', '.join(free)}: a model on your own machines, no cost"))
        if paid:
            lines.append(_labelled("paid", f"{', '.join(paid)}: calls cost money"))
        if self.console:
            lines.append(_labelled("browser", self.console))
        if self.data_dir:
            lines.append(_labelled("data", self.data_dir))
        if self.room:
            lines.append(_labelled("room", self.room))
        if self.joinable:
            lines.append(_labelled("type", '"@claude hello", "#debate", "/fire", "/quit", "/help"'))
        else:
            what = "one short room" if self.room else "one conversation"
            lines.append(_labelled("once", f"{what}; without --once you can join in"))
        return Panel(
            Group(*lines), title="agentic-discord, local", title_align="left", border_style="dim", padding=(0, 1)
        )

    def _speakers(self, model: str) -> str:
        return f"{', '.join(name for name, voice in self.voices.items() if voice == model)} ({model})"


def help_page(width: int) -> RenderableType:
    """The commands; in a narrow terminal each explanation stands below its command."""
    if width < NARROW:
        return Group(*_below(HELP))
    rows = Table.grid(padding=(0, 2))
    for what, why in HELP:
        rows.add_row(Text(what, "bold", no_wrap=True), Text(why, "dim"))
    return Padding(rows, (0, 0, 0, 6))


def _below(rows: Iterable[tuple[str, str]]) -> Iterable[RenderableType]:
    for what, why in rows:
        yield Text(what, "bold")
        yield Padding(Text(why, "dim"), (0, 0, 0, 2))


def who_page(names: Names, header: Header) -> Group:
    rows = []
    for name, colour in names.users.values():
        model = header.voices.get(name, "")
        rows.append(Text.assemble("      ", (name, f"bold {colour}"), (f"  {model or ''}", "dim")))
        if model is None:
            rows[-1].append("scripted", "dim")
    return Group(*rows)


def channels_page(names: Names, threads: Threads, current: int) -> Group:
    """The channels with their ids, for cron jobs and OUTPUT_CHANNEL_ID; the threads with what they are about."""
    width = max(len(name) for name in names.channels.values())
    rows = []
    for number, name in names.channels.items():
        thread = threads.get(number)
        about = f"  “{one_line(thread.name)}”" if thread is not None else ""
        here = "  ← you are here" if number == current else ""
        rows.append(Text(f"      #{name.ljust(width)}  {number}{about}{here}", "dim"))
    return Group(*rows)


def _labelled(label: str, text: str) -> Text:
    return Text.assemble((label.ljust(10), "bold"), one_line(text))
