"""Show an answer to a person while it is written, if the option `stream` is on.

    model's output so far ─ read: the text in it ─ certain_part: its final part ─ sink.streaming(...)

Growing text is cleaned like the final post. The beginning of a possible mark is held back until it's clear, and a table
row until it's complete. The whole answer is cleaned again and completes the post (actions.py). A turn that ends without
a post deletes the growing text (turn.py).
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

STEP = 16  # new characters before the text is cleaned again
STEPS = 25  # or this fraction of the text, since all of it is read again
MAX_MARK = 32  # characters that identify a mark

# The beginning of marks that only the transcript has (cleaning.py).
_TRANSCRIPT_MARK = re.compile(r"\[(?:msg:|note:|tool\]|system\]|reactions:|posted image:)", re.IGNORECASE)
_OTHER_FORM = ("{", "[", "```")  # perhaps a tool call, or a block with one

Take = Callable[[str], None]


def certain_part(text: str, names: Collection[str] = (), prompt: Collection[str] = ()) -> str:
    """Return the part of a growing text that may be shown; `names` and `prompt` are those of `clean_text`."""
    if text.lstrip().startswith(_OTHER_FORM):
        return ""
    text = strip_markup(text, growing=True)
    mark = _TRANSCRIPT_MARK.search(text)
    if mark is None:  # a mark may begin at the end
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
    """Pass a model's growing answers to the turn's post."""

    def __init__(self, grow: Take, names: Collection[str]) -> None:
        self._grow, self._names = grow, names

    def listener(self, read: Callable[[str], str], prompt: Collection[str] = ()) -> Take:
        """Return a listener for one completion. `read` finds the text in the output so far."""
        taken = 0

        def take(raw: str) -> None:
            nonlocal taken
            if 0 < taken <= len(raw) < taken + max(STEP, taken // STEPS):
                return
            taken = len(raw)
            self._grow(certain_part(read(raw), self._names, prompt))

        return take


@asynccontextmanager
async def open_stream(turn: Turn, options: Options, names: Collection[str]) -> AsyncIterator[StreamFilter | None]:
    """Yield a filter into the turn's growing post; None if nobody waits, or the option `stream` is off. With a model at
    home there is a post even then: it says who is ahead if the wait is long."""
    event = turn.event
    if not (event.forced and (options.stream or turn.model.is_at_home)):
        yield None
        return
    ping, after = event.ping if isinstance(event, MentionEvent) else None, turn.state.after
    async with turn.outlet.sink.streaming(event.id, ping=ping, after=after, split_at=options.split_at) as post:
        turn.waiting.post = post
        try:
            yield StreamFilter(post.update, names) if options.stream else None
        finally:
            turn.waiting.post = None
