"""Discord's events as lines of a terminal.

Text from messages is untrusted: it is only put into rich `Text`, which has no markup, and its control characters are
removed first, so that it cannot colour, move or reverse the text around it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agentic.chat.directory import clean_name
from agentic.local.terminal.message_numbers import MessageNumbers
from agentic.services.discord.mentions import to_names

Data = Mapping[str, Any]

NARROW = 70  # columns; below it a message is shown under its author
CHANNEL_COLUMNS = 14
NAME_COLUMNS = 16
NUMBER_COLUMNS = 3
ASIDE_COLUMNS = 6  # before the lines between messages
SMALL = "-# "  # begins a line of Discord's small print
SNIPPET = 40  # characters
REMEMBERED = 500  # messages
PINNED, REPLY = 6, 19  # types of messages; the first reports a pin
OF_THREADS = (18, 21)  # report a thread, which has a line of its own
TYPING_SECONDS = 10.0  # as long as Discord shows one
STRANGERS = ("cyan", "magenta", "yellow", "green", "bright_blue", "bright_red", "bright_magenta", "bright_green")
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_TAB = " " * 4
_LINK = re.compile(r"https://discord\.com/channels/\d+/\d+/(\d{1,20})", re.ASCII)
_TIME = re.compile(r"<t:(\d{1,12})(?::\w)?>")


@dataclass(frozen=True, slots=True)
class Names:
    """Channel id → name, user id → (display name, rich colour), role id → name; persona's display name → rich colour,
    of those without an account. Read for each event."""

    channels: Mapping[int, str]
    users: Mapping[int, tuple[str, str]]
    roles: Mapping[int, str]
    personas: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Seen:
    author: str
    style: str
    text: str  # as Discord has it


class View:
    """Turn gateway payloads into rich renderables. `clock` in unix seconds, `timezone` None for the machine's.

    Every message gets a number in `numbers`.
    """

    def __init__(
        self, names: Names, numbers: MessageNumbers, *, clock: Callable[[], float], timezone: tzinfo | None = None
    ) -> None:
        self._names, self._numbers, self._clock, self._timezone = names, numbers, clock, timezone
        self._seen: OrderedDict[int, _Seen] = OrderedDict()
        self._typing: dict[tuple[int, int], float] = {}
        self._strangers: dict[tuple[int, str], str] = {}  # their colours

    def shown(self, event: str, data: Data, width: int) -> RenderableType | None:
        """Render an event; None for one that is not worth a line."""
        match event:
            case "MESSAGE_CREATE":
                return self._message(data, width)
            case "MESSAGE_UPDATE":
                return self._edit(data)
            case "MESSAGE_DELETE":
                return self._deletion(data)
            case "MESSAGE_REACTION_ADD":
                return self._reaction(data)
            case "TYPING_START":
                self._typing[_id(data, "channel_id"), _id(data, "user_id")] = self._clock() + TYPING_SECONDS
        return None

    def plain(self, text: str) -> str:
        """An answer to a command as plain text: names for mentions, times of day, no markup of Discord's."""
        text = harmless(self._named(_TIME.sub(self._clock_time, text), {})).replace("**", "")
        lines = (line.removeprefix(SMALL) for line in text.splitlines() if not line.startswith("```"))
        return "\n".join(lines).strip("\n")

    def _clock_time(self, match: re.Match[str]) -> str:
        """Like Discord, leave a time that no calendar has as it is."""
        try:
            return f"{datetime.fromtimestamp(int(match[1]), self._timezone):%H:%M}"
        except (ValueError, OverflowError, OSError):
            return match[0]

    def typing(self) -> str:
        """A line about typing users, "" for none."""
        now = self._clock()
        self._typing = {key: until for key, until in self._typing.items() if until > now}
        return ", ".join(f"{self._user(user)[0]} is typing in #{self._channel(at)}" for at, user in self._typing)

    def _message(self, data: Data, width: int) -> RenderableType | None:
        if data.get("type") in OF_THREADS:
            return None
        author, style = self._author(data.get("author") or {})
        if data.get("type") == PINNED:
            return _aside("↳", (author, style), (f" pinned {self._numbered(data.get('message_reference') or {})}", ""))
        number = self._numbers.add(
            _id(data, "id"), _id(data, "channel_id"), by_bot=bool((data.get("author") or {}).get("bot"))
        )
        self._typing.pop((_id(data, "channel_id"), _id(data.get("author") or {}, "id")), None)
        self._remember(data, author, style)
        time = datetime.fromtimestamp(self._clock(), self._timezone).strftime("%H:%M")
        channel = f"#{self._channel(_id(data, 'channel_id'))}"
        body = Group(*self._lines(data))
        if width < NARROW:
            head = Text.assemble((f"{time} {number} {channel}", "dim"), " ", (author, f"bold {style}"))
            return Group(head, Padding(body, (0, 0, 0, 2)))
        dim = (Text(time, "dim"), Text(str(number), "dim"), Text(channel, "dim"))
        return self._row(*dim, Text(author, f"bold {style}"), body)

    def _numbered(self, reference: Data) -> str:
        """A message that a payload refers to, by its number."""
        number = self._numbers.number_of(_id(reference, "message_id"))
        return "an earlier message" if number is None else f"message {number}"

    def _row(self, time: Text, number: Text, channel: Text, author: Text, body: RenderableType) -> Table:
        """Give all messages the same columns, so that they line up."""
        channels = max((len(name) + 1 for name in self._names.channels.values()), default=CHANNEL_COLUMNS)
        known = (*(name for name, _ in self._names.users.values()), *self._names.personas)
        authors = max((len(clean_name(name)) for name in known), default=NAME_COLUMNS)
        row = Table.grid(padding=(0, 1))
        row.add_column(width=5, no_wrap=True)
        row.add_column(width=max(NUMBER_COLUMNS, len(number)), no_wrap=True, justify="right")
        row.add_column(width=min(channels, CHANNEL_COLUMNS), no_wrap=True)
        row.add_column(width=min(authors, NAME_COLUMNS), no_wrap=True, overflow="ellipsis")
        row.add_column(overflow="fold")
        row.add_row(time, number, channel, author, body)
        return row

    def _lines(self, data: Data) -> list[Text]:
        lines = self._cause(data)
        lines += [self._content(data)] if data.get("content") else []
        for attachment in data.get("attachments") or ():
            kind = "picture" if _is_picture(attachment) else "file"
            lines.append(Text(f"[{kind}: {one_line(attachment.get('filename'))}]", "italic"))
        for embed in data.get("embeds") or ():
            parts = (embed.get("title"), embed.get("description"), (embed.get("footer") or {}).get("text"))
            lines.append(Text(f"[{' · '.join(filter(None, map(one_line, parts))) or 'embed'}]", "dim"))
        return lines or [Text("[empty]", "dim")]

    def _cause(self, data: Data) -> list[Text]:
        """A line about the message or command that this one answers, as Discord shows it."""
        if used := data.get("interaction"):
            return [Text(f"↱ {self._author(used.get('user') or {})[0]} used /{one_line(used.get('name'))}", "dim")]
        if data.get("type") != REPLY:
            return []
        return [Text(f"↱ to {self._numbered(data.get('message_reference') or {})}", "dim")]

    def _content(self, data: Data) -> Text:
        """The text, with mentions as names in their users' colours, and Discord's small print dim."""
        mentioned = {_id(user, "id"): _shown_name(user) for user in data.get("mentions") or ()}
        named = harmless(_LINK.sub(self._link_number, self._named(str(data["content"]), mentioned)))
        lines = [Text(line.removeprefix(SMALL), "dim" if line.startswith(SMALL) else "") for line in named.split("\n")]
        text = Text("\n").join(lines)
        for name, colour in self._names.users.values():
            text.highlight_words([f"@{clean_name(name)}"], f"bold {colour}")
        return text

    def _link_number(self, link: re.Match[str]) -> str:
        """The number of the message that a link leads to; the link itself for one that has none."""
        number = self._numbers.number_of(int(link[1]))
        return link[0] if number is None else str(number)

    def _named(self, text: str, mentioned: Mapping[int, str]) -> str:
        known = {user: name for user, (name, _) in self._names.users.items()}
        return to_names(text, {**mentioned, **known}, self._names.channels, self._names.roles)

    def _edit(self, data: Data) -> Padding | None:
        """None for an update that did not change the text: a preview, a pin, a thread."""
        seen, content = self._seen.get(_id(data, "id")), data.get("content")
        if content is None or seen is None or seen.text == content:
            return None
        self._seen[_id(data, "id")] = _Seen(seen.author, seen.style, str(content))
        return _aside("✎", (seen.author, seen.style), (" edited: ", ""), (self._content(data).plain, ""))

    def _deletion(self, data: Data) -> Padding:
        seen = self._seen.pop(_id(data, "id"), None)
        self._numbers.delete(_id(data, "id"))
        if seen is None:
            return _aside("✗", ("an earlier message was deleted", ""))
        return _aside("✗", ("a message of ", ""), (seen.author, seen.style), (" was deleted", ""))

    def _reaction(self, data: Data) -> Padding:
        user, emoji = self._user(_id(data, "user_id")), one_line((data.get("emoji") or {}).get("name")) or "?"
        seen = self._seen.get(_id(data, "message_id"))
        if seen is None:
            return _aside("↳", user, (f" reacted {emoji} to an earlier message", ""))
        words = one_line(self._named(seen.text, {}).replace(f"\n{SMALL}", "\n"))
        snippet = words if len(words) <= SNIPPET else f"{words[:SNIPPET].strip()}…"
        about = f": {snippet}" if snippet else ""
        return _aside("↳", user, (f" reacted {emoji} to ", ""), (seen.author, seen.style), (about, ""))

    def _remember(self, data: Data, author: str, style: str) -> None:
        self._seen[_id(data, "id")] = _Seen(author, style, str(data.get("content") or ""))
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)

    def _author(self, author: Data) -> tuple[str, str]:
        known = self._names.users.get(_id(author, "id"))
        if known is not None:
            return clean_name(known[0]), known[1]
        name = _shown_name(author)
        return name, self._names.personas.get(name) or self._colour(_id(author, "id"), name)

    def _colour(self, user_id: int, name: str) -> str:
        """Personas share the id of a webhook, so the name counts too. The first strangers all differ."""
        return self._strangers.setdefault((user_id, name), STRANGERS[len(self._strangers) % len(STRANGERS)])

    def _user(self, user_id: int) -> tuple[str, str]:
        name, style = self._names.users.get(user_id, ("someone", STRANGERS[user_id % len(STRANGERS)]))
        return clean_name(name), style

    def _channel(self, channel_id: int) -> str:
        return clean_name(self._names.channels.get(channel_id, "channel"))


def harmless(text: str) -> str:
    """Remove control, bidirectional and other characters that affect a terminal; newlines stay."""
    text = text.replace("\r\n", "\n").replace("\t", _TAB)
    return "".join(char for char in text if char == "\n" or not _is_control(char))


def one_line(text: object) -> str:
    """A value as one harmless line, "" for None."""
    return " ".join(harmless(str(text)).split()) if text is not None else ""


def _is_control(char: str) -> bool:
    """Joiners do not count, since emoji contain them."""
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in "\u200c\u200d"


def _shown_name(user: Data) -> str:
    return clean_name(str(user.get("global_name") or user.get("username") or ""))


def _is_picture(attachment: Data) -> bool:
    media_type, name = str(attachment.get("content_type") or ""), str(attachment.get("filename") or "")
    return media_type.startswith("image/") or name.lower().endswith(PICTURES)


def _aside(mark: str, *parts: tuple[str, str]) -> Padding:
    """A dim line between the messages."""
    text = Text(f"{mark} ", "dim")
    for words, style in parts:
        text.append(words, style=f"dim {style}".strip())
    return Padding(text, (0, 0, 0, ASIDE_COLUMNS), expand=False)


def _id(data: Data, key: str) -> int:
    """A snowflake of a payload as a number; 0 if it is missing."""
    value = str(data.get(key) or "")
    return int(value) if value.isdecimal() else 0
