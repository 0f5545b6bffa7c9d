"""Messages as Discord's JSON, for REST and the gateway."""

from agentic.local.discord.payloads import Json, channel, emoji, partial_member, user
from agentic.local.discord.snowflakes import iso
from agentic.local.discord.world import REPLY, THREAD_STARTER, Attachment, Channel, Message, World

FLAG_HAS_THREAD = 1 << 5


def attachment(world: World, a: Attachment) -> Json:
    url = f"{world.cdn}/attachments/{a.channel_id}/{a.id}/{a.filename}"
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


def reactions(m: Message, viewer_id: int | None) -> list[Json]:
    return [
        {
            "emoji": emoji(emoji_id, name),
            "count": len(who),
            "count_details": {"burst": 0, "normal": len(who)},
            "me": viewer_id in who,
            "me_burst": False,
            "burst": False,
            "burst_colors": [],
        }
        for (emoji_id, name), who in m.reactions.items()
    ]


def message(world: World, m: Message, viewer_id: int | None = None, *, nested: bool = False) -> Json:
    """A message as in REST. viewer_id decides "me" of reactions; nested leaves out the message replied to."""
    body: Json = {
        "id": str(m.id),
        "type": m.type,
        "channel_id": str(m.channel_id),
        "author": _author(m),
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
        body["reactions"] = reactions(m, viewer_id)
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
    _add_relations(world, m, body, nested)
    return body


def _author(m: Message) -> Json:
    body = user(m.author)
    if m.webhook_id == m.author.id:
        body["discriminator"] = "0000"
    return body


def _add_relations(world: World, m: Message, body: Json, nested: bool) -> None:
    if m.thread_id is not None and (thread := world.find_channel(m.thread_id)) is not None:
        body["thread"] = channel(world, thread)
        body["flags"] = m.flags | FLAG_HAS_THREAD
    if m.reference is None:
        return
    body["message_reference"] = m.reference
    if nested or m.type not in (REPLY, THREAD_STARTER):
        return
    where = world.find_channel(int(m.reference["channel_id"]))
    original = where.messages.get(int(m.reference["message_id"])) if where else None
    body["referenced_message"] = message(world, original, nested=True) if original else None


def gateway_message(world: World, m: Message, c: Channel) -> Json:
    """A message as in the gateway: with guild_id, and the members of its author and the mentioned users."""
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


def without_content(body: Json, viewer_id: int) -> Json:
    """A guild's message for a bot without the message content intent.

    Its own messages and those that mention it keep their content.

    https://discord.com/developers/docs/events/gateway#message-content-intent
    """
    if body.get("referenced_message"):
        body = {**body, "referenced_message": _emptied(body["referenced_message"], viewer_id)}
    return _emptied(body, viewer_id)


def _emptied(body: Json, viewer_id: int) -> Json:
    viewer = str(viewer_id)
    if body["author"]["id"] == viewer or any(u["id"] == viewer for u in body["mentions"]):
        return body
    seen = {key: value for key, value in body.items() if key not in ("poll", "message_snapshots")}
    return {**seen, "content": "", "embeds": [], "attachments": [], "components": []}
