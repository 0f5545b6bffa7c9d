"""What can be read of a payload of Discord's that py-cord cannot parse.

Discord adds fields and kinds of things without notice, and py-cord gives up a whole message for one odd button in it, a
whole guild for one odd channel. Here such a payload is taken field by field, and its lists element by element, so that
only what is odd is left out. It costs as many parses as there are fields, so it is done after a parse that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import discord
from discord.threads import ThreadMember

Json = dict[str, Any]
Build = Callable[[Json], object]

# Of a message: where it is, who says what, and whether a person does. What is odd about these is not guessed.
_ESSENTIAL = ("id", "channel_id", "guild_id", "author", "webhook_id", "type", "content")
_NO_MORE: Mapping[str, Any] = {  # what py-cord needs besides
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
_NO_KIND = -1  # of messages; people's words are of known kinds


class UnreadableAnswer(Exception):
    """Discord took the request, and its answer cannot be read."""


@contextmanager
def answer_read() -> Iterator[None]:
    """Around a request: what py-cord raises when it cannot parse the answer becomes UnreadableAnswer."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableAnswer(type(error).__name__) from error


def readable(data: Json, bare: Json, build: Build) -> Json | None:
    """What of `data` `build` takes, in addition to `bare`; None where it does not even take that."""
    if not _takes(build, bare):
        return None
    kept = dict(bare)
    for name, value in data.items():
        if _takes(build, kept | {name: value}):
            kept[name] = value
        elif isinstance(value, list):
            sound = [each for each in value if _takes(build, bare | {name: [each]})]
            if _takes(build, kept | {name: sound}):
                kept[name] = sound
    return kept


def left_out(data: Json, kept: Json) -> str:
    """The names of the fields that were not kept, or not whole."""
    return ", ".join(sorted(name for name, value in data.items() if name not in kept or kept[name] != value))


def readable_message(data: Json, build: Build) -> Json | None:
    """None where who said what is not to be read."""
    said = {name: data[name] for name in _ESSENTIAL if name in data}
    if not said.get("author") or not isinstance(said.get("content"), str):
        return None
    return readable(data, {**_NO_MORE, **said}, build)


def unsaid(data: Json) -> Json:
    """A message with this one's id that nobody said: it keeps the count of a page of them right."""
    return {**_NO_MORE, "id": data["id"], "author": _NOBODY, "content": "", "type": _NO_KIND}


def readable_event(state: Any, event: str, data: Json) -> Json | None:
    """What of a gateway event py-cord's `state` (its ConnectionState) can parse; None for nothing of it."""
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
    """Of a message that changed, what it does not say is not nothing: a part of one is none."""
    whole = all(name in data for name in _NO_MORE)
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


def _takes(build: Build, part: Json) -> bool:
    try:
        build(part)
    except Exception:  # whatever it is that py-cord stumbles over
        return False
    return True
