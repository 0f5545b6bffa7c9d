"""Stage 9 in chat mode: the window as messages to the model, one a block.

Two marks say where a provider's cache may end: the window's marker, which is fixed from cut to cut, and the end of the
last full block, so that messages since the cut are cached as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentic.context.blocks import Block, quoted_in
from agentic.context.build import Identity, TurnContext
from agentic.context.entries import Entry
from agentic.context.render import NO_FILES, render_lines
from agentic.context.room import summary_text
from agentic.context.window import Window
from agentic.llm.types import Message, Picture

NO_PICTURES: Mapping[int, tuple[Picture, ...]] = {}


def build_history(
    context: TurnContext,
    pictures: Mapping[int, tuple[Picture, ...]] = NO_PICTURES,
    files: Mapping[int, str] = NO_FILES,
) -> list[Message]:
    """`pictures` maps a message's id to its pictures, `files` an attachment's id to its text."""
    blocks = context.window.laid
    history = [Message("user", _text(context.window, block, context.me, files)) for block in blocks]
    for index, block in enumerate(blocks):
        if found := pictures_of(block, pictures):
            history[index] = replace(history[index], pictures=found)
    for index in marked(blocks, context.window.marker):
        history[index] = replace(history[index], cache=True)
    return [Message("user", summary_text(context.summary)), *history] if context.summary else history


def pictures_of(block: Block, pictures: Mapping[int, tuple[Picture, ...]]) -> tuple[Picture, ...]:
    """Return the pictures of the block's messages. A message with a known picture ends its block; one whose file turned
    out to be a picture may stand anywhere."""
    if not pictures:
        return ()
    units = (unit for line in block.lines if isinstance(line, Entry) for unit in line.units)
    return tuple(picture for unit in units for picture in pictures.get(unit.id, ()))


def marked(blocks: Sequence[Block], marker: int | None) -> set[int]:
    """Return the indices of the blocks after which a cache may end."""
    closed = [index for index, block in enumerate(blocks) if block.closed]
    if not closed:
        return {len(blocks) - 1} if blocks else set()
    if marker is None:
        return {closed[-1]}
    return {closed[-1], max((index for index in closed if _begins_by(blocks[index], marker)), default=closed[-1])}


def _begins_by(block: Block, marker: int) -> bool:
    """Whether the block begins no later than the marker. If the marker's message is gone, the block before it is
    used."""
    first = next((line.id for line in block.lines if isinstance(line, Entry)), None)
    return first is not None and first <= marker


def _text(window: Window, block: Block, me: Identity, files: Mapping[int, str]) -> str:
    key = ("chat", quoted_in(block, files))
    known = block.texts.get(key)
    if known is None:
        known = block.texts[key] = render_lines(block.lines, window.cut_at, me.key, me.agents, files)
    return known
