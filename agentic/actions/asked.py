"""Values of an action: the request of the page, and the end of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field


class Request(BaseModel):
    """The body of an action. `id` is the click's: the same click twice is one action."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    id: str
    channel: str | None = Field(default=None, max_length=20)
    agent: str | None = Field(default=None, max_length=100)
    theme: str | None = None
    topic: str | None = None
    minutes: int | None = None
    at: float | None = None  # unix seconds: the scheduled time that is meant
    time: str | None = None  # HH:MM, in the owner's time zone
    scope: str | None = None  # all, agent:{name}, channel:{id}
    dollars: float | None = None
    personas: list[str] | None = Field(default=None, max_length=50)  # those who take part in a room, by key
    policy: str | None = None
    turns: int | None = None
    archive: int | None = None  # minutes
    audience: int | None = None  # seconds
    goodbye_ends: bool | None = None
    rules: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The end of an action. `outcome` is a word for the record, `text` a line for the owner."""

    outcome: str
    text: str
    detail: str = ""


Act = Callable[[Request], Awaitable[Done]]
