"""The table of actions: each one works on each of its surfaces for those who have the right, and for nobody else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest

from agent_cogs.slash_definitions import SUB_COMMAND, command_list
from agentic.actions.base import FORM, MENU, OWNER, ActionContext, ActionRequest, Outcome, Place, Surface, report
from agentic.actions.registry import TABLE, Action, Actions
from agentic.actions.texts import TEXTS
from agentic.actions.values import bounds_of, extra_of
from agentic.chat.service import Person
from agentic.ids import id_at
from agentic.process.root import ROOT
from agentic.state.silence import ChannelRef
from tests.support.slash_scene import BOB, GUILD, LOUNGE, MANAGER, MEMBER, NAMES, NOW, a_place

MODERATOR = Person(8)
MESSAGE_MANAGER = Person(9, manages_messages=True)
OF_SEVERAL_SERVERS = Person(103, manages_messages=True, manages_guild=True)
BOTS_OWNER = Person(7)  # without any right in this server
PEOPLE = {
    "everyone": (MEMBER, MODERATOR, MESSAGE_MANAGER, OF_SEVERAL_SERVERS, BOTS_OWNER),
    "moderator": (MODERATOR, MESSAGE_MANAGER, OF_SEVERAL_SERVERS, BOTS_OWNER),
    "message_manager": (MESSAGE_MANAGER, OF_SEVERAL_SERVERS, BOTS_OWNER),
    "manager": (OF_SEVERAL_SERVERS, BOTS_OWNER),
    "owner": (BOTS_OWNER,),
}
"""Who has which right in a server, if the bots are in several ones."""
SENTENCES = {
    "moderator": {"moderators_only"},
    "message_manager": {"message_managers_only"},
    "manager": {"managers_only"},
    "owner": {"managers_only", "owners_only"},
}
USES = [(action, surface) for action in TABLE for surface in sorted(action.surfaces)]


def name_of(use: object) -> str:
    return use.name if isinstance(use, Action) else str(use)


def sample(action: Action, surface: Surface) -> dict[str, Any]:
    """Values for all that the action needs on the surface."""
    by_kind = {"bot": "grok", "agent": "Grok", "channel": str(LOUNGE), "person": str(BOB), "option": "stream"}
    by_kind["message"] = str(id_at(NOW))
    found: dict[str, Any] = {}
    for name, field in action.values.model_fields.items():
        extra = extra_of(field)
        is_needed = field.is_required() or extra["needed"] == surface
        if is_needed and extra["only"] in (None, surface):
            text = by_kind.get(extra["kind"], next(iter(extra["choices"]), "12:00"))
            number = bounds_of(field).get("le", 1)
            found[field.alias or name] = number if field.annotation in (int, float) else text
    return found


def request_of(action: Action, surface: Surface, who: Person) -> ActionRequest:
    place = {"slash": ChannelRef(LOUNGE, guild_id=GUILD), "text": ChannelRef(LOUNGE), "console": None}[surface]
    values = sample(action, surface)
    return ActionRequest(id=1, name=action.name, who=who, surface=surface, place=place, values=values)


def probed(action: Action) -> Action:
    """The action, with a handler that says that it ran."""

    @wraps(action.run)
    async def run(context: ActionContext, request: ActionRequest, values: Any) -> Outcome:
        return report("it ran")

    return replace(action, run=run)


@pytest.mark.parametrize(("action", "surface"), USES, ids=name_of)
async def test_an_action_works_on_its_surfaces_for_those_who_have_the_right_alone(
    action: Action, surface: Surface
) -> None:
    async with a_place(MODERATOR_IDS="8", OWNER_USER_IDS="7") as place:
        place.known.guilds.clear()  # the bots may be in other servers
        place.services.chats.scope = replace(place.services.chats.scope, guild_ids=frozenset({GUILD, 2}))
        actions = Actions(place.actions.context, [probed(action)])
        for who in (OWNER,) if surface == "console" else PEOPLE["everyone"]:
            outcome = await actions.perform(request_of(action, surface, who))
            may = surface == "console" or who in PEOPLE[action.right]
            if surface == "text" and action.right in ("moderator", "message_manager"):
                may = True  # a private chat is its person's
            if may:
                assert outcome == report("it ran"), who
            else:
                assert outcome.code in SENTENCES[action.right], who
                assert not outcome.ok


@pytest.mark.parametrize("action", TABLE, ids=name_of)
async def test_an_action_is_not_known_on_another_surface(action: Action) -> None:
    async with a_place() as place:
        actions = Actions(place.actions.context, [probed(action)])
        others: list[Surface] = [each for each in ("slash", "text", "console") if each not in action.surfaces]
        for surface in others:
            assert (await actions.perform(request_of(action, surface, MANAGER))).code == "unknown_action"


@pytest.mark.parametrize("action", [one for one in TABLE if "console" in one.surfaces], ids=name_of)
async def test_the_console_is_told_what_is_missing(action: Action) -> None:
    """It was told of a channel <#None>, and of a thread that it is not in."""
    needed = sample(action, "console")
    async with a_place() as place:
        actions = Actions(place.actions.context, [probed(action)])
        for name in needed:
            request = request_of(action, "console", OWNER)
            left = {key: value for key, value in needed.items() if key != name}
            outcome = await actions.perform(replace(request, values=left))
            assert (outcome.code, outcome.fields) == ("missing_value", {"option": name})


async def test_an_option_of_one_surface_is_refused_on_the_others() -> None:
    """A moderator of one server could stop the bots in another one by naming its channel."""
    async with a_place() as place:
        request = request_of(next(one for one in TABLE if one.name == "stop"), "slash", MANAGER)
        outcome = await place.actions.perform(replace(request, values={"channel": "99"}))
        assert (outcome.code, place.silence.stopped_channels()) == ("unknown_option", {})


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("bots mute", {"bot": "grok", "minutes": 0}, "bad_value"),
        ("bots mute", {"bot": "grok", "minutes": "5"}, "bad_value"),
        ("bots mute", {"bot": "grok", "hours": 5}, "unknown_option"),
        ("bots mute", {"bot": "gork"}, "unknown_value"),
        ("bots mute", {}, "missing_value"),
        ("bots ignore", {"user": "somebody"}, "bad_value"),
        ("bots start", {"theme": "opera"}, "unknown_value"),
        ("bots start", {"topic": "x" * 201}, "bad_value"),
    ],
)
async def test_a_value_that_does_not_fit_is_refused_before_anything_is_done(
    name: str, values: dict[str, Any], code: str
) -> None:
    async with a_place() as place:
        action = next(one for one in TABLE if one.name == name)
        outcome = await place.actions.perform(replace(request_of(action, "slash", MANAGER), values=values))
        assert outcome.code == code
        assert place.notes == []
        assert place.silence.active() == []


def test_every_action_has_one_row_and_its_name_in_the_record_is_one_actions() -> None:
    names = [name for action in TABLE for name in (action.name, *action.aliases)]
    assert len(names) == len(set(names))
    on_console = [action.record for action in TABLE if "console" in action.surfaces]
    assert len(on_console) == len(set(on_console))
    assert all(on_console)


def test_discord_shows_every_slash_command_of_the_table() -> None:
    shown = []
    for command in command_list(NAMES):
        parts = [option for option in command.get("options", ()) if option["type"] == SUB_COMMAND]
        shown += [f"{command['name']} {part['name']}" for part in parts] or [command["name"]]
    listed = [action for action in TABLE if "slash" in action.surfaces and not action.name.startswith((FORM, MENU))]
    assert sorted({*shown} - {"Why?"}) == sorted(action.name for action in listed)
    assert all(action.about for action in listed)


def test_the_pages_of_docs_name_every_command_as_text() -> None:
    page = (ROOT / "docs" / "signal.md").read_text(encoding="utf-8")
    written = {action: (action.name, *action.aliases) for action in TABLE if "text" in action.surfaces}
    missing = [one.name for one, names in written.items() if not any(f"`/{name}" in page for name in names)]
    assert missing == []


def test_the_console_has_a_button_for_each_of_its_actions() -> None:
    folder = ROOT / "agentic" / "console" / "static" / "js"
    scripts = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.js"))
    for action in TABLE:
        if "console" in action.surfaces:
            assert f'"{action.record}"' in scripts, action.name
            assert f'"{action.button}"' in scripts, action.name
            assert action.about, "a line in the list of what was done"


def codes() -> Iterator[str]:
    """The codes of outcomes in the handlers."""
    for path in (ROOT / "agentic" / "actions").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            first = {"done": 0, "refused": 0, "ActionRefused": 0, "_done": 1}.get(node.func.id)
            value = given.get("code") if node.func.id == "Outcome" else None
            value = node.args[first] if first is not None and len(node.args) > first else value
            for part in ast.walk(value) if value is not None else ():
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def test_every_outcome_of_a_handler_has_a_text() -> None:
    found = set(codes())
    assert len(found) > 50
    assert sorted(found - TEXTS.keys() - {"_but_paused"}) == []


def test_texts_name_actions_that_there_are() -> None:
    named = {name for text in TEXTS.values() for name in re.findall(r"</([a-z- ]+)>", text)}
    assert named
    assert named <= {action.name for action in TABLE}


def test_a_place_without_servers_shows_nothing_elsewhere() -> None:
    place = Place()
    assert place.may_see(5)(5)
    assert not place.may_see(5)(6)
