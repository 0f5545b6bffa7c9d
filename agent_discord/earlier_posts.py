"""Posts that stand in a channel already: an earlier run made them and died before it could say so.

Discord knows a repeated post by its nonce for some minutes only, so a turn that goes on looks for its own posts first.
One that was still growing bears a mark at its end, and is gone on with, whatever the answer is now.
"""

from __future__ import annotations

from collections.abc import Iterable

import discord

from agent_discord.convert import shown_text
from agent_discord.mentions import clean_name, to_names
from agent_discord.unfinished import unfinished


class EarlierPosts:
    """A bot's own messages, each of which can be one post of the turn."""

    def __init__(self, messages: Iterable[discord.Message]) -> None:
        self._messages = sorted(messages, key=lambda message: message.id)

    def take(self, text: str | None, nonce: str) -> discord.Message | None:
        """The message that is this post; None when it was not made. Without a text it is a picture alone."""
        for message in self._messages:
            if str(message.nonce) == nonce or _same(message, text):
                self._messages.remove(message)
                return message
        if text is not None:
            return self.take_unfinished()
        return None

    def take_unfinished(self) -> discord.Message | None:
        """The first message that was left while it grew."""
        for message in self._messages:
            if unfinished(message.content):
                self._messages.remove(message)
                return message
        return None


def _same(message: discord.Message, text: str | None) -> bool:
    """A mention may have been written with other names: both are compared as people see them."""
    if text is None:
        return not message.content and bool(message.attachments)
    people = {user.id: clean_name(user.display_name) for user in message.mentions}
    return text.strip() in (message.content.strip(), shown_text(message).strip()) or (
        to_names(text, people, {}, {}).strip() == shown_text(message).strip()
    )
