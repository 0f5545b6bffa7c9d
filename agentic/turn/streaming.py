"""Show an answer to a person while it is written, if the option `stream` is on.

    model's text so far ─ read: the words in it ─ certain_part: those that are certain ─ sink.streaming(...)

Text on the way passes the same cleaning as the final post. The beginning of a mark is held back until it is clear
whether it belongs to the words, and a row of a table until it is whole. The whole answer is cleaned once more and
completes the post (actions.py). A turn that ends without a post withdraws what has grown (turn.py).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from agentic.agent.events import MentionEvent
from agentic.context.options import Options
from agentic.llm.markup import strip_markup
from agentic.turn.cleaning import clean_text, settled_lines
from agentic.turn.progress import Turn

STEP = 16  # characters that must have come before the words are cleaned again
STEPS = 25  # or this part of what has come already, since everything is read again
MAX_MARK = 32  # characters by which a mark is known

# The first characters of what the transcript alone has (cleaning.py), perhaps with all that follows.
_TRANSCRIPT_MARK = re.compile(r"\[(?:msg:|note:|tool\]|system\]|reactions:|posted image:)", re.IGNORECASE)
_OTHER_FORM = ("{", "[", "```")  # perhaps a tool call, or a block that holds one

Take = Callable[[str], None]


def certain_part(text: str, names: Collection[str] = (), prompt: Collection[str] = ()) -> str:
    """The part of a growing text that may be shown; `names` and `prompt` as `clean_text` takes them."""
    if text.lstrip().startswith(_OTHER_FORM):
        return ""
    text = strip_markup(text, growing=True)
    mark = _TRANSCRIPT_MARK.search(text)
    if mark is None:  # one may have begun at the end
        begun = text.rfind("[", max(0, len(text) - MAX_MARK))
        text = text[:begun] if begun >= 0 and "]" not in text[begun:] else text
    else:
        text = text[: mark.start()]
    before, _, line = text.rpartition("\n")
    line = line.strip(" \t>*_-`#")
    if line and any(known.startswith(line) for known in prompt):
        text = before
    return clean_text(settled_lines(text), names, prompt) or ""


class StreamFilter:
    """Pass a model's growing answer to its post. One for a turn, however often its model is asked."""

    def __init__(self, grow: Take, names: Collection[str]) -> None:
        self._grow, self._names = grow, names

    def listener(self, read: Callable[[str], str], prompt: Collection[str] = ()) -> Take:
        """A listener for one completion. `read` finds the words in what the model has written so far."""
        taken = 0

        def take(raw: str) -> None:
            nonlocal taken
            if 0 < taken <= len(raw) < taken + max(STEP, taken // STEPS):
                return
            taken = len(raw)
            self._grow(certain_part(read(raw), self._names, prompt))

        return take


@asynccontextmanager
async def streamed(turn: Turn, options: Options, names: Collection[str]) -> AsyncIterator[StreamFilter | None]:
    """A filter into the turn's growing post; None if nobody waits, or the answer is posted when it is whole."""
    event = turn.event
    if not (options.stream and event.forced):
        yield None
        return
    ping, after = event.ping if isinstance(event, MentionEvent) else None, turn.state.after
    async with turn.outlet.sink.streaming(event.id, ping=ping, after=after, split_at=options.split_at) as post:
        yield StreamFilter(post.update, names)
