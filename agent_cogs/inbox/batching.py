"""Messages that come in quick succession, gathered into one mention."""

from __future__ import annotations

from dataclasses import replace

from agent_chat.directory import Directory
from agent_cogs.events import MentionEvent, TurnEvent
from agent_cogs.inbox.inbox import Inbox
from agent_context.entries import Entry

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
