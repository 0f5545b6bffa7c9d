"""Renders Discord's events as lines of a terminal, and pages: the header at the start, the help, lists of names.

Text from messages is untrusted. It only goes into rich `Text`, which has no markup, and loses its control characters
first, so that it can't color, move, or reverse the text around it. Files that bots post are saved in a folder, since a
terminal can't show them. A thread is typed as `#room-1`: its own name is a topic, too long to type.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from cachetools import FIFOCache, TTLCache
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agentic.chat.directory import clean_name
from agentic.chat.outlet import is_unfinished
from agentic.local.discord.world import (
    DEFAULT,
    PINS_ADD,
    POLL_RESULT,
    REPLY,
    THREAD_CREATED,
    THREAD_STARTER,
    Attachment,
)
from agentic.local.terminal.commands import MessageNumbers, is_by_bot
from agentic.services.discord.mentions import to_names
from agentic.text import counted

Data = Mapping[str, Any]
SaveFile = Callable[[Mapping[str, Any]], Path | None]
"""Save an attachment; return its path, None if it was saved before. Raises OSError."""

MAX_FILES = 200  # in the folder; the oldest are removed first
MAX_NAME = 80  # characters of a file's name
NARROW = 70  # columns; below it a message is shown under its author
CHANNEL_COLUMNS = 14
NAME_COLUMNS = 16
NUMBER_COLUMNS = 3
ASIDE_COLUMNS = 6  # before the lines between messages
SMALL = "-# "  # begins a line of Discord's small print
SNIPPET = 40  # characters
MAX_REMEMBERED = 500  # messages
OF_THREADS = (THREAD_CREATED, THREAD_STARTER)  # report a thread, which has a line of its own
UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
TYPING_SECONDS = 10.0  # as long as Discord shows one
STRANGERS = ("cyan", "magenta", "yellow", "green", "bright_blue", "bright_red", "bright_magenta", "bright_green")
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_LINK = re.compile(r"https://discord\.com/channels/\d+/\d+/(\d{1,20})", re.ASCII)
_TIME = re.compile(r"<t:(\d{1,12})(?::(\w))?>")

HELP = (
    ("@claude hello", "ask a bot; it answers you (@bots calls all four)"),
    ("I disagree!", "just type to join a running conversation; the next bot answers you"),
    ("/fire", "start a conversation here, or in another channel: /fire story"),
    ("/room create Tea or coffee?", "open a debate about your question"),
    ("/stop", "stop the bots in this channel; /resume lets them speak again"),
    ("/quit", "leave"),
)
MORE_HELP = (
    ("#debate  #room-1", "go to another channel or room; #debate hello writes there"),
    ("#room-1 /room status", "use a command in another channel or room"),
    ("/fire casual trivia", "start a conversation in a channel, with a theme; both are optional"),
    ("/reply 12 I agree", "reply to message 12; the number is to the left of each message"),
    ("/react 12 stop", "react with an emoji or a word for one (stop is 🛑, hide is 🫥); repeat it to remove it"),
    ("/vote for", "answer the newest poll in a room; you can change your answer until it ends"),
    ("/pin 12  /unpin 12", "pin a message, so that its .config takes effect, or unpin it"),
    ("/room list", "list the rooms; also /room stop, /room resume, /room close"),
    ("/bots status  /why 12", "the bots' commands, as in Discord; Tab lists them"),
    (".history last: 12", "message numbers stand for links"),
    ("/who  /channels", "list the bots and people, or the channels with their ids"),
    ("//text  ##text", "post a line that begins with / or #"),
    ("a line that ends in \\", "continues in the next line"),
)
"""Without a number, commands that need a message take the newest bot message."""
SCRIPTED = "lines written in advance: free, no model; real answers need an API key"
FIRST_STEPS = (
    "Two things to try next: /fire story starts a story in #story, and /room create Is a hot dog a sandwich? opens a"
    " debate about it. Any question will do."
)
_STYLES = {"*": "italic", "**": "bold", "***": "bold italic", "_": "italic", "__": "underline", "~~": "strike"}
_STYLED = re.compile(
    r"`(?P<code>[^`\n]++)`|(?P<stars>\*{1,3})(?=[^\s*])(?P<starred>[^*\n]++)(?P=stars)"
    r"|(?<!\w)(?P<under>_{1,2})(?=[^\s_])(?P<underlined>[^_\n]++)(?P=under)(?!\w)|(?P<tildes>~~)(?P<struck>[^~\n]++)~~"
)
_HEADING = re.compile(r"#{1,3} ")


@dataclass(frozen=True, slots=True)
class Names:
    """Channel id → name, user id → (display name, rich color), role id → name, and display name → rich color of
    personas without an account. `mention_ids`: word after `@` → user id. The others are as in Vocabulary."""

    channels: Mapping[int, str]
    users: Mapping[int, tuple[str, str]]
    roles: Mapping[int, str]
    personas: Mapping[str, str] = field(default_factory=dict)
    mention_ids: Mapping[str, int] = field(default_factory=dict)
    themes: Collection[str] = ()
    commands: Sequence[Mapping[str, Any]] = ()
    guild: int = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    author: str
    style: str
    text: str  # as Discord has it


class View:
    """Turn gateway payloads into rich renderables, and give every message a number in `numbers`.

    `clock` is in unix seconds; without a `timezone`, times are the machine's. `styles`: show bold, italics, and code
    instead of their marks.
    """

    def __init__(
        self,
        names: Names,
        numbers: MessageNumbers,
        threads: Threads,
        *,
        clock: Callable[[], float],
        timezone: tzinfo | None = None,
        styles: bool = False,
    ) -> None:
        self._names, self._numbers, self._clock, self._timezone = names, numbers, clock, timezone
        self._styles, self._threads = styles, threads
        self._seen: FIFOCache[int, _Seen] = FIFOCache(MAX_REMEMBERED)
        self._growing: set[int] = set()  # messages that bots haven't completed; they appear whole
        self._typing = TTLCache[tuple[int, int], bool](math.inf, TYPING_SECONDS, timer=clock)  # by channel and user
        self._strangers: dict[tuple[int, str], str] = {}  # their colors

    def render(self, event: str, data: Data, width: int) -> RenderableType | None:
        """Render an event; return None if it isn't worth a line."""
        if event.startswith("MESSAGE_") and _id(data, "id") in self._growing:
            if event == "MESSAGE_UPDATE" and is_unfinished(str(data.get("content") or "")):
                return None
            self._growing.discard(_id(data, "id"))
            return self._render_message(data, width) if event == "MESSAGE_UPDATE" else None
        match event:
            case "MESSAGE_CREATE" if (data.get("author") or {}).get("bot") and is_unfinished(str(data.get("content"))):
                self._growing.add(_id(data, "id"))
            case "MESSAGE_CREATE":
                return self._render_message(data, width)
            case "MESSAGE_UPDATE":
                return self._render_edit(data)
            case "MESSAGE_DELETE":
                return self._render_deletion(data)
            case "MESSAGE_REACTION_ADD":
                return self._render_reaction(data)
            case "TYPING_START":
                self._typing[_id(data, "channel_id"), _id(data, "user_id")] = True
        return None

    def plain(self, text: str) -> str:
        """Return an answer to a command as plain text: names for mentions, times of day, none of Discord's markup."""
        text = harmless(self._named(_TIME.sub(self._clock_time, text), {})).replace("**", "")
        lines = (line.removeprefix(SMALL) for line in text.splitlines() if not line.startswith("```"))
        return "\n".join(lines).strip("\n")

    def _clock_time(self, match: re.Match[str]) -> str:
        """Return a time of day, or how long from now it is, as Discord shows the time."""
        try:
            at = datetime.fromtimestamp(int(match[1]), self._timezone)
        except (ValueError, OverflowError, OSError):
            return match[0]  # no calendar has it; Discord shows it as it is, too
        if match[2] != "R":
            return f"{at:%H:%M}"
        seconds = at.timestamp() - self._clock()
        size, unit = next((size, unit) for size, unit in UNITS if abs(seconds) >= size or size == 1)
        distance = counted(round(abs(seconds) / size), unit)
        return f"{distance} ago" if seconds < 0 else f"in {distance}"

    def typing(self) -> str:
        """Return a line about the users who are typing, or ""."""
        return ", ".join(f"{self._user(user)[0]} is typing in #{self._channel(at)}" for at, user in self._typing)

    def _render_message(self, data: Data, width: int) -> RenderableType | None:
        if data.get("type") in OF_THREADS:
            return None
        message_id, channel_id, writer = _id(data, "id"), _id(data, "channel_id"), data.get("author") or {}
        author, style = self._author(writer)
        if data.get("type") == PINS_ADD:
            return _aside("↳", (author, style), (f" pinned {self._numbered(data.get('message_reference') or {})}", ""))
        text, answers = str(data.get("content") or ""), _poll_answers(data)
        in_thread = self._threads.get(channel_id) is not None
        by_bot = is_by_bot(text, data.get("type", DEFAULT), bot=bool(writer.get("bot")), in_thread=in_thread)
        number = self._numbers.add(message_id, channel_id, by_bot=by_bot, answers=answers)
        self._typing.pop((channel_id, _id(writer, "id")), None)
        self._seen[message_id] = _Seen(author, style, text)
        time = datetime.fromtimestamp(self._clock(), self._timezone).strftime("%H:%M")
        channel = f"#{self._channel(channel_id)}"
        body = Group(*self._lines(data))
        if width < NARROW:
            head = Text.assemble((f"{time} {number} {channel}", "dim"), " ", (author, f"bold {style}"))
            return Group(head, Padding(body, (0, 0, 0, 2)))
        # All messages have the same columns, so that they line up.
        channels = max((len(name) + 1 for name in self._names.channels.values()), default=CHANNEL_COLUMNS)
        known = (*(name for name, _ in self._names.users.values()), *self._names.personas)
        authors = max((len(clean_name(name)) for name in known), default=NAME_COLUMNS)
        row = Table.grid(padding=(0, 1))
        row.add_column(width=5, no_wrap=True)
        row.add_column(width=max(NUMBER_COLUMNS, len(str(number))), no_wrap=True, justify="right")
        row.add_column(width=min(channels, CHANNEL_COLUMNS), no_wrap=True)
        row.add_column(width=min(authors, NAME_COLUMNS), no_wrap=True, overflow="ellipsis")
        row.add_column(overflow="fold")
        dim = (Text(time, "dim"), Text(str(number), "dim"), Text(channel, "dim"))
        row.add_row(*dim, Text(author, f"bold {style}"), body)
        return row

    def _numbered(self, reference: Data) -> str:
        number = self._numbers.number_of(_id(reference, "message_id"))
        return "an earlier message" if number is None else f"message {number}"

    def _lines(self, data: Data) -> list[Text]:
        lines = []
        if used := data.get("interaction"):  # the message or command that this one answers, as Discord shows it
            lines.append(Text(f"↱ {self._author(used.get('user') or {})[0]} used /{one_line(used.get('name'))}", "dim"))
        elif data.get("type") == REPLY:
            lines.append(Text(f"↱ to {self._numbered(data.get('message_reference') or {})}", "dim"))
        if data.get("content"):
            lines.append(self._content(data))
        if answers := _poll_answers(data):
            question = one_line(data["poll"]["question"]["text"])
            lines.append(Text(f"[poll: {question} {' · '.join(answers)}; /vote {answers[0]} answers it]", "italic"))
        for attachment in data.get("attachments") or ():
            name, media_type = one_line(attachment.get("filename")), str(attachment.get("content_type") or "")
            is_picture = media_type.startswith("image/") or name.lower().endswith(PICTURES)
            lines.append(Text(f"[{'picture' if is_picture else 'file'}: {name}]", "italic"))
        if data.get("type") == POLL_RESULT:
            return [Text("[the poll is over]", "dim")]
        for embed in data.get("embeds") or ():
            parts = (embed.get("title"), embed.get("description"), (embed.get("footer") or {}).get("text"))
            lines.append(Text(f"[{' · '.join(filter(None, map(one_line, parts))) or 'embed'}]", "dim"))
        return lines or [Text("[empty]", "dim")]

    def _content(self, data: Data) -> Text:
        """The text, with mentions as names in their users' colors, and Discord's small print dim."""
        mentioned = {_id(user, "id"): _shown_name(user) for user in data.get("mentions") or ()}
        text = self._named(str(data["content"]), mentioned)
        text = _LINK.sub(lambda link: str(self._numbers.number_of(int(link[1])) or link[0]), text)
        named = harmless(_TIME.sub(self._clock_time, text))
        lines, in_code = list[Text](), False
        for line in named.split("\n"):
            if self._styles and line.startswith("```"):
                in_code = not in_code
            elif in_code:
                lines.append(Text(line, "cyan"))
            elif line.startswith(SMALL):
                lines.append(Text(line.removeprefix(SMALL), "dim"))
            else:
                lines.append(styled(line) if self._styles else Text(line))
        content = Text("\n").join(lines)
        for name, color in self._names.users.values():
            content.highlight_words([f"@{clean_name(name)}"], f"bold {color}")
        return content

    def _named(self, text: str, mentioned: Mapping[int, str]) -> str:
        known = {user: name for user, (name, _) in self._names.users.items()}
        return to_names(text, {**mentioned, **known}, self._names.channels, self._names.roles)

    def _render_edit(self, data: Data) -> Padding | None:
        """Return None if the text is unchanged: previews, pins, and threads are updates, too."""
        seen, content = self._seen.get(_id(data, "id")), data.get("content")
        if content is None or seen is None or seen.text == content:
            return None
        self._seen[_id(data, "id")] = _Seen(seen.author, seen.style, str(content))
        return _aside("✎", (seen.author, seen.style), (" edited: ", ""), (self._content(data).plain, ""))

    def _render_deletion(self, data: Data) -> Padding:
        seen = self._seen.pop(_id(data, "id"), None)
        self._numbers.delete(_id(data, "id"))
        if seen is None:
            return _aside("✗", ("an earlier message was deleted", ""))
        return _aside("✗", ("a message by ", ""), (seen.author, seen.style), (" was deleted", ""))

    def _render_reaction(self, data: Data) -> Padding:
        user, emoji = self._user(_id(data, "user_id")), one_line((data.get("emoji") or {}).get("name")) or "?"
        seen = self._seen.get(_id(data, "message_id"))
        if seen is None:
            return _aside("↳", user, (f" reacted {emoji} to an earlier message", ""))
        words = one_line(self._named(seen.text, {}).replace(f"\n{SMALL}", "\n"))
        snippet = words if len(words) <= SNIPPET else f"{words[:SNIPPET].strip()}…"
        about = f": {snippet}" if snippet else ""
        return _aside("↳", user, (f" reacted {emoji} to ", ""), (seen.author, seen.style), (about, ""))

    def _author(self, author: Data) -> tuple[str, str]:
        known = self._names.users.get(_id(author, "id"))
        if known is not None:
            return clean_name(known[0]), known[1]
        name = _shown_name(author)
        # Personas share the id of a webhook, so the key includes the name. The first strangers all differ.
        fresh = STRANGERS[len(self._strangers) % len(STRANGERS)]
        color = self._names.personas.get(name) or self._strangers.setdefault((_id(author, "id"), name), fresh)
        return name, color

    def _user(self, user_id: int) -> tuple[str, str]:
        name, style = self._names.users.get(user_id, ("someone", STRANGERS[user_id % len(STRANGERS)]))
        return clean_name(name), style

    def _channel(self, channel_id: int) -> str:
        return clean_name(self._names.channels.get(channel_id, "channel"))


def _poll_answers(data: Data) -> tuple[str, ...]:
    poll = data.get("poll") or {}
    return tuple(one_line(each["poll_media"]["text"]) for each in poll.get("answers") or ())


def styled(line: str) -> Text:
    """Show Discord's marks for bold, italics, underlines, strikes, code, and headings as styles."""
    heading = _HEADING.match(line)
    text, end = Text(style="bold" if heading else ""), heading.end() if heading else 0
    for match in _STYLED.finditer(line, end):
        text.append(line[end : match.start()])
        mark = match["stars"] or match["under"] or match["tildes"]
        words = match["code"] or match["starred"] or match["underlined"] or match["struck"]
        text.append(words, _STYLES[mark] if mark else "cyan")
        end = match.end()
    return text.append(line[end:])


def harmless(text: str) -> str:
    """Remove control, bidirectional and other characters that affect a terminal; newlines stay."""
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    # Joiners stay, since emoji contain them.
    categories = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(c for c in text if c in "\n\u200c\u200d" or unicodedata.category(c) not in categories)


def one_line(text: object) -> str:
    """Return a value as one harmless line, "" for None."""
    return " ".join(harmless(str(text)).split()) if text is not None else ""


def _shown_name(user: Data) -> str:
    return clean_name(str(user.get("global_name") or user.get("username") or ""))


def _aside(mark: str, *parts: tuple[str, str]) -> Padding:
    """A dim line between the messages."""
    text = Text(f"{mark} ", "dim")
    for words, style in parts:
        text.append(words, style=f"dim {style}".strip())
    return Padding(text, (0, 0, 0, ASIDE_COLUMNS), expand=False)


def _id(data: Data, key: str) -> int:
    """Return a snowflake of a payload as a number, 0 if it's missing."""
    value = str(data.get(key) or "")
    return int(value) if value.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class Header:
    """The header. `voices`: a bot's display name → its model, None for a scripted voice; `free`: the models on the
    owner's machines, which cost nothing; `console`: its address; `joinable`: a person can type (not with --once);
    `room`: the topic of the room that opens at the start."""

    voices: Mapping[str, str | None] = field(default_factory=dict)
    free: Collection[str] = ()
    data_dir: str = ""
    console: str | None = None
    joinable: bool = True
    room: str = ""

    def panel(self) -> Panel:
        scripted = [name for name, model in self.voices.items() if model is None]
        models = dict.fromkeys(model for model in self.voices.values() if model is not None)
        free = [self._speakers(model) for model in models if model in self.free]
        paid = [self._speakers(model) for model in models if model not in self.free]
        if self.joinable:
            what = ("try", "@claude hello   /fire story   /help   /quit")
        else:
            what = ("once", f"{'one short room' if self.room else 'one conversation'}; without --once, you can join in")
        rows = (
            ("scripted", scripted and f"{', '.join(scripted)} ({SCRIPTED})"),
            ("free", free and f"{', '.join(free)}: on your own machines"),
            ("paid", paid and f"{', '.join(paid)}: each call costs money"),
            ("browser", self.console),
            ("data", self.data_dir),
            ("room", self.room),
            what,
        )
        lines = [Text.assemble((label.ljust(10), "bold"), one_line(text)) for label, text in rows if text]
        title = "agentic-discord on this machine"
        return Panel(Group(*lines), title=title, title_align="left", border_style="dim", padding=(0, 1))

    def _speakers(self, model: str) -> str:
        return f"{', '.join(name for name, voice in self.voices.items() if voice == model)} ({model})"


def help_page(width: int, *, everything: bool) -> RenderableType:
    """Return six commands, or all; in a narrow terminal, each explanation is below its command."""
    entries = (*HELP, *MORE_HELP) if everything else (*HELP, ("/help all", "show everything else you can type"))
    if width < NARROW:
        pairs = ((Text(what, "bold"), Padding(Text(why, "dim"), (0, 0, 0, 2))) for what, why in entries)
        return Group(*(line for pair in pairs for line in pair))
    rows = Table.grid(padding=(0, 2))
    for what, why in entries:
        rows.add_row(Text(what, "bold", no_wrap=True), Text(why, "dim"))
    return Padding(rows, (0, 0, 0, 6))


def who_page(names: Names, header: Header) -> Group:
    rows = []
    for name, color in names.users.values():
        model = header.voices.get(name, "")
        rows.append(Text.assemble("      ", (name, f"bold {color}"), (f"  {model or ''}", "dim")))
        if model is None:
            rows[-1].append("scripted", "dim")
    return Group(*rows)


def channels_page(names: Names, threads: Threads, current: int) -> Group:
    """Return the channels with their ids, for cron jobs and OUTPUT_CHANNEL_ID, and the threads with their topics."""
    width = max(len(name) for name in names.channels.values())
    rows = []
    for number, name in names.channels.items():
        thread = threads.get(number)
        about = f"  “{one_line(thread.name)}”" if thread is not None else ""
        here = "  ← you are here" if number == current else ""
        rows.append(Text(f"      #{name.ljust(width)}  {number}{about}{here}", "dim"))
    return Group(*rows)


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread; `short` is how it's typed, `name` is its name in Discord."""

    short: str
    name: str
    parent_id: int
    archived: bool = False
    locked: bool = False


class Threads:
    """The threads. Adds their short names to `channels`, which maps the ids of channels to names."""

    def __init__(self, channels: MutableMapping[int, str]) -> None:
        self._channels = channels
        self._known: dict[int, Thread] = {}
        self._seen = 0

    def get(self, channel_id: int) -> Thread | None:
        return self._known.get(channel_id)

    def take(self, event: str, data: Data) -> str | None:
        """Follow an event; return a line about a change that the person should know."""
        if event not in ("THREAD_CREATE", "THREAD_UPDATE", "THREAD_DELETE"):
            return None
        thread_id = int(data["id"])
        before = self._known.get(thread_id)
        if (event == "THREAD_CREATE") == (before is not None):
            return None
        if before is not None and event == "THREAD_DELETE":
            del self._known[thread_id], self._channels[thread_id]
            return f"#{before.short} was deleted"
        if before is None:
            self._seen += 1
        state = data.get("thread_metadata") or {}
        archived, locked = bool(state.get("archived")), bool(state.get("locked"))
        short = f"room-{self._seen}" if before is None else before.short
        thread = Thread(short, str(data["name"]), int(data["parent_id"]), archived, locked)
        self._known[thread_id] = thread
        if before is None:
            self._channels[thread_id] = short
            parent = self._channels.get(thread.parent_id, "channel")
            return f"a new thread in #{parent}: “{thread.name}”; type #{short} to go there"
        if (archived, locked) == (before.archived, before.locked):
            return None
        if archived:
            return f"#{short} is {'archived and locked' if locked else 'archived; a message opens it again'}"
        return f"#{short} is {'locked: only moderators can write there' if locked else 'open'}"


class SavedFiles:
    """Saves attachments in `folder`; `stored` has the stand-in's attachments by their ids."""

    def __init__(self, folder: Path, stored: Mapping[int, Attachment]) -> None:
        self._folder, self._stored = folder.absolute(), stored
        self._saved: set[int] = set()

    def save(self, attachment: Mapping[str, Any]) -> Path | None:
        """Save an attachment; return None if it was saved before or its content is gone. Raises OSError."""
        attachment_id = int(attachment["id"])
        stored = self._stored.get(attachment_id)
        if stored is None or attachment_id in self._saved:
            return None
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._free_path(str(attachment["filename"]))
        path.write_bytes(stored.content)
        self._saved.add(attachment_id)
        files = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for oldest in files[: max(0, len(files) - MAX_FILES)]:
            oldest.unlink()
        return path

    def _free_path(self, filename: str) -> Path:
        """Return a path that doesn't exist yet, for a name that anybody may have chosen."""
        name = Path("".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in filename).lstrip("."))
        stem, suffix = name.stem[:MAX_NAME] or "file", name.suffix[:MAX_NAME]
        number, path = 1, self._folder / f"{stem}{suffix}"
        while path.exists():
            number += 1
            path = self._folder / f"{stem}-{number}{suffix}"
        return path
