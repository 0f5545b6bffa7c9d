"""Everything people may do, in one table, and the one way to do it.

A new action is a function, a row here, and a text for each of its outcomes in texts.py. It then works on every surface
that its row names: Discord registers it, /help lists it in chats without slash commands, the console accepts it.
`Actions.perform` checks rights and values, carries the action out, and records what moderators and owners did.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast, get_type_hints

from agentic.actions import (
    config,
    conversations,
    debates,
    explain,
    personal,
    personas,
    room_create,
    rooms,
    silence,
    status,
)
from agentic.actions.base import (
    FORM,
    MENU,
    ActionContext,
    ActionRefused,
    ActionRequest,
    Choice,
    Form,
    Menu,
    Outcome,
    Right,
    Surface,
    refused,
)
from agentic.actions.completion import complete
from agentic.actions.rights import check_right, with_rights
from agentic.actions.values import Values, read_values
from agentic.wire.connection import StateUnavailable
from agentic.wire.entries import ActionNote

log = logging.getLogger(__name__)

SLASH: frozenset[Surface] = frozenset({"slash"})
TEXT: frozenset[Surface] = frozenset({"text"})
CONSOLE: frozenset[Surface] = frozenset({"console"})
CHATS = SLASH | TEXT
NO_CHAT: frozenset[Surface] = frozenset()

Handler = Callable[[ActionContext, ActionRequest, Any], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Action:
    """An action. `name` is what people type, without the slash; `about` is one line for lists and help.

    People type it in `chats`, and `button` starts it on the console. `record` is its name in the record, if it has one,
    and in the console's address. The annotation of `run` names its options.
    """

    name: str
    run: Handler
    about: str = ""
    right: Right = "everyone"
    record: str = ""
    button: str = ""
    chats: frozenset[Surface] = SLASH
    aliases: tuple[str, ...] = ()

    @property
    def surfaces(self) -> frozenset[Surface]:
        return self.chats | CONSOLE if self.button else self.chats

    @property
    def values(self) -> type[Values]:
        return options_of(self.run)


@cache
def options_of(run: Handler) -> type[Values]:
    _, _, kind, *_ = get_type_hints(run).values()
    return cast("type[Values]", kind)


# name, handler, line for lists and help, right, name in the record, button
TABLE: tuple[Action, ...] = (
    # conversations
    Action("bots status", status.status, "Show which bots are online, their cost today, and what's running here"),
    Action("status", status.own_status, "Show my turns and cost today, and when I may write on my own", chats=TEXT),
    Action("bots start", conversations.start, "Start a conversation", "manager", "start", "Start"),
    Action("bots next", conversations.next_speaker, "Choose which bot speaks next", "manager", "next", "Next speaker"),
    Action("bots end", conversations.end, "End the running conversation", "manager", "end", "End"),
    # silence
    Action("bots pause", silence.pause, "Pause all bots", "manager", "pause", "Pause all"),
    Action(
        "bots resume",
        silence.resume_all,
        "Resume all bots",
        "manager",
        "resume_all",
        "Resume all bots",
        aliases=("bots go-on",),
    ),
    Action("bots mute", silence.mute, "Mute a bot for a while", "manager", "mute", "Mute"),
    Action("bots unmute", silence.unmute, "Unmute a bot", "manager", "unmute", "Unmute"),
    Action("bots ignore", silence.ignore, "Have the bots ignore a person", "manager", "ignore"),
    Action("bots unignore", silence.unignore, "Have the bots stop ignoring a person", "manager", "unignore"),
    Action(
        "bots end-order",
        silence.end_order,
        "Undo a stop, pause, mute, or ignore",
        "owner",
        "end_order",
        "Undo",
        chats=NO_CHAT,
    ),
    Action("stop", silence.stop, "Stop the bots here, or cancel their answers to you", record="stop", button="Stop"),
    Action("resume", silence.resume, "Resume the bots here after a stop", "moderator", "resume", "Resume"),
    Action("ask", conversations.ask, "Ask a bot a question that everyone here can see"),
    Action(
        "arena",
        conversations.arena,
        "Have two hidden bots answer a question, and vote for the better answer",
        record="arena",
        button="Start an arena",
    ),
    Action(
        "reset", silence.reset, "Start over: the bots no longer read earlier messages here", "message_manager", "reset"
    ),
    # rooms
    Action("debate", debates.propose, "Propose a debate between bots, which begins when enough people agree"),
    Action("room create", room_create.create, "Open a room", "moderator", "open_room", "Open a room"),
    Action("room here", room_create.here, "Make a room of this thread", "moderator", "open_room"),
    Action(room_create.FORM_NAME, room_create.from_form, right="moderator", record="open_room"),
    Action(room_create.MENU_NAME, room_create.from_menu, right="moderator", record="open_room"),
    Action("room stop", rooms.pause, "Pause a room", "moderator", "pause_room", "Pause"),
    Action("room resume", rooms.resume, "Resume a room that is paused or closed", "moderator", "resume_room", "Resume"),
    Action(
        "room next", rooms.next_speaker, "Choose a room's next speaker", "moderator", "next_in_room", "Next speaker"
    ),
    Action("room close", rooms.close, "Close a room", "moderator", "close_room", "Close"),
    Action("room status", rooms.status, "Show a room's members and progress"),
    Action("room list", rooms.list_rooms, "Show this server's rooms"),
    Action("room add", rooms.add, "Add a bot or persona to a room", "moderator", "add_to_room", "Add"),
    Action(
        "room remove", rooms.remove, "Remove a bot or persona from a room", "moderator", "remove_from_room", "Remove"
    ),
    Action("room delete", rooms.delete, "Delete a room with its record", "manager"),
    Action(rooms.DELETE_NAME, rooms.delete_chosen, right="manager", record="delete_room"),
    Action("room export", rooms.export, "Save a room as a page, with its card, votes, and models"),
    Action("room share", rooms.share, "Share a room's page", "owner", "share_room", "Share", chats=NO_CHAT),
    Action("room unshare", rooms.unshare, "End a room's link", "owner", "unshare_room", "Stop sharing", chats=NO_CHAT),
    # personas and their files
    Action("agent create", personas.create, "Create a persona", "owner"),
    Action("agent edit", personas.edit, "Edit a persona", "owner"),
    Action(personas.SAVE_PERSONA, personas.save, "Save a persona", "owner", "save_persona"),
    Action("agent show", personas.show, "Show a bot or persona", "moderator"),
    Action("agent delete", personas.delete, "Delete a persona (the owner can restore it)", "owner", "delete_persona"),
    Action("agent list", personas.list_agents, "List all bots and personas with their models"),
    Action("agent-file show", personas.show_file, "Show a persona file", "manager"),
    Action("agent-file edit", personas.edit_file, "Edit a persona file", "owner"),
    Action(personas.SAVE_FILE, personas.save_file, "Edit a persona file", "owner", "edit_file"),
    Action("agent-file save", personas.save_text, "Edit a persona file", "owner", "edit_file", "Edit", chats=NO_CHAT),
    # options
    Action("config show", config.show, "Show a bot's options here, and where each one comes from", "manager"),
    Action("config set", config.set_option, "Change a bot's option without a restart", "manager", "set_option"),
    # a person's own data
    Action(
        "profile show",
        personal.show_profile,
        "Show the topics the bots noted about you",
        aliases=("profile",),
        chats=CHATS,
    ),
    Action("profile edit", personal.edit_profile, "Change the topics the bots noted about you", chats=CHATS),
    Action(personal.SAVE_PROFILE, personal.save_profile),
    Action("profile delete", personal.delete_profile, "Delete the topics the bots noted about you", chats=CHATS),
    Action("privacy", personal.privacy, "See who reads this channel and what's stored about you", chats=CHATS),
    Action("forget me", personal.forget_me, "Delete what the bots have stored about you", chats=CHATS),
    # explanations
    Action("why", explain.explain_post, "See why a bot posted a message", aliases=("Why?",), chats=CHATS),
    Action("why-not", explain.explain_silence, "See why a bot is silent here"),
    # the console alone
    Action(
        "raise",
        conversations.raise_budget,
        "Raise a budget for today",
        "owner",
        "raise_budget",
        "Raise today",
        chats=NO_CHAT,
    ),
    Action("move", conversations.move, "Move a scheduled conversation", "owner", "move", "Move", chats=NO_CHAT),
    Action("skip", conversations.skip, "Skip a scheduled conversation", "owner", "skip", "Skip", chats=NO_CHAT),
    Action("add", conversations.add, "Add a conversation to today", "owner", "add", "Add a time", chats=NO_CHAT),
)


class Actions:
    """Carries out actions on one surface, which `context.place` belongs to."""

    def __init__(self, context: ActionContext, table: Iterable[Action] = TABLE) -> None:
        self.context = context
        self._by_name = {name: action for action in table for name in (action.name, *action.aliases)}

    def on(self, surface: Surface) -> Mapping[str, Action]:
        """Return the actions of a surface, by the names that people type."""
        return {name: action for name, action in self._by_name.items() if surface in action.surfaces}

    async def perform(self, request: ActionRequest) -> Outcome:
        """Check the right and the values, carry the action out, and record it. Raises nothing if Redis is
        unavailable."""
        action, context, place = self._by_name.get(request.name), self.context, request.place
        if request.surface == "slash" and place is not None:
            served = context.services.chats.scope.theme(place.channel_id, place.parent_id, place.guild_id)
            if served is None:
                return refused("not_here")
        if action is None or request.surface not in action.surfaces:
            log.warning(
                "refused %s: this version doesn't know it, or not on the surface %s", request.name, request.surface
            )
            return refused("unknown_action")
        request = await with_rights(context, request)
        is_form = action.name.startswith((FORM, MENU))  # its handler checks the values
        try:
            await check_right(context, action.right, request)
            values = Values() if is_form else read_values(context, action.values, request)
        except ActionRefused as refusal:
            return refusal.outcome
        try:
            outcome = await action.run(context, replace(request, name=action.name), values)
        except ActionRefused as refusal:
            outcome = refusal.outcome
        except StateUnavailable as away:
            log.warning("could not carry out %s: Redis is unavailable (%s)", request.name, away)
            return refused("redis_unavailable")
        if action.record and outcome.is_recorded and not isinstance(outcome.reply, Form | Menu):
            context.services.record.note(_note(context, action, request, values, outcome))
        return outcome

    async def complete(self, request: ActionRequest, option: str, typed: str) -> Sequence[Choice]:
        return await complete(self.context, request, option, typed)


def _note(context: ActionContext, action: Action, request: ActionRequest, values: Any, outcome: Outcome) -> ActionNote:
    """Return the note of an action. The only person's id in it is the id of the person who acted."""
    room = str(getattr(values, "room", ""))
    channel = getattr(values, "channel", None) or (int(room) if room.isdecimal() else request.channel_id)
    return ActionNote(
        id=secrets.token_hex(16),
        at=context.services.clock(),
        by="console" if request.surface == "console" else str(request.who.user_id),
        action=action.record,
        channel_id=channel or None,
        agent=getattr(values, "agent", None) or None,
        detail=outcome.detail,
        outcome=outcome.code,
    )
