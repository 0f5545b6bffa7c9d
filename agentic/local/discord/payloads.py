"""The world's records as Discord's JSON: ids as strings, times in ISO 8601, permissions as strings.

REST and the gateway differ in few fields: a gateway message has guild_id and the author's member.
"""

from __future__ import annotations

from typing import Any

from agentic.local.discord.world import (
    REPLY,
    THREAD_STARTER,
    Attachment,
    BotApplication,
    Channel,
    Guild,
    Member,
    Message,
    Poll,
    Role,
    User,
    Webhook,
    World,
    iso,
)

Json = dict[str, Any]

FLAG_HAS_THREAD = 1 << 5
_LIMITED_PRESENCES, _LIMITED_MEMBERS, _LIMITED_CONTENT = 1 << 13, 1 << 15, 1 << 19


def user(u: User) -> Json:
    return {
        "id": str(u.id),
        "username": u.username,
        "discriminator": f"{u.id % 9999 + 1:04d}" if u.bot else "0",
        "global_name": u.global_name,
        "avatar": u.avatar,
        "bot": u.bot,
    }


def partial_member(m: Member) -> Json:
    return {"roles": [str(r) for r in m.roles], "nick": None, "joined_at": iso(m.joined_at), "flags": 0}


def member(m: Member) -> Json:
    return {**partial_member(m), "user": user(m.user)}


def role(r: Role) -> Json:
    body: Json = {
        "id": str(r.id),
        "name": r.name,
        "permissions": str(r.permissions),
        "position": r.position,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "managed": r.bot_id is not None,
        "mentionable": r.mentionable,
    }
    if r.bot_id is not None:
        body["tags"] = {"bot_id": str(r.bot_id)}
    return body


def channel(world: World, c: Channel) -> Json:
    last = None if c.last_message_id is None else str(c.last_message_id)
    if c.guild_id is None:
        people = [user(world.users[u]) for u in c.recipients if not world.users[u].bot]
        return {"id": str(c.id), "type": c.type, "recipients": people, "last_message_id": last, "flags": 0}
    body: Json = {
        "id": str(c.id),
        "type": c.type,
        "guild_id": str(c.guild_id),
        "parent_id": None if c.parent_id is None else str(c.parent_id),
        "name": c.name,
        "last_message_id": last,
    }
    if not c.is_thread:
        overwrites = c.overwrites.values()
        return body | {
            "topic": c.topic,
            "position": c.position,
            "permission_overwrites": [
                {"id": str(o.id), "type": o.kind, "allow": str(o.allow), "deny": str(o.deny)} for o in overwrites
            ],
        }
    return body | {
        "owner_id": str(c.owner_id),
        "message_count": len(c.messages),
        "thread_metadata": {
            "archived": c.archived,
            "auto_archive_duration": c.archive_minutes,
            "archive_timestamp": iso(c.archive_changed_at),
            "create_timestamp": iso(c.created_at),
            "locked": c.locked,
        },
    }


def guild(g: Guild) -> Json:
    """Return a guild as in GET /guilds/{id}; gateway.py adds channels, threads, and members for GUILD_CREATE."""
    return {
        "id": str(g.id),
        "name": g.name,
        "owner_id": str(g.owner_id),
        "emojis": [emoji(e, n) | {"roles": [], "available": True} for e, n in g.emojis.items()],
        "roles": [role(r) for r in g.roles.values()],
    }


def emoji(emoji_id: int | None, name: str) -> Json:
    return {"id": None if emoji_id is None else str(emoji_id), "name": name, "animated": False}


def webhook(world: World, w: Webhook) -> Json:
    body: Json = {
        "id": str(w.id),
        "type": 1,
        "guild_id": str(w.guild_id),
        "channel_id": str(w.channel_id),
        "name": w.name,
        "avatar": None,
        "token": w.token,
        "application_id": None if w.application_id is None else str(w.application_id),
    }
    if w.creator_id is not None:
        body["user"] = user(world.users[w.creator_id])
    return body


def application_flags(app: BotApplication) -> int:
    """The portal's intent switches as flags; unverified bots have the "limited" ones."""
    return _LIMITED_PRESENCES | _LIMITED_MEMBERS | (_LIMITED_CONTENT if app.message_content else 0)


def application(world: World, app: BotApplication) -> Json:
    owner = world.users[world.guild.owner_id]
    return {
        "id": str(app.id),
        "name": app.user.username,
        "verify_key": "",
        "description": "",
        "owner": user(owner),
        "bot": user(app.user),
        "flags": application_flags(app),
    }


def attachment(world: World, a: Attachment) -> Json:
    url = f"{world.cdn}/attachments/{a.channel_id}/{a.id}/{a.filename}"
    if world.addresses_expire is not None:
        url += f"?ex={int(world.addresses_expire):x}"
    body: Json = {
        "id": str(a.id),
        "filename": a.filename,
        "size": len(a.content),
        "url": url,
        "proxy_url": url,
        "content_type": a.media_type,
        "flags": 0,
    }
    if a.description:
        body["description"] = a.description
    if a.width is not None:
        body |= {"width": a.width, "height": a.height}
    return body


def poll(p: Poll, viewer_id: int | None = None) -> Json:
    counts = [{"id": answer, "count": len(who), "me_voted": viewer_id in who} for answer, who in p.votes.items() if who]
    return {
        "question": p.question,
        "answers": p.answers,
        "expiry": iso(p.ends),
        "allow_multiselect": p.allow_multiselect,
        "layout_type": 1,
        "results": {"is_finalized": p.ended, "answer_counts": counts},
    }


def message(world: World, m: Message, viewer_id: int | None = None, *, nested: bool = False) -> Json:
    """A message as in REST. viewer_id decides "me" of reactions; nested leaves out the message replied to."""
    body: Json = {
        "id": str(m.id),
        "type": m.type,
        "channel_id": str(m.channel_id),
        "author": user(m.author) | ({"discriminator": "0000"} if m.webhook_id == m.author.id else {}),
        "content": m.content,
        "timestamp": iso(m.timestamp),
        "edited_timestamp": None if m.edited is None else iso(m.edited),
        "tts": m.tts,
        "mention_everyone": m.mention_everyone,
        "mentions": [user(world.users[u]) for u in m.mentions],
        "mention_roles": [str(r) for r in m.mention_roles],
        "attachments": [attachment(world, a) for a in m.attachments],
        "embeds": m.embeds,
        "components": m.components,
        "pinned": m.pinned_at is not None,
        "flags": m.flags,
        **m.more,
    }
    if m.reactions:
        body["reactions"] = [
            {
                "emoji": emoji(*kind),
                "count": len(who),
                "count_details": {"normal": len(who) - burst, "burst": burst},
                "me": viewer_id in who,
            }
            for kind, who in m.reactions.items()
            for burst in [sum((kind, user_id) in m.super_reactions for user_id in who)]
        ]
    if m.poll is not None:
        body["poll"] = poll(m.poll, viewer_id)
    if m.nonce is not None:
        body["nonce"] = m.nonce
    if m.webhook_id is not None:
        body["webhook_id"] = str(m.webhook_id)
    if m.application_id is not None:
        body["application_id"] = str(m.application_id)
    if m.interaction is not None:
        body["interaction_metadata"] = {key: value for key, value in m.interaction.items() if key != "name"}
        # deprecated, but still sent
        body["interaction"] = {key: m.interaction[key] for key in ("id", "type", "name", "user")}
    if m.thread_id is not None and (thread := world.find_channel(m.thread_id)) is not None:
        body["thread"] = channel(world, thread)
        body["flags"] = m.flags | FLAG_HAS_THREAD
    if m.reference is None:
        return body
    body["message_reference"] = m.reference
    if not nested and m.type in (REPLY, THREAD_STARTER):
        place = world.find_channel(int(m.reference["channel_id"]))
        original = place.messages.get(int(m.reference["message_id"])) if place else None
        body["referenced_message"] = message(world, original, nested=True) if original else None
    return body


def gateway_message(world: World, m: Message, c: Channel) -> Json:
    """Return a message as in the gateway: with guild_id, and with its author and the mentioned users as members."""
    body = message(world, m)
    if c.guild_id is None:
        return body
    members = world.guilds[c.guild_id].members
    body["guild_id"] = str(c.guild_id)
    if m.webhook_id is None and m.author.id in members:
        body["member"] = partial_member(members[m.author.id])
    for mentioned in body["mentions"]:
        if int(mentioned["id"]) in members:
            mentioned["member"] = partial_member(members[int(mentioned["id"])])
    return body
