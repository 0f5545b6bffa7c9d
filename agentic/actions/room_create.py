"""`/room create`, and opening a room from the console: what is asked for, who takes part, and the opening.

What is asked for comes by options or in a form; the form carries the options that it does not show in its id. Members
come by names or from a menu. Nothing is made before they are known. What the menu continues is kept for as long as
Discord takes answers to the command, and for the person who used it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import pydantic

from agentic.actions.base import (
    ARCHIVES,
    CHOICE_CHARACTERS,
    FORM,
    MAX_CHOICES,
    MAX_NAMES,
    MAX_SLOT,
    MENU,
    PAUSED,
    POLICY_TEXTS,
    ActionRequest,
    Choice,
    CommandReply,
    Form,
    FormField,
    Handle,
    IsHere,
    Menu,
    Response,
    give_back,
    unknown_value,
)
from agentic.agent.roster import RosterEntry, find, members_of, without_mentions
from agentic.agent.services import Services
from agentic.rooms.closing import cut
from agentic.rooms.opening import AWAY, Opening, RoomDraft, RoomOpener, opening_text, room_of, thread_name, topic_of
from agentic.state.budgets import CLOSING_SHARE
from agentic.state.rooms import (
    DEFAULT_ARCHIVE_MINUTES,
    DEFAULT_POLICY,
    DEFAULT_THEME,
    DEFAULT_TURNS,
    MAX_MEMBERS,
    MAX_TURNS,
    MIN_MEMBERS,
    POLICIES,
    RoomMember,
)
from agentic.state.silence import ChannelRef
from agentic.text import counted, listed
from agentic.themes import THEMES
from agentic.wire.bus import NOBODY
from agentic.wire.messages import MAX_TOPIC

ROOM = "room"  # the form and the menu of the members, as their ids begin
MAX_RULES, MAX_QUESTION = 700, 200  # characters; both together are a room's rules
NO_BOT = "no bot of this process is online, and a bot makes the thread of a room"
OWNER = 0  # who asks for a room, if nobody in Discord does
FILE = "room.txt"
EXPIRED = "This choice has expired, or was used already. Use /room create again."
NOT_YOURS = "Only the person who asked for this room can choose who takes part."
NOT_MODERATED = "Nobody moderates with this policy. Choose the policy moderated, or leave the moderator out."
LATER = "I'll keep trying for 15 minutes."
OUTCOMES: Mapping[str, str] = {
    "opened": "The room is open: {thread}",
    NOBODY: "The thread {thread} is there, but the coordinator didn't answer, so the room isn't open yet. " + LATER,
    AWAY: "The thread {thread} is there, but the bots' shared storage (Redis) is unavailable, so the room isn't open"
    " yet. " + LATER,
    "discord_failed": "Discord didn't create the thread. " + LATER,
    "unknown_channel": "I can't see {channel} at the moment. " + LATER,
    "not_ours": "Another process has taken over this bot. " + LATER,
    "not_permitted": "Discord refused: I may not post or start threads in {channel}. No room was opened.",
    "gone": "The channel, or the message of the room, was deleted meanwhile. No room was opened.",
    "paused": f"{PAUSED} The thread {{thread}} is there, but no room was opened.",
    "stopped": "The bots are stopped in {channel}. The thread {thread} is there, but no room was opened.",
}

Problem = Callable[[int, bool], str | None]  # channel id, whether webhooks are needed → why no room can be opened there


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """An agent that may sit in a room, as a member. `why_not` says why it cannot at present; `model` is
    provider/model."""

    member: RoomMember
    is_bot: bool
    model: str = ""
    why_not: str | None = None

    @property
    def key(self) -> str:
        return self.member.name


@dataclass(frozen=True, slots=True)
class OpenedRoom:
    """The outcome: a line for the owner; `thread_id` is None if no room was opened."""

    text: str
    thread_id: int | None = None


class RoomSide(Protocol):
    """Rooms as the console needs them: the part that the bots of this process know and do (agentic.runtime)."""

    def seats(self) -> Sequence[Seat]: ...  # bots first, then personas
    def gone(self, agents: Sequence[str]) -> tuple[str, ...]: ...  # those whose personas were deleted
    def can_open(self) -> bool: ...  # whether a bot of this process is there to make a thread
    async def open(self, draft: RoomDraft, personas: Sequence[str]) -> OpenedRoom: ...  # raises StateUnavailable


class NoRoomSide:
    """A process without bots."""

    def seats(self) -> Sequence[Seat]:
        return ()

    def gone(self, agents: Sequence[str]) -> tuple[str, ...]:
        return ()

    def can_open(self) -> bool:
        return False

    async def open(self, draft: RoomDraft, personas: Sequence[str]) -> OpenedRoom:
        return OpenedRoom(f"No room was opened: {NO_BOT}.")


class RoomCreation:
    """`problem` says why Discord lets the bot open no room in a channel. `managers` are its handlers, by command."""

    def __init__(self, services: Services, opener: RoomOpener, problem: Problem, is_here: IsHere) -> None:
        self._services, self._opener, self._problem, self._is_here = services, opener, problem, is_here
        self.managers: Mapping[str, Handle] = {
            "room create": self.create,
            f"{FORM} {ROOM}": self.from_form,
            f"{MENU} {ROOM}": self.from_menu,
        }

    async def create(self, command: ActionRequest) -> Response:
        policy = str(command.values.get("policy") or "")
        if policy and policy not in POLICIES:
            return unknown_value("policy", policy, POLICIES)
        theme = str(command.values.get("theme") or "")
        if theme and theme not in THEMES:
            return unknown_value("theme", theme, tuple(THEMES))
        if (problem := check_topic(str(command.values.get("topic", "")))) is not None:
            return problem
        archive = str(command.values.get("archive") or "")
        if archive and archive not in ARCHIVES:
            known = [f"{minutes} ({shown})" for minutes, shown in ARCHIVES.items()]
            return unknown_value("archive time", archive, known)
        draft, names = self._readable(draft_from_options(command)), str(command.values.get("personas", ""))
        moderator = find(tuple(self._services.roster), self._plain(draft.moderator)) if draft.moderator else None
        if isinstance(moderator, str):
            return f"{moderator} Choose the moderator from the members."
        if moderator is not None and draft.policy != "moderated":
            return NOT_MODERATED
        draft = draft.model_copy(update={"moderator": moderator.key if moderator is not None else None})
        if (refusal := self._refuse_channel(draft, command)) is not None:
            return refusal
        if not draft.topic:
            return build_form(draft, names)
        return await self._with_names(command, draft, names)

    async def from_form(self, command: ActionRequest) -> Response:
        """The form was filled in. What cannot be used is given back with the reason."""
        values = {name: str(value) for name, value in command.values.items()}
        try:
            draft = self._readable(draft_from_form(command, values))
        except ValueError:
            return give_back(f"The number of turns is not one from {MIN_MEMBERS} to {MAX_TURNS}.", values, FILE)
        refusal = self._refuse_channel(draft, command) if draft.topic else "The topic is empty."
        if refusal is not None:
            return give_back(refusal, values, FILE)
        response = await self._with_names(command, draft, values.get("personas", ""))
        return give_back(response, values, FILE) if isinstance(response, str) else response

    async def from_menu(self, command: ActionRequest) -> Response:
        number = str(command.values.get("id", "")).partition(":")[2]
        request = int(number) if number.isdecimal() else 0
        kept = await self._services.state.coordination.room_openings.draft(request)
        if kept is None:
            return EXPIRED
        draft = RoomDraft.model_validate_json(kept)
        if draft.asked_by != command.who.user_id:
            return NOT_YOURS
        if (refusal := self._refuse_channel(draft, command)) is not None:
            return refusal
        chosen = [entry for key in command.chosen if (entry := self._services.roster.of(key)) is not None]
        if (refusal := await self._refuse_members(draft, chosen)) is not None:
            return refusal
        if not await self._services.state.coordination.room_openings.take_draft(request):
            return EXPIRED
        return format_opening(await self._open(request, draft, chosen), draft)

    async def for_owner(self, request: int, draft: RoomDraft, keys: Sequence[str]) -> tuple[str, int | None]:
        """Open it for the installation's owner, with these members. Return what came of it, for people, and the thread,
        None if there is none. Raises StateUnavailable."""
        draft = self._readable(draft)
        chosen = [entry for key in keys if (entry := self._services.roster.of(key)) is not None]
        refusal = self._refuse_channel(draft) or await self._refuse_members(draft, chosen)
        if refusal is not None:
            return refusal, None
        opening = await self._open(request, draft, chosen)
        return format_opening(opening, draft), opening.thread_id

    async def _with_names(self, command: ActionRequest, draft: RoomDraft, names: str) -> str | Menu | CommandReply:
        found, problems = members_of(tuple(self._services.roster), self._plain(names))
        if problems:
            return f"{' '.join(problems)} Use /agent list to see who there is."
        if not found:
            return await self._menu(command, draft)
        if (refusal := await self._refuse_members(draft, found)) is not None:
            return refusal
        return CommandReply(format_opening(await self._open(command.id, draft, found), draft))

    async def _menu(self, command: ActionRequest, draft: RoomDraft) -> str | Menu:
        able = [entry for entry in self._services.roster if entry.why_not is None]
        if len(able) < MIN_MEMBERS:
            return "Fewer than two bots and personas can take part at present. /agent list says why."
        await self._services.state.coordination.room_openings.keep_draft(command.id, draft.model_dump_json())
        more = " Use the option personas for one that is not in the list." if len(able) > MAX_CHOICES else ""
        choices = []
        for entry in able:
            kind = "bot" if entry.is_bot else "persona"
            about = " · ".join(filter(None, (kind, entry.model, ", ".join(entry.member.interests))))
            choices.append(Choice(entry.key, entry.shown, cut(about, CHOICE_CHARACTERS)))
        return Menu(
            id=f"{ROOM}:{command.id}",
            text=f"Who takes part in “{draft.topic}”?{more}",
            hint=f"{MIN_MEMBERS} to {MAX_MEMBERS}, in the order in which they speak",
            fewest=MIN_MEMBERS,
            most=MAX_MEMBERS,
            choices=tuple(choices),
        )

    async def _open(self, request: int, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> Opening:
        members = [entry.member for entry in chosen]
        room = room_of(draft, members, draft.moderator, self._services.clock())
        name, text = thread_name(draft.topic), opening_text(room, draft.question, draft.asked_by_name)
        return await self._opener.open(request, room, name, text)

    def _refuse_channel(self, draft: RoomDraft, command: ActionRequest | None = None) -> str | None:
        channel_id = draft.channel_id
        is_here = command is None or self._is_here(channel_id, command)
        if not is_here or channel_id not in self._services.scope.channels:
            return f"<#{channel_id}> is not one of the bots' channels."
        silenced = self._services.silence.check(ChannelRef(channel_id))
        if silenced is not None and silenced.kind == "paused":
            return PAUSED
        if silenced is not None:
            return f"The bots are stopped in <#{channel_id}>. Use /resume there first."
        problem = self._problem(channel_id, False)
        return f"No room can be opened in <#{channel_id}>: {problem}." if problem else None

    async def _refuse_members(self, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> str | None:
        if len(chosen) < MIN_MEMBERS:
            return f"A room needs at least two bots or personas; {listed([one.shown for one in chosen])} is named."
        if len(chosen) > MAX_MEMBERS:
            return f"A room has at most {counted(MAX_MEMBERS, 'member')}; {len(chosen)} are named."
        if draft.moderator is not None and draft.moderator not in {one.key for one in chosen}:
            return "The moderator has to be one of those who take part."
        for entry in chosen:
            if entry.why_not is not None:
                return f"{entry.shown} cannot take part: {entry.why_not}."
        if not all(entry.is_bot for entry in chosen) and (problem := self._problem(draft.channel_id, True)):
            return f"Personas speak by webhook in <#{draft.channel_id}>, but {problem}."
        bots = {entry.key: entry.shown for entry in chosen if entry.is_bot}
        online = await self._services.state.coordination.presence.online(bots) if bots else ()
        if missing := [shown for key, shown in bots.items() if key not in online]:
            return f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} offline."
        return await self._refuse_budget(draft, chosen)

    async def _refuse_budget(self, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> str | None:
        services = self._services
        date = f"{datetime.fromtimestamp(services.clock(), services.settings.timezone):%Y-%m-%d}"
        shown = {
            "all": "the bots",
            f"channel:{draft.channel_id}": f"<#{draft.channel_id}>",
            f"person:{draft.asked_by}": "what you may cause",
            **{f"agent:{entry.key}": entry.shown for entry in chosen},
        }
        uses = await services.state.limits.budgets.uses(date, shown)
        for scope, name in shown.items():
            cap, used = uses[scope].cap, uses[scope].spent + uses[scope].reserved
            if cap is not None and used >= cap * (1 - CLOSING_SHARE):  # the rest of a budget is for mentions
                return f"Today's budget of {name} is used up."
        return None

    def _readable(self, draft: RoomDraft) -> RoomDraft:
        """The draft as it may be kept in Redis and shown to models: without secrets, and with the names of mentioned
        bots instead of their ids."""
        redact, directory = self._services.redact, self._services.directory

        def name_of(user_id: int) -> str | None:
            return draft.asked_by_name or None if user_id == draft.asked_by else directory.name_of(user_id)

        texts = {name: getattr(draft, name) for name in ("topic", "rules", "question", "asked_by_name")}
        texts = {name: redact(without_mentions(text, name_of)) for name, text in texts.items()}
        return draft.model_copy(update={**texts, "topic": texts["topic"][:MAX_TOPIC]})

    def _plain(self, names: str) -> str:
        return without_mentions(names, self._services.directory.agent_of)


def format_opening(opening: Opening, draft: RoomDraft) -> str:
    text = OUTCOMES.get(opening.outcome, "The coordinator refused: {outcome}. No room was opened.")
    return text.format(thread=f"<#{opening.thread_id}>", channel=f"<#{draft.channel_id}>", outcome=opening.outcome)


def check_topic(text: str) -> str | None:
    """Return why a topic can't be used, or None if it can."""
    if (length := len(topic_of(text))) <= MAX_TOPIC:
        return None
    return (
        f"The topic is {length} characters long, and {MAX_TOPIC} is the most. Shorten it, and put the details into the"
        " rules: /room create without a topic opens a form that has them."
    )


def draft_from_options(command: ActionRequest) -> RoomDraft:
    values = command.values
    theme = str(values.get("theme", DEFAULT_THEME))
    policy, archive = str(values.get("policy", DEFAULT_POLICY)), str(values.get("archive", DEFAULT_ARCHIVE_MINUTES))
    return RoomDraft(
        asked_by=command.who.user_id,
        channel_id=int(values.get("channel") or command.parent_id or command.channel_id),
        guild_id=command.guild_id,
        topic=str(values.get("topic", "")),
        turns=min(max(int(values.get("turns", DEFAULT_TURNS)), 2), MAX_TURNS),
        archive_minutes=int(archive) if archive in ARCHIVES else DEFAULT_ARCHIVE_MINUTES,
        policy=policy if policy in POLICY_TEXTS else DEFAULT_POLICY,  # type: ignore[arg-type]
        moderator=str(values.get("moderator") or "") or None,
        audience_seconds=min(max(int(values.get("audience", 0)), 0), MAX_SLOT),
        goodbye_ends=bool(values.get("goodbye-ends", False)),
        theme=theme if theme in THEMES else DEFAULT_THEME,
        asked_by_name=command.who.name,
    )


def draft_from_form(command: ActionRequest, values: Mapping[str, str]) -> RoomDraft:
    """The draft that a filled-in form makes. Raises ValueError for turns that are none."""
    names = ("channel", "archive", "policy", "audience", "goodbye", "moderator", "theme")
    _, *parts = values.get("id", "").split(":")
    options = dict(zip(names, parts, strict=False))
    goodbye = options.pop("goodbye", "")
    given = {name: value for name, value in options.items() if value}
    base = draft_from_options(
        ActionRequest(
            id=command.id,
            name=command.name,
            who=command.who,
            channel_id=command.channel_id,
            guild_id=command.guild_id,
            parent_id=command.parent_id,
            values={**given, "goodbye-ends": int(goodbye or 0)},
        )
    )
    texts = {name: values.get(name, "") for name in ("topic", "rules", "question")}
    turns = int(values.get("turns", "").strip() or DEFAULT_TURNS)
    try:
        return RoomDraft.model_validate({**base.model_dump(), **texts, "turns": turns})
    except pydantic.ValidationError as error:
        raise ValueError("turns") from error


def build_form(draft: RoomDraft, names: str) -> Form:
    """The long version. Its id carries what it does not show."""
    options = (draft.channel_id, draft.archive_minutes, draft.policy, round(draft.audience_seconds))
    return Form(
        id=":".join(map(str, (ROOM, *options, int(draft.goodbye_ends), draft.moderator or "", draft.theme))),
        title="A new room",
        fields=(
            FormField(id="topic", label="Topic", hint="what it is about", required=True, most=MAX_TOPIC),
            FormField(
                id="personas",
                label="Who takes part",
                hint="names, separated by commas; left empty, you choose from a list",
                text=names,
                most=MAX_NAMES,
            ),
            FormField(id="turns", label="How many turns", text=str(draft.turns), most=3),
            FormField(id="rules", label="Rules", hint="for example: at most five sentences", long=True, most=MAX_RULES),
            FormField(id="question", label="First question", hint="what they begin with", most=MAX_QUESTION),
        ),
    )
