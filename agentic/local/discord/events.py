"""Events of the gateway, and the intents that a bot needs to receive them.

https://discord.com/developers/docs/events/gateway#list-of-intents
"""

import json
from dataclasses import dataclass, field
from typing import Any

from agentic.local.discord import message_payloads
from agentic.local.discord.world import Channel

GUILDS, GUILD_MEMBERS, GUILD_WEBHOOKS, GUILD_PRESENCES = 1 << 0, 1 << 1, 1 << 5, 1 << 8
GUILD_MESSAGES, GUILD_REACTIONS, GUILD_TYPING = 1 << 9, 1 << 10, 1 << 11
DIRECT_MESSAGES, DIRECT_REACTIONS, DIRECT_TYPING = 1 << 12, 1 << 13, 1 << 14
MESSAGE_CONTENT = 1 << 15

_PREFIXES = (  # (beginning of the event's name, intent in a guild, intent in a DM); the first that fits counts
    ("MESSAGE_REACTION_", GUILD_REACTIONS, DIRECT_REACTIONS),
    ("MESSAGE_", GUILD_MESSAGES, DIRECT_MESSAGES),
    ("TYPING_START", GUILD_TYPING, DIRECT_TYPING),
    ("CHANNEL_PINS_UPDATE", GUILDS, DIRECT_MESSAGES),
    ("GUILD_MEMBER_", GUILD_MEMBERS, 0),
    ("PRESENCE_UPDATE", GUILD_PRESENCES, 0),
    ("WEBHOOKS_UPDATE", GUILD_WEBHOOKS, 0),
    ("INTERACTION_CREATE", 0, 0),
    ("", GUILDS, 0),
)
_WITH_MESSAGE = frozenset({"MESSAGE_CREATE", "MESSAGE_UPDATE"})
_FOR_ALL_MEMBERS = ("GUILD_", "CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE", "WEBHOOKS_UPDATE")


def intent_of(name: str, in_guild: bool) -> int:
    """The intent bit that an event needs; 0 for one that everybody gets."""
    return next(guild if in_guild else direct for prefix, guild, direct in _PREFIXES if name.startswith(prefix))


@dataclass(slots=True)
class Event:
    """guild_id is None for DMs; channel is set where hearing of it depends on seeing that channel; only names a
    single bot.
    """

    name: str
    data: dict[str, Any]
    guild_id: int | None = None
    channel: Channel | None = None
    only: int | None = None
    intent: int = field(init=False)
    _whole: str | None = field(init=False, default=None)
    _emptied: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.intent = intent_of(self.name, self.guild_id is not None)

    @property
    def needs_view(self) -> bool:
        """Whether the event is only for members that may view the channel. Events of channels go to all members."""
        return self.channel is not None and not self.name.startswith(_FOR_ALL_MEMBERS)

    def json_for(self, viewer_id: int, intents: int) -> str:
        """The event's data as JSON text for one bot. Encoded at most twice, however many bots there are."""
        if intents & MESSAGE_CONTENT or self.guild_id is None or self.name not in _WITH_MESSAGE:
            return self._encoded()
        seen = message_payloads.without_content(self.data, viewer_id)
        if seen is self.data:
            return self._encoded()
        if self.data.get("referenced_message"):  # what is left of it differs from bot to bot
            return json.dumps(seen, separators=(",", ":"))
        if self._emptied is None:
            self._emptied = json.dumps(seen, separators=(",", ":"))
        return self._emptied

    def _encoded(self) -> str:
        if self._whole is None:
            self._whole = json.dumps(self.data, separators=(",", ":"))
        return self._whole
