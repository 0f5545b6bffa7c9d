"""Threads: creating, archiving and locking them.

A thread that grows from a message has that message's id. A post unarchives a thread. In a locked one only members who
may manage threads post; in an archived one nothing happens but deletions, until it is unarchived.

https://discord.com/developers/docs/topics/threads
"""

from typing import Any

from agentic.local.discord import errors, message_payloads, payloads, permissions
from agentic.local.discord.backend import Backend
from agentic.local.discord.messages import Draft, Posting, place, post, reference
from agentic.local.discord.world import PUBLIC_THREAD, THREAD_CREATED, THREAD_STARTER, Channel, Message, User, World

ARCHIVE_MINUTES = (60, 1440, 4320, 10080)
MAX_NAME = 100
_UNARCHIVE = {"archived": False}


def create(
    backend: Backend,
    parent: Channel,
    name: str,
    owner: User,
    *,
    message: Message | None = None,
    kind: int = PUBLIC_THREAD,
    archive_minutes: int = 1440,
) -> Channel:
    """Start a thread, from a message or alone, with the system message that Discord adds."""
    guild = backend.world.guilds[parent.guild_id or 0]
    thread = Channel(
        id=message.id if message else backend.world.snowflakes.next(),
        guild_id=guild.id,
        name=name,
        type=kind,
        parent_id=parent.id,
        owner_id=owner.id,
        archive_minutes=archive_minutes,
        created_at=backend.clock(),
        archive_changed_at=backend.clock(),
        thread_members=[owner.id],
    )
    guild.channels[thread.id] = thread
    backend.emit("THREAD_CREATE", {**payloads.channel(backend.world, thread), "newly_created": True}, thread)
    if message is not None:
        message.thread_id = thread.id
        backend.emit("MESSAGE_UPDATE", message_payloads.gateway_message(backend.world, message, parent), parent)
        post(backend, thread, owner, Draft(reference=reference(parent, message)), Posting(type=THREAD_STARTER))
    elif kind == PUBLIC_THREAD:
        pointer = {"type": 0, **place(thread)}
        post(backend, parent, owner, Draft(name, reference=pointer), Posting(type=THREAD_CREATED))
    return thread


def read_name(body: dict[str, Any]) -> str:
    """The name in a request's body. Raises the API's error for none, or one that is too long."""
    name = str(body.get("name") or "").strip()
    if not 1 <= len(name) <= MAX_NAME:
        raise errors.invalid_form("name", "BASE_TYPE_BAD_LENGTH", f"Must be between 1 and {MAX_NAME} in length.")
    return name


def read_archive_minutes(body: dict[str, Any], default: int = 1440) -> int:
    """The auto-archive duration in a request's body. Raises the API's error for one that Discord does not take."""
    minutes = int(body.get("auto_archive_duration") or default)
    if minutes not in ARCHIVE_MINUTES:
        text = f"Value must be one of {set(ARCHIVE_MINUTES)}."
        raise errors.invalid_form("auto_archive_duration", "BASE_TYPE_CHOICES", text)
    return minutes


def change(backend: Backend, thread: Channel, body: dict[str, Any]) -> None:
    """Set the fields of a request's body; the caller publishes the thread."""
    if "name" in body:
        thread.name = read_name(body)
    thread.archive_minutes = read_archive_minutes(body, thread.archive_minutes)
    thread.locked = bool(body.get("locked", thread.locked))
    if bool(body.get("archived", thread.archived)) != thread.archived:
        thread.archived = not thread.archived
        thread.archive_changed_at = backend.clock()


def require_change(world: World, user_id: int, thread: Channel, body: dict[str, Any]) -> None:
    """Raise the API's error if this user may not change these fields, or not while the thread is archived."""
    if thread.archived and body.get("archived") is not False and set(body) != {"archived"}:
        raise errors.archived()
    if "locked" in body or (thread.locked and "archived" in body):
        permissions.require(world, user_id, thread, permissions.MANAGE_THREADS)
    elif body == _UNARCHIVE:
        permissions.require(world, user_id, thread, permissions.SEND_MESSAGES_IN_THREADS)
    elif thread.owner_id != user_id:
        permissions.require(world, user_id, thread, permissions.MANAGE_THREADS)


def require_post(world: World, user_id: int, channel: Channel) -> None:
    """Raise the API's error for a post into a locked thread by somebody who may not manage threads."""
    if channel.locked and not permissions.permissions_of(world, user_id, channel) & permissions.MANAGE_THREADS:
        raise errors.locked()


def require_webhook_post(channel: Channel) -> None:
    """A webhook has no permissions: it posts into a locked thread, and cannot unarchive one."""
    if channel.locked and channel.archived:
        raise errors.archived()
