"""Who may do what: everything that an action asks about rights is decided here."""

from __future__ import annotations

from dataclasses import replace

from agentic.actions.base import ActionContext, ActionRefused, ActionRequest, Right
from agentic.agent.persona import only_guild
from agentic.chat.service import Person
from agentic.state.silence import Kind, Scope


async def with_rights(context: ActionContext, request: ActionRequest) -> ActionRequest:
    """Return the request with the person's rights in the program: the bots' owner has all of them in every server."""
    who = request.who
    if request.surface != "slash" or (who.manages_guild and who.manages_messages) or not await is_owner(context, who):
        return request
    return replace(request, who=replace(who, manages_messages=True, manages_guild=True))


async def check_right(context: ActionContext, right: Right, request: ActionRequest) -> None:
    """Raise ActionRefused if the person lacks this right. The console is the owner's."""
    if right == "everyone" or request.surface == "console":
        return
    who, in_guild = request.who, request.guild_id is not None
    if right == "moderator" and not may_moderate(context, request):
        raise ActionRefused("moderators_only")
    if right == "message_manager" and in_guild and not who.manages_messages:
        raise ActionRefused("message_managers_only")
    is_owner_here = right == "owner" and await acts_everywhere(context, request)
    if right in ("manager", "owner") and not (who.manages_guild or is_owner_here):
        raise ActionRefused("managers_only")
    if right == "owner" and not is_owner_here:
        raise ActionRefused("owners_only", person=who.user_id, guild=request.guild_id)


def may_moderate(context: ActionContext, request: ActionRequest) -> bool:
    """Return whether the person may act for everyone in the channel. A private chat belongs to its person."""
    if request.surface == "console" or request.guild_id is None:
        return True
    return context.services.agents.moderators.has(request.who, request.guild_id)


async def acts_everywhere(context: ActionContext, request: ActionRequest) -> bool:
    """Return whether the person may change what all servers share: files, options, orders for all bots.

    A server's managers may if the bots are in that server only. Otherwise their text would speak, and spend, in other
    servers, so only the owner may.
    """
    who, settings, place = request.who, context.services.settings, context.place
    if request.surface == "console" or who.user_id in settings.owner_user_ids:
        return True
    if who.manages_guild and request.guild_id is not None and request.guild_id == only_guild(settings, place.guild_of):
        return True
    return await is_owner(context, who)


async def scopes(context: ActionContext, request: ActionRequest, kind: Kind, subject: int | str = "") -> list[Scope]:
    """Return the scopes that this person may silence and resume, starting with the scope of a new order: everywhere if
    they may act everywhere, otherwise the request's server."""
    everywhere = await acts_everywhere(context, request)
    guilds = (None, request.guild_id) if everywhere else (request.guild_id,)
    return [Scope(kind, subject, guild) for guild in dict.fromkeys(guilds)]


async def is_owner(context: ActionContext, who: Person) -> bool:
    """Return whether the person is in OWNER_USER_IDS or owns the application."""
    return who.user_id in context.services.settings.owner_user_ids or who.user_id in await context.place.owners()
