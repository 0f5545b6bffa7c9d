"""Why conversations end and rooms stop, and the words for it that people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

EndReason = Literal[
    "agreed",
    "round_limit",
    "too_few_spoke",
    "most_skipped",
    "chance",
    "nobody_opened",
    "channel_taken",
    "budget",  # no money is left for another turn
    "stopped",  # by a person
    "joined",  # a reactive round, or a single turn: those who were brought in have had their turns
    "too_old",  # to be resumed after a restart
    "repeating",  # in spite of new angles
    "nobody_named",  # by the person who moderates
    # of rooms
    "turn_limit",
    "too_few_left",
    "goodbye",
    "closed",  # by a person
    "paused",  # by a person
    "archived",
    "locked",
    "deleted",
    "no_access",
]
ENDINGS: Mapping[EndReason, str] = {
    "agreed": "the bots agreed to end it",
    "round_limit": "it had as many rounds as a conversation may have",
    "too_few_spoke": "only one bot had something to say",
    "most_skipped": "most bots had nothing to say",
    "chance": "by chance, which grows with each round",
    "nobody_opened": "no bot opened it",
    "channel_taken": "another conversation took the channel",
    "budget": "today's budget is used up",
    "stopped": "a person stopped it",
    "joined": "the bots that joined in have spoken",
    "too_old": "it was too old to be resumed",
    "repeating": "the bots repeated themselves",
    "nobody_named": "nobody said who speaks next",
    "turn_limit": "it had as many turns as it was opened for",
    "too_few_left": "fewer than two take part",
    "goodbye": "one of them said goodbye",
    "closed": "a person closed it",
    "paused": "a person paused it",
    "archived": "its thread was archived",
    "locked": "its thread was locked",
    "deleted": "its thread was deleted",
    "no_access": "the bots may no longer write in its thread",
}
PAUSES: frozenset[EndReason] = frozenset(
    {"paused", "stopped", "nobody_named", "archived", "locked", "deleted", "no_access"}
)
"""The reasons that pause a room; every other one closes it."""
