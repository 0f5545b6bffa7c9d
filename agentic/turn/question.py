"""Several messages of one person as one question.

People write in pieces. A message that a person adds while their question waits in its lane joins that turn, so the
question is answered once and as a whole.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from agentic.agent.events import MentionEvent, TurnEvent, is_unasked
from agentic.chat.transcript import Transcript
from agentic.context.entries import Entry, is_visible


def question(event: MentionEvent, transcript: Transcript) -> Entry | None:
    """The whole question as one message, as it reads now; None when all of it was deleted."""
    parts = [transcript.get(part.id) or part for part in sorted((event.asked, *event.pieces), key=lambda p: p.id)]
    left = [part for part in parts if not gone(part.id, transcript)]
    if len(left) < 2:
        return left[0] if left else None
    asked = next((part for part in left if part.id == event.asked.id), left[-1])
    return replace(
        asked,
        text="\n".join(part.text for part in left if part.text),
        attachments=tuple(file for part in left for file in part.attachments),
        extras=tuple(line for part in left for line in part.extras),
    )


def taken_back(event: MentionEvent, transcript: Transcript) -> bool:
    """Whether all of the question was deleted. A message command is deleted by the bot itself and does not count."""
    return not event.continues and all(gone(part.id, transcript) for part in (event.asked, *event.pieces))


def called_off(event: MentionEvent, transcript: Transcript, own_ids: Collection[int]) -> bool:
    """Whether the mention that called the agent was edited out of the question. `own_ids` are the ids that mention the
    agent; a call of all bots mentions their role. A reply calls without a mention."""
    if not event.by_person or event.continues:
        return False
    before, now = set[int](), set[int]()
    for part in (event.asked, *event.pieces):
        reads = transcript.get(part.id) or part
        if reads.replied_to in own_ids:
            return False
        before, now = before | part.mentions, now | reads.mentions
    called = before if event.to_all else before.intersection(own_ids)
    return bool(called) and called.isdisjoint(now)


def wording(event: TurnEvent, transcript: Transcript) -> str | None:
    """The text of a person's question, as it reads now; None where no person asked."""
    if not isinstance(event, MentionEvent) or not event.by_person or event.continues:
        return None
    asked = question(event, transcript)
    return None if asked is None else asked.text


def words_about(event: TurnEvent, transcript: Transcript) -> dict[int, str]:
    """The messages that an unasked post is about, as they read now."""
    if not is_unasked(event):
        return {}
    found = map(transcript.get, (event.reply_to or 0, *event.reflection.message_ids))
    return {entry.id: entry.text for entry in found if entry is not None}


def gone(message_id: int, transcript: Transcript) -> bool:
    """Whether a message was deleted, or hidden from bots since it arrived."""
    entry = transcript.get(message_id)
    return message_id in transcript.deleted or (entry is not None and not is_visible(entry))
