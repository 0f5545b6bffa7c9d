"""Turns Discord's markup for people, channels, roles, and emoji into names, and names into markup.

Models read and write `@Name`; Discord uses `<@id>`. Every name is cleaned (agentic.chat.directory). Markup alone pings
nobody: the gate sets the allowed mentions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import discord

from agentic.chat.directory import NOBODY, Directory, clean_name
from agentic.chat.transcript import Transcript
from agentic.services.discord.channels import Channel, guild_of

NO_NAMES: Mapping[int, str] = MappingProxyType({})

_MARKUP = re.compile(
    r"<(?:@!?(?P<user>\d{1,20})|#(?P<channel>\d{1,20})|@&(?P<role>\d{1,20})"
    r"|a?:(?P<emoji>\w{2,32}):\d{1,20}|/(?P<command>[\w -]{1,100}):\d{1,20})>"
)
_USERS = re.compile(r"<@!?(\d{1,20})>")
_EMOJI_NAME = re.compile(r"(?<![\w<:/]):(\w{2,32}):(?!\d)")
_CODE = re.compile(r"(```.*?(?:```|\Z)|``.+?``|`[^`\n]+`)", re.DOTALL)


def to_names(
    text: str,
    names: Mapping[int, str] = NO_NAMES,
    channels: Mapping[int, str] = NO_NAMES,
    roles: Mapping[int, str] = NO_NAMES,
) -> str:
    """Replace `<@1>` → `@Name`, `<#2>` → `#channel`, `<@&3>` → `@role`, `<:smile:4>` → `:smile:`, `</ask:5>` → `/ask`.

    Unknown ids become `@someone`, `#channel`, and `@role`. The names are cleaned here.
    """

    def to_name(match: re.Match[str]) -> str:
        kind, value = match.lastgroup, match[match.lastgroup or 0]
        if kind == "user":
            return "@" + clean_name(names.get(int(value), NOBODY))
        if kind == "channel":
            return "#" + clean_name(channels.get(int(value), "channel"))
        if kind == "role":
            return "@" + clean_name(roles.get(int(value), "role"))
        return f":{value}:" if kind == "emoji" else f"/{value}"

    return _MARKUP.sub(to_name, text)


def from_names(text: str, names: Iterable[tuple[str, int]], sign: str = "@", markup: str = "<@{}>") -> str:
    """Replace `@Name` → `<@id>` for the (name, id) in `names`, ignoring case, longest names first, outside of code.

    If several have the same name, it is replaced only if its case decides between them. `sign` and `markup` serve other
    named things: `#` and `<#{}>`, `@` and `<@&{}>`.
    """
    if sign not in text:
        return text
    cleaned = [(clean_name(name), thing_id) for name, thing_id in names]
    if not cleaned:
        return text
    exact = _unique(cleaned)
    in_any_case = _unique((name.lower(), thing_id) for name, thing_id in cleaned)
    known = "|".join(re.escape(name) for name in sorted(exact, key=len, reverse=True))
    ends = r"(?!\w)" if sign == "@" else r"(?!-?\w)"  # a channel's name continues after a hyphen
    pattern = re.compile(rf"(?<![\w@<./:#&-]){sign}({known}){ends}", re.IGNORECASE)

    def mention(match: re.Match[str]) -> str:
        thing_id = exact.get(match[1]) or in_any_case.get(match[1].lower())
        return markup.format(thing_id) if thing_id else match[0]

    return _outside_code(text, pattern, mention)


def _outside_code(text: str, pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str]) -> str:
    parts = _CODE.split(text)  # code at odd indexes
    parts[::2] = [pattern.sub(replacement, part) for part in parts[::2]]
    return "".join(parts)


def _unique(pairs: Iterable[tuple[str, int]]) -> dict[str, int | None]:
    """Map each name to its id, or to None if several have it."""
    found: dict[str, int | None] = {}
    for name, user_id in pairs:
        found[name] = user_id if found.get(name, user_id) == user_id else None
    return found


def mentioned_in(content: str) -> frozenset[int]:
    """Return the ids of users that a message's content mentions, pinged or not."""
    return frozenset(int(found) for found in _USERS.findall(content)) if "<@" in content else frozenset()


def user_ids(directory: Directory, *names: Mapping[str, str]) -> dict[str, int]:
    """Map agents' names to user ids, given names by key. Agents without an account are left out."""
    ids = {name: directory.id_of(agent) for given in names for agent, name in given.items()}
    return {name: user_id for name, user_id in ids.items() if user_id is not None}


def to_markup(text: str, channel: Channel, transcript: Transcript, agents: Mapping[str, int]) -> str:
    """Replace `@Name`, `@role`, `#channel`, and `:emoji:` with markup; unknown names are kept. `agents` maps agents'
    names to their user ids.

    A person is found by every name in the transcript: the gateway has nicknames, the history may have other names. An
    agent's name always means the agent, even if a person uses it too.
    """
    guild = guild_of(channel)
    if "@" in text:
        taken = {name.lower() for name in agents}
        speakers = {who for who in transcript.speakers() if who.id and not who.webhook}
        others = {(who.name, who.id) for who in speakers if who.agent or who.name.lower() not in taken}
        text = from_names(text, {*agents.items(), *others})
    if guild is None:
        return text
    if "@" in text:
        roles = ((role.name, role.id) for role in guild.roles if role.id != guild.id)  # not @everyone
        text = from_names(text, roles, markup="<@&{}>")
    if "#" in text:
        channels = (one for one in (*guild.channels, *guild.threads) if one.permissions_for(guild.me).view_channel)
        text = from_names(text, ((one.name, one.id) for one in channels), "#", "<#{}>")
    if ":" in text:
        usable: list[discord.GuildEmoji] = [emoji for emoji in reversed(guild.emojis) if emoji.available]
        emoji_by_name = {emoji.name: str(emoji) for emoji in usable}
        text = _outside_code(text, _EMOJI_NAME, lambda match: emoji_by_name.get(match[1], match[0]))
    return text
