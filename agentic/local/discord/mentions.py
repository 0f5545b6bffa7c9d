"""The pings of a text: its mentions, limited by allowed_mentions and by the author's permissions.

https://discord.com/developers/docs/resources/message#allowed-mentions-object
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agentic.local.discord import errors, permissions
from agentic.local.discord.world import Channel, World

_USER = re.compile(r"<@!?(\d{15,20})>")
_ROLE = re.compile(r"<@&(\d{15,20})>")
_EVERYONE = re.compile(r"@(everyone|here)\b")


@dataclass(frozen=True, slots=True)
class Pings:
    users: list[int] = field(default_factory=list)
    roles: list[int] = field(default_factory=list)
    everyone: bool = False


def pings(
    world: World,
    channel: Channel,
    author_id: int | None,
    content: str,
    allowed: dict[str, Any] | None = None,
    replied_to: int | None = None,
) -> Pings:
    """allowed is the request's allowed_mentions, None if there is none (then all mentions count).

    replied_to is the author answered.

    A webhook (author_id None) may ping everything. Raises ApiError for allowed_mentions that Discord refuses.
    """
    check(allowed)
    users = [u for u in _ids(_USER, content) if u in world.users and _permits(allowed, "users", u)]
    if replied_to in world.users and replied_to not in users and (allowed is None or allowed.get("replied_user")):
        users.insert(0, replied_to)
    if channel.guild_id is None:
        return Pings(users)
    may_all = author_id is None or bool(
        permissions.permissions_of(world, author_id, channel) & permissions.MENTION_EVERYONE
    )
    known = world.guilds[channel.guild_id].roles
    roles = [
        r
        for r in _ids(_ROLE, content)
        if r in known and (may_all or known[r].mentionable) and _permits(allowed, "roles", r)
    ]
    everyone = may_all and bool(_EVERYONE.search(content)) and (allowed is None or "everyone" in _parse(allowed))
    return Pings(users, roles, everyone)


def check(allowed: dict[str, Any] | None) -> None:
    """Discord refuses a kind that is both parsed and listed."""
    for kind in ("users", "roles"):
        if allowed is not None and kind in _parse(allowed) and allowed.get(kind):
            text = f'parse:["{kind}"] and {kind}: [ids...] are mutually exclusive.'
            raise errors.invalid_form("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", text)


def _ids(pattern: re.Pattern[str], content: str) -> Iterable[int]:
    return dict.fromkeys(int(found) for found in pattern.findall(content))


def _permits(allowed: dict[str, Any] | None, kind: str, wanted: int) -> bool:
    if allowed is None or kind in _parse(allowed):
        return True
    return wanted in {int(listed) for listed in allowed.get(kind) or ()}


def _parse(allowed: dict[str, Any]) -> list[str]:
    return allowed.get("parse") or []
