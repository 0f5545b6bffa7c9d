"""When each background task may run: right away once nobody writes, or after a random extra delay.

After a failed run, the pause doubles. After a run that found nothing to do, the task waits for a person's message, or
REST_SECONDS. A schedule is rules over its TaskState, so it survives a restart.
"""

from __future__ import annotations

import random

from agent_coordinator.config import IdleConfig
from agentic.background_tasks import TASKS
from agentic.ids import id_at
from agentic.state.idle import IdleState, RunningTask, TaskState, task_key

BACKOFF_FIRST = 300.0  # seconds after a failed run; doubles with each further failure
BACKOFF_MAX = 6 * 3600.0
REST_SECONDS = 600.0  # between two checks of a task without delay, if there is nothing to do
SET_BACK = 60.0  # seconds; clocks are corrected by less all day


class Schedule:
    """With `longest` 0: run a task again and again while nobody writes, until there is nothing left to do. Otherwise:
    run it once after a delay between `shortest` and `longest` seconds, drawn anew by each run and reset. Times are unix
    seconds."""

    def __init__(
        self,
        state: TaskState | None = None,
        shortest: float = 0.0,
        longest: float = 0.0,
        rng: random.Random | None = None,
    ) -> None:
        self.state = state or TaskState()
        self._shortest, self._longest, self._rng = shortest, max(shortest, longest), rng or random.Random()

    def _draw(self) -> float:
        return self._rng.uniform(self._shortest, self._longest)

    def _set(self, **changes: object) -> None:
        self.state = self.state.model_copy(update=changes)

    def should_run(self, now: float, *, idle: bool) -> bool:
        """Whether the task may run. `idle`: no person has written for long enough."""
        return idle and now >= self.state.due

    def reset(self, idle_from: float) -> None:
        """Start over after a person's message: the server may be idle from `idle_from` on. Ends a rest, but not the
        back-off of a task without delay."""
        if self._longest:
            self._set(due=idle_from + self._draw(), why="")
        elif not self.state.failures:
            self._set(due=idle_from)

    def mark_begun(self, now: float) -> None:
        """Note that a run begins; a crash must not repeat it."""
        self._set(last=now, due=now + self._draw())

    def mark_complete(self, now: float, *, failed: bool = False) -> None:
        failures, pause = (self.state.failures + 1 if failed else 0), self._draw()
        if failed:
            pause = max(pause, min(BACKOFF_FIRST * 2 ** (failures - 1), BACKOFF_MAX))
        self._set(due=now + pause, last=now, failures=failures, why="its last turn failed" if failed else "")

    def postpone(self, now: float, why: str, until: float | None = None) -> None:
        """Put off a task that was due: `why` (for people), and not before `until`. Part of the delay is added to that,
        so that tasks that waited for morning don't run on the stroke of the hour."""
        pause = self._draw() if self._longest else REST_SECONDS
        part = pause - self._shortest if self._longest else 0.0
        self._set(due=now + pause if until is None else until + part, why=why)

    def note(self, *, did: str | None = None, seen: int | None = None, why: str | None = None) -> None:
        """Change these fields of the state."""
        changes = {"did": did, "seen": seen, "why": why}
        self._set(**{name: value for name, value in changes.items() if value is not None})

    def set_back(self, now: float) -> None:
        """Correct times that may be far ahead, since the clock was set back."""
        state = self.state
        due, seen = min(state.due, now + BACKOFF_MAX), min(state.seen, id_at(now))
        self._set(due=due, last=min(state.last, now), seen=seen)


class IdleTaskBoard:
    """All background tasks: their schedules, when a person last wrote (`person_at`), and the current turn (`asking`).

    `began` (unix seconds): when this process began to listen; people may have written before. `messages` counts
    people's messages since then. Without `kept`, the state in Redis, everything waits as after a person's message.
    """

    def __init__(self, config: IdleConfig, rng: random.Random, began: float, kept: IdleState | None = None) -> None:
        self._config, self._began = config, began
        self.person_at = kept.person_at if kept is not None else began
        self.asking: RunningTask | None = kept.asking if kept is not None else None
        self._latest = began
        self.messages = 0
        self.unsaved = False
        known = kept.tasks if kept is not None else {}
        self._schedules: dict[tuple[str, str], Schedule] = {}
        for task, agent in config.pairs():
            state = known.get(task_key(task, agent))
            schedule = self._schedules[task, agent] = Schedule(state, *config.delays.get(task, (0.0, 0.0)), rng)
            if state is None:
                schedule.reset(began + config.after)

    def person_wrote(self, now: float) -> None:
        self.person_at, self.unsaved = now, True
        self.messages += 1
        for schedule in self._schedules.values():
            schedule.reset(now + self._config.after)

    def note_clock(self, now: float) -> None:
        """If the clock was set back, don't wait until it is there again."""
        states = [schedule.state for schedule in self._schedules.values()]
        if max((self._latest, self.person_at, *(state.last for state in states))) > now + SET_BACK:
            self.person_at = min(self.person_at, now)
            for schedule in self._schedules.values():
                schedule.set_back(now)
        self._latest = now

    def is_idle(self, now: float) -> bool:
        """Whether nobody has written for `after` seconds, as far as this process knows."""
        return now - min(max(self.person_at, self._began), now) >= self._config.after

    def next_due(self, now: float) -> tuple[str, str, Schedule] | None:
        """Return the task to check: by priority, then by the longest time since its last run."""
        idle = self.is_idle(now)
        due = [(*pair, each) for pair, each in self._schedules.items() if each.should_run(now, idle=idle)]
        return min(due, key=lambda one: (TASKS.index(one[0]), one[2].state.last, one[2].state.due), default=None)

    def schedule_of(self, task: str, agent: str) -> Schedule | None:
        return self._schedules.get((task, agent))

    def explain(self, why: str) -> None:
        """Note for people why no task runs."""
        for schedule in self._schedules.values():
            schedule.note(why=why)

    def kept(self) -> IdleState:
        tasks = {task_key(*pair): schedule.state for pair, schedule in self._schedules.items()}
        return IdleState(person_at=self.person_at, tasks=tasks, asking=self.asking)
