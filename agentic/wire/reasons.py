"""Why turns post nothing, and why conversations end and rooms stop, with the words for it that people read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal


class TurnAborted(Exception):
    """The turn ends here, for one of REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


REASONS: Mapping[str, str] = {
    "skipped": "the model chose to stay silent",
    "cooldown": "the bot had just spoken in the channel",
    "daily_limit": "the bot's turns for today are used up, or the rest are reserved for people",
    "budget": "today's budget for all bots or for the channel is used up, or nearly so",
    "agent_budget": "the bot's budget for today is used up",
    "person_budget": "the daily budget of the person, or of the debates that members propose, is used up",
    "idle_budget": "the share of today's budget for background tasks is used up",
    "too_often": "the person mentioned bots too often in the last minute",
    "benched": "the AI provider rejected the bot's requests three times in a row, so the bot is taking a break",
    "muted": "someone muted the bot",
    "superseded": "the bot answered another message from the same person instead, or both at once",
    "withdrawn": "the message to answer was deleted or hidden",
    "busy": "too many events were already waiting, or the bot's model server was busy with other turns",
    "deadline": "the bot ran out of time",
    "invalid": "the instruction couldn't be read",
    "unknown_action": "the bot doesn't know this action",
    "unknown_channel": "the bot can't see the channel",
    "not_permitted": "the bot isn't allowed to write in the channel",
    "not_ours": "another process has taken over the bot",
    "discord_failed": "Discord didn't accept the post",
    "signal_failed": "Signal didn't accept the post",
    "model_failed": "the model or its provider failed",
    "session_lost": "the coding agent's session was lost",
    "refused": "the model declined to answer",
    "unreadable": "the model's answer couldn't be read, or repeated a message",
    "picture_failed": "the bot only wanted to post a picture, and it couldn't be made",
    "reaction_failed": "the bot only wanted to react, and Discord didn't accept the reaction",
    "stopped": "someone stopped the bots in the channel, or paused all of them",
    "overtaken": "a person wrote while the bot was thinking",
    "not_new": "the bot's unprompted message wouldn't have been new",
    "edited": "the message that the bot wanted to write about was edited in the meantime",
    "unwanted": "the person doesn't want unprompted messages",
    "person_wrote": "a person wrote, so the background task ended",
    "out_of_turn": "in a room, it wasn't the bot's turn, or the room wasn't active",
    "interrupted": "the program stopped in the middle of this turn",
    "internal_error": "the program had an error, which is in its log",
}


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
    "person_budget",  # nor of the person who opened it, or of proposed debates
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
    "round_limit": "it reached the maximum number of rounds",
    "too_few_spoke": "only one bot had something to say",
    "most_skipped": "most bots had nothing to say",
    "chance": "by chance, which gets more likely with each round",
    "nobody_opened": "no bot started it",
    "channel_taken": "another conversation took the channel",
    "budget": "today's budget is used up",
    "stopped": "a person stopped it",
    "joined": "the bots that joined in have spoken",
    "too_old": "it was too old to resume",
    "repeating": "the bots repeated themselves",
    "nobody_named": "nobody said who speaks next",
    "person_budget": "the daily budget of the person who opened it, or of proposed debates, is used up",
    "turn_limit": "it used all of its turns",
    "too_few_left": "fewer than two members are left",
    "goodbye": "a member said goodbye",
    "closed": "a person closed it",
    "paused": "a person paused it",
    "archived": "its thread was archived",
    "locked": "its thread was locked",
    "deleted": "its thread was deleted",
    "no_access": "the bots can no longer write in its thread",
}
# The reasons that pause a room; every other one closes it.
PAUSES: frozenset[EndReason] = frozenset(
    {"paused", "stopped", "nobody_named", "archived", "locked", "deleted", "no_access"}
)
