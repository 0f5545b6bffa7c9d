"""The world with its events: every change goes through here, and listeners are notified.

Listeners get each event immediately and in order (the gateway is one); watchers are called after every event and every
request.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentic.local.discord.discord_interactions import TOKEN_SECONDS, Interaction
from agentic.local.discord.events import Event
from agentic.local.discord.world import Attachment, Channel, Message, World

NONCE_SECONDS = 300.0
_NONCES_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class TypingEvent:
    bot: str | None  # key of the bot, None for a person
    user_id: int
    channel_id: int
    time: float


class Backend:
    """The world, and what REST remembers besides it: attachments by id, nonces, interactions, typing.

    history_limit is the number of messages that a channel keeps; the oldest are removed first.
    """

    def __init__(self, world: World, *, history_limit: int = 2000) -> None:
        self.world = world
        self.clock = world.clock
        self.history_limit = history_limit
        self.attachments: dict[int, Attachment] = {}
        self.interactions: dict[str, Interaction] = {}  # by token
        self.typing_events: deque[TypingEvent] = deque(maxlen=2000)
        self.listeners: list[Callable[[Event], None]] = []
        self.watchers: list[Callable[[], None]] = []
        self._nonces: OrderedDict[tuple[int, str], tuple[float, int, int]] = OrderedDict()

    def emit(
        self, name: str, data: dict[str, Any], channel: Channel | None = None, *, guild_id: int | None = None
    ) -> None:
        """Publish an event. guild_id is only needed without a channel."""
        self.publish(Event(name, data, channel.guild_id if channel is not None else guild_id, channel))

    def publish(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)
        self.changed()

    def changed(self) -> None:
        for watcher in list(self.watchers):
            watcher()

    def remember(self, channel: Channel, message: Message) -> None:
        """Add a new message to its channel; beyond history_limit drop the oldest with its files."""
        channel.messages[message.id] = message
        channel.last_message_id = message.id
        for attachment in message.attachments:
            self.attachments[attachment.id] = attachment
        while len(channel.messages) > self.history_limit:
            self.forget(channel, next(iter(channel.messages)))

    def forget(self, channel: Channel, message_id: int) -> None:
        for attachment in channel.messages.pop(message_id).attachments:
            self.attachments.pop(attachment.id, None)

    def remember_interaction(self, interaction: Interaction) -> None:
        """Keep it by its token; drop those whose token has expired, with the files of their hidden answers."""
        oldest = self.clock() - TOKEN_SECONDS
        for expired in [one for one in self.interactions.values() if one.created < oldest]:
            del self.interactions[expired.token]
            for file in expired.hidden_files():
                self.attachments.pop(file, None)
        self.interactions[interaction.token] = interaction

    def message_of_nonce(self, author_id: int, nonce: str) -> Message | None:
        """The message that this author posted with this nonce within the last minutes, if it still exists."""
        posted = self._nonces.get((author_id, nonce))
        if posted is None or self.clock() - posted[0] > NONCE_SECONDS:
            return None
        channel = self.world.find_channel(posted[1])
        return channel.messages.get(posted[2]) if channel else None

    def remember_nonce(self, author_id: int, nonce: str, message: Message) -> None:
        self._nonces[author_id, nonce] = (self.clock(), message.channel_id, message.id)
        while len(self._nonces) > _NONCES_KEPT:
            self._nonces.popitem(last=False)
