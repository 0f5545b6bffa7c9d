"""Report problems in a pinned `.config` or a `.history` to its author: one reply, for all bots together."""

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


class ReportedOnce(Protocol):
    """Implemented by agent_protocol.state.once."""

    async def first(self, message_id: int, what: str) -> bool: ...


_TEXTS = {
    "config": ("I cannot use these lines of this `.config`:", "The rest is in effect."),
    "history": ("I cannot use this `.history`, so it is ignored:", ""),
}


class PinProblemReporter:
    """Send the replies in the background; nothing waits for them or depends on them."""

    def __init__(self, reported: ReportedOnce) -> None:
        self._reported = reported
        self._background = BackgroundTasks()
        self._seen: set[CommandProblem] = set()

    def report(self, faults: Iterable[CommandProblem], outlet: Outlet) -> None:
        """`faults` as they are found in a channel; in a thread, its channel may hold some of the pins."""
        for fault in faults:
            if fault in self._seen:
                continue
            self._seen.add(fault)
            here = fault.command == "history" or any(entry.id == fault.message_id for entry in outlet.view.pins[-1])
            log.info(".%s of message %d not used: %s", fault.command, fault.message_id, "; ".join(fault.lines))
            if (replies := outlet.sink.command_replies) is not None:
                telling = self._send(fault, replies, in_parent=not here)
                self._background.start(telling, f"{fault.command} {fault.message_id}")

    async def _send(self, fault: CommandProblem, replies: CommandReplies, *, in_parent: bool) -> None:
        if await self._reported.first(fault.message_id, "\n".join(fault.lines)):
            first, last = _TEXTS[fault.command]
            lines = [line[:MAX_LINE] for line in fault.lines[:MOST_LINES]]
            text = "\n".join(filter(None, (first, *lines, last)))
            await replies.reply(
                fault.message_id, text, f"pin:{fault.message_id}:{len(fault.lines)}", in_parent=in_parent
            )
