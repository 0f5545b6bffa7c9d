"""Everything that people may do, in one table, and the one way to do it.

A new action is a function, a row here, and a text for each of its outcomes in texts.py. It then works on every surface
that its row names: Discord registers it, /help lists it in chats without slash commands, the console takes it.
`Actions.perform` checks the right and the values, carries it out, and records what moderators and owners did.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentic.actions import config, conversations, explain, personal, personas, room_create, rooms, silence, status
from agentic.actions.base import (
    FORM,
    MENU,
    ActionContext,
    ActionRequest,
    Choice,
    Completion,
    Form,
    Menu,
    Outcome,
    Right,
    Surface,
    refused,
)
from agentic.actions.completion import complete
from agentic.actions.rights import refusal
from agentic.actions.values import Values, read_values
from agentic.wire.connection import StateUnavailable
from agentic.wire.entries import ActionNote

log = logging.getLogger(__name__)

SLASH: frozenset[Surface] = frozenset({"slash"})
TEXT: frozenset[Surface] = frozenset({"text"})
CONSOLE: frozenset[Surface] = frozenset({"console"})

Handler = Callable[[ActionContext, ActionRequest, Any], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What people may do. `name` is what they type, without the slash; `about` is one line for lists and help.

    `record` is its name in the record, if it has one, and in the address of the console, where `button` starts it.
    """

    name: str
    run: Handler
    about: str = ""
    right: Right = "everyone"
    surfaces: frozenset[Surface] = frozenset({"slash"})
    values: type[Values] = Values
    record: str = ""
    button: str = ""
    aliases: tuple[str, ...] = ()


TABLE: tuple[Action, ...] = (
    # conversations
    Action(
        name="bots status",
        run=status.status,
        about="Show which bots are online, today's cost, and what is running here",
    ),
    Action(
        name="status",
        run=status.own_status,
        about="Show my day: turns, cost, and what I wait for",
        surfaces=TEXT,
    ),
    Action(
        name="bots start",
        run=conversations.start,
        about="Start a conversation",
        right="manager",
        surfaces=SLASH | CONSOLE,
        values=conversations.Start,
        record="start",
        button="Start",
    ),
    Action(
        name="bots next",
        run=conversations.next_speaker,
        about="Let a bot speak next",
        right="manager",
        surfaces=SLASH | CONSOLE,
        values=conversations.Next,
        record="next",
        button="Next speaker",
    ),
    Action(
        name="bots end",
        run=conversations.end,
        about="End the running conversation",
        right="manager",
        surfaces=SLASH | CONSOLE,
        values=conversations.InChannel,
        record="end",
        button="End",
    ),
    # silence
    Action(
        name="bots pause",
        run=silence.pause,
        about="Silence all bots in this server, or everywhere (owner)",
        right="manager",
        surfaces=SLASH | CONSOLE,
        record="pause",
        button="Pause all",
    ),
    Action(
        name="bots resume",
        run=silence.resume_all,
        about="Let all bots speak again after a pause",
        right="manager",
        surfaces=SLASH | CONSOLE,
        record="resume_all",
        button="Resume all bots",
        aliases=("bots go-on",),
    ),
    Action(
        name="bots mute",
        run=silence.mute,
        about="Silence a bot for a while",
        right="manager",
        surfaces=SLASH | CONSOLE,
        values=silence.Mute,
        record="mute",
        button="Mute",
    ),
    Action(
        name="bots unmute",
        run=silence.unmute,
        about="Let a muted bot speak again",
        right="manager",
        surfaces=SLASH | CONSOLE,
        values=silence.OfBot,
        record="unmute",
        button="Unmute",
    ),
    Action(
        name="bots ignore",
        run=silence.ignore,
        about="Make the bots ignore a person",
        right="manager",
        values=silence.OfPerson,
        record="ignore",
    ),
    Action(
        name="bots unignore",
        run=silence.unignore,
        about="Let the bots listen to a person again",
        right="manager",
        values=silence.OfPerson,
        record="unignore",
    ),
    Action(
        name="bots end-order",
        run=silence.end_order,
        about="End an order that silences bots, or makes them ignore a person",
        right="owner",
        surfaces=CONSOLE,
        values=silence.OfOrder,
        record="end_order",
        button="Undo",
    ),
    Action(
        name="stop",
        run=silence.stop,
        about="Silence the bots here, or cancel their answers to you",
        surfaces=SLASH | CONSOLE,
        values=silence.Stop,
        record="stop",
        button="Stop",
    ),
    Action(
        name="resume",
        run=silence.resume,
        about="Let the bots speak here again",
        right="moderator",
        surfaces=SLASH | CONSOLE,
        values=silence.ConsoleChannel,
        record="resume",
        button="Resume",
    ),
    Action(
        name="ask",
        run=conversations.ask,
        about="Ask a bot a question; everyone here sees it",
        values=conversations.Ask,
    ),
    Action(
        name="arena",
        run=conversations.arena,
        about="Let two hidden agents answer, and vote on who is better",
        values=conversations.ArenaValues,
    ),
    Action(
        name="reset",
        run=silence.reset,
        about="Start fresh here: earlier messages are no longer context",
        right="message_manager",
        values=silence.Reset,
        record="reset",
    ),
    # rooms
    Action(
        name="room create",
        run=room_create.create,
        about="Open a room; without a topic a form opens",
        right="manager",
        surfaces=SLASH | CONSOLE,
        values=room_create.NewRoom,
        record="open_room",
        button="Open a room",
    ),
    Action(name=room_create.FORM_NAME, run=room_create.from_form, right="manager", record="open_room"),
    Action(name=room_create.MENU_NAME, run=room_create.from_menu, right="manager", record="open_room"),
    Action(
        name="room stop",
        run=rooms.pause,
        about="Pause a room",
        right="manager",
        surfaces=SLASH | CONSOLE,
        values=rooms.OfRoom,
        record="pause_room",
        button="Pause",
    ),
    Action(
        name="room resume",
        run=rooms.resume,
        about="Continue a room that is paused or closed",
        right="manager",
        surfaces=SLASH | CONSOLE,
        values=rooms.Resume,
        record="resume_room",
        button="Resume",
    ),
    Action(
        name="room next",
        run=rooms.next_speaker,
        about="Say who speaks next in a room",
        right="manager",
        surfaces=SLASH | CONSOLE,
        values=rooms.OfMember,
        record="next_in_room",
        button="Next speaker",
    ),
    Action(
        name="room close",
        run=rooms.close,
        about="End a room",
        right="manager",
        surfaces=SLASH | CONSOLE,
        values=rooms.OfRoom,
        record="close_room",
        button="Close",
    ),
    Action(
        name="room status",
        run=rooms.status,
        about="Show who is in a room, and how far it is",
        values=rooms.OfRoom,
    ),
    Action(name="room list", run=rooms.list_rooms, about="Show the rooms of this server"),
    Action(
        name="room add",
        run=rooms.add,
        about="Add a bot or persona to a room",
        right="manager",
        surfaces=SLASH | CONSOLE,
        values=rooms.OfMember,
        record="add_to_room",
        button="Add",
    ),
    Action(
        name="room remove",
        run=rooms.remove,
        about="Take a bot or persona out of a room",
        right="manager",
        surfaces=SLASH | CONSOLE,
        values=rooms.OfMember,
        record="remove_from_room",
        button="Remove",
    ),
    Action(
        name="room export",
        run=rooms.export,
        about="Get a room as a page to keep",
        right="manager",
        values=rooms.OfRoom,
    ),
    # personas and their files
    Action(
        name="agent create",
        run=personas.create,
        about="Create a persona, in a form",
        right="owner",
    ),
    Action(
        name="agent edit",
        run=personas.edit,
        about="Edit a persona, in a form",
        right="owner",
        values=personas.OfPersona,
    ),
    Action(name=personas.SAVE_PERSONA, run=personas.save, right="owner", record="save_persona"),
    Action(
        name="agent show",
        run=personas.show,
        about="Show a bot or persona",
        right="manager",
        values=personas.AnyAgent,
    ),
    Action(
        name="agent delete",
        run=personas.delete,
        about="Delete a persona; the owner can restore it",
        right="owner",
        values=personas.OfPersona,
        record="delete_persona",
    ),
    Action(
        name="agent list",
        run=personas.list_agents,
        about="Show all bots and personas with their models",
    ),
    Action(
        name="agent-file show",
        run=personas.show_file,
        about="Show a persona file",
        right="manager",
        values=personas.ShowFile,
    ),
    Action(
        name="agent-file edit",
        run=personas.edit_file,
        about="Edit a persona file",
        right="owner",
        values=personas.OfFile,
    ),
    Action(name=personas.SAVE_FILE, run=personas.save_file, right="owner", record="edit_file"),
    # options
    Action(
        name="config show",
        run=config.show,
        about="Show an agent's options here, and where each comes from",
        right="manager",
        values=config.ShowOptions,
    ),
    Action(
        name="config set",
        run=config.set_option,
        about="Set an option while the bots run",
        right="manager",
        values=config.SetOption,
        record="set_option",
    ),
    # a person's own data
    Action(
        name="profile show",
        run=personal.show_profile,
        about="Show the topics that are noted about you, and where they come from",
        surfaces=SLASH | TEXT,
        aliases=("profile",),
    ),
    Action(
        name="profile edit",
        run=personal.edit_profile,
        about="Change the topics that are noted about you",
        surfaces=SLASH | TEXT,
        values=personal.Topics,
    ),
    Action(name=personal.SAVE_PROFILE, run=personal.save_profile),
    Action(
        name="profile delete",
        run=personal.delete_profile,
        about="Remove the topics that are noted about you",
        surfaces=SLASH | TEXT,
    ),
    Action(
        name="privacy",
        run=personal.privacy,
        about="Show who reads here and what is kept about you; allow or end unprompted messages",
        surfaces=SLASH | TEXT,
        values=personal.Consent,
    ),
    Action(
        name="forget me",
        run=personal.forget_me,
        about="Remove what the bots keep about you",
        surfaces=SLASH | TEXT,
        values=personal.Confirmation,
    ),
    # explanations
    Action(
        name="why",
        run=explain.explain_post,
        about="Explain why a bot posted a message",
        surfaces=SLASH | TEXT,
        values=explain.Message,
        aliases=("Why?",),
    ),
    Action(
        name="why-not",
        run=explain.explain_silence,
        about="Explain why a bot is silent here",
        values=silence.OfBot,
    ),
    # the console alone
    Action(
        name="raise",
        run=conversations.raise_budget,
        right="owner",
        surfaces=CONSOLE,
        values=conversations.RaiseBudget,
        record="raise_budget",
        button="Raise today",
    ),
    Action(
        name="move",
        run=conversations.move,
        right="owner",
        surfaces=CONSOLE,
        values=conversations.Move,
        record="move",
        button="Move",
    ),
    Action(
        name="skip",
        run=conversations.skip,
        right="owner",
        surfaces=CONSOLE,
        values=conversations.ScheduledTime,
        record="skip",
        button="Skip",
    ),
    Action(
        name="add",
        run=conversations.add,
        right="owner",
        surfaces=CONSOLE,
        values=conversations.NewTime,
        record="add",
        button="Add a time",
    ),
)


class Actions:
    """Carries out what people want on one surface, which `context.place` belongs to."""

    def __init__(self, context: ActionContext, table: Iterable[Action] = TABLE) -> None:
        self.context = context
        self._by_name = {name: action for action in table for name in (action.name, *action.aliases)}

    def on(self, surface: Surface) -> Mapping[str, Action]:
        """Return the actions of a surface by the names that people type."""
        return {name: action for name, action in self._by_name.items() if surface in action.surfaces}

    async def perform(self, request: ActionRequest) -> Outcome:
        """Check the right and the values, do it, and record it. Raises nothing if Redis is unavailable."""
        action, context, place = self._by_name.get(request.name), self.context, request.place
        if request.surface == "slash" and place is not None:
            served = context.services.chats.scope.theme(place.channel_id, place.parent_id, place.guild_id)
            if served is None:
                return refused("not_here")
        if action is None or request.surface not in action.surfaces:
            log.warning("%s is unknown to this version, or not for %s", request.name, request.surface)
            return refused("unknown_action")
        if (no_right := await refusal(context, action.right, request)) is not None:
            return no_right
        is_form = action.name.startswith((FORM, MENU))  # what it brings is its own
        values = Values() if is_form else read_values(context, action.values, request)
        if isinstance(values, Outcome):
            return values
        try:
            outcome = await action.run(context, replace(request, name=action.name), values)
        except StateUnavailable as away:
            log.warning("%s was not carried out: Redis is unavailable (%s)", request.name, away)
            return refused("redis_unavailable")
        if action.record and outcome.is_recorded and not isinstance(outcome.reply, Form | Menu):
            context.services.record.note(_note(context, action, request, values, outcome))
        return outcome

    async def complete(self, typed: Completion) -> Sequence[Choice]:
        """Return choices for an option that is being typed. Raises StateUnavailable if they can't be read."""
        return await complete(self.context, typed)


def _note(context: ActionContext, action: Action, request: ActionRequest, values: Any, outcome: Outcome) -> ActionNote:
    """Return the note of what somebody did. It has no ids of people besides the one who acted."""
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
