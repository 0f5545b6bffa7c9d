"""REST: answers to interactions.

The first goes to /interactions/.../callback within 3 s, what follows to /webhooks/{application}/{token}.

https://discord.com/developers/docs/interactions/receiving-and-responding
"""

from typing import Any

from agentic.local.discord import errors, message_payloads, messages, payloads
from agentic.local.discord.calls import RestAnswer, RestCall, RestEndpoint, draft_of, snowflake
from agentic.local.discord.discord_interactions import (
    ANSWER_SECONDS,
    DEFERRED_UPDATE,
    EPHEMERAL,
    MESSAGE,
    TOKEN_SECONDS,
    UPDATE,
    Interaction,
)
from agentic.local.discord.messages import Draft, Posting, Upload
from agentic.local.discord.rest_messages import change_of
from agentic.local.discord.world import COMMAND_REPLY


def is_interaction(call: RestCall) -> bool:
    return call.request.match_info["token"] in call.backend.interactions


def _interaction(call: RestCall, seconds: float) -> Interaction:
    interaction = call.backend.interactions.get(call.request.match_info["token"])
    if interaction is None or call.backend.clock() - interaction.created > seconds:
        raise errors.unknown("interaction")
    return interaction


async def callback(call: RestCall) -> Any:
    """Accept the first answer: only once and in time."""
    interaction = _interaction(call, TOKEN_SECONDS)
    if interaction.callback is not None:
        raise errors.ApiError(400, 40060, "Interaction has already been acknowledged.")
    if call.backend.clock() - interaction.created > ANSWER_SECONDS:
        raise errors.unknown("interaction")
    body, uploads = await call.form()
    if body["type"] in (DEFERRED_UPDATE, UPDATE) and interaction.source is None:
        raise errors.invalid_form("type", "BASE_TYPE_CHOICES", "There is no message to update.")
    answer: dict[str, Any] = {"interaction": {"id": str(interaction.id), "type": 2}}
    if body["type"] == MESSAGE:
        message = _post(call, interaction, draft_of(body.get("data") or {}, uploads))
        interaction.original_id = int(message["id"])
        answer["resource"] = {"type": MESSAGE, "message": message}
    if body["type"] == UPDATE:
        _change(call, interaction, _answered(interaction), body.get("data") or {}, uploads)
    interaction.callback = body  # a refused answer acknowledges nothing
    call.backend.changed()
    return answer if call.request.query.get("with_response") == "true" else RestAnswer(204)


def _post(call: RestCall, interaction: Interaction, draft: Draft) -> dict[str, Any]:
    """Post an answer; a hidden one is kept with the interaction, without an event."""
    draft.check()
    channel = call.world.channel(interaction.channel_id)
    how = Posting(
        COMMAND_REPLY,
        webhook_id=interaction.application_id,
        application_id=interaction.application_id,
        interaction={
            "id": str(interaction.id),
            "type": 2,
            "user": payloads.user(call.world.users[interaction.user_id]),
            "name": interaction.command,
            "authorizing_integration_owners": {},
        },
    )
    author = call.world.app(interaction.application_id).user
    if draft.flags & EPHEMERAL:
        built = messages.build(call.backend, channel, author, draft, how)
        call.backend.attachments |= {file.id: file for file in built.attachments}
        hidden = message_payloads.message(call.world, built)
        interaction.hidden[int(hidden["id"])] = hidden
        answer = hidden
    else:
        answer = message_payloads.message(call.world, messages.post(call.backend, channel, author, draft, how))
    interaction.answers.append(answer)
    return answer


async def follow_up(call: RestCall) -> Any:
    interaction = _interaction(call, TOKEN_SECONDS)
    body, uploads = await call.form()
    first = interaction.original_id is None and interaction.deferred
    answer = _post(call, interaction, _as_deferred(interaction, body, uploads) if first else draft_of(body, uploads))
    if first:
        interaction.original_id = int(answer["id"])
    call.backend.changed()
    return answer


def _as_deferred(interaction: Interaction, body: dict[str, Any], uploads: list[Upload]) -> Draft:
    """A deferred answer is hidden if the deferral said so."""
    draft = draft_of(body, uploads)
    deferred_flags = int(((interaction.callback or {}).get("data") or {}).get("flags") or 0)
    draft.flags |= deferred_flags & EPHEMERAL
    return draft


def _answer_id(call: RestCall, interaction: Interaction) -> int:
    text = call.request.match_info["message_id"]
    return _answered(interaction) if text == "@original" else snowflake("message_id", text)


def _answered(interaction: Interaction) -> int:
    if interaction.original_id is None:
        raise errors.unknown("Message")
    return interaction.original_id


def get_answer(call: RestCall) -> Any:
    interaction = _interaction(call, TOKEN_SECONDS)
    message_id = _answer_id(call, interaction)
    if message_id in interaction.hidden:
        return interaction.hidden[message_id]
    message = call.world.channel(interaction.channel_id).messages.get(message_id)
    if message is None:
        raise errors.unknown("Message")
    return message_payloads.message(call.world, message)


async def change_answer(call: RestCall) -> Any:
    """Edit an answer. After a deferral this is the answer itself."""
    interaction = _interaction(call, TOKEN_SECONDS)
    body, uploads = await call.form()
    if interaction.original_id is None and interaction.deferred:
        answer = _post(call, interaction, _as_deferred(interaction, body, uploads))
        interaction.original_id = int(answer["id"])
        return answer
    return _change(call, interaction, _answer_id(call, interaction), body, uploads)


def _change(
    call: RestCall, interaction: Interaction, message_id: int, body: dict[str, Any], uploads: list[Upload]
) -> dict[str, Any]:
    """Change an answer. The message with a menu is then an answer to the choice from it."""
    changed = interaction.hidden.get(message_id)
    if changed is not None:
        changed |= {key: value for key, value in body.items() if key in ("content", "embeds", "components")}
    else:
        channel = call.world.channel(interaction.channel_id)
        message = channel.messages.get(message_id)
        if message is None:
            raise errors.unknown("Message")
        messages.edit(call.backend, channel, message, change_of(body, uploads))
        changed = message_payloads.message(call.world, message)
    if interaction.source is not None and message_id == int(interaction.source["id"]):
        interaction.answers = [*(one for one in interaction.answers if int(one["id"]) != message_id), changed]
    return changed


def remove_answer(call: RestCall) -> None:
    interaction = _interaction(call, TOKEN_SECONDS)
    message_id = _answer_id(call, interaction)
    if interaction.hidden.pop(message_id, None) is None:
        messages.delete(call.backend, call.world.channel(interaction.channel_id), [message_id])


ENDPOINTS = [RestEndpoint("POST", "/interactions/{interaction_id}/{token}/callback", callback, open=True)]
