"""What an action gets and gives back, whatever the surface is on which a person uses it.

A surface (slash commands, commands as text in a chat, the console) makes an ActionRequest of what a person does, and
shows the Outcome. A form or a menu has an id, which comes back with what the person filled in or chose, as an action of
its own: the part of the id before the first colon names it, "form room" for the form "room:…".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agentic.agent.forgetting import IN_DISCORD
from agentic.agent.roster import RosterEntry, find, without_mentions
from agentic.agent.services import Services
from agentic.chat.service import Person
from agentic.personas.memory import MaySee
from agentic.rooms.opening import RoomOpener
from agentic.state.silence import ChannelRef

Surface = Literal["slash", "text", "console"]
Right = Literal["everyone", "moderator", "message_manager", "manager", "owner"]

OWNER = Person(0)  # who acts by the console
FORM, MENU = "form", "menu"  # actions that are not listed: a form that is submitted, a choice from a menu
REPLY_CHARACTERS = 2000  # of a reply in a message

MAX_FIELDS = 5  # Discord's limits for a form, as are the next four
FIELD_CHARACTERS = 4000
TITLE_CHARACTERS = 45
LABEL_CHARACTERS = 45
HINT_CHARACTERS = 100
MAX_CHOICES = 25  # of a menu
CHOICE_CHARACTERS = 100
_PART = "part"  # of a text that is split into fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """A person's request for an action: "bots mute" with {"bot": "grok", "minutes": 5}. `id` is the id of the
    interaction or message, or made from the time. If several processes get a request, its `source` is the same in all
    of them.

    An action from a message's menu has the message's id as `message`. A submitted form is "form" with the first part of
    the form's id; its values are the whole `id` and the texts of its fields. A choice from a menu is "menu" in the same
    way, and its values are `chosen`. A request from the console has no `place`.
    """

    id: int
    name: str
    who: Person
    surface: Surface = "slash"
    place: ChannelRef | None
    values: Mapping[str, Any] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()
    source: str = ""
    is_shared: bool = False  # others read the answer
    agent: str = ""  # who was asked, if the service sends a request to one agent

    @property
    def channel_id(self) -> int:
        return self.place.channel_id if self.place is not None else 0

    @property
    def guild_id(self) -> int | None:
        return self.place.guild_id if self.place is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of a form. `id` names its text in the answer and is never "id". `hint` is shown while the field is
    empty."""

    id: str
    label: str
    text: str = ""
    hint: str = ""
    long: bool = False  # several lines
    required: bool = False
    most: int = FIELD_CHARACTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    id: str
    title: str
    fields: tuple[FormField, ...]

    @property
    def text(self) -> str:
        return "\n".join(field.text for field in self.fields)


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of a menu. The answer has its `value`; `about` is a line below its label."""

    value: str
    label: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """A line with choices below it, of which the person picks `fewest` to `most`."""

    id: str
    text: str
    choices: tuple[Choice, ...]
    hint: str = ""
    fewest: int = 1
    most: int = 1


@dataclass(frozen=True, slots=True)
class File:
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an action. `code` goes into the record and is the key of the action's text, which `fields` fill.
    `detail` goes into the record. A form or menu is shown instead of the text, a file together with it."""

    code: str
    ok: bool = True
    fields: Mapping[str, Any] = field(default_factory=dict)
    reply: Form | Menu | File | None = None
    detail: str = ""
    more: str = ""  # a second message, with details
    is_public: bool = False  # everyone in the channel sees it, with the name of the person who asked
    is_delayed: bool = False  # bots of other processes learn of it when Redis is back
    is_recorded: bool = True  # False for what concerns the person alone


def done(code: str, *, detail: str = "", **fields: Any) -> Outcome:
    return Outcome(code=code, fields=fields, detail=detail)


def refused(code: str, reply: File | None = None, /, **fields: Any) -> Outcome:
    return Outcome(code=code, ok=False, fields=fields, reply=reply)


class ActionRefused(Exception):
    """Ends an action that can't be carried out, with its `outcome`."""

    def __init__(self, code: str, reply: File | None = None, /, **fields: Any) -> None:
        super().__init__(code)
        self.outcome = refused(code, reply, **fields)


def report(text: str = "", reply: Form | Menu | File | None = None) -> Outcome:
    """Show a text as it is, a form, a menu, or a text with a file."""
    return Outcome(code="report", fields={"text": text}, reply=reply)


class Place:
    """What a surface knows about channels and their people; this class knows nothing, as on a service without
    servers."""

    left_messages = IN_DISCORD  # what /forget me says of the messages themselves

    def guild_of(self, channel_id: int) -> int | None:
        return None

    def parent(self, channel_id: int) -> int | None:
        return None

    def may_see(self, here: int) -> MaySee:
        """Return a test for other channels: whether everybody who reads `here` may read them."""
        return lambda channel_id: channel_id == here

    async def with_names(self, text: str, here: int) -> str:
        """Return a text with names for the people, channels, roles, and emoji in it, as all readers of `here` may see
        them."""
        return text

    async def owners(self) -> Collection[int]:
        """Return the owners of the bots, in addition to OWNER_USER_IDS."""
        return ()

    def room_problem(self, channel_id: int, *, webhooks: bool) -> str | None:
        """Return why no room can be opened in a channel."""
        return self.opener.bot.room_problem(channel_id, webhooks=webhooks) if self.opener is not None else None

    def thread_problem(self, thread_id: int) -> str | None:
        """Return why a thread can't become a room."""
        return None

    @property
    def opener(self) -> RoomOpener | None:
        """Return what opens rooms; None if no bot of this process is online."""
        return None


@dataclass(frozen=True, slots=True)
class ActionContext:
    """What actions work with. `place` belongs to the surface."""

    services: Services
    place: Place

    def name_of(self, agent: str) -> str:
        return self.services.agents.roster.names.get(agent, agent)

    def without_mentions(self, text: str) -> str:
        return without_mentions(text, self.services.chats.directory.agent_of)

    def find_agent(self, written: str) -> RosterEntry | str:
        """Return the agent that people call by this name, or a sentence that says why there is none."""
        return find(tuple(self.services.agents.roster), self.without_mentions(written))

    def agent(self, written: str, code: str = "no_such_agent") -> RosterEntry:
        """Return the agent that people call by this name. Raises ActionRefused with the code."""
        found = self.find_agent(written)
        if isinstance(found, str):
            raise ActionRefused(code, why=found)
        return found

    def ref(self, channel_id: int, request: ActionRequest) -> ChannelRef:
        guild_id = request.guild_id if request.place is not None else self.place.guild_of(channel_id)
        return ChannelRef(channel_id, self.place.parent(channel_id), guild_id)

    def is_here(self, channel_id: int, request: ActionRequest) -> bool:
        """Return whether the channel is in the request's server. The console is in all servers. A channel that the bot
        can't see may be in another one."""
        if request.place is None:
            return True
        guild_id, guilds = self.place.guild_of(channel_id), self.services.chats.scope.guild_ids
        if guild_id is None:
            return channel_id == request.channel_id or (request.guild_id is not None and guilds == {request.guild_id})
        return guild_id == request.guild_id


def text_form(form_id: str, title: str, text: str) -> Form:
    """Return a form to edit one text, split into fields between lines. Raises ValueError if the text is too long."""
    parts = tuple(_parts(text)) or ("",)
    if len(parts) > MAX_FIELDS:
        raise ValueError(f"a form has at most {MAX_FIELDS} fields of {FIELD_CHARACTERS} characters")
    label = "Text" if len(parts) == 1 else f"Text, part {{}} of {len(parts)}"
    fields = (
        FormField(id=f"{_PART}{number}", label=label.format(number), text=part, long=True)
        for number, part in enumerate(parts, 1)
    )
    return Form(id=form_id, title=title, fields=tuple(fields))


def read_text(values: Mapping[str, object]) -> str:
    parts = (values.get(f"{_PART}{number}") for number in range(1, MAX_FIELDS + 1))
    return "\n".join(str(part) for part in parts if part is not None)


def _parts(text: str) -> Iterator[str]:
    lines: list[str] = []
    size = 0
    for line in text.split("\n"):
        if len(line) > FIELD_CHARACTERS:
            raise ValueError(f"a line has more than {FIELD_CHARACTERS} characters")
        if lines and size + len(line) + 1 > FIELD_CHARACTERS:
            yield "\n".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line) + (1 if len(lines) > 1 else 0)
    yield "\n".join(lines)


def give_back(refusal: Outcome, values: Mapping[str, Any], name: str) -> Outcome:
    """Attach everything that was written in a form to its refusal, as a file of that name, so that nothing is lost."""
    written = "\n\n".join(f"{field}:\n{text}" for field, text in values.items() if field != "id")
    return replace(refusal, reply=File(name, written))
