"""Triggers: whether and how a person's message calls this agent. Pure.

People call an agent by mentioning it, by mentioning the bots' role, or by replying to one of its messages, in the
channels in scope and their threads. With the option `answer_all` a person's message that is for nobody else calls one
agent, too. For messages of our other agents see bot_mentions.py; those of foreign bots and webhooks call nobody.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Container
from dataclasses import dataclass
from enum import Enum

from agentic.chat.service import IncomingMessage
from agentic.context.entries import Entry

_BLANKS = frozenset("\u2800\u3164\u115f\u1160\uffa0")  # letters and signs that look like a space


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


def says_nothing(asked: Entry, heard: IncomingMessage, call: Call | None) -> bool:
    """Whether a message that needs no mention says nothing at all: spaces, characters that nobody sees, an empty quote.
    A mention alone does say something: that somebody wants an answer to what was said before."""
    needs_no_mention = heard.is_private or call is Call.ALL or (heard.group and call is Call.REPLY)
    if asked.attachments or asked.extras or not needs_no_mention:
        return False
    return all(char == ">" or char.isspace() or not _is_seen(char) for char in asked.text)


def _is_seen(char: str) -> bool:
    return char not in _BLANKS and unicodedata.category(char) not in ("Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Zs")


def called(heard: IncomingMessage, *, me: int, bots_role: int | None) -> Call | None:
    """How the message calls the bot with user id `me`, None when it does not."""
    if not heard.by_person or heard.author_id == me:
        return None
    if heard.is_private:
        return Call.MENTION
    if me in heard.mentioned_users:
        return Call.REPLY if heard.replied_to == me else Call.MENTION
    if heard.replied_to == me:
        return Call.REPLY
    if bots_role is not None and bots_role in heard.mentioned_roles:
        return Call.ROLE
    return None
