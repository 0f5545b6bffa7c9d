"""Names in a bot's text → Discord's markup, by the names in its channel and guild.

The reverse of messages.shown_text. Markup alone pings nobody: the gate sets the allowed mentions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import discord

from agentic.chat.directory import Directory
from agentic.chat.transcript import Transcript
from agentic.services.discord.channels import Channel, guild_of
from agentic.services.discord.mentions import emoji_from_names, from_names


def user_ids(directory: Directory, *names: Mapping[str, str]) -> dict[str, int]:
    """Agents' names → user ids, from names by key; those of agents without an account are left out."""
    ids = {name: directory.id_of(agent) for given in names for agent, name in given.items()}
    return {name: user_id for name, user_id in ids.items() if user_id is not None}


class NameMarkup:
    """The names that are known in one channel. `agents` maps agents' names to their user ids."""

    def __init__(self, channel: Channel, transcript: Transcript, agents: Mapping[str, int]) -> None:
        self._channel, self._guild = channel, guild_of(channel)
        self._transcript, self._agents = transcript, agents

    def to_markup(self, text: str) -> str:
        """`@Name`, `@role`, `#channel` and `:emoji:` as markup; unknown names stay as they are."""
        if "@" in text:
            text = from_names(text, self._people())
            text = from_names(text, self._roles(), markup="<@&{}>")
        if "#" in text:
            text = from_names(text, self._channels(), "#", "<#{}>")
        if ":" in text:
            text = emoji_from_names(text, self._emoji())
        return text

    def _people(self) -> set[tuple[str, int]]:
        """Names with user ids. A person has each name that the transcript holds: the gateway brings a nickname, the
        history may bring another one. An agent's name is the agent's, even where a person has taken it.
        """
        taken = {name.lower() for name in self._agents}
        speakers = {entry.speaker for entry in self._transcript.entries() if entry.speaker.id and not entry.webhook}
        others = {(who.name, who.id) for who in speakers if who.agent or who.name.lower() not in taken}
        return set(self._agents.items()) | others

    def _roles(self) -> Iterator[tuple[str, int]]:
        if self._guild is None:
            return iter(())
        return ((role.name, role.id) for role in self._guild.roles if role.id != self._guild.id)  # not @everyone

    def _channels(self) -> Iterator[tuple[str, int]]:
        """The channels that the bot sees."""
        if self._guild is None:
            return
        for channel in (*self._guild.channels, *self._guild.threads):
            if channel.permissions_for(self._guild.me).view_channel:
                yield channel.name, channel.id

    def _emoji(self) -> dict[str, str]:
        if self._guild is None:
            return {}
        usable: list[discord.GuildEmoji] = [emoji for emoji in reversed(self._guild.emojis) if emoji.available]
        return {emoji.name: str(emoji) for emoji in usable}
