"""Several messages of one person as one question.

People write in pieces. What a person adds while their question still waits in its lane is taken into that turn, so that
it is answered once and as a whole.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from agent_cogs.events import MentionEvent, TurnEvent
from agent_cogs.inbox import Inbox
from agent_context.entries import Entry
from agent_context.visibility import is_visible
from agent_discord.directory import Directory
from agent_discord.transcript import Transcript

MOST_PIECES = 20
LEFT_FOR_ANSWER = 60.0  # seconds of the turn's time that waiting for more never takes


def gather(inbox: Inbox[TurnEvent], channel_id: int, piece: Entry, *, calls: bool, now: float) -> MentionEvent | None:
    """Adds a message to its author's question that waits in the channel; None where none does, or it is full.

    With `calls` the message calls the agent by itself: the turn is then about it, and the older ones belong to it.
    """
    for waiting in inbox.waiting(channel_id):
        if not isinstance(waiting, MentionEvent) or waiting.asked.speaker.id != piece.speaker.id or waiting.continues:
            continue
        newest = max(part.id for part in (waiting.asked, *waiting.pieces))
        if len(waiting.pieces) >= MOST_PIECES or piece.id <= newest:
            return None
        grown = replace(waiting, pieces=(*waiting.pieces, piece), heard_at=now)
        if calls:
            grown = replace(grown, id=f"m{piece.id}", asked=piece, pieces=(*waiting.pieces, waiting.asked))
        inbox.replace(waiting, grown)
        return grown
    return None


def belongs(piece: Entry, directory: Directory) -> bool:
    """A message that calls nobody may go on with what its author asked before; one to somebody else does not."""
    to_another_agent = any(directory.agent_of(mentioned) for mentioned in piece.mentions)
    return not to_another_agent and piece.replied_to in (None, piece.speaker.id)


def pause(event: TurnEvent, seconds: float, now: float) -> float:
    """Seconds for which a question waits yet, so that `seconds` pass after its newest message; not for ever."""
    if not isinstance(event, MentionEvent) or event.continues:
        return 0.0
    return min(event.heard_at + seconds, event.deadline - LEFT_FOR_ANSWER) - now


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
