"""An answer to a person that is read while it is written, where the option `stream` is on.

    model's text so far ─ read: the words in it ─ sayable: what of them is certainly said ─ sink.growing(...)

What is shown on the way passes the same cleaning as what is posted in the end. A mark that has only begun could still
turn out to be none of the speaker's words, so it is waited for; the answer is cleaned once more when it is whole,
and ends the post (actions.py). Whoever ends the turn with nothing takes back what has grown.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from agent_chat.outlet import ChannelSink
from agent_cogs.answer.cleaning import clean_text
from agent_cogs.events import MentionEvent, TurnEvent
from agent_context.steering.options import Options

STEP = 16  # characters that must have come before the words are cleaned again
LONGEST_MARK = 32  # characters in which a mark tells itself

# What the cleaning takes out, from its first characters on: it may take all that follows with it.
_MARK = re.compile(
    r"<(?:/?(?:\w{1,12}:)?(?:think|reasoning|tool|function|invoke|call|result|error)|\||<SYS)"
    r"|\[(?:msg:|note:|tool\]|system\]|reactions:|posted image:|/?INST)",
    re.IGNORECASE,
)
_OTHER_FORM = ("{", "[", "```")  # a call of a tool, or a block that holds one, until the end tells

Hear = Callable[[str], None]
Read = Callable[[str], str]


def sayable(text: str, names: Collection[str] = (), prompt: Collection[str] = ()) -> str:
    """What of a growing text may be shown; `names` and `prompt` as `clean_text` takes them."""
    if text.lstrip().startswith(_OTHER_FORM):
        return ""
    mark = _MARK.search(text)
    text = text[: mark.start()] if mark else text[: _begun_mark(text)]
    before, _, line = text.rpartition("\n")
    line = line.strip(" \t>*_-`#")
    if line and any(known.startswith(line) for known in prompt):
        text = before
    return clean_text(text, names, prompt) or ""


def _begun_mark(text: str) -> int:
    """Where a mark may have begun at the end of the text."""
    for opening, closing in (("<", ">"), ("[", "]")):
        at = text.rfind(opening, max(0, len(text) - LONGEST_MARK))
        if at >= 0 and closing not in text[at:]:
            text = text[:at]
    return len(text)


class StreamFilter:
    """Hears a model's answer and lets its post grow. One for a turn, however often its model is asked."""

    def __init__(self, grow: Hear, names: Collection[str]) -> None:
        self._grow, self._names = grow, names

    def hearing(self, read: Read, prompt: Collection[str] = ()) -> Hear:
        """A listener for one completion. `read` finds the words in what the model has written so far."""
        heard = 0

        def hear(raw: str) -> None:
            nonlocal heard
            if 0 < heard <= len(raw) < heard + STEP:
                return
            heard = len(raw)
            self._grow(sayable(read(raw), self._names, prompt))

        return hear


@asynccontextmanager
async def listening(
    sink: ChannelSink, event: TurnEvent, options: Options, names: Collection[str], after: int | None
) -> AsyncIterator[StreamFilter | None]:
    """An ear as long as the model is asked; None where nobody waits for the answer, or it is to come whole.

    `after` is set where an earlier run of the program may have let the post grow, behind that message.
    """
    if not (options.stream and event.forced):
        yield None
        return
    ping = event.ping if isinstance(event, MentionEvent) else None
    async with sink.growing(event.id, ping=ping, after=after, split_at=options.split_at) as post:
        yield StreamFilter(post.grow, names)
