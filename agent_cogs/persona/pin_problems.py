"""What is wrong in a pinned `.config` or a `.history` is told to its author: one reply, whichever bots it is for."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

from agent_chat.outlet import CommandReplies, Outlet
from agent_context.steering.commands import CommandProblem
from agent_process.tasks import BackgroundTasks

MOST_LINES = 5
MAX_LINE = 300  # characters

log = logging.getLogger(__name__)


class Memory(Protocol):
    """What was told already; agent_protocol.state.once is the one in Redis."""

    async def first(self, message_id: int, what: str) -> bool: ...


_SAID = {
    "config": ("Of this `.config` I cannot use:", "The rest counts."),
    "history": ("I cannot read this `.history`, and it counts for nothing:", ""),
}


class PinProblemReporter:
    """Nobody waits for what it says, and nothing depends on it."""

    def __init__(self, told: Memory) -> None:
        self._told = told
        self._background = BackgroundTasks()
        self._seen: set[CommandProblem] = set()

    def report(self, faults: Iterable[CommandProblem], outlet: Outlet) -> None:
        """`faults` as they are found in a channel; in a thread, its channel may hold some of the pins."""
        for fault in faults:
            if fault in self._seen:
                continue
            self._seen.add(fault)
            here = fault.command == "history" or any(entry.id == fault.message_id for entry in outlet.view.pins[-1])
            log.info("the .%s of message %d is wrong: %s", fault.command, fault.message_id, "; ".join(fault.lines))
            if (replies := outlet.sink.command_replies) is not None:
                telling = self._tell(fault, replies, in_parent=not here)
                self._background.start(telling, f"{fault.command} {fault.message_id}")

    async def _tell(self, fault: CommandProblem, replies: CommandReplies, *, in_parent: bool) -> None:
        if await self._told.first(fault.message_id, "\n".join(fault.lines)):
            begins, ends = _SAID[fault.command]
            lines = [line[:MAX_LINE] for line in fault.lines[:MOST_LINES]]
            text = "\n".join(filter(None, (begins, *lines, ends)))
            await replies.reply(
                fault.message_id, text, f"pin:{fault.message_id}:{len(fault.lines)}", in_parent=in_parent
            )
