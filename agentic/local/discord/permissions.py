"""A member's permissions, computed as Discord documents it: @everyone, then roles, then the channel's overwrites.

https://discord.com/developers/docs/topics/permissions#permission-hierarchy
"""

from agentic.local.discord import errors
from agentic.local.discord.world import Channel, Guild, World

ADD_REACTIONS = 1 << 6
VIEW_CHANNEL = 1 << 10
SEND_MESSAGES = 1 << 11
MANAGE_MESSAGES = 1 << 13
EMBED_LINKS = 1 << 14
ATTACH_FILES = 1 << 15
READ_MESSAGE_HISTORY = 1 << 16
MENTION_EVERYONE = 1 << 17
MANAGE_CHANNELS = 1 << 4
ADMINISTRATOR = 1 << 3
MANAGE_ROLES = 1 << 28
MANAGE_WEBHOOKS = 1 << 29
USE_APPLICATION_COMMANDS = 1 << 31
MANAGE_THREADS = 1 << 34
CREATE_PUBLIC_THREADS = 1 << 35
CREATE_PRIVATE_THREADS = 1 << 36
SEND_MESSAGES_IN_THREADS = 1 << 38
PIN_MESSAGES = 1 << 51

ALL = (1 << 53) - 1
PEOPLE = (
    VIEW_CHANNEL
    | SEND_MESSAGES
    | SEND_MESSAGES_IN_THREADS
    | READ_MESSAGE_HISTORY
    | ADD_REACTIONS
    | ATTACH_FILES
    | EMBED_LINKS
    | CREATE_PUBLIC_THREADS
    | USE_APPLICATION_COMMANDS
)
"""The permissions of @everyone in a usual server."""
BOTS = PEOPLE | MANAGE_MESSAGES | MANAGE_WEBHOOKS | MANAGE_THREADS | PIN_MESSAGES
"""The permissions of an invited bot's own role."""


def permissions_of(world: World, user_id: int, channel: Channel) -> int:
    """The permission bits of a user in a channel; 0 without membership. In a DM its recipients have all."""
    if channel.guild_id is None:
        return ALL if user_id in channel.recipients else 0
    guild = world.guilds[channel.guild_id]
    base = guild_permissions(guild, user_id)
    if base & ADMINISTRATOR or not base:
        return base
    bearer = guild.channels.get(channel.parent_id or 0, channel) if channel.is_thread else channel
    return _with_overwrites(guild, user_id, bearer, base)


def guild_permissions(guild: Guild, user_id: int) -> int:
    """The bits of a member's roles, before any channel's overwrites."""
    member = guild.members.get(user_id)
    if member is None:
        return 0
    if guild.owner_id == user_id:
        return ALL
    bits = guild.roles[guild.id].permissions
    for role_id in member.roles:
        bits |= guild.roles[role_id].permissions
    return ALL if bits & ADMINISTRATOR else bits


def _with_overwrites(guild: Guild, user_id: int, channel: Channel, bits: int) -> int:
    if not channel.overwrites:
        return bits
    everyone = channel.overwrites.get(guild.id)
    if everyone is not None:
        bits = bits & ~everyone.deny | everyone.allow
    allow = deny = 0
    for role_id in guild.members[user_id].roles:
        overwrite = channel.overwrites.get(role_id)
        if overwrite is not None:
            allow |= overwrite.allow
            deny |= overwrite.deny
    bits = bits & ~deny | allow
    own = channel.overwrites.get(user_id)
    return bits if own is None else bits & ~own.deny | own.allow


def may_view(world: World, user_id: int, channel: Channel) -> bool:
    return bool(permissions_of(world, user_id, channel) & VIEW_CHANNEL)


def require(world: World, user_id: int, channel: Channel, needed: int) -> None:
    """Raise Discord's 403: 50001 for a channel that cannot be seen, 50013 for a missing bit."""
    bits = permissions_of(world, user_id, channel)
    if not bits & VIEW_CHANNEL:
        raise errors.missing_access()
    if bits & needed != needed:
        raise errors.missing_permissions()


def sending_bit(channel: Channel) -> int:
    return SEND_MESSAGES_IN_THREADS if channel.is_thread else SEND_MESSAGES
