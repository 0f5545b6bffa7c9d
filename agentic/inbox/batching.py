"""Batch messages that come in quick succession into one mention."""

from __future__ import annotations

from dataclasses import replace

from agentic.agent.events import MentionEvent, TurnEvent, mention_id
from agentic.chat.directory import Directory
from agentic.context.entries import Entry
from agentic.inbox.lanes import Inbox

MOST_PIECES = 20

LEFT_FOR_ANSWER = 60.0  # seconds of the turn's time that the pause leaves


def gather(inbox: Inbox[TurnEvent], channel_id: int, piece: Entry, *, calls: bool, now: float) -> MentionEvent | None:
    """Add a message to its author's newest question that waits in the channel; None if none does, or it is full.

    With `calls` the message calls the agent itself: the turn is then about it, and the older ones become its pieces.
    """
    for waiting in reversed(inbox.waiting(channel_id)):
        if not isinstance(waiting, MentionEvent) or waiting.asked.speaker.id != piece.speaker.id or waiting.continues:
            continue
        newest = max(part.id for part in (waiting.asked, *waiting.pieces))
        if len(waiting.pieces) >= MOST_PIECES or piece.id <= newest:
            return None
        grown = replace(waiting, pieces=(*waiting.pieces, piece), heard_at=now)
        if calls:
            grown = replace(grown, id=mention_id(piece.id), asked=piece, pieces=(*waiting.pieces, waiting.asked))
        inbox.replace(waiting, grown)
        return grown
    return None


def belongs(piece: Entry, directory: Directory) -> bool:
    """Whether a message that calls nobody may belong to an earlier question: one to somebody else does not."""
    to_another_agent = any(directory.agent_of(mentioned) for mentioned in piece.mentions)
    return not to_another_agent and piece.replied_to in (None, piece.speaker.id)


def pause(event: TurnEvent, seconds: float, now: float) -> float:
    """The time for which a question still waits, until `seconds` after its newest message; bounded by its deadline."""
    if not isinstance(event, MentionEvent) or event.continues:
        return 0.0
    return min(event.heard_at + seconds, event.deadline - LEFT_FOR_ANSWER) - now
