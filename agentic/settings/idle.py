"""The settings of what agents do while nobody writes, and of what is kept for it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from agentic.settings.fields import BOOL, DAYS, SECONDS, Days, Keys, Seconds, comma_list, setting

IdleTask = Literal["summarise", "profile", "follow_up", "discover"]
Unasked = Literal["opt_in", "everyone"]
IDLE_TASKS: tuple[IdleTask, ...] = ("summarise", "profile", "follow_up", "discover")  # by priority

TASKS = "summarise, profile, follow_up and discover, separated by commas, or none"
UNASKED = "opt_in or everyone"
SHARE = "a number from 0 to 1"
HOURS = "a number of hours, 0 or more (at most 8760)"


def _tasks(value: object) -> object:
    parts = comma_list(value)
    if not isinstance(parts, tuple):
        return value
    names = tuple(str(part).lower().replace("-", "_") for part in parts)
    return () if names == ("none",) else names


IdleTasks = Annotated[tuple[IdleTask, ...], BeforeValidator(_tasks)]
Hours = Annotated[float, Field(ge=0, le=8760, allow_inf_nan=False)]


class IdleKeys(Keys):
    """`idle_tasks` and `unasked` hold for agents whose persona says nothing else. Times are seconds where nothing else
    is said."""

    idle_tasks: IdleTasks = setting("IDLE_TASKS", TASKS, ())
    unasked: Annotated[Unasked, BeforeValidator(lambda text: str(text).strip().lower().replace("-", "_"))] = setting(
        "UNASKED_MESSAGES", UNASKED, "opt_in"
    )
    idle_after: Seconds = setting("IDLE_AFTER_SECONDS", SECONDS, 300.0)
    follow_up_min: Seconds = setting("IDLE_FOLLOW_UP_MIN_SECONDS", SECONDS, 3600.0)
    follow_up_max: Seconds = setting("IDLE_FOLLOW_UP_MAX_SECONDS", SECONDS, 7200.0)
    discover_min: Seconds = setting("IDLE_DISCOVER_MIN_SECONDS", SECONDS, 7200.0)
    discover_max: Seconds = setting("IDLE_DISCOVER_MAX_SECONDS", SECONDS, 14_400.0)
    discover_again: Hours = setting("IDLE_DISCOVER_AGAIN_HOURS", HOURS, 0.0)  # 0: only after somebody wrote
    summarise_exchanges: bool = setting("IDLE_SUMMARISE_EXCHANGES", BOOL, False)
    idle_budget_share: float = setting("IDLE_BUDGET_SHARE", SHARE, 0.2, ge=0, le=1, allow_inf_nan=False)
    unasked_person_hours: Hours = setting("UNASKED_PERSON_HOURS", HOURS, 24.0)
    unasked_channel_hours: Hours = setting("UNASKED_CHANNEL_HOURS", HOURS, 6.0)
    message_log_days: Days = setting("MESSAGE_LOG_DAYS", DAYS, 30)
    embedding_model: str | None = setting("EMBEDDING_MODEL", "provider/model, or none", None)
