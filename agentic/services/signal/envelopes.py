"""Envelopes as signal-cli sends them (AsamK/signal-cli, org.asamk.signal.json), and numeric ids for Signal's names.

An envelope is one frame of the WebSocket. Every part may be missing, null, or have an unexpected shape. Such a part is
treated as missing, and the rest is read: a person's message must not be lost because its attachment is odd. Unknown
fields are ignored.

The ids have the form described in agentic.ids. Signal identifies a message by its author and its time in milliseconds;
the time is in the upper bits of the id.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_camel

from agentic.ids import EPOCH_MS, FIRST_ELSEWHERE, LOW_BITS

MAX_TEXT = 65_536  # characters; Signal's own limit, in bytes
LONG_TEXT = "text/x-signal-plain"  # the type of the attachment that has the whole text of a long message
MAX_PARTS = 64  # attachments, or mentions, that are read of a message
ATTACHMENT = re.compile(r"[\w=+~-][\w.=+~-]{0,250}", re.ASCII)  # base64url with an extension; never a path

_LOW = (1 << LOW_BITS) - 1
_LAST_TIME = EPOCH_MS + (1 << 41) - 1  # a later time doesn't fit into an id
NUMBER = re.compile(r"\+[1-9][0-9]{6,14}")  # E.164
ACCOUNT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

T = TypeVar("T")
Listed = TypeVar("Listed", "ListedContact", "ListedGroup")


def message_id(author: int, timestamp_ms: int) -> int:
    """Return the id of the message that this person sent at this time. A time out of range is moved into it."""
    since = min(max(timestamp_ms, EPOCH_MS), _LAST_TIME) - EPOCH_MS
    return since << LOW_BITS | _hashed("message", author, timestamp_ms) & _LOW


def timestamp_of(message: int) -> int:
    """Return a message's time in milliseconds, which identifies it on Signal."""
    return (message >> LOW_BITS) + EPOCH_MS


def ids_at(timestamp_ms: int) -> range:
    first = max(timestamp_ms - EPOCH_MS, 0) << LOW_BITS
    return range(first, first + _LOW + 1)


def person_id(address: str) -> int:
    """Return the id for a phone number or account id. A linked person has their Discord account's id instead."""
    return FIRST_ELSEWHERE | _hashed("person", address) & (FIRST_ELSEWHERE - 1)


def direct_chat_id(account: str, person: int) -> int:
    """Return the id of a person's chat with one of our accounts: each agent has its own chat with them."""
    return FIRST_ELSEWHERE | _hashed("chat", account, person) & (FIRST_ELSEWHERE - 1)


def group_chat_id(group: str) -> int:
    """Return the id of a group by its internal id: it is one chat, however many of our accounts are in it."""
    return FIRST_ELSEWHERE | _hashed("group", group) & (FIRST_ELSEWHERE - 1)


def file_id(attachment: str) -> int:
    return _hashed("file", attachment) & (FIRST_ELSEWHERE - 1)


def _hashed(*parts: object) -> int:
    text = "\x00".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def mask_address(address: str) -> str:
    """Shorten a phone number or account id to two characters, for the log."""
    return f"…{address[-2:]}"


@dataclass(frozen=True, slots=True)
class Address:
    """How Signal names a person: by phone number, by account id, or by both. If they hide their number, there is only
    the account id."""

    number: str | None = None
    account: str | None = None

    @classmethod
    def of(cls, *texts: str | None) -> Address:
        """Find the address in texts that may each be a number, an account id, or nothing."""
        found = [text.strip().lower() for text in texts if text]
        number = next((text for text in found if NUMBER.fullmatch(text)), None)
        return cls(number, next((text for text in found if ACCOUNT.fullmatch(text)), None))

    def __bool__(self) -> bool:
        return self.number is not None or self.account is not None


def _or_nothing(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(value)
    except ValidationError:
        return None


def _readable_ones(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    items = value[:MAX_PARTS] if isinstance(value, list) else []
    try:
        return read(items)
    except ValidationError as error:
        odd = {problem["loc"][0] for problem in error.errors(include_url=False, include_input=False)}
        return read([item for index, item in enumerate(items) if index not in odd])


def _cut(value: Any) -> Any:
    """Cut a text and replace lone surrogates, which JSON allows but UTF-8 can't encode."""
    return re.sub("[\ud800-\udfff]", "\ufffd", value[:MAX_TEXT]) if isinstance(value, str) else value


def _attachment_id(value: str) -> str:
    if not ATTACHMENT.fullmatch(value):
        raise ValueError("not the id of an attachment")
    return value


def _files(value: Any) -> Any:
    """Turn odd items into empty files, because somebody did send something."""
    return [item if isinstance(item, dict) else {} for item in value] if isinstance(value, list) else value


_Maybe = Annotated[T | None, WrapValidator(_or_nothing)]
_Many = Annotated[tuple[T, ...], WrapValidator(_readable_ones)]
_Text = Annotated[_Maybe[str], BeforeValidator(_cut)]
_Time = Annotated[int, Field(ge=0, lt=2**53)]  # milliseconds


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


class Mention(_Part):
    """A mention: `length` UTF-16 units from `start` in the text are the person."""

    start: Annotated[int, Field(ge=0)]
    length: Annotated[int, Field(ge=0)]
    name: _Text = None  # a number or an account id, despite the field's name
    number: _Text = None
    uuid: _Text = None

    @property
    def who(self) -> Address:
        return Address.of(self.number, self.uuid, self.name)


class Quote(_Part):
    """The message that is replied to: its time and its author."""

    id: _Time
    author: _Text = None
    author_number: _Text = None
    author_uuid: _Text = None

    @property
    def who(self) -> Address:
        return Address.of(self.author_number, self.author_uuid, self.author)


class Reaction(_Part):
    """A reaction, given or removed, to the message that `who` sent at `target_sent_timestamp`."""

    emoji: Annotated[str, Field(min_length=1, max_length=40), BeforeValidator(_cut)]
    target_author: _Text = None
    target_author_number: _Text = None
    target_author_uuid: _Text = None
    target_sent_timestamp: _Time
    is_remove: bool = False

    @property
    def who(self) -> Address:
        return Address.of(self.target_author_number, self.target_author_uuid, self.target_author)


class File(_Part):
    """An attachment. Without an `id` it can't be read. Size and type are the sender's claims."""

    id: _Maybe[Annotated[str, AfterValidator(_attachment_id)]] = None
    content_type: _Text = None
    filename: _Text = None
    size: _Maybe[Annotated[int, Field(ge=0)]] = None


class GroupInfo(_Part):
    """A message's group. `group_id` is the internal id, not the id for requests (contacts.group_recipient)."""

    group_id: Annotated[str, Field(min_length=1, max_length=200)]
    group_name: _Text = None


class RemoteDelete(_Part):
    """The time of the message that its author deletes."""

    timestamp: _Time


class DataMessage(_Part):
    """A message, a reaction, or a deletion. `expires_in_seconds`: until it vanishes from the chat, 0 for never."""

    timestamp: _Maybe[_Time] = None
    message: _Text = None
    expires_in_seconds: _Maybe[Annotated[int, Field(ge=0, lt=2**31)]] = None
    view_once: _Maybe[bool] = None
    reaction: _Maybe[Reaction] = None
    quote: _Maybe[Quote] = None
    mentions: _Many[Mention] = ()
    attachments: Annotated[_Many[File], BeforeValidator(_files)] = ()
    group_info: _Maybe[GroupInfo] = None
    remote_delete: _Maybe[RemoteDelete] = None
    story_context: Any = None
    sticker: Any = None
    contacts: Any = None
    poll_create: Any = None

    @property
    def long_text(self) -> File | None:
        """The attachment with the whole text if `message` is only its beginning."""
        return next((file for file in self.attachments if file.content_type == LONG_TEXT), None)

    @property
    def files(self) -> Iterator[File]:
        return (file for file in self.attachments if file.content_type != LONG_TEXT)


class EditMessage(_Part):
    """The new version of a message, and the time of the version it replaces."""

    target_sent_timestamp: _Time
    data_message: DataMessage


class Envelope(_Part):
    """Something that somebody sent. Receipts, typing, calls, stories, and messages from the account's other devices
    (syncMessage) aren't read."""

    source: _Text = None
    source_number: _Text = None
    source_uuid: _Text = None
    source_name: _Text = None
    timestamp: _Maybe[_Time] = None
    server_received_timestamp: _Maybe[_Time] = None  # independent of the sender's clock
    data_message: _Maybe[DataMessage] = None
    edit_message: _Maybe[EditMessage] = None

    @property
    def who(self) -> Address:
        return Address.of(self.source_number, self.source_uuid, self.source)


def read_envelope(frame: str | bytes) -> Envelope | None:
    """Return the envelope in a frame, including JSON-RPC frames, or None if there is none."""
    try:
        found = json.loads(frame)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict) and isinstance(found.get("params"), dict):
        found = found["params"]
    envelope = found.get("envelope") if isinstance(found, dict) else None
    try:
        return Envelope.model_validate(envelope)
    except ValidationError:
        return None


class ListedContact(_Part):
    """A person in the account's list of contacts (GET /v1/contacts)."""

    number: _Text = None
    uuid: _Text = None
    name: _Text = None
    profile_name: Annotated[_Text, Field(alias="profile_name")] = None

    @property
    def who(self) -> Address:
        return Address.of(self.number, self.uuid)


class ListedGroup(_Part):
    """A group of the account (GET /v1/groups)."""

    internal_id: Annotated[str, Field(alias="internal_id", min_length=1, max_length=200)]
    name: _Text = None


def read_list(found: object, kind: type[Listed]) -> list[Listed]:
    """Return the readable items of a list in an answer."""
    read: list[Listed] = []
    for one in found if isinstance(found, list) else ():
        try:
            read.append(kind.model_validate(one))
        except ValidationError:
            continue
    return read
