"""Slash commands, as far as local use needs them: a person uses one, the bot answers it over REST."""

from dataclasses import dataclass, field
from typing import Any

from agentic.local.discord import components

TOKEN_SECONDS = 15 * 60
ANSWER_SECONDS = 3.0

MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE, COMPLETION, MODAL = 4, 5, 6, 7, 8, 9  # types of a first answer
EPHEMERAL = 1 << 6


@dataclass(slots=True)
class Interaction:
    """A command that is being answered, a form that was filled in, or a choice from a menu.

    answers holds the JSON of all its messages, including hidden (ephemeral) ones, which are not in the channel. Of a
    choice, source is the message with the menu, its original message too: the answer may replace it.
    """

    id: int
    token: str
    application_id: int
    user_id: int
    channel_id: int
    created: float
    command: str = ""
    callback: dict[str, Any] | None = None
    source: dict[str, Any] | None = None
    original_id: int | None = None
    hidden: dict[int, dict[str, Any]] = field(default_factory=dict)
    answers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def form(self) -> dict[str, Any] | None:
        """The form that answered it."""
        return self.callback["data"] if self.callback is not None and self.callback["type"] == MODAL else None

    @property
    def offered(self) -> list[str] | None:
        """The values that were offered for an option that is being typed."""
        answered = self.callback is not None and self.callback["type"] == COMPLETION
        return [choice["value"] for choice in self.callback["data"]["choices"]] if self.callback and answered else None

    @property
    def menu(self) -> dict[str, Any] | None:
        """The first menu of its newest answer."""
        return next(iter(components.menus(self.answers[-1])), None) if self.answers else None

    @property
    def done(self) -> bool:
        """Whether the person has something to read or to fill in."""
        return bool(self.answers) or self.form is not None

    @property
    def deferred(self) -> bool:
        return self.callback is not None and self.callback["type"] == DEFERRED_MESSAGE

    def hidden_files(self) -> list[int]:
        """The ids of the files in its hidden answers."""
        return [int(file["id"]) for answer in self.hidden.values() for file in answer.get("attachments") or ()]
