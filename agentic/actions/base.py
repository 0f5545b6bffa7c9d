"""What an action gets and gives back: a request of the console's page, or a command of a person in a chat.

A form or a menu has an id, which comes back with what the person filled in or chose, as a command of its own: the part
of the id before the first colon names it, "form room" for the form "room:…".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from agentic.agent.roster import Called, nearest
from agentic.chat.directory import clean_name
from agentic.chat.service import Person
from agentic.state.silence import ChannelRef, Kind, Scope
from agentic.text import named

FORM, MENU = "form", "menu"  # commands that are not listed: a form that is submitted, a choice from a menu
WHY = "Why?"  # the command of a message's menu
MAX_STOP_MINUTES, MAX_MUTE_MINUTES, MAX_ARENA_MINUTES = 24 * 60, 7 * 24 * 60, 60
MUTE_MINUTES = 60  # if nothing else is asked for
MAX_BACK = 10  # changes in a file's history
MAX_NAMES = 400  # characters: the members of a room
MAX_SLOT = 3600  # seconds in which a room is open to its audience
ARCHIVES = {"60": "after an hour", "1440": "after a day", "4320": "after three days", "10080": "after a week"}
MAX_VALUE = 1_000  # characters, of an option
POLICY_TEXTS = {
    "round-robin": "in turn, in the order given",
    "pull": "the one to whom the talk is closest",
    "moderated": "the moderator names the next; without one, you do",
    "rounds": "in rounds, in a different order each",
}
MAX_NAMED = 25  # values that are listed
UNKNOWN = "This command is out of date. Discord refreshes its list within an hour; please try again then."
PAUSED = "All bots are paused. Use /bots resume first."
ONLY_HERE = "The shared storage (Redis) is unavailable: bots in other processes learn of this when it is back."

MAX_FIELDS = 5  # Discord's limits for a form, as are the next five
FIELD_CHARACTERS = 4000
TITLE_CHARACTERS = 45
LABEL_CHARACTERS = 45
HINT_CHARACTERS = 100
ID_CHARACTERS = 100
MAX_CHOICES = 25  # of a menu
CHOICE_CHARACTERS = 100
_PART = "part"  # of a text that is split into fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """A command as a person used it: "bots mute" with {"bot": "grok", "minutes": 5}. `id` is the interaction's.

    Ids in `values` are texts, as Discord sends them; a command from a message's menu has the message's id as `message`.
    A form that was submitted is the command "form" with the first part of the form's id; the values are its whole `id`
    and the texts of its fields. A choice from a menu is the command "menu" in the same way, its values are `chosen`.
    `acts_everywhere`: the person owns the bots, or manages their only server, so a pause, a mute, and an ignored person
    apply everywhere; those of other managers apply in their server.
    """

    id: int
    name: str
    who: Person
    channel_id: int
    guild_id: int | None
    parent_id: int | None = None
    values: Mapping[str, str | int] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()
    acts_everywhere: bool = False

    @property
    def place(self) -> ChannelRef:
        return ChannelRef(self.channel_id, self.parent_id, self.guild_id)

    def scopes(self, kind: Kind, subject: int | str = "") -> list[Scope]:
        """What this person silences, and may resume: first the scope of a new order, the owner's without a server."""
        guilds = (None, self.guild_id) if self.acts_everywhere else (self.guild_id,)
        return [Scope(kind, subject, guild) for guild in dict.fromkeys(guilds)]

    @property
    def where(self) -> str:
        """Where such an order applies."""
        return "in every channel" if self.acts_everywhere else "in this server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A command that is being typed: `option` has the beginning of a text, for which choices are shown."""

    command: ActionRequest
    option: str
    typed: str


@dataclass(frozen=True, slots=True)
class CommandReply:
    """A text reply. `public`: everyone in the channel sees it, with the name of the person who used the command.
    `file`: name and text of an attachment."""

    text: str
    public: bool = False
    file: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of a form. `id` names its text in what comes back; it is never "id". `hint` is shown while it is
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
    """Up to five fields to fill in."""

    id: str
    title: str
    fields: tuple[FormField, ...]

    @property
    def text(self) -> str:
        return "\n".join(field.text for field in self.fields)


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of a menu. `value` comes back; `about` is a line below its label."""

    value: str
    label: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """A line with choices below it, of which the person takes `fewest` to `most`."""

    id: str
    text: str
    choices: tuple[Choice, ...]
    hint: str = ""
    fewest: int = 1
    most: int = 1


Response = str | CommandReply | Form | Menu
Handle = Callable[[ActionRequest], Awaitable[Response]]
Complete = Callable[[Completion], Awaitable[Sequence[Choice]]]
IsHere = Callable[[int, ActionRequest], bool]  # whether a channel is in the server of the command


class Request(BaseModel):
    """The body of an action. `id` is the click's: the same click twice is one action."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    id: str
    channel: str | None = Field(default=None, max_length=20)
    agent: str | None = Field(default=None, max_length=100)
    theme: str | None = None
    topic: str | None = None
    minutes: int | None = None
    at: float | None = None  # unix seconds: the scheduled time that is meant
    time: str | None = None  # HH:MM, in the owner's time zone
    scope: str | None = None  # all, agent:{name}, channel:{id}
    dollars: float | None = None
    personas: list[str] | None = Field(default=None, max_length=50)  # those who take part in a room, by key
    policy: str | None = None
    turns: int | None = None
    archive: int | None = None  # minutes
    audience: int | None = None  # seconds
    goodbye_ends: bool | None = None
    rules: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The end of an action. `outcome` is a word for the record, `text` a line for the owner."""

    outcome: str
    text: str
    detail: str = ""


Act = Callable[[Request], Awaitable[Done]]


async def no_choices(_: Completion) -> Sequence[Choice]:
    return ()


def give_back(reason: str, values: Mapping[str, str], file: str) -> CommandReply:
    """The reason, with all that was written in a form, which would be lost, as a file of that name."""
    written = "\n\n".join(f"{name}:\n{text}" for name, text in values.items() if name != "id")
    return CommandReply(reason, file=(file, written))


def text_form(form_id: str, title: str, text: str) -> Form:
    """A form to edit one text, split into fields between lines. Raises ValueError if it does not fit."""
    parts = tuple(_parts(text)) or ("",)
    if len(parts) > MAX_FIELDS:
        raise ValueError(f"a form holds {MAX_FIELDS} fields of {FIELD_CHARACTERS} characters")
    label = "Text" if len(parts) == 1 else f"Text, part {{}} of {len(parts)}"
    fields = (
        FormField(id=f"{_PART}{number}", label=label.format(number), text=part, long=True)
        for number, part in enumerate(parts, 1)
    )
    return Form(id=form_id, title=title, fields=tuple(fields))


def read_text(values: Mapping[str, object]) -> str:
    """The text of such a form that came back."""
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


def agent_in(command: ActionRequest, names: Mapping[str, str]) -> str | None:
    """Return the agent that the option names, by its key or as people call it; None if there is no such agent."""
    return agent_named(_agent_option(command), names)


def agent_named(written: str, names: Mapping[str, str]) -> str | None:
    if written in names:
        return written
    found = named(names, written)
    return found[0] if len(found) == 1 else None


def unknown_agent(command: ActionRequest, names: Mapping[str, str]) -> str:
    return unknown_value("agent", _agent_option(command), [*names.values()])


def unknown_value(kind: str, written: str, known: Sequence[str]) -> str:
    """Return the line for a value that an option does not have: what was meant perhaps, and what there is."""
    close = nearest([Called(name, name) for name in known], written)
    meant = f" Did you mean {close}?" if close else ""
    there_are = f" There are: {', '.join(known[:MAX_NAMED])}{', …' if len(known) > MAX_NAMED else ''}." if known else ""
    return f"There is no {kind} called “{clean_name(written)}”.{meant}{there_are}"


def _agent_option(command: ActionRequest) -> str:
    return str(command.values.get("agent") or command.values.get("bot", ""))


def confirm(text: str, everywhere: bool) -> str:
    """The reply to an order, with a line where it does not reach the bots of other processes yet."""
    return text if everywhere else f"{text} {ONLY_HERE}"
