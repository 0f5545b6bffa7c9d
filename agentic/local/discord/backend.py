"""The world with its events: every change goes through Backend, and its listeners are notified.

Listeners get each event immediately and in order. Also here: interactions under way, with the menus and forms that a
bot shows in its answers.

https://discord.com/developers/docs/events/gateway#list-of-intents
https://discord.com/developers/docs/components/reference
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentic.local.discord.world import Attachment, Channel, Message, World

Json = dict[str, Any]
Filled = str | Sequence[str]
"""What a person puts into a field of a form: a text, or the chosen values of a menu."""

ROW, MENU = 1, 3  # types of components
MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE, COMPLETION, MODAL = 4, 5, 6, 7, 8, 9  # types of a first answer
EPHEMERAL = 1 << 6

GUILDS, GUILD_MEMBERS, GUILD_WEBHOOKS = 1 << 0, 1 << 1, 1 << 5
GUILD_MESSAGES, GUILD_REACTIONS, GUILD_TYPING = 1 << 9, 1 << 10, 1 << 11
DIRECT_MESSAGES, DIRECT_REACTIONS, DIRECT_TYPING = 1 << 12, 1 << 13, 1 << 14
MESSAGE_CONTENT = 1 << 15

TOKEN_SECONDS = 15 * 60
ANSWER_SECONDS = 3.0
NONCE_SECONDS = 300.0
_MAX_NONCES = 10_000

_INTENTS = (  # (beginning of the event's name, intent in a guild, intent in a DM); the first that fits counts
    ("MESSAGE_REACTION_", GUILD_REACTIONS, DIRECT_REACTIONS),
    ("MESSAGE_", GUILD_MESSAGES, DIRECT_MESSAGES),
    ("TYPING_START", GUILD_TYPING, DIRECT_TYPING),
    ("CHANNEL_PINS_UPDATE", GUILDS, DIRECT_MESSAGES),
    ("GUILD_MEMBER_", GUILD_MEMBERS, 0),
    ("WEBHOOKS_UPDATE", GUILD_WEBHOOKS, 0),
    ("INTERACTION_CREATE", 0, 0),
    ("", GUILDS, 0),
)
_FOR_ALL_MEMBERS = ("GUILD_", "CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE", "WEBHOOKS_UPDATE")


class Backend:
    """The world, and what REST remembers besides it: attachments by id, nonces, interactions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = world.clock
        self.history_limit = 2000  # messages that a channel keeps; the oldest are removed first
        self.attachments: dict[int, Attachment] = {}
        self.interactions: dict[str, Interaction] = {}  # by token
        self.listeners: list[Callable[[Event], None]] = []
        self._nonces: OrderedDict[tuple[int, str], tuple[float, int, int]] = OrderedDict()

    def emit(
        self,
        name: str,
        data: dict[str, Any],
        channel: Channel | None = None,
        *,
        guild_id: int | None = None,
        only: int | None = None,
    ) -> None:
        """Publish an event. guild_id is only needed without a channel; `only` names the only bot that gets it."""
        event = Event(name, data, channel.guild_id if channel is not None else guild_id, channel, only)
        for listener in self.listeners:
            listener(event)

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
            for answer in expired.hidden.values():
                for file in answer.get("attachments") or ():
                    self.attachments.pop(int(file["id"]), None)
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
        while len(self._nonces) > _MAX_NONCES:
            self._nonces.popitem(last=False)


@dataclass(slots=True)
class Event:
    """An event of the gateway. guild_id is None for DMs. If channel is set, only members who may view it get the event;
    if `only` is set, only this bot.
    """

    name: str
    data: dict[str, Any]
    guild_id: int | None = None
    channel: Channel | None = None
    only: int | None = None
    intent: int = field(init=False)
    """The intent bit that the event needs; 0 for one that everybody gets."""

    def __post_init__(self) -> None:
        guild, direct = next(intents for prefix, *intents in _INTENTS if self.name.startswith(prefix))
        self.intent = direct if self.guild_id is None else guild

    @property
    def needs_view(self) -> bool:
        """Whether the event is only for members that may view the channel. Events of channels go to all members."""
        return self.channel is not None and not self.name.startswith(_FOR_ALL_MEMBERS)


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
        if self.callback is None or self.callback["type"] != COMPLETION:
            return None
        return [choice["value"] for choice in self.callback["data"]["choices"]]

    @property
    def menu(self) -> dict[str, Any] | None:
        """The first menu of its newest answer."""
        rows = self.answers[-1].get("components") or () if self.answers else ()
        shown = (one for row in rows if row["type"] == ROW for one in row["components"])
        return next((one for one in shown if one["type"] == MENU), None)

    @property
    def done(self) -> bool:
        """Whether the person has something to read or to fill in."""
        return bool(self.answers) or self.form is not None

    @property
    def deferred(self) -> bool:
        return self.callback is not None and self.callback["type"] == DEFERRED_MESSAGE


def menu_data(menu: Json, values: Sequence[str]) -> Json:
    """The data of a choice from a menu. Raises ValueError for one that Discord would not let a person make."""
    _check(menu, values)
    return {"custom_id": menu["custom_id"], "component_type": menu["type"], "values": list(values)}


def fields(form: Mapping[str, Any]) -> list[Json]:
    """The fields of a form in their order: inputs and menus, each with its label."""
    return [
        {**field, "label": field.get("label") or row.get("label") or ""}
        for row in form["components"]
        for field in _inner(row)
    ]


def form_data(form: Mapping[str, Any], values: Sequence[Filled]) -> Json:
    """The data of a submitted form, its fields filled in order. Raises ValueError if Discord would not take it."""
    if len(values) != len(fields(form)):
        raise ValueError(f"the form has {len(fields(form))} fields")
    left = iter(values)
    rows = []
    for row in form["components"]:
        filled = [_fill_field(field, next(left)) for field in _inner(row)]
        content = {"component": filled[0]} if "component" in row else {"components": filled}
        rows.append({"type": row["type"], **content})
    return {"custom_id": form["custom_id"], "components": rows}


def _fill_field(field: Json, value: Filled) -> Json:
    given = {key: field[key] for key in ("type", "custom_id")}
    if field["type"] == MENU:
        chosen = [value] if isinstance(value, str) else list(value)
        _check(field, chosen)
        return {**given, "values": chosen}
    text = str(value)
    if field.get("required", True) and not text:
        raise ValueError(f"{field.get('label') or field['custom_id']} is required")
    if len(text) > field.get("max_length", 4000):
        raise ValueError(f"{field.get('label') or field['custom_id']} has at most {field['max_length']} characters")
    return {**given, "value": text}


def _inner(row: Json) -> list[Json]:
    """Return the components of a row, or the single one of a label; none for a text."""
    if "component" in row:
        return [row["component"]]
    return list(row.get("components") or ())


def _check(menu: Json, values: Sequence[str]) -> None:
    known = [option["value"] for option in menu.get("options", ())]
    fewest, most = menu.get("min_values", 1), menu.get("max_values", 1)
    unknown = [value for value in values if value not in known]
    if unknown:
        raise ValueError(f"{unknown[0]} is not one of {', '.join(known)}")
    if not fewest <= len(set(values)) <= most:
        raise ValueError(f"choose {fewest}" if fewest == most else f"choose {fewest} to {most}")
