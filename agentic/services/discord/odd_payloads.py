"""Uses the readable parts of events and answers that py-cord can't parse.

Discord adds fields and kinds of objects without notice, and py-cord rejects a whole message for one unknown button, or
a whole guild for one unknown channel. It also runs its parsers unguarded: an exception in one of them ends the
connection for good. This module guards each parser, and the messages in a page of history. If a payload fails, its
fields and list elements are tried one by one, and only the odd ones are left out. The log gets one line without content
for each kind of failure.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import Any

import discord
from discord.threads import ThreadMember

log = logging.getLogger(__name__)

Json = dict[str, Any]
Build = Callable[[Json], object]
Parse = Callable[[Any], None]

# Fields of a message without which its channel, author or text would have to be guessed.
_ESSENTIAL = ("id", "channel_id", "guild_id", "author", "webhook_id", "type", "content")
_DEFAULTS: Mapping[str, Any] = {  # defaults for the other fields that py-cord needs
    "attachments": [],
    "embeds": [],
    "edited_timestamp": None,
    "type": 0,
    "pinned": False,
    "mention_everyone": False,
    "tts": False,
    "mentions": [],
    "mention_roles": [],
}
_NOBODY = {"id": "0", "username": "?", "discriminator": "0", "avatar": None}
_UNKNOWN_TYPE = -1  # of a message; people's messages have known types
LOG_AGAIN = 600.0  # seconds until a failure that continues is logged again
READY = "READY"


class UnreadableAnswer(Exception):
    """Discord accepted the request, but its answer can't be parsed."""


class UnreadableReady(Exception):
    """The first event of a session can't be parsed: the bot would look online but know nothing."""


@contextmanager
def answer_read() -> Iterator[None]:
    """Raise UnreadableAnswer if py-cord fails to parse the answer to a request."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableAnswer(type(error).__name__) from error


def tolerate_unreadable_events(client: discord.Client, name: str) -> None:
    """Guard a client before its login by replacing its parsers: py-cord has no hook for this."""
    odd, state = UnreadableLog(name), client._connection
    for event, parse in list(state.parsers.items()):
        state.parsers[event] = _guarded_parser(event, parse, state, odd)
    _guard_messages(state, odd)
    http: Any = client.http
    for name in ("edit_message", "edit_files"):  # py-cord parses the answer to an edit differently
        setattr(http, name, _guarded_edit(getattr(http, name), client))

    async def on_error(event: str, *_: Any, **__: Any) -> None:
        error = sys.exception()
        assert error is not None
        odd.note(event.removeprefix("on_").upper(), error, "this listener skips it")

    client.on_error = on_error  # type: ignore[method-assign,assignment]  # py-cord's own prints to standard error


def _guarded_parser(event: str, parse: Parse, state: Any, odd: UnreadableLog) -> Parse:
    def guarded(data: Any) -> None:
        try:
            parse(data)
        except Exception as error:  # py-cord fails in many ways on an odd payload
            if event == READY:
                raise UnreadableReady(type(error).__name__) from error
            so = "it is skipped"
            try:
                if (rest := readable_event(state, event, data)) is not None:
                    parse(rest)
                    so = f"it is used without {list_left_out(data, rest)}"
            except Exception as again:
                log.debug("reading a part of %s failed too: %s", event, type(again).__name__)
            odd.note(event, error, so)

    return guarded


def _guard_messages(state: Any, odd: UnreadableLog) -> None:
    """Guard the messages in REST's answers: posts, history pages, and pins."""

    def create_message(*, channel: Any, data: Json) -> discord.Message:
        def build(part: Json) -> discord.Message:
            message = discord.Message(state=state, channel=channel, data=part)  # type: ignore[arg-type]
            if not (isinstance(message.content, str) and hasattr(message, "author")):
                raise TypeError("nobody says anything")
            return message

        try:
            return build(data)
        except Exception as error:  # py-cord fails in many ways on an odd payload
            rest = readable_message(data, build)
            made = build(blank(data) if rest is None else rest)
            so = "it is skipped" if rest is None else f"it is used without {list_left_out(data, rest)}"
            odd.note("a message", error, so)
            return made

    state.create_message = create_message


def _guarded_edit(send: Callable[..., Any], client: discord.Client) -> Callable[..., Any]:
    async def edit(channel_id: int, *arguments: Any, **options: Any) -> Any:
        data = await send(channel_id, *arguments, **options)
        channel = client.get_channel(channel_id) or discord.Object(channel_id)
        return client._connection.create_message(channel=channel, data=data)._raw_data  # type: ignore[arg-type]

    return edit


class UnreadableLog:
    """Logs each kind of failure once in ten minutes. `clock` is monotonic, in seconds."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._logged: dict[tuple[str, str], float] = {}
        self._skipped = Counter[tuple[str, str]]()

    def note(self, what: str, error: BaseException, so: str) -> None:
        """Log that parsing `what` failed with `error`, and the consequence `so`."""
        kind, now = (what, type(error).__name__), self._clock()
        if now - self._logged.get(kind, -LOG_AGAIN) < LOG_AGAIN:
            self._skipped[kind] += 1
            return
        self._logged[kind] = now
        before = self._skipped.pop(kind, 0)
        more = f"; {before} earlier failures of this kind" if before else ""
        frames = extract_tb(error.__traceback__)  # the file and line reveal no content
        at = f", {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        log.warning("%s: reading %s from Discord failed: %s%s; %s%s", self._name, what, kind[1], at, so, more)


def keep_readable(data: Json, bare: Json, build: Build) -> Json | None:
    """Return `bare` plus everything in `data` that `build` accepts, or None if it rejects even `bare`."""
    if not _accepts(build, bare):
        return None
    kept = dict(bare)
    for name, value in data.items():
        if _accepts(build, kept | {name: value}):
            kept[name] = value
        elif isinstance(value, list):
            sound = [each for each in value if _accepts(build, bare | {name: [each]})]
            if _accepts(build, kept | {name: sound}):
                kept[name] = sound
    return kept


def list_left_out(data: Json, kept: Json) -> str:
    """Name the fields that were left out, wholly or in part."""
    return ", ".join(sorted(name for name, value in data.items() if name not in kept or kept[name] != value))


def readable_message(data: Json, build: Build) -> Json | None:
    """Return a message's readable part, or None if its author or text can't be read."""
    said = {name: data[name] for name in _ESSENTIAL if name in data}
    if not said.get("author") or not isinstance(said.get("content"), str):
        return None
    return keep_readable(data, {**_DEFAULTS, **said}, build)


def blank(data: Json) -> Json:
    """Return a message with this id and no author, so that a page keeps its number of messages."""
    return {**_DEFAULTS, "id": data["id"], "author": _NOBODY, "content": "", "type": _UNKNOWN_TYPE}


def readable_event(state: Any, event: str, data: Json) -> Json | None:
    """Return the part of a gateway event that py-cord's `state` (its ConnectionState) can parse, or None."""
    if event in ("MESSAGE_CREATE", "MESSAGE_UPDATE"):
        # A field that an edited message lacks is not empty, so an incomplete message is not used.
        if event == "MESSAGE_UPDATE" and not all(name in data for name in _DEFAULTS):
            return None

        def build_message(part: Json) -> object:
            channel, _ = state._get_guild_channel(part)
            return discord.Message(state=state, channel=channel, data=part)  # type: ignore[arg-type]

        return readable_message(data, build_message)
    if event in ("GUILD_CREATE", "GUILD_UPDATE"):
        bare = {"id": data.get("id")}
        return keep_readable(data, bare, lambda part: discord.Guild(data=part, state=state))  # type: ignore[arg-type]
    if event == "THREAD_LIST_SYNC":
        guild = state._get_guild(int(data["guild_id"]))

        def build_threads(part: Json) -> None:
            set(part.get("channel_ids", ()))
            threads = [discord.Thread(guild=guild, state=state, data=each) for each in part.get("threads", ())]
            for member in part.get("members", ()):
                ThreadMember(threads[0] if threads else guild, member)

        return keep_readable(data, {"guild_id": data["guild_id"]}, build_threads)
    return None


def _accepts(build: Build, part: Json) -> bool:
    try:
        build(part)
    except Exception:  # py-cord fails in many ways on an odd payload
        return False
    return True
