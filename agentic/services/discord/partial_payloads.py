"""The readable part of a payload of Discord's that py-cord cannot parse.

Discord adds fields and kinds of objects without notice, and py-cord rejects a whole message for one unknown button in
it, a whole guild for one unknown channel. Here such a payload is tried field by field, its lists element by element, so
that only the odd ones are left out. That costs as many parses as there are fields, so it follows a failed parse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import discord
from discord.threads import ThreadMember

Json = dict[str, Any]
Build = Callable[[Json], object]

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


class UnreadableAnswer(Exception):
    """Discord accepted the request, but its answer cannot be parsed."""


@contextmanager
def answer_read() -> Iterator[None]:
    """Turns py-cord's exceptions while it parses the answer to a request into UnreadableAnswer."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableAnswer(type(error).__name__) from error


def readable(data: Json, bare: Json, build: Build) -> Json | None:
    """`bare` with all of `data` that `build` accepts; None where it rejects even `bare`."""
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


def left_out(data: Json, kept: Json) -> str:
    """The names of the fields that were not kept, or only in part."""
    return ", ".join(sorted(name for name, value in data.items() if name not in kept or kept[name] != value))


def readable_message(data: Json, build: Build) -> Json | None:
    """None where author or text cannot be read."""
    said = {name: data[name] for name in _ESSENTIAL if name in data}
    if not said.get("author") or not isinstance(said.get("content"), str):
        return None
    return readable(data, {**_DEFAULTS, **said}, build)


def unsaid(data: Json) -> Json:
    """A message with this id and no author: it keeps the number of messages in a page right."""
    return {**_DEFAULTS, "id": data["id"], "author": _NOBODY, "content": "", "type": _UNKNOWN_TYPE}


def readable_event(state: Any, event: str, data: Json) -> Json | None:
    """The part of a gateway event that py-cord's `state` (its ConnectionState) can parse; None for none of it."""
    readers: Mapping[str, Callable[[Any, Json], Json | None]] = {
        "MESSAGE_CREATE": _message_event,
        "MESSAGE_UPDATE": _update_event,
        "GUILD_CREATE": _guild_event,
        "GUILD_UPDATE": _guild_event,
        "THREAD_LIST_SYNC": _threads_event,
    }
    return readers[event](state, data) if event in readers else None


def _message_event(state: Any, data: Json) -> Json | None:
    def build(part: Json) -> object:
        channel, _ = state._get_guild_channel(part)
        return discord.Message(state=state, channel=channel, data=part)  # type: ignore[arg-type]

    return readable_message(data, build)


def _update_event(state: Any, data: Json) -> Json | None:
    """A missing field of an edited message did not become empty, so an incomplete one is not used."""
    whole = all(name in data for name in _DEFAULTS)
    return _message_event(state, data) if whole else None


def _guild_event(state: Any, data: Json) -> Json | None:
    return readable(data, {"id": data.get("id")}, lambda part: discord.Guild(data=part, state=state))  # type: ignore[arg-type]


def _threads_event(state: Any, data: Json) -> Json | None:
    guild = state._get_guild(int(data["guild_id"]))

    def build(part: Json) -> None:
        set(part.get("channel_ids", ()))
        threads = [discord.Thread(guild=guild, state=state, data=each) for each in part.get("threads", ())]
        for member in part.get("members", ()):
            ThreadMember(threads[0] if threads else guild, member)

    return readable(data, {"guild_id": data["guild_id"]}, build)


def _accepts(build: Build, part: Json) -> bool:
    try:
        build(part)
    except Exception:  # py-cord fails in many ways on an odd payload
        return False
    return True
