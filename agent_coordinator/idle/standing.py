"""The standing of all idle tasks in memory: their schedules, when a person last wrote, and what is being asked."""

from __future__ import annotations

import random

from agent_coordinator.config import IdleConfig
from agent_coordinator.idle.schedules import DelayedSchedule, ImmediateSchedule, Schedule
from agentic.state.idle import TASKS
from agentic.state.idle_state import Asking, IdleState, TaskState, task_key

SET_BACK = 60.0  # seconds; less is how clocks are corrected all day


class Standing:
    """`began`: since when this process listens to people (unix seconds): before that somebody may have written.
    `messages` counts those of people since then. Without `kept`, the state in Redis, everything waits as after a
    person's message."""

    def __init__(self, config: IdleConfig, rng: random.Random, began: float, kept: IdleState | None = None) -> None:
        self._config, self._began = config, began
        self.person_at = kept.person_at if kept is not None else began
        self.asking: Asking | None = kept.asking if kept is not None else None
        self._latest = began
        self.messages = 0
        self.unsaved = False
        known = kept.tasks if kept is not None else {}
        self._schedules: dict[tuple[str, str], Schedule] = {}
        for task, agent in config.pairs():
            state = known.get(task_key(task, agent))
            self._schedules[task, agent] = schedule = _schedule_for(task, config, rng, state)
            if state is None:
                schedule.reset(began + config.after)

    def person_wrote(self, now: float) -> None:
        self.person_at, self.unsaved = now, True
        self.messages += 1
        for schedule in self._schedules.values():
            schedule.reset(now + self._config.after)

    def note_clock(self, now: float) -> None:
        """Where the clock was ahead and is set back, nothing waits until it is there again."""
        states = [schedule.state for schedule in self._schedules.values()]
        if max((self._latest, self.person_at, *(state.last for state in states))) > now + SET_BACK:
            self.person_at = min(self.person_at, now)
            for schedule in self._schedules.values():
                schedule.set_back(now)
        self._latest = now

    def is_idle(self, now: float) -> bool:
        """Whether no person has written for long enough, as far as this process knows."""
        return now - min(max(self.person_at, self._began), now) >= self._config.after

    def next_due(self, now: float) -> tuple[str, str, Schedule] | None:
        """The task to look at: by priority, and of several agents the one whose last run is the longest ago."""
        idle = self.is_idle(now)
        due = [(*pair, each) for pair, each in self._schedules.items() if each.should_run(now, idle=idle)]
        return min(due, key=_urgency, default=None)

    def schedule_of(self, task: str, agent: str) -> Schedule | None:
        return self._schedules.get((task, agent))

    def explain(self, why: str) -> None:
        """Say why none of the tasks is done."""
        for schedule in self._schedules.values():
            schedule.note(why=why)

    def kept(self) -> IdleState:
        tasks = {task_key(*pair): schedule.state for pair, schedule in self._schedules.items()}
        return IdleState(person_at=self.person_at, tasks=tasks, asking=self.asking)


def _urgency(due: tuple[str, str, Schedule]) -> tuple[int, float, float]:
    task, _, schedule = due
    return TASKS.index(task), schedule.state.last, schedule.state.due


def _schedule_for(task: str, config: IdleConfig, rng: random.Random, state: TaskState | None) -> Schedule:
    if (delay := config.delays.get(task)) is None:
        return ImmediateSchedule(state)
    return DelayedSchedule(*delay, rng, state)
