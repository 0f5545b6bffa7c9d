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
    "cooldown": "the agent has just spoken in the channel",
    "daily_limit": "the agent's turns of the day are used up, or those that are not for people",
    "budget": "the day's money for all agents or for the channel is used up, or nearly so",
    "agent_budget": "the agent's money of the day is used up",
    "person_budget": "what the person may bring about in a day is used up",
    "idle_budget": "the share of the day's money for what agents do while nobody writes is used up",
    "too_often": "the person has called too often in the last minute",
    "benched": "the provider refused the agent three times in a row, it rests",
    "muted": "a person with the right to do so muted the agent",
    "superseded": "another message of the person was answered instead of this one, or together with it",
    "withdrawn": "the message to answer was deleted or hidden",
    "busy": "too many events wait already",
    "deadline": "the time was up",
    "invalid": "the instruction could not be read",
    "unknown_action": "an action that this agent does not know",
    "unknown_channel": "a channel that the bot does not see",
    "not_permitted": "the bot may not write there",
    "not_ours": "another process has taken the agent over",
    "discord_failed": "Discord did not take the post",
    "signal_failed": "Signal did not take the post",
    "model_failed": "the model or its provider failed",
    "session_lost": "a coding agent's session could not be continued",
    "refused": "the model declined to answer",
    "unreadable": "the model's answer held no decision",
    "picture_failed": "only a picture was wanted, and it could not be drawn",
    "reaction_failed": "only a reaction was wanted, and Discord did not take it",
    "stopped": "a person stopped the bots in the channel, or everywhere",
    "overtaken": "a person spoke while the agent was thinking",
    "not_new": "what it would have said unasked was said before",
    "edited": "a message that it would have been about, unasked, was edited meanwhile",
    "unwanted": "the person that it is for wants no messages that nobody asked for",
    "person_wrote": "a person wrote, so what the agent does while nobody writes ended",
    "out_of_turn": "in a room: its turn was not the next one, or no longer, or the room is not active",
    "interrupted": "an earlier run of the program ended in the middle of this turn",
    "internal_error": "a fault of the program, see its log",
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
# The reasons that pause a room; every other one closes it.
PAUSES: frozenset[EndReason] = frozenset(
    {"paused", "stopped", "nobody_named", "archived", "locked", "deleted", "no_access"}
)
