"""The background tasks of agents while nobody writes, by priority. To add a task, start with a row here.

agent_coordinator/idle/tasks.py chooses a task's subject; agentic/context/prompt.py has the texts for its agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

TaskName = Literal["summarise", "profile", "follow_up", "discover"]


@dataclass(frozen=True, slots=True)
class BackgroundTask:
    """`label`: the task in /bots status. `nothing`: why it didn't run if there was nothing to do. `did`: what the
    agent did, for /why; "" if the task's text goes to the coordinator instead of the channel."""

    label: str
    nothing: str
    did: str = ""


BACKGROUND_TASKS: Mapping[str, BackgroundTask] = {
    "summarise": BackgroundTask("summaries", "there is nothing to summarize"),
    "profile": BackgroundTask("profiles", "nobody has written anything new"),
    "follow_up": BackgroundTask(
        "follow-ups",
        "no conversation was left hanging",
        "followed up on a conversation while nobody was writing",
    ),
    "discover": BackgroundTask("discoveries", "nobody has a profile", "had news for {person} while nobody was writing"),
}
TASKS: tuple[TaskName, ...] = get_args(TaskName)
PROACTIVE: frozenset[str] = frozenset(name for name, task in BACKGROUND_TASKS.items() if task.did)  # they may post
WRITTEN: frozenset[str] = frozenset(TASKS) - PROACTIVE  # their text goes to the coordinator


def read_task_names(names: Iterable[str]) -> tuple[str, ...]:
    """Read ("follow-up", "Summarize") as ("follow_up", "summarise"), the names on the wire, and ("none",) as ()."""
    found = tuple(name.lower().replace("-", "_").replace("summarize", "summarise") for name in names)
    return () if found == ("none",) else found
