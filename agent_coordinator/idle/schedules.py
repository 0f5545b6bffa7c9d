"""When each idle task may run: at once while nobody writes, or after a further delay that is drawn at random.

Neither hammers: a run that failed is followed by a pause that doubles, and one that found nothing to do waits for a
person's message, or REST_SECONDS. A schedule is its TaskState and rules over it, so a restart resumes it.
"""

from __future__ import annotations

import random

from agent_coordinator.config import IdleConfig
from agentic.background_tasks import TASKS
from agentic.ids import id_at
from agentic.state.idle import IdleState, RunningTask, TaskState, task_key

BACKOFF_FIRST = 300.0  # seconds after a run that failed; doubles with each further one
BACKOFF_MAX = 6 * 3600.0
REST_SECONDS = 600.0  # between two looks of an immediate schedule, if there is nothing to do
SET_BACK = 60.0  # seconds; less is how clocks are corrected all day


class Schedule:
    """Run a task as soon as nobody writes, again and again until there is nothing left to do; or, with `longest` above
    0, once after a delay between `shortest` and `longest` seconds, drawn again by each run and each reset. Times are
    unix seconds."""

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
        """A person wrote, so that the earliest moment at which nobody has written for long enough is `idle_from`. A
        rest ends; a back-off of a task without delay stays."""
        if self._longest:
            self._set(due=idle_from + self._draw(), why="")
        elif not self.state.failures:
            self._set(due=idle_from)

    def mark_begun(self, now: float) -> None:
        """A run begins, which a crash must not repeat."""
        self._set(last=now, due=now + self._draw())

    def mark_complete(self, now: float, *, failed: bool = False) -> None:
        failures, pause = (self.state.failures + 1 if failed else 0), self._draw()
        if failed:
            pause = max(pause, min(BACKOFF_FIRST * 2 ** (failures - 1), BACKOFF_MAX))
        self._set(due=now + pause, last=now, failures=failures, why="its last turn failed" if failed else "")

    def postpone(self, now: float, why: str, until: float | None = None) -> None:
        """It was due, and did not run: `why`, for people. `until`: not before then. After that comes a part of the
        delay, so that what waited for a morning does not come on its stroke."""
        pause = self._draw() if self._longest else REST_SECONDS
        part = pause - self._shortest if self._longest else 0.0
        self._set(due=now + pause if until is None else until + part, why=why)

    def note(self, *, did: str | None = None, seen: int | None = None, why: str | None = None) -> None:
        """Change these of the state."""
        changes = {"did": did, "seen": seen, "why": why}
        self._set(**{name: value for name, value in changes.items() if value is not None})

    def set_back(self, now: float) -> None:
        """The clock was set back: a time that it gave before may be far ahead."""
        state = self.state
        due, seen = min(state.due, now + BACKOFF_MAX), min(state.seen, id_at(now))
        self._set(due=due, last=min(state.last, now), seen=seen)


class IdleTaskBoard:
    """All idle tasks in memory: their schedules, when a person last wrote, and what is being asked.

    `began`: since when this process listens to people (unix seconds): before that somebody may have written. `messages`
    counts those of people since then. Without `kept`, the state in Redis, everything waits as after a person's message.
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
        """If the clock was ahead and is set back, nothing waits until it is there again."""
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
        return min(due, key=lambda one: (TASKS.index(one[0]), one[2].state.last, one[2].state.due), default=None)

    def schedule_of(self, task: str, agent: str) -> Schedule | None:
        return self._schedules.get((task, agent))

    def explain(self, why: str) -> None:
        """Say why none of the tasks is done."""
        for schedule in self._schedules.values():
            schedule.note(why=why)

    def kept(self) -> IdleState:
        tasks = {task_key(*pair): schedule.state for pair, schedule in self._schedules.items()}
        return IdleState(person_at=self.person_at, tasks=tasks, asking=self.asking)
