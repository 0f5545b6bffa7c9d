"""`/room create`: what is asked for, by options or in a form, who takes part, by names or from a menu, and the opening.

Nothing is made before the members are known. What the menu continues is kept for as long as Discord takes answers to
the command, and for the person who used it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from agentic.actions.base import (
    ARCHIVES,
    CHOICE_CHARACTERS,
    FORM,
    MAX_CHOICES,
    MENU,
    PAUSED,
    ActionRequest,
    Choice,
    CommandReply,
    Handle,
    IsHere,
    Menu,
    Response,
    given_back,
    unknown_value,
)
from agentic.actions.draft import ROOM, RoomDraft, draft_in, draft_of, form_of, too_long
from agentic.agent.roster import RosterEntry, find, members_of, without_mentions
from agentic.agent.services import AgentServices
from agentic.rooms.closing import cut
from agentic.rooms.opening import AWAY, Opening, RoomOpener, opening_text, room_of, thread_name
from agentic.state.budgets import CLOSING_SHARE, BudgetUse
from agentic.state.rooms import FEWEST_MEMBERS, MOST_MEMBERS, MOST_TURNS, POLICIES, RoomMember
from agentic.text import counted, listed
from agentic.themes import THEMES
from agentic.wire.bus import NOBODY
from agentic.wire.messages import MAX_TOPIC

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


class RoomCreation:
    """`problem` says why Discord lets the bot open no room in a channel. `managers` are its handlers, by command."""

    def __init__(self, services: AgentServices, opener: RoomOpener, problem: Problem, is_here: IsHere) -> None:
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
        if (problem := too_long(str(command.values.get("topic", "")))) is not None:
            return problem
        archive = str(command.values.get("archive") or "")
        if archive and archive not in ARCHIVES:
            known = [f"{minutes} ({shown})" for minutes, shown in ARCHIVES.items()]
            return unknown_value("archive time", archive, known)
        draft, names = self._readable(draft_of(command)), str(command.values.get("personas", ""))
        moderator = find(tuple(self._services.roster), self._plain(draft.moderator)) if draft.moderator else None
        if isinstance(moderator, str):
            return f"{moderator} Choose the moderator from the members."
        if moderator is not None and draft.policy != "moderated":
            return NOT_MODERATED
        draft = draft.model_copy(update={"moderator": moderator.key if moderator is not None else None})
        if (refusal := self._refusal(draft, command)) is not None:
            return refusal
        if not draft.topic:
            return form_of(draft, names)
        return await self._with_names(command, draft, names)

    async def from_form(self, command: ActionRequest) -> Response:
        """The form was filled in. What cannot be used is given back with the reason."""
        values = {name: str(value) for name, value in command.values.items()}
        try:
            draft = self._readable(draft_in(command, values))
        except ValueError:
            return given_back(f"The number of turns is not one from {FEWEST_MEMBERS} to {MOST_TURNS}.", values, FILE)
        refusal = self._refusal(draft, command) if draft.topic else "The topic is empty."
        if refusal is not None:
            return given_back(refusal, values, FILE)
        response = await self._with_names(command, draft, values.get("personas", ""))
        return given_back(response, values, FILE) if isinstance(response, str) else response

    async def from_menu(self, command: ActionRequest) -> Response:
        """The members were chosen."""
        number = str(command.values.get("id", "")).partition(":")[2]
        request = int(number) if number.isdecimal() else 0
        kept = await self._services.ledger.room_openings.draft(request)
        if kept is None:
            return EXPIRED
        draft = RoomDraft.model_validate_json(kept)
        if draft.asked_by != command.who.user_id:
            return NOT_YOURS
        if (refusal := self._refusal(draft, command)) is not None:
            return refusal
        chosen = [entry for key in command.chosen if (entry := self._services.roster.of(key)) is not None]
        if (refusal := await self._members_refused(draft, chosen)) is not None:
            return refusal
        if not await self._services.ledger.room_openings.take_draft(request):
            return EXPIRED
        return await self._open(request, draft, chosen)

    async def for_owner(self, request: int, draft: RoomDraft, keys: Sequence[str]) -> tuple[str, int | None]:
        """Open it for the installation's owner, with these members. Return what came of it, for people, and the thread,
        None where there is none. Raises RedisAway."""
        draft = self._readable(draft)
        chosen = [entry for key in keys if (entry := self._services.roster.of(key)) is not None]
        refusal = self._channel_refused(draft) or await self._members_refused(draft, chosen)
        if refusal is not None:
            return refusal, None
        opening = await self._opened(request, draft, chosen)
        return _answer(opening, draft), opening.thread_id

    async def _with_names(self, command: ActionRequest, draft: RoomDraft, names: str) -> str | Menu | CommandReply:
        found, problems = members_of(tuple(self._services.roster), self._plain(names))
        if problems:
            return f"{' '.join(problems)} Use /agent list to see who there is."
        if not found:
            return await self._menu(command, draft)
        if (refusal := await self._members_refused(draft, found)) is not None:
            return refusal
        return CommandReply(await self._open(command.id, draft, found))

    async def _menu(self, command: ActionRequest, draft: RoomDraft) -> str | Menu:
        able = [entry for entry in self._services.roster if entry.why_not is None]
        if len(able) < FEWEST_MEMBERS:
            return "Fewer than two bots and personas can take part at present. /agent list says why."
        await self._services.ledger.room_openings.keep_draft(command.id, draft.model_dump_json())
        more = " Use the option personas for one that is not in the list." if len(able) > MAX_CHOICES else ""
        return Menu(
            id=f"{ROOM}:{command.id}",
            text=f"Who takes part in “{draft.topic}”?{more}",
            hint=f"{FEWEST_MEMBERS} to {MOST_MEMBERS}, in the order in which they speak",
            fewest=FEWEST_MEMBERS,
            most=MOST_MEMBERS,
            choices=tuple(map(_choice, able)),
        )

    async def _open(self, request: int, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> str:
        return _answer(await self._opened(request, draft, chosen), draft)

    async def _opened(self, request: int, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> Opening:
        members = [entry.member for entry in chosen]
        room = room_of(draft, members, draft.moderator, self._services.clock())
        name, text = thread_name(draft.topic), opening_text(room, draft.question, draft.asked_by_name)
        return await self._opener.open(request, room, name, text)

    # -- refusals -------------------------------------------------------------------------------------------------

    def _refusal(self, draft: RoomDraft, command: ActionRequest) -> str | None:
        """Why nothing can be opened in the channel."""
        if not self._is_here(draft.channel_id, command):
            return f"<#{draft.channel_id}> is not one of the bots' channels."
        return self._channel_refused(draft)

    def _channel_refused(self, draft: RoomDraft) -> str | None:
        channel_id, stops = draft.channel_id, self._services.stops
        if channel_id not in self._services.scope.channels:
            return f"<#{channel_id}> is not one of the bots' channels."
        if stops.paused:
            return PAUSED
        if stops.holds(channel_id):
            return f"The bots are stopped in <#{channel_id}>. Use /resume there first."
        problem = self._problem(channel_id, False)
        return f"No room can be opened in <#{channel_id}>: {problem}." if problem else None

    async def _members_refused(self, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> str | None:
        if len(chosen) < FEWEST_MEMBERS:
            return f"A room needs at least two bots or personas; {listed([one.shown for one in chosen])} is named."
        if len(chosen) > MOST_MEMBERS:
            return f"A room has at most {counted(MOST_MEMBERS, 'member')}; {len(chosen)} are named."
        if draft.moderator is not None and draft.moderator not in {one.key for one in chosen}:
            return "The moderator has to be one of those who take part."
        for entry in chosen:
            if entry.why_not is not None:
                return f"{entry.shown} cannot take part: {entry.why_not}."
        if not all(entry.is_bot for entry in chosen) and (problem := self._problem(draft.channel_id, True)):
            return f"Personas speak by webhook in <#{draft.channel_id}>, but {problem}."
        return await self._offline(chosen) or await self._no_money(draft, chosen)

    async def _offline(self, chosen: Sequence[RosterEntry]) -> str | None:
        bots = {entry.key: entry.shown for entry in chosen if entry.is_bot}
        online = await self._services.ledger.presence.online(bots) if bots else ()
        missing = [shown for key, shown in bots.items() if key not in online]
        return f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} offline." if missing else None

    async def _no_money(self, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> str | None:
        services = self._services
        date = f"{datetime.fromtimestamp(services.clock(), services.settings.timezone):%Y-%m-%d}"
        shown = {
            "all": "the bots",
            f"channel:{draft.channel_id}": f"<#{draft.channel_id}>",
            f"person:{draft.asked_by}": "what you may cause",
            **{f"agent:{entry.key}": entry.shown for entry in chosen},
        }
        uses = await services.ledger.budgets.uses(date, shown)
        without = next((name for scope, name in shown.items() if _is_used_up(uses[scope])), None)
        return f"Today's budget of {without} is used up." if without else None

    def _readable(self, draft: RoomDraft) -> RoomDraft:
        """The draft as it may be kept in Redis and shown to models: without secrets, and with the names of mentioned
        bots instead of their ids."""
        redact, directory = self._services.outbound.redact, self._services.directory

        def name_of(user_id: int) -> str | None:
            return draft.asked_by_name or None if user_id == draft.asked_by else directory.name_of(user_id)

        texts = {name: getattr(draft, name) for name in ("topic", "rules", "question", "asked_by_name")}
        texts = {name: redact(without_mentions(text, name_of)) for name, text in texts.items()}
        return draft.model_copy(update={**texts, "topic": texts["topic"][:MAX_TOPIC]})

    def _plain(self, names: str) -> str:
        return without_mentions(names, self._services.directory.agent_of)


def _is_used_up(use: BudgetUse) -> bool:
    """The rest of a budget is for mentions."""
    return use.cap is not None and use.spent + use.reserved >= use.cap * (1 - CLOSING_SHARE)


def _choice(entry: RosterEntry) -> Choice:
    about = " · ".join(filter(None, ("bot" if entry.is_bot else "persona", entry.model, ", ".join(_subjects(entry)))))
    return Choice(entry.key, entry.shown, cut(about, CHOICE_CHARACTERS))


def _subjects(entry: RosterEntry) -> Sequence[str]:
    member: RoomMember = entry.member
    return member.interests


def _answer(opening: Opening, draft: RoomDraft) -> str:
    text = OUTCOMES.get(opening.outcome, "The coordinator refused: {outcome}. No room was opened.")
    return text.format(thread=f"<#{opening.thread_id}>", channel=f"<#{draft.channel_id}>", outcome=opening.outcome)
