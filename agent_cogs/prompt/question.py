"""Several messages of one person as one question.

People write in pieces. What a person adds while their question still waits in its lane is taken into that turn, so that
it is answered once and as a whole.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from agent_chat.transcript import Transcript
from agent_cogs.events import MentionEvent, TurnEvent
from agent_context.entries import Entry
from agent_context.selecting.visibility import is_visible


def question(event: MentionEvent, transcript: Transcript) -> Entry | None:
    """All that was asked, as it reads now, as one message; None when all of it was taken back."""
    parts = [transcript.get(part.id) or part for part in sorted((event.asked, *event.pieces), key=lambda p: p.id)]
    left = [part for part in parts if not gone(part.id, transcript)]
    if len(left) < 2:
        return left[0] if left else None
    asked = next((part for part in left if part.id == event.asked.id), left[-1])
    files = tuple(file for part in left for file in part.attachments)
    return replace(asked, text="\n".join(part.text for part in left if part.text), attachments=files)


def taken_back(event: MentionEvent, transcript: Transcript) -> bool:
    """Nothing of the question is there any more. A command is taken away as soon as it is understood."""
    return not event.continues and all(gone(part.id, transcript) for part in (event.asked, *event.pieces))


def called_off(event: MentionEvent, transcript: Transcript, own_ids: Collection[int]) -> bool:
    """Whether the mention that called was edited out of the question. `own_ids` are those by which the agent is
    mentioned; who called all bots by a role mentioned that role. A reply calls whatever it says."""
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
    """What a person asks, as it reads now; None where nobody asked."""
    if not isinstance(event, MentionEvent) or not event.by_person or event.continues:
        return None
    asked = question(event, transcript)
    return None if asked is None else asked.text


def gone(message_id: int, transcript: Transcript) -> bool:
    """Whether a message was deleted, or hidden from bots since it was heard."""
    entry = transcript.get(message_id)
    return message_id in transcript.deleted or (entry is not None and not is_visible(entry))
