"""REST: applications and their commands."""

from typing import Any

from agentic.local.discord import errors, payloads
from agentic.local.discord.calls import RestAnswer, RestCall, RestEndpoint


async def info(call: RestCall) -> Any:
    return payloads.application(call.world, call.app)


def _commands(call: RestCall) -> list[dict[str, Any]]:
    """The list that the path names: of the guild in it, or the global one. Only the application's own."""
    if call.id("application_id") != call.app.id:
        raise errors.ApiError(403, 20012, "You are not authorized to perform this action on this application")
    guild_id = call.guild().id if "guild_id" in call.request.match_info else None
    if guild_id in call.app.without_commands:
        raise errors.missing_access()
    return call.app.commands.setdefault(guild_id, [])


def _stored(call: RestCall, body: dict[str, Any], known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A command as Discord keeps it; one of the same name keeps its id."""
    old = known.get(body["name"])
    stored = {
        "type": 1,
        "description": "",
        "options": [],
        "default_member_permissions": None,
        "nsfw": False,
        **_normal(body),
        "id": old["id"] if old else str(call.world.snowflakes.next()),
        "application_id": str(call.app.id),
        "version": str(call.world.snowflakes.next()),
    }
    if "guild_id" in call.request.match_info:
        stored["guild_id"] = call.request.match_info["guild_id"]
    return stored


def _normal(option: dict[str, Any]) -> dict[str, Any]:
    """Discord leaves out defaults: an option that is not required, no choices."""
    shown = {key: value for key, value in option.items() if key != "required" or value}
    if isinstance(shown.get("default_member_permissions"), int):
        shown["default_member_permissions"] = str(shown["default_member_permissions"])
    if "options" in shown:
        shown["options"] = [_normal(one) for one in shown["options"]]
    return shown


async def commands(call: RestCall) -> Any:
    return _commands(call)


async def replace_commands(call: RestCall) -> Any:
    kept = _commands(call)
    known = {c["name"]: c for c in kept}
    kept[:] = [_stored(call, body, known) for body in await call.json_list()]
    return kept


async def add_command(call: RestCall) -> Any:
    kept = _commands(call)
    known = {c["name"]: c for c in kept}
    stored = _stored(call, await call.json(), known)
    kept[:] = [c for c in kept if c["name"] != stored["name"]] + [stored]
    return RestAnswer(200 if stored["name"] in known else 201, stored)


async def remove_command(call: RestCall) -> None:
    kept = _commands(call)
    wanted = call.request.match_info["command_id"]
    if all(c["id"] != wanted for c in kept):
        raise errors.unknown("application command")
    kept[:] = [c for c in kept if c["id"] != wanted]


async def no_items(call: RestCall) -> Any:
    return {"items": []}


async def nothing(call: RestCall) -> Any:
    """py-cord reads the default sounds before it is ready; local use needs none."""
    return []


_GLOBAL = "/applications/{application_id}/commands"
_GUILD = "/applications/{application_id}/guilds/{guild_id}/commands"

ENDPOINTS = [
    RestEndpoint("GET", "/oauth2/applications/@me", info),
    RestEndpoint("GET", "/applications/@me", info),
    RestEndpoint("GET", "/applications/{application_id}/emojis", no_items),
    RestEndpoint("GET", "/soundboard-default-sounds", nothing),
    RestEndpoint("GET", "/guilds/{guild_id}/soundboard-sounds", no_items),
] + [
    endpoint
    for path in (_GLOBAL, _GUILD)
    for endpoint in (
        RestEndpoint("GET", path, commands),
        RestEndpoint("PUT", path, replace_commands),
        RestEndpoint("POST", path, add_command),
        RestEndpoint("DELETE", path + "/{command_id}", remove_command),
    )
]
