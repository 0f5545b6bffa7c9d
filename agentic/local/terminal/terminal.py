"""Shows events in the terminal and does what typed lines say.

While a person waits for an answer, events in other channels are held back; while they fill in a form, all events are.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any, Literal

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from agentic.local.discord.server import DiscordStandIn
from agentic.local.discord.world import World
from agentic.local.terminal.commands import Answer, Dialog, MessageNumbers, TypedCommand, Unclear, Vocabulary
from agentic.local.terminal.typed_lines import (
    Fire,
    Move,
    Pin,
    Quit,
    React,
    Say,
    Show,
    TypedLine,
    Vote,
    completions,
    joined,
    piped_lines,
    read_line,
    typed_lines,
)
from agentic.local.terminal.view import (
    FIRST_STEPS,
    Header,
    Names,
    SaveFile,
    Threads,
    View,
    channels_page,
    harmless,
    help_page,
    one_line,
    who_page,
)
from agentic.process.tasks import BackgroundTasks
from agentic.runtime.process import Runtime
from agentic.state.silence import ChannelRef

log = logging.getLogger(__name__)

Ending = Literal["quit", "eof"]
UseCommand = Callable[[int, TypedCommand], Awaitable[Answer]]

HOLD_SECONDS = 30.0  # for an answer, until events in other channels are shown
MAX_HELD = 500  # events
_LONG_WORD = re.compile(r"(\S{60})\S+")  # a hint repeats what was typed, which may be a page


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The console, and what it shows besides events. `status` is the line below the prompt, `log_file` explains
    failures, `clock` is in unix seconds; without a `timezone`, times are the machine's."""

    console: Console
    header: Header = field(default_factory=Header)
    status: Callable[[], str] = str
    log_file: str = "the log"
    clock: Callable[[], float] = time.time
    timezone: tzinfo | None = None


class Terminal:
    """Shows events and does what typed lines say, until `/quit` or the end of the input.

    `me` is the author of typed lines, which go to `channel`, at first the first of `names.channels`. A conversation or
    a command of the bots (`use`) can take long, so each has its own task, which is canceled with the terminal. `save`
    takes the files that bots post. `lines` replaces the standard input.
    """

    def __init__(
        self,
        screen: Screen,
        stand_in: DiscordStandIn,
        *,
        names: Names,
        me: int | str,
        conversations: LocalConversations,
        use: UseCommand | None = None,
        save: SaveFile | None = None,
        lines: AsyncGenerator[str] | None = None,
    ) -> None:
        channels = dict(names.channels)  # threads come and go
        self._screen, self._console, self._stand_in, self._me = screen, screen.console, stand_in, me
        self._names, self._threads = replace(names, channels=channels), Threads(channels)
        self._conversations, self._use, self._save, self._lines = conversations, use, save, lines
        self.channel = next(iter(channels))
        self._messages = MessageNumbers()
        styles = screen.console.is_terminal and not screen.console.is_dumb_terminal
        self._view = View(
            self._names, self._messages, self._threads, clock=screen.clock, timezone=screen.timezone, styles=styles
        )
        self._dialog = Dialog(self.note, self._view.plain)
        self._tasks = BackgroundTasks()
        self._watched = False
        self._held: list[tuple[str, Mapping[str, Any]]] = []
        self._waits_in: int | None = None  # the channel in which the person waits for an answer
        self._hold_ends: asyncio.TimerHandle | None = None
        self._has_asked = False  # a bot something; commands aren't questions
        self._first_steps = [FIRST_STEPS]  # until they are shown

    @property
    def has_toolbar(self) -> bool:
        """Whether `run()` shows a line below the typed one."""
        return sys.stdin.isatty() and self._console.is_terminal

    async def run(self) -> Ending:
        """Do what typed lines say and show events; return how it ended."""
        if self._lines is not None:
            source = self._lines
        elif self.has_toolbar:
            source = typed_lines(
                lambda: f"{self._dialog.label or '#' + self._names.channels.get(self.channel, 'channel')} › ",
                lambda: self._screen.status() or self._view.typing(),
                lambda text: [] if self._dialog.label else completions(text, self._vocabulary()),
            )
        else:
            source = piped_lines(sys.stdin.fileno())
        async with self.watching(), aclosing(joined(source)) as lines:
            async for line in lines:
                if self._dialog.takes(line.strip()):
                    if (sending := self._dialog.take(line.strip())) is not None:
                        self._wait_for_answer()
                        self._tasks.start(self._show_answer(sending), "answers")
                    elif not self._dialog.label:
                        self._show_held()
                    continue
                try:
                    typed = read_line(line, self.channel, self._vocabulary())
                except Unclear as error:
                    self.note(_LONG_WORD.sub(r"\1…", str(error)))
                    continue
                if isinstance(typed, Quit):
                    return "quit"
                if typed is not None:
                    await self._do(typed)
        return "eof"

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Show the header and then events while entered; at the end, cancel its tasks.

        Around `run()`, it keeps showing events after the end of the input; alone, it needs no input.
        """
        if self._watched:
            yield
            return
        self._watched, unsubscribe = True, self._stand_in.subscribe(self.show)
        try:
            self._console.print(self._screen.header.panel())
            yield
        finally:
            self._watched = False
            unsubscribe()
            self._show_held()
            await self._tasks.cancel()

    async def tasks_done(self) -> None:
        """Wait for the end of the conversations and commands that typed lines started."""
        await self._tasks.finish()

    def show(self, event: str, data: Mapping[str, Any]) -> None:
        """Print an event if it's worth a line, or hold it back for now."""
        here = self._threads.get(self.channel)
        if line := self._threads.take(event, data):
            self.note(line)
        if here is not None and self._threads.get(self.channel) is None:  # it was deleted
            self.go_to(here.parent_id)
        place = int(data.get("channel_id") or 0)
        elsewhere = self._waits_in is not None and place != self._waits_in
        if event != "TYPING_START" and (self._dialog.label or elsewhere) and len(self._held) < MAX_HELD:
            self._held.append((event, data))
            return
        self._print(event, data)
        if event == "MESSAGE_CREATE" and place == self._waits_in and (data.get("author") or {}).get("bot"):
            self._show_held()
            if self._first_steps and self._has_asked:
                self.note(self._first_steps.pop())

    def _print(self, event: str, data: Mapping[str, Any]) -> None:
        rendered = self._view.render(event, data, self._console.width)
        if rendered is not None:
            self._console.print(rendered)
        if self._save is None or event not in ("MESSAGE_CREATE", "MESSAGE_UPDATE"):
            return
        for attachment in data.get("attachments") or ():
            try:
                path = self._save(attachment)
            except OSError as error:
                self.note(f"the file {one_line(attachment.get('filename'))} was not saved: {error.strerror or error}")
                continue
            if path is not None:  # not wrapped: a terminal can't link a path that is cut in two
                self._console.print(Text(f"      {path}", Style(dim=True, link=path.as_uri())), soft_wrap=True)

    def _wait_for_answer(self, channel_id: int | None = None) -> None:
        """Hold back other channels' events until an answer is shown, for HOLD_SECONDS at most. None: this channel."""
        self._show_held()
        self._waits_in = channel_id or self.channel
        self._hold_ends = asyncio.get_running_loop().call_later(HOLD_SECONDS, self._show_held)

    def _show_held(self) -> None:
        """Show what was held back, and hold back nothing until the next question; an open form keeps holding."""
        self._waits_in = None
        if self._hold_ends is not None:
            self._hold_ends.cancel()
        if not self._dialog.label or not self._watched:
            held, self._held = self._held, []
            for event, data in held:
                self._print(event, data)

    def go_to(self, channel_id: int) -> None:
        """Let typed lines go to a channel or thread."""
        self.channel = channel_id
        self._show_held()
        thread = self._threads.get(channel_id)
        about = f": “{thread.name}”" if thread is not None else ""
        self.note(f"you are in #{self._names.channels[channel_id]}{about}")

    def note(self, text: str) -> None:
        """Print dim lines from the program itself; continuation lines are indented."""
        row = Table.grid(padding=(0, 1))
        row.add_column(width=7)
        row.add_column(overflow="fold")
        row.add_row(Text("      ·", "dim"), Text(harmless(text), "dim"))
        self._console.print(row)

    def _vocabulary(self) -> Vocabulary:
        names = self._names
        channels = {name: channel_id for channel_id, name in names.channels.items()}
        roles = {name: role_id for role_id, name in names.roles.items()}
        return Vocabulary(channels, names.mention_ids, roles, names.themes, names.commands, self._messages, names.guild)

    async def _do(self, line: TypedLine) -> None:
        match line:
            case Say() | React() | Vote() | Pin() as act:
                await self._act(act)
            case Move(channel_id):
                self.go_to(channel_id)
            case Fire(channel_id, theme):
                channel_id = channel_id or self.channel
                if refusal := self._conversations.refusal(channel_id):
                    self.note(f"no conversation started: {refusal}")
                    return
                about = f", with the theme {theme}" if theme else ""
                there = self._names.channels[channel_id]
                self.note(f"starting a conversation in #{there}{about}")
                self._tasks.start(self._hold_conversation(channel_id, theme), "conversation")
            case TypedCommand() as use:
                self._wait_for_answer(use.channel_id)
                self._tasks.start(self.use(use), "command")
            case Show("help" | "all commands" as topic):
                self._console.print(help_page(self._console.width, everything=topic == "all commands"))
            case Show("who"):
                self._console.print(who_page(self._names, self._screen.header))
            case Show("channels"):
                self._console.print(channels_page(self._names, self._threads, self.channel))

    async def _act(self, act: Say | React | Vote | Pin) -> None:
        """Act on the channel as the person."""
        try:
            match act:
                case Say(channel_id, text, reply_to):
                    if channel_id == self.channel and ("<@" in text or self._conversations.is_running(channel_id)):
                        self._wait_for_answer()
                        self._has_asked = True
                    await self._stand_in.say(self._me, channel_id, text, reply_to=reply_to)
                case React(message, emoji):
                    if not await self._stand_in.react(self._me, message.channel_id, message.id, emoji):
                        await self._stand_in.react(self._me, message.channel_id, message.id, emoji, given=False)
                        self.note(f"your {emoji} was removed from message {message.number}")
                case Vote(message, answer):
                    await self._stand_in.vote(self._me, message.channel_id, message.id, answer)
                    self.note(f"your answer to the poll in message {message.number}: {answer}")
                case Pin(message, pinned):
                    new = await self._stand_in.pin(self._me, message.channel_id, message.id, pinned)
                    if not (pinned and new):  # Discord reports new pins only
                        self.note(f"message {message.number} is {'' if pinned else 'not '}pinned")
        except KeyError:
            self.note("that message is gone")
        except ValueError as error:
            self.note(f"Discord would refuse that: {error}")

    async def _hold_conversation(self, channel_id: int, theme: str | None) -> None:
        try:
            if why_not := await self._conversations.hold(channel_id, theme):
                self.note(f"no conversation started: {why_not}")
        except Exception:
            # The outermost edge of a task of its own: a failed command must not end the terminal.
            log.exception("a conversation started by /fire failed")
            self.note(f"the conversation failed; {self._screen.log_file} says why")

    async def use(self, use: TypedCommand) -> None:
        """Use a command of the bots and show the answer."""
        assert self._use is not None
        await self._show_answer(self._use(use.channel_id or self.channel, use))

    async def _show_answer(self, answering: Awaitable[Answer]) -> None:
        try:
            self._dialog.show(await answering)
        except (LookupError, ValueError, TimeoutError) as error:
            self.note(f"the command failed: {error}")
        self._show_held()


class LocalConversations:
    """Starts conversations of the bots of a running process in the channels of its world."""

    def __init__(self, runtime: Runtime, world: World) -> None:
        assert runtime.coordinator is not None
        self._coordinator, self._silence, self._world = runtime.coordinator, runtime.services.silence, world

    def refusal(self, channel_id: int) -> str:
        """Return why no conversation can start in a channel now, and what to do; "" if one can."""
        if self._world.channel(channel_id).is_thread:
            return "this thread is a room; /room status shows its state, and /room resume continues it"
        if stopped := self.stopped(channel_id):
            return stopped
        name = self._world.channel(channel_id).name
        if self.is_running(channel_id):
            return f"a conversation is already running in #{name}; write there to join it, or wait until it ends"
        return ""

    def is_running(self, channel_id: int) -> bool:
        return channel_id in self._coordinator.engine.locks.busy

    def stopped(self, channel_id: int) -> str:
        """Return a line about a channel that a person stopped, "" for any other."""
        silenced = self._silence.check(ChannelRef(channel_id))
        if silenced is None:
            return ""
        if silenced.kind == "paused":
            return "all bots are paused, perhaps since an earlier start; /bots resume lets them speak again"
        name = self._world.channel(channel_id).name
        return f"#{name} is stopped, perhaps since an earlier start; /resume there lets them speak again"

    async def hold(self, channel_id: int, theme: str | None) -> str:
        """Run a conversation to its end; return why it couldn't start, or ""."""
        if refusal := self.refusal(channel_id):
            return refusal
        report = await self._coordinator.start_conversation(channel_id, theme)
        return "" if report is not None else self.refusal(channel_id) or "the bots are busy; try again in a moment"
