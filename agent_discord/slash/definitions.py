"""The commands as Discord is told of them, and whether it knows them as they are.

Rights are no part of it: Discord can ask for a permission for a whole command only, and `/bots` has parts for everyone
and parts for the server's managers. They are checked when a command is used.

https://discord.com/developers/docs/interactions/application-commands
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_discord.objects.messages import LONGEST_QUESTION

Json = dict[str, Any]

SLASH, MESSAGE = 1, 3  # types of commands
SUB_COMMAND, TEXT, WHOLE, USER, CHANNEL = 1, 3, 4, 6, 7  # types of options
BOT_DM = 1  # a context: a direct message to the bot
TEXT_CHANNEL, NEWS, THREADS = 0, 5, (10, 11, 12)
WHY = "Why?"
FORM = "form"  # not a command that anybody sees: a form of ours that comes back filled in
LONGEST_STOP, LONGEST_MUTE = 24 * 60, 7 * 24 * 60  # minutes
MOST_BACK = 10  # changes that a file's history holds
MOST_CHOICES = 25

# What of a command is compared; the rest (ids, versions, what Discord fills in) is Discord's own.
_TOLD = (
    "name",
    "description",
    "required",
    "min_value",
    "max_value",
    "max_length",
    "choices",
    "channel_types",
    "contexts",
)


RESET = "Begin anew here: what was said so far is no longer context"


def command_list(agents: Mapping[str, str], themes: Sequence[str], files: Sequence[str] = ()) -> list[Json]:
    """Every command, for the agents (key → shown name), the themes and the personas' files that there are."""
    bot = _option(TEXT, "bot", "which bot", required=True, choices=_choices(agents))
    theme = _option(TEXT, "theme", "by which rules", choices=_choices({name: name for name in themes}))
    channel = _option(CHANNEL, "channel", "where; here, if none is named", channel_types=[TEXT_CHANNEL, NEWS])
    agent = _option(TEXT, "agent", "which bot", required=True, choices=_choices(agents))
    any_agent = _option(TEXT, "agent", "which bot; all, if none is named", choices=_choices(agents))
    prompt = _option(TEXT, "prompt", "what you ask", required=True, max_length=LONGEST_QUESTION)
    file = _option(TEXT, "file", "which file", required=True, choices=_choices({name: name for name in files}))
    person = _option(USER, "user", "whom", required=True)
    return [
        _slash(
            "bots",
            "The bots of this server",
            _part("status", "Who is online, what today cost, what happens here"),
            _part("start", "Begin a conversation (server managers)", channel, theme),
            _part("mute", "Silence a bot for a while (server managers)", bot, _minutes(LONGEST_MUTE, "60")),
            _part("unmute", "Let a bot speak again (server managers)", bot),
            _part("ignore", "No bot hears this person any more (server managers)", person),
            _part("unignore", "The bots hear this person again (server managers)", person),
        ),
        _slash("stop", "Silence the bots in this channel, or what answers you", _minutes(LONGEST_STOP, "a day")),
        _slash("resume", "The bots may speak here again"),
        _slash("ask", "Ask a bot; everybody here sees it", agent, prompt),
        _slash("reset", RESET, any_agent),
        *_of_files(agent, file, files),
        _slash("forget", "What the bots' program keeps", _part("me", "Remove what it keeps of you")),
        _slash("why", "Why a bot said something", _option(TEXT, "message", "its link or its id", required=True)),
        _slash("why-not", "Why a bot says nothing here", bot),
        {"type": MESSAGE, "name": WHY},
    ]


def _of_files(agent: Json, file: Json, files: Sequence[str]) -> list[Json]:
    if not files:
        return []
    told = "what it was before so many changes; as it is, if nothing is said"
    back = _option(WHOLE, "back", told, min_value=1, max_value=MOST_BACK)
    show = _part("show", "Show one of its files (server managers)", agent, file, back)
    edit = _part("edit", "Change one of its files (server managers)", agent, file)
    return [_slash("agent-file", "Who a bot is: its files", show, edit)]


def _in_direct(command: Json) -> Json:
    return {**command, "contexts": [BOT_DM]}


def same(kept: Json, wanted: Json) -> bool:
    """Whether Discord knows a command as it is wanted."""
    return kept.get("type", SLASH) == wanted["type"] and _shape(kept) == _shape(wanted)


def is_ours(kept: Json, wanted: Sequence[Json]) -> bool:
    """Whether a command that Discord knows is one of these, in whatever form."""
    return any((kept["name"], kept.get("type", SLASH)) == (one["name"], one["type"]) for one in wanted)


def _shape(command: Json) -> Json:
    shape = {key: command[key] for key in _TOLD if command.get(key)}
    if "choices" in shape:
        shape["choices"] = [(choice["name"], choice["value"]) for choice in shape["choices"]]
    return {**shape, "options": [(one["type"], _shape(one)) for one in command.get("options") or ()]}


def _slash(name: str, description: str, *options: Json) -> Json:
    return {"type": SLASH, "name": name, "description": description, "options": list(options)}


def _part(name: str, description: str, *options: Json) -> Json:
    """A sub-command; what is required comes first, as Discord wants it."""
    return _option(SUB_COMMAND, name, description, options=sorted(options, key=lambda one: not one.get("required")))


def _option(kind: int, name: str, description: str, **more: Any) -> Json:
    return {"type": kind, "name": name, "description": description, **more}


def _minutes(most: int, default: str) -> Json:
    return _option(WHOLE, "minutes", f"for how long; {default}, if nothing is said", min_value=1, max_value=most)


def _choices(values: Mapping[str, str]) -> list[Json]:
    return [{"name": shown, "value": value} for value, shown in list(values.items())[:MOST_CHOICES]]


DIRECT_COMMANDS = [_in_direct(_slash("reset", RESET))]  # global ones, of each bot
