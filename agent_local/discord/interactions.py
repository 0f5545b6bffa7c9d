"""Slash commands, as far as local use needs them: a person uses one, the bot answers it over REST."""

from dataclasses import dataclass, field
from typing import Any

TOKEN_SECONDS = 15 * 60
ANSWER_SECONDS = 3.0

MESSAGE, DEFERRED_MESSAGE, MODAL = 4, 5, 9  # types of a first answer
EPHEMERAL = 1 << 6


@dataclass(slots=True)
class Interaction:
    """A command that is being answered.

    answers holds the JSON of all its messages, including hidden (ephemeral) ones, which are not in the channel.
    """

    id: int
    token: str
    application_id: int
    user_id: int
    channel_id: int
    created: float
    command: str = ""
    callback: dict[str, Any] | None = None
    original_id: int | None = None
    hidden: dict[int, dict[str, Any]] = field(default_factory=dict)
    answers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def form(self) -> dict[str, Any] | None:
        """The form that answered it."""
        return self.callback["data"] if self.callback is not None and self.callback["type"] == MODAL else None

    @property
    def deferred(self) -> bool:
        return self.callback is not None and self.callback["type"] == DEFERRED_MESSAGE
