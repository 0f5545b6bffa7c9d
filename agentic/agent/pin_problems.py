"""Report problems in a pinned `.config` or a `.history` to its author: one reply, for all bots together."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from agentic.chat.outlet import CommandReplies, Outlet
from agentic.context.commands import CommandProblem
from agentic.process.tasks import BackgroundTasks

MAX_LINE = 300  # characters of one problem
MAX_TEXT = 1_900  # characters of a reply; Discord takes 2,000
MAX_NAMES = 500  # characters of the names of options whose problems have no room

log = logging.getLogger(__name__)


class ReportedOnce(Protocol):
    """Implemented by agentic.state.once."""

    async def first(self, message_id: int, what: str) -> bool: ...


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
            occasion = f"pin:{fault.message_id}:{len(fault.lines)}"
            await replies.reply(fault.message_id, problem_text(fault), occasion, in_parent=in_parent)


def problem_text(fault: CommandProblem) -> str:
    """Say what of a command can't be used and what can, in one message. Problems that have no room are counted."""
    if fault.command == "history":
        return f"I can't use this `.history`, so it is ignored:\n{fault.lines[0][:MAX_LINE]}"
    if fault.used:
        head = "I can't use these lines of this `.config`:"
        last = f"I do use these, unless a newer pin sets them: {', '.join(sorted(fault.used))}."
    else:
        head, last = "I can't use this `.config`:", "So none of its options is in effect."
    lines = [line[:MAX_LINE] for line in fault.lines]
    left = MAX_TEXT - len(head) - len(last) - MAX_NAMES
    shown: list[str] = []
    for line in lines:
        if (left := left - len(line) - 1) < 0:
            break
        shown.append(line)
    return "\n".join((head, *shown, *_not_shown(lines[len(shown) :]), last))


def _not_shown(lines: Sequence[str]) -> Iterator[str]:
    """Yield one line with the names of the options whose problems have no room, and the number of the other ones."""
    names, left = list[str](), MAX_NAMES - 80
    for line in lines:
        name = line.partition(": ")[0]
        if (left := left - len(name) - 2) < 0:
            break
        names.append(name)
    if lines:
        more = f", and {len(lines) - len(names)} more" if len(lines) > len(names) else ""
        yield f"These can't be used either: {', '.join(names)}{more}"
