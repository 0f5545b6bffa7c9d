"""Changes of a day's plan by an owner: pure functions from its slots to new ones, None where nothing changes.

A slot is named by its time and keeps its index, which the scheduler may be waiting for.
"""

from __future__ import annotations

from dataclasses import replace

from agentic.state.schedule import Slot

MOST_SLOTS = 1000  # a day, as COORDINATOR_SCHEDULE_MAX
SAME_TIME = 0.5  # seconds: a time that went through a form is the same


def moved(slots: list[Slot], at: float, to: float) -> list[Slot] | None:
    """None where no open slot has the time `at`, or one has `to` already."""
    return None if _open_at(slots, to) is not None else _replaced(slots, at, to)


def skipped(slots: list[Slot], at: float) -> list[Slot] | None:
    """None where no open slot has that time."""
    return _replaced(slots, at, None)


def added(slots: list[Slot], at: float) -> list[Slot] | None:
    """None if an open slot has that time already, or the day is full."""
    return None if is_taken(slots, at) or len(slots) >= MOST_SLOTS else [*slots, Slot(at, added=True)]


def is_taken(slots: list[Slot], at: float) -> bool:
    """Whether an open slot has that time."""
    return _open_at(slots, at) is not None


def _replaced(slots: list[Slot], at: float, to: float | None) -> list[Slot] | None:
    """The slots with the open one of `at` at `to`; done, where that is None."""
    index = _open_at(slots, at)
    if index is None:
        return None
    slot = replace(slots[index], done=True) if to is None else replace(slots[index], at=to)
    return [*slots[:index], slot, *slots[index + 1 :]]


def _open_at(slots: list[Slot], at: float) -> int | None:
    found = (index for index, slot in enumerate(slots) if not slot.done and abs(slot.at - at) <= SAME_TIME)
    return next(found, None)
