"""Polls: made with a message, answered by people, and ended by their author or after their time.

https://discord.com/developers/docs/resources/poll
"""

from __future__ import annotations

from typing import Any

from agentic.local.discord import messages, payloads
from agentic.local.discord.rest import RestCall, RestEndpoint
from agentic.local.discord.world import POLL_RESULT, ApiError, Channel, Message, Poll, World

HOURS = 24  # unless the request says otherwise
EXPIRED = ApiError(400, 520001, "Poll expired")


def poll_of(world: World, body: dict[str, Any]) -> Poll:
    """Return the poll of a request's body. Its answers are numbered from 1."""
    answers = [{"answer_id": n, "poll_media": each["poll_media"]} for n, each in enumerate(body["answers"], start=1)]
    ends = world.clock() + 3600 * int(body.get("duration") or HOURS)
    return Poll(body["question"], answers, ends, bool(body.get("allow_multiselect")))


def is_over(world: World, poll: Poll) -> bool:
    return poll.ended or world.clock() >= poll.ends


def vote(world: World, channel: Channel, message: Message, user_id: int, answer: str, given: bool = True) -> None:
    """Answer as a person, or take an answer back. Without multiple answers, it replaces the earlier one. Raises
    ApiError, and KeyError for an unknown answer."""
    poll = _poll(message)
    if is_over(world, poll):
        raise EXPIRED
    number = {each["poll_media"]["text"]: each["answer_id"] for each in poll.answers}[answer]
    for other, who in poll.votes.items():
        if user_id in who and (other == number or (given and not poll.allow_multiselect)):
            who.remove(user_id)
            _publish(world, channel, message, user_id, other, "REMOVE")
    if not given:
        return
    poll.votes.setdefault(number, []).append(user_id)
    _publish(world, channel, message, user_id, number, "ADD")


def _publish(world: World, channel: Channel, message: Message, user_id: int, answer: int, what: str) -> None:
    body = {"message_id": str(message.id), "user_id": str(user_id), "answer_id": answer, **messages.place(channel)}
    world.emit(f"MESSAGE_POLL_VOTE_{what}", body, channel)


def _poll(message: Message) -> Poll:
    if message.poll is None:
        raise ApiError(400, 520006, "Cannot expire a non-poll message")
    return message.poll


def end(call: RestCall) -> Any:
    """End a poll, and post its result, which names the answer with the most votes."""
    channel = call.channel()
    message = call.message(channel)
    poll = _poll(message)
    if is_over(call.world, poll):
        raise EXPIRED
    poll.ended, poll.ends = True, call.world.clock()
    messages.publish_update(call.world, channel, message)
    total = sum(map(len, poll.votes.values()))
    fields = {"poll_question_text": poll.question["text"], "total_votes": str(total)}
    embed = {"type": "poll_result", "fields": [{"name": name, "value": value} for name, value in fields.items()]}
    draft = messages.Draft(type=POLL_RESULT, embeds=[embed], reference=messages.reference(channel, message))
    messages.post(call.world, channel, message.author, draft)
    return payloads.message(call.world, message, call.me.id)


def list_voters(call: RestCall) -> Any:
    poll = _poll(call.message(call.channel()))
    after = call.query_id("after") or 0
    users = sorted(user for user in poll.votes.get(call.id("answer_id"), ()) if user > after)
    return {"users": [payloads.user(call.world.users[user]) for user in users[: call.limit(25)]]}


_POLL = "/channels/{channel_id}/polls/{message_id}"

ENDPOINTS = [
    RestEndpoint("POST", _POLL + "/expire", end),
    RestEndpoint("GET", _POLL + "/answers/{answer_id}", list_voters),
]
