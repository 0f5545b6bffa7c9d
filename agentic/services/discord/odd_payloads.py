"""Use the readable part of events and answers that py-cord cannot parse.

Discord adds fields and kinds of objects without notice, and py-cord rejects a whole message for one unknown button in
it, a whole guild for one unknown channel. It also runs its parsers unguarded: an exception in one of them ends the
connection for good. Here each parser is guarded, and so are the messages in a page of history. What fails is tried
field by field, its lists element by element, so that only the odd ones are left out. That costs as many parses as there
are fields, so it follows a failed parse. The log has one line without any content, and one for a burst of the same.
"""

from __future__ import annotations

import logging
import sys
import time
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
_UNKNOWN_TYPE = -1  # of a message; those that people write are of known types
LOG_AGAIN = 600.0  # seconds until a failure that continues is logged again
READY = "READY"


class UnreadableAnswer(Exception):
    """Discord accepted the request, but its answer cannot be parsed."""


class UnreadableReady(Exception):
    """The first event of a session cannot be parsed: the bot would seem online and know nothing."""


@contextmanager
def answer_read() -> Iterator[None]:
    """Turns py-cord's exceptions while it parses the answer to a request into UnreadableAnswer."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableAnswer(type(error).__name__) from error


def tolerate_unreadable_events(client: discord.Client, name: str, clock: Callable[[], float] = time.monotonic) -> None:
    """Guards a client, before its login, by replacing its parsers: py-cord has no hook for it."""
    odd, state = UnreadableLog(name, clock), client._connection
    for event, parse in list(state.parsers.items()):
        state.parsers[event] = _guarded_parser(event, parse, state, odd)
    _guard_messages(state, odd)
    http: Any = client.http
    for name in ("edit_message", "edit_files"):  # py-cord parses the answer to an edit in another way
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
            odd.note(event, error, _parse_rest(event, parse, state, data))

    return guarded


def _parse_rest(event: str, parse: Parse, state: Any, data: Any) -> str:
    """Parses the readable part of an event; returns the consequence, for the log."""
    try:
        rest = readable_event(state, event, data)
        if rest is not None:
            parse(rest)
            return f"it is taken without {list_left_out(data, rest)}"
    except Exception as error:
        log.debug("%s cannot be read in part either (%s)", event, type(error).__name__)
    return "it is skipped"


def _guard_messages(state: Any, odd: UnreadableLog) -> None:
    """Guards the messages of REST's answers: a post's, a page of history, pins."""

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
            so = "it is skipped" if rest is None else f"it is taken without {list_left_out(data, rest)}"
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
        self._skipped: dict[tuple[str, str], int] = {}

    def note(self, what: str, error: BaseException, so: str) -> None:
        """Logs that `what` could not be parsed because of `error`, with the consequence `so`."""
        kind, now = (what, type(error).__name__), self._clock()
        if now - self._logged.get(kind, -LOG_AGAIN) < LOG_AGAIN:
            self._skipped[kind] = self._skipped.get(kind, 0) + 1
            return
        self._logged[kind] = now
        before = self._skipped.pop(kind, 0)
        more = f"; {before} more like it before" if before else ""
        frames = extract_tb(error.__traceback__)  # the file and line hold no content
        at = f", {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        log.warning("%s: %s from Discord cannot be read (%s%s): %s%s", self._name, what, kind[1], at, so, more)


def keep_readable(data: Json, bare: Json, build: Build) -> Json | None:
    """`bare` with all of `data` that `build` accepts; None if it rejects even `bare`."""
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
    """The names of the fields that were not kept, or only in part."""
    return ", ".join(sorted(name for name, value in data.items() if name not in kept or kept[name] != value))


def readable_message(data: Json, build: Build) -> Json | None:
    """None if author or text cannot be read."""
    said = {name: data[name] for name in _ESSENTIAL if name in data}
    if not said.get("author") or not isinstance(said.get("content"), str):
        return None
    return keep_readable(data, {**_DEFAULTS, **said}, build)


def blank(data: Json) -> Json:
    """A message with this id and no author: it keeps the number of messages in a page right."""
    return {**_DEFAULTS, "id": data["id"], "author": _NOBODY, "content": "", "type": _UNKNOWN_TYPE}


def readable_event(state: Any, event: str, data: Json) -> Json | None:
    """The part of a gateway event that py-cord's `state` (its ConnectionState) can parse; None for none of it."""
    if event in ("MESSAGE_CREATE", "MESSAGE_UPDATE"):
        # A missing field of an edited message did not become empty, so an incomplete one is not used.
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
