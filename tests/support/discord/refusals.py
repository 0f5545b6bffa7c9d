"""What Discord refuses: requests without their permission, forms that break their rules, posts into closed threads.

The stand-in of local mode refuses only what does not exist; the tests' own asks here first. A post unarchives a thread.
In a locked one only members who may manage threads post; in an archived one nothing happens but deletions, until it is
unarchived.

https://discord.com/developers/docs/topics/permissions#permission-hierarchy
https://discord.com/developers/docs/topics/opcodes-and-status-codes#json-json-error-codes
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agentic.chat.directory import BLANK_LETTERS
from agentic.local.discord import dialogs, interactions, messages
from agentic.local.discord.dialogs import ANSWER_SECONDS, DEFERRED_UPDATE, TOKEN_SECONDS, UPDATE
from agentic.local.discord.messages import Draft, Upload, parse_emoji
from agentic.local.discord.rest import RestCall, RestEndpoint, draft_of, json_response
from agentic.local.discord.world import (
    ADD_REACTIONS,
    ATTACH_FILES,
    CREATE_PRIVATE_THREADS,
    CREATE_PUBLIC_THREADS,
    MANAGE_MESSAGES,
    MANAGE_THREADS,
    MANAGE_WEBHOOKS,
    PRIVATE_THREAD,
    READ_MESSAGE_HISTORY,
    SEND_MESSAGES,
    SEND_MESSAGES_IN_THREADS,
    SEND_POLLS,
    THREADS,
    VIEW_CHANNEL,
    ApiError,
    Channel,
    World,
    unknown,
)

MAX_CONTENT, MAX_NONCE, MAX_NAME = 2000, 25, 100  # characters
MAX_EMOJI = 20  # at a message
MAX_WEBHOOKS = 15  # of a channel
ARCHIVE_MINUTES = (60, 1440, 4320, 10080)

_CHANNEL = "/channels/{channel_id}"
_MESSAGE = _CHANNEL + "/messages/{message_id}"
_EMOJI = _MESSAGE + "/reactions/{emoji}"
_POLL = _CHANNEL + "/polls/{message_id}"
_WEBHOOK = "/webhooks/{webhook_id}/{token}"
_NEEDED = {
    f"GET {_CHANNEL}/webhooks": MANAGE_WEBHOOKS,
    f"POST {_CHANNEL}/webhooks": MANAGE_WEBHOOKS,
    f"GET {_CHANNEL}/messages/pins": READ_MESSAGE_HISTORY,
    f"GET {_MESSAGE}": READ_MESSAGE_HISTORY,
    f"GET {_EMOJI}": READ_MESSAGE_HISTORY,
    f"PUT {_EMOJI}/@me": READ_MESSAGE_HISTORY,
    f"POST {_MESSAGE}/threads": CREATE_PUBLIC_THREADS,
    f"GET {_POLL}/answers/{{answer_id}}": READ_MESSAGE_HISTORY,
}


async def refuse(call: RestCall, endpoint: RestEndpoint) -> Any:
    """Raise Discord's ApiError for a request that it would refuse. Return an answer to give instead of the handler's,
    None for none."""
    route = f"{endpoint.method} {endpoint.path}"
    if "application_id" in call.request.match_info:
        _check_commands(call)
    if "channel_id" in call.request.match_info:
        channel = call.channel()
        require(call.world, call.me.id, channel, _NEEDED.get(route, 0))
        return await _CHECKS[route](call, channel) if route in _CHECKS else None
    if route in _BY_TOKEN:
        await _BY_TOKEN[route](call)
    return None


def require(world: World, user_id: int, channel: Channel, needed: int) -> None:
    """Raise Discord's 403: 50001 for a channel that cannot be seen, 50013 for a missing bit."""
    bits = world.permissions_of(user_id, channel)
    if not bits & VIEW_CHANNEL:
        raise ApiError(403, 50001, "Missing Access")
    if bits & needed != needed:
        raise ApiError(403, 50013, "Missing Permissions")


def require_post(world: World, user_id: int, channel: Channel) -> None:
    """Raise the API's error for a post into a locked thread by somebody who may not manage threads."""
    if channel.locked and not world.permissions_of(user_id, channel) & MANAGE_THREADS:
        raise ApiError(400, 160005, "Thread is locked")


def require_unarchived(channel: Channel) -> None:
    """Raise the API's error for an archived thread, in which nothing is edited, pinned or reacted to."""
    if channel.archived:
        raise ApiError(400, 50083, "Thread is archived")


def _invalid_form(field: str, code: str, message: str) -> ApiError:
    """A field that breaks its rules: 400 with code 50035 and the field's own error in Discord's nested form."""
    detail = {field: {"_errors": [{"code": code, "message": message}]}}
    return ApiError(400, 50035, "Invalid Form Body", errors=detail)


def _check_commands(call: RestCall) -> None:
    if call.id("application_id") != call.app.id:
        raise ApiError(403, 20012, "You are not authorized to perform this action on this application")
    if int(call.request.match_info.get("guild_id", 0)) in call.app.without_commands:
        raise ApiError(403, 50001, "Missing Access")


def _check_draft(draft: Draft) -> None:
    _check_content(draft.content)
    if draft.nonce is not None and len(str(draft.nonce)) > MAX_NONCE:
        raise _invalid_form("nonce", "BASE_TYPE_MAX_LENGTH", f"Must be {MAX_NONCE} or fewer in length.")
    if not (draft.content.strip() or draft.uploads or draft.embeds or draft.components):
        raise ApiError(400, 50006, "Cannot send an empty message")
    _check_uploads(draft.uploads)
    allowed = draft.allowed_mentions or {}
    for kind in set(allowed.get("parse") or ()) & {"users", "roles"}:
        if allowed.get(kind):
            text = f'parse:["{kind}"] and {kind}: [ids...] are mutually exclusive.'
            raise _invalid_form("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", text)


def _check_uploads(uploads: Sequence[Upload]) -> None:
    if any(len(upload.content) > messages.MAX_FILE_BYTES for upload in uploads):
        raise ApiError(413, 40005, "Request entity too large")


def _check_content(content: str) -> None:
    if len(content) > MAX_CONTENT:
        raise _invalid_form("content", "BASE_TYPE_MAX_LENGTH", f"Must be {MAX_CONTENT} or fewer in length.")


def _check_thread(body: dict[str, Any]) -> None:
    """Raise the API's error for a name or an archive time that Discord does not take."""
    if not 1 <= len(str(body.get("name", "?")).strip()) <= MAX_NAME:
        raise _invalid_form("name", "BASE_TYPE_BAD_LENGTH", f"Must be between 1 and {MAX_NAME} in length.")
    if int(body.get("auto_archive_duration") or ARCHIVE_MINUTES[0]) not in ARCHIVE_MINUTES:
        text = f"Value must be one of {set(ARCHIVE_MINUTES)}."
        raise _invalid_form("auto_archive_duration", "BASE_TYPE_CHOICES", text)


def _check_webhook_name(field: str, name: str) -> None:
    visible = "".join(c for c in name if unicodedata.category(c) not in ("Cc", "Cf") and c not in BLANK_LETTERS)
    plain = unicodedata.normalize("NFKC", visible).strip().lower()
    reserved = plain in ("", "everyone", "here") or re.search("discord|clyde|```", plain)
    if not 1 <= len(name) <= 80 or reserved or re.search("[@#:]", name):
        raise _invalid_form(field, "WEBHOOK_NAME_INVALID", "Webhook name is not allowed.")


async def _change_channel(call: RestCall, channel: Channel) -> None:
    if not channel.is_thread:
        raise ApiError(400, 50024, "Cannot execute action on this channel type")
    body = await call.json()
    _check_thread(body)
    if body.get("archived") is not False and set(body) != {"archived"}:
        require_unarchived(channel)
    if "locked" in body or (channel.locked and "archived" in body):
        require(call.world, call.me.id, channel, MANAGE_THREADS)
    elif body == {"archived": False}:
        require(call.world, call.me.id, channel, SEND_MESSAGES_IN_THREADS)
    elif channel.owner_id != call.me.id:
        require(call.world, call.me.id, channel, MANAGE_THREADS)


async def _thread_from_message(call: RestCall, channel: Channel) -> None:
    if call.message(channel).thread_id is not None:
        raise ApiError(400, 160004, "A thread has already been created for this message")
    _check_thread(await call.json())


async def _thread_alone(call: RestCall, channel: Channel) -> None:
    body = await call.json()
    kind = int(body.get("type") or PRIVATE_THREAD)
    needed = CREATE_PRIVATE_THREADS if kind == PRIVATE_THREAD else CREATE_PUBLIC_THREADS
    require(call.world, call.me.id, channel, needed)
    if kind not in THREADS:
        raise _invalid_form("type", "BASE_TYPE_CHOICES", f"Value must be one of {sorted(THREADS)}.")
    _check_thread(body)


async def _read_history(call: RestCall, channel: Channel) -> Any:
    """A bot that may not read history gets no messages instead of an error."""
    may_read = call.world.permissions_of(call.me.id, channel) & READ_MESSAGE_HISTORY
    return None if may_read else json_response(200, [])


async def _start_typing(call: RestCall, channel: Channel) -> None:
    require(call.world, call.me.id, channel, SEND_MESSAGES_IN_THREADS if channel.is_thread else SEND_MESSAGES)


async def _post_message(call: RestCall, channel: Channel) -> None:
    await _start_typing(call, channel)
    body, uploads = await call.form()
    if body.get("poll"):
        require(call.world, call.me.id, channel, SEND_POLLS)
        _check_poll(body["poll"])
    if not body.get("poll") or body.get("content"):
        _check_draft(draft_of(body, uploads))
    if uploads:
        require(call.world, call.me.id, channel, ATTACH_FILES)
    require_post(call.world, call.me.id, channel)
    if body.get("message_reference"):
        require(call.world, call.me.id, channel, READ_MESSAGE_HISTORY)


def _check_poll(poll: dict[str, Any]) -> None:
    if not 1 <= len(str(poll["question"].get("text") or "")) <= 300:
        raise _invalid_form("poll", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 300 in length.")
    texts = [str(each["poll_media"].get("text") or "") for each in poll["answers"]]
    if not 1 <= len(texts) <= 10 or not all(1 <= len(text) <= 55 for text in texts):
        raise _invalid_form("poll", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 55 in length.")
    if not 1 <= int(poll.get("duration") or 24) <= 32 * 24:
        raise _invalid_form("poll", "POLL_DURATION_INVALID", "A poll is open for 1 hour to 32 days.")


async def _end_poll(call: RestCall, channel: Channel) -> None:
    if call.message(channel).author.id != call.me.id:
        raise ApiError(403, 50001, "Missing Access")


async def _change_message(call: RestCall, channel: Channel) -> None:
    message, (body, uploads) = call.message(channel), await call.form()
    may_manage = call.world.permissions_of(call.me.id, channel) & MANAGE_MESSAGES
    if message.author.id != call.me.id and (set(body) != {"flags"} or not may_manage):
        raise ApiError(403, 50005, "Cannot edit a message authored by another user")
    require_unarchived(channel)
    _check_content(str(body.get("content") or ""))
    _check_uploads(uploads)


async def _delete_message(call: RestCall, channel: Channel) -> None:
    if call.message(channel).author.id != call.me.id:
        require(call.world, call.me.id, channel, MANAGE_MESSAGES)


async def _add_reaction(call: RestCall, channel: Channel) -> None:
    reactions, emoji = call.message(channel).reactions, parse_emoji(call.world, call.request.match_info["emoji"])
    if emoji not in reactions:  # joining one that is there needs no permission
        require(call.world, call.me.id, channel, ADD_REACTIONS)
        if len(reactions) >= MAX_EMOJI:
            raise ApiError(403, 30010, f"Maximum number of reactions reached ({MAX_EMOJI})")
    require_unarchived(channel)


async def _create_webhook(call: RestCall, channel: Channel) -> None:
    _check_webhook_name("name", str((await call.json()).get("name") or "").strip())
    if sum(webhook.channel_id == channel.id for webhook in call.world.webhooks.values()) >= MAX_WEBHOOKS:
        raise ApiError(400, 30007, f"Maximum number of webhooks reached ({MAX_WEBHOOKS})")


async def _execute_webhook(call: RestCall) -> None:
    """A webhook has no permissions: it posts into a locked thread, but unarchives none."""
    body, uploads = await call.form()
    if interactions.is_interaction(call):
        _check_token(call, TOKEN_SECONDS)
    elif body.get("username") is not None:
        _check_webhook_name("username", str(body["username"]))
    thread = call.world.find_channel(call.query_id("thread_id") or 0)
    if thread is not None and thread.locked:
        require_unarchived(thread)
    _check_draft(draft_of(body, uploads))


async def _change_webhook_message(call: RestCall) -> None:
    if interactions.is_interaction(call):
        _check_token(call, TOKEN_SECONDS)
    body, uploads = await call.form()
    _check_content(str(body.get("content") or ""))
    _check_uploads(uploads)


async def _answer_interaction(call: RestCall) -> None:
    """Accept the first answer only once and in time."""
    _check_token(call, TOKEN_SECONDS)
    interaction = call.world.interactions[call.request.match_info["token"]]
    if interaction.callback is not None:
        raise ApiError(400, 40060, "Interaction has already been acknowledged.")
    _check_token(call, ANSWER_SECONDS)
    body, uploads = await call.form()
    if body["type"] in (DEFERRED_UPDATE, UPDATE) and interaction.source is None:
        raise _invalid_form("type", "BASE_TYPE_CHOICES", "There is no message to update.")
    if body["type"] == dialogs.MESSAGE:
        _check_draft(draft_of(body.get("data") or {}, uploads))


def _check_token(call: RestCall, seconds: float) -> None:
    interaction = call.world.interactions.get(call.request.match_info["token"])
    if interaction is None or call.world.clock() - interaction.created > seconds:
        raise unknown("interaction")


_CHECKS: dict[str, Callable[[RestCall, Channel], Awaitable[Any]]] = {
    f"PATCH {_CHANNEL}": _change_channel,
    f"POST {_CHANNEL}/threads": _thread_alone,
    f"POST {_MESSAGE}/threads": _thread_from_message,
    f"GET {_CHANNEL}/messages": _read_history,
    f"POST {_CHANNEL}/messages": _post_message,
    f"POST {_CHANNEL}/typing": _start_typing,
    f"PATCH {_MESSAGE}": _change_message,
    f"DELETE {_MESSAGE}": _delete_message,
    f"PUT {_EMOJI}/@me": _add_reaction,
    f"POST {_CHANNEL}/webhooks": _create_webhook,
    f"POST {_POLL}/expire": _end_poll,
}
_BY_TOKEN: dict[str, Callable[[RestCall], Awaitable[None]]] = {
    f"POST {_WEBHOOK}": _execute_webhook,
    f"PATCH {_WEBHOOK}/messages/{{message_id}}": _change_webhook_message,
    "POST /interactions/{interaction_id}/{token}/callback": _answer_interaction,
}
