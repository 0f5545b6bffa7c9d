"""The slash commands as sent to Discord, and their comparison with the registered ones.

Definitions hold no permissions: Discord can require one for a whole command only, and `/bots` has sub-commands for
everyone and for server managers. Rights are checked when a command is used.

https://discord.com/developers/docs/interactions/application-commands
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic.actions.base import (
    ARCHIVES,
    MAX_ARENA_MINUTES,
    MAX_BACK,
    MAX_CHOICES,
    MAX_MUTE_MINUTES,
    MAX_NAMES,
    MAX_SLOT,
    MAX_STOP_MINUTES,
    MAX_VALUE,
    POLICY_TEXTS,
    WHY,
)
from agentic.services.discord.messages import MAX_QUESTION
from agentic.state.rooms import MAX_TURNS
from agentic.wire.messages import MAX_TOPIC

Json = dict[str, Any]

SLASH, MESSAGE = 1, 3  # types of commands
SUB_COMMAND, TEXT, WHOLE, YES_NO, USER, CHANNEL = 1, 3, 4, 5, 6, 7  # types of options
BOT_DM = 1  # a context: a direct message to the bot
TEXT_CHANNEL, NEWS, THREADS = 0, 5, (10, 11, 12)
PLACES = {"channel": "this channel", "server": "this server", "everywhere": "everywhere (the bots' owner)"}
ON_OFF = {"on": "on", "off": "off"}

# The fields to compare; Discord sets the others (ids, versions, defaults).
_COMPARED = (
    *("name", "description", "required", "min_value", "max_value", "max_length"),
    *("choices", "channel_types", "contexts", "autocomplete"),
)


RESET = "Start fresh here: earlier messages are no longer context"


OLD_NAMES: Mapping[str, str] = {"bots go-on": "bots resume"}
"""Commands by the names that they had; Discord shows them until its list is refreshed, and people type them."""


def command_list(agents: Mapping[str, str], themes: Sequence[str], files: Sequence[str] = ()) -> list[Json]:
    """All commands for these agents (key → shown name), themes and persona files."""
    bot = _option(TEXT, "bot", "Which bot", required=True, choices=_choices(agents))
    channel = _option(CHANNEL, "channel", "Which channel; this one by default", channel_types=[TEXT_CHANNEL, NEWS])
    agent = _option(TEXT, "agent", "Which bot", required=True, choices=_choices(agents))
    any_agent = _option(TEXT, "agent", "Which bot; all by default", choices=_choices(agents))
    prompt = _option(TEXT, "prompt", "Your question", required=True, max_length=MAX_QUESTION)
    file = _option(TEXT, "file", "Which file", required=True, choices=_choices({name: name for name in files}))
    message = _option(TEXT, "message", "Link or id of the message", required=True)
    unasked = _option(TEXT, "unasked", "Whether bots may write to you unasked", choices=_choices(ON_OFF))
    export = _option(TEXT, "export", "Send what is kept about you", choices=_choices({"file": "as a file"}))
    arena = "Let two hidden agents answer, and vote on who is better"
    return [
        _slash("bots", "The bots of this server", *_bots_parts(agents, themes, bot, channel)),
        _slash("stop", "Silence the bots here, or cancel their answers to you", _minutes(MAX_STOP_MINUTES, "a day")),
        _slash("resume", "Let the bots speak here again"),
        _slash("ask", "Ask a bot a question; everyone here sees it", agent, prompt),
        _slash("arena", arena, prompt, _minutes(MAX_ARENA_MINUTES, "5")),
        _slash("reset", RESET, any_agent),
        _slash("room", "Debates of bots and personas, in threads", *_room_parts(channel, themes)),
        *_of_files(agent, file, files),
        _slash("config", "Options of the bots (server managers)", *_config_parts()),
        _slash(
            "profile",
            "Topics that the bots noted of you; nobody else sees them here",
            _part("show", "Show your topics, and where they come from"),
            _part("edit", "Change your topics, in a form"),
            _part("delete", "Remove your topics"),
        ),
        _slash("privacy", "What is kept here and about you, and who reads it", unasked, export),
        _slash("forget", "Your data", _part("me", "Remove what the bots keep about you")),
        _slash("why", "Explain why a bot posted a message", message),
        _slash("why-not", "Explain why a bot is silent here", bot),
        {"type": MESSAGE, "name": WHY},
    ]


def _bots_parts(agents: Mapping[str, str], themes: Sequence[str], bot: Json, channel: Json) -> tuple[Json, ...]:
    theme = _option(TEXT, "theme", "Which theme", choices=_choices({name: name for name in themes}))
    starter = _option(TEXT, "starter", "Which bot begins; by default the next one", choices=_choices(agents))
    topic = _option(TEXT, "topic", "About what; by default the bot that begins chooses", max_length=MAX_TOPIC)
    person = _option(USER, "user", "Which person", required=True)
    return (
        _part("status", "Show which bots are online, today's cost, and what is running here"),
        _part("start", "Start a conversation (server managers)", channel, theme, starter, topic),
        _part("next", "Let a bot speak next (server managers)", bot, channel),
        _part("end", "End the running conversation (server managers)", channel),
        _part("pause", "Silence all bots in this server (server managers), or everywhere (owner)"),
        _part("resume", "Let the bots resume after a pause (server managers)"),
        _part("mute", "Silence a bot for a while (server managers)", bot, _minutes(MAX_MUTE_MINUTES, "60")),
        _part("unmute", "Let a muted bot speak again (server managers)", bot),
        _part("ignore", "Make the bots ignore a person (server managers)", person),
        _part("unignore", "Let the bots listen to a person again (server managers)", person),
    )


def _of_files(agent: Json, file: Json, files: Sequence[str]) -> list[Json]:
    if not files:
        return []
    back = _option(
        WHOLE,
        "back",
        "Show the version this many changes ago; the current one by default",
        min_value=1,
        max_value=MAX_BACK,
    )
    show = _part("show", "Show a persona file (server managers)", agent, file, back)
    edit = _part("edit", "Edit a persona file (server managers)", agent, file)
    return [
        _slash("agent", "Personas: agents without a bot of their own", *_persona_parts()),
        _slash("agent-file", "A bot's persona files", show, edit),
    ]


def _persona_parts() -> list[Json]:
    """The parts of /agent. Personas come and go, so no list of them stands in a definition."""
    name = _typed("name", "Which persona", required=True)
    return [
        _part("create", "Create a persona, in a form (server managers)"),
        _part("edit", "Edit a persona, in a form (server managers)", name),
        _part("show", "Show a persona (server managers)", _typed("name", "Which bot or persona", required=True)),
        _part("delete", "Delete a persona; it is kept where the owner can restore it (server managers)", name),
        _part("list", "Show all bots and personas with their models"),
    ]


def _config_parts() -> list[Json]:
    option = "Which option, as docs/context.md lists them"
    return [
        _part(
            "show",
            "Show an agent's options here, and where each comes from (server managers)",
            _typed("agent", "Which bot or persona", required=True),
            _typed("option", f"{option}; all by default"),
        ),
        _part(
            "set",
            "Set an option while the bots run (server managers)",
            _typed("option", option, required=True),
            _option(TEXT, "value", "Its value; default takes it back", required=True, max_length=MAX_VALUE),
            _typed("agent", "Which bot or persona; all by default"),
            _option(TEXT, "place", "Where; in this channel by default", choices=_choices(PLACES)),
        ),
    ]


def _room_parts(channel: Json, themes: Sequence[str]) -> list[Json]:
    room = _typed("room", "Which room; by default the one of this thread")
    turns = _option(WHOLE, "turns", "How many more turns", min_value=1, max_value=MAX_TURNS)
    member = _typed("agent", "Which bot or persona", required=True)
    return [
        _part("create", "Open a room; without a topic a form opens (server managers)", *_of_new_room(channel, themes)),
        _part("stop", "Pause a room (server managers)", room),
        _part("resume", "Let a room go on (server managers)", room, turns),
        _part("next", "Say who speaks next in a room (server managers)", member, room),
        _part("close", "End a room (server managers)", room),
        _part("status", "Show who is in a room, and how far it is", room),
        _part("list", "Show the rooms of this server"),
        _part("add", "Add a bot or persona to a room (server managers)", member, room),
        _part("remove", "Take a bot or persona out of a room (server managers)", member, room),
        _part("export", "Get a room as a page to keep (server managers)", room),
    ]


def _of_new_room(channel: Json, themes: Sequence[str]) -> list[Json]:
    return [
        _option(TEXT, "topic", "What it is about; without it a form opens", max_length=MAX_TOPIC),
        _typed("personas", "Who takes part, separated by commas; without it you choose from a list"),
        channel,
        _option(WHOLE, "turns", "How many turns it has; 20 by default", min_value=2, max_value=MAX_TURNS),
        _option(
            TEXT, "archive", "When a silent thread is archived; after a day by default", choices=_choices(ARCHIVES)
        ),
        _option(TEXT, "policy", "Who speaks next; in turn by default", choices=_choices(POLICY_TEXTS)),
        _typed("moderator", "Who names the next speaker, with the policy moderated"),
        _option(
            WHOLE,
            "audience",
            "Seconds for people after each round; the thread is locked otherwise",
            min_value=0,
            max_value=MAX_SLOT,
        ),
        _option(YES_NO, "goodbye-ends", "Whether a post that only says goodbye ends the room; off by default"),
        _option(TEXT, "theme", "Its theme; debate by default", choices=_choices({name: name for name in themes})),
    ]


def _typed(name: str, description: str, **more: Any) -> Json:
    """A text for which choices are offered while it is typed."""
    return _option(TEXT, name, description, autocomplete=True, max_length=MAX_NAMES, **more)


def is_same(registered: Json, wanted: Json) -> bool:
    return registered.get("type", SLASH) == wanted["type"] and _shape(registered) == _shape(wanted)


def is_ours(registered: Json, wanted: Sequence[Json]) -> bool:
    return any((registered["name"], registered.get("type", SLASH)) == (one["name"], one["type"]) for one in wanted)


def _shape(command: Json) -> Json:
    shape = {key: command[key] for key in _COMPARED if command.get(key)}
    if "choices" in shape:
        shape["choices"] = [(choice["name"], choice["value"]) for choice in shape["choices"]]
    return {**shape, "options": [(one["type"], _shape(one)) for one in command.get("options") or ()]}


def _slash(name: str, description: str, *options: Json) -> Json:
    return {"type": SLASH, "name": name, "description": description, "options": list(options)}


def _part(name: str, description: str, *options: Json) -> Json:
    """A sub-command; Discord wants required options first."""
    return _option(SUB_COMMAND, name, description, options=sorted(options, key=lambda one: not one.get("required")))


def _option(kind: int, name: str, description: str, **more: Any) -> Json:
    return {"type": kind, "name": name, "description": description, **more}


def _minutes(most: int, default: str) -> Json:
    return _option(WHOLE, "minutes", f"How many minutes; {default} by default", min_value=1, max_value=most)


def _choices(values: Mapping[str, str]) -> list[Json]:
    return [{"name": shown, "value": value} for value, shown in list(values.items())[:MAX_CHOICES]]


DIRECT_COMMANDS = [{**_slash("reset", RESET), "contexts": [BOT_DM]}]  # registered globally, by each bot
