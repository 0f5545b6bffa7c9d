"""The permissions that a bot needs, for its invite link and for the check of each channel.

A member's permissions in a channel are computed as Discord documents it: @everyone and roles, then the channel's
overwrites for @everyone, for the member's roles, for the member.
https://discord.com/developers/docs/topics/permissions#permission-hierarchy
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import MappingProxyType

import discord

from agentic.context.options import Options

NEEDED: Mapping[str, discord.Permissions] = MappingProxyType(
    {
        "View Channels": discord.Permissions(view_channel=True),
        "Send Messages": discord.Permissions(send_messages=True),
        "Send Messages in Threads": discord.Permissions(send_messages_in_threads=True),
        "Read Message History": discord.Permissions(read_message_history=True),
        "Add Reactions": discord.Permissions(add_reactions=True),
        "Attach Files": discord.Permissions(attach_files=True),
        "Embed Links": discord.Permissions(embed_links=True),
    }
)
WELCOME: Mapping[str, discord.Permissions] = MappingProxyType(
    {"Use External Emojis": discord.Permissions(use_external_emojis=True)}
)
"""Optional: a bot works without these."""
ROOMS: Mapping[str, discord.Permissions] = MappingProxyType(
    {
        "Create Public Threads": discord.Permissions(create_public_threads=True),
        "Manage Threads": discord.Permissions(manage_threads=True),
        "Manage Webhooks": discord.Permissions(manage_webhooks=True),
    }
)
"""Optional too: for rooms, to lock and archive their threads, and for personas."""

_BY_OPTION: Mapping[str, tuple[str, discord.Permissions, Callable[[Options], bool]]] = MappingProxyType(
    {
        "Manage Webhooks": (
            "tool_output_visible",
            discord.Permissions(manage_webhooks=True),
            lambda options: options.tool_output_visible,
        ),
        "Manage Messages": (
            "mode: prefill, to delete m commands",
            discord.Permissions(manage_messages=True),
            lambda options: options.mode == "prefill",
        ),
    }
)


def wanted_by(options: Options) -> dict[str, discord.Permissions]:
    """Permissions that single options need, under a name that includes the option."""
    return {
        f"{name} (for {option})": permission
        for name, (option, permission, wants) in _BY_OPTION.items()
        if wants(options)
    }


WRITING: Mapping[str, discord.Permissions] = MappingProxyType(
    {name: NEEDED[name] for name in ("View Channels", "Send Messages")}
)
"""What a bot needs in a channel that it only posts reports to."""

SCOPES = ("bot", "applications.commands")

_ADMINISTRATOR = discord.Permissions(administrator=True).value
_ALL = discord.Permissions.all().value


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A channel's permission overwrite for a role or a member."""

    allow: int
    deny: int


def invite_link(client_id: int, guild_id: int | None = None, more: Iterable[discord.Permissions] = ()) -> str:
    """The link that adds the bot to a server, with `guild_id` preselected. `more`: permissions besides those that every
    bot needs."""
    wanted = discord.Permissions.none()
    for permission in (*NEEDED.values(), *WELCOME.values(), *ROOMS.values(), *more):
        wanted |= permission
    if guild_id is None:
        return discord.utils.oauth_url(client_id, permissions=wanted, scopes=SCOPES)
    return discord.utils.oauth_url(client_id, permissions=wanted, scopes=SCOPES, guild=discord.Object(guild_id))


def guild_bits(role_bits: Iterable[int], *, is_owner: bool = False) -> int:
    """The permissions of @everyone's and a member's roles, before channel overwrites."""
    bits = _any(role_bits)
    return _ALL if is_owner or bits & _ADMINISTRATOR else bits


def channel_bits(
    bits: int, overwrites: Mapping[int, Overwrite], *, guild_id: int, role_ids: Collection[int], user_id: int
) -> int:
    """Apply a channel's overwrites to a member's `bits`. @everyone's overwrite has the guild's id."""
    if bits & _ADMINISTRATOR:
        return bits
    roles = [overwrites[role] for role in role_ids if role in overwrites]
    together = Overwrite(_any(role.allow for role in roles), _any(role.deny for role in roles))
    for step in (overwrites.get(guild_id), together, overwrites.get(user_id)):
        if step is not None:
            bits = bits & ~step.deny | step.allow
    return bits


def missing(bits: int, wanted: Mapping[str, discord.Permissions]) -> list[str]:
    """The names of wanted permissions that are missing."""
    return [name for name, permission in wanted.items() if bits & permission.value != permission.value]


def _any(bits: Iterable[int]) -> int:
    return reduce(or_, bits, 0)
