"""Triggers: whether and how a person's message calls this agent. Pure.

People call an agent by mentioning it, by mentioning the bots' role, or by replying to one of its messages, in the
channels in scope and their threads. With the option `answer_all` a person's message that is for nobody else calls one
agent, too. For messages of our other agents see bot_mentions.py; those of foreign bots and webhooks call nobody.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from enum import Enum

from agent_chat.incoming import IncomingMessage


class Call(Enum):
    """How a person calls an agent."""

    MENTION = "mention"
    ROLE = "role"
    REPLY = "reply"
    ALL = "all"  # it names nobody, and the agent answers everything there


@dataclass(frozen=True, slots=True)
class Ignored:
    """Users and roles whose messages call nobody; `also` are the users that are ignored by command, as of now."""

    users: frozenset[int] = frozenset()
    roles: frozenset[int] = frozenset()
    also: Container[int] = ()

    def __contains__(self, heard: IncomingMessage) -> bool:
        if heard.author_id in self.users or heard.author_id in self.also:
            return True
        return not self.roles.isdisjoint(heard.author_roles)


def called(heard: IncomingMessage, *, me: int, my_role: int | None, bots_role: int | None) -> Call | None:
    """How the message calls the bot with user id `me`, None when it does not. `my_role` is the bot's managed role."""
    if not heard.by_person or heard.author_id == me:
        return None
    if heard.guild_id is None and not heard.group:  # a direct message has one reader
        return Call.MENTION
    if me in heard.mentioned_users:
        return Call.REPLY if heard.replied_to == me else Call.MENTION
    if my_role is not None and my_role in heard.mentioned_roles:
        return Call.MENTION
    if heard.replied_to == me:
        return Call.REPLY
    if bots_role is not None and bots_role in heard.mentioned_roles:
        return Call.ROLE
    return None
