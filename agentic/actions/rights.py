"""Who may do what: everything that an action asks about rights is decided here."""

from __future__ import annotations

from dataclasses import replace

from agentic.actions.base import ActionContext, ActionRequest, Outcome, Right, refused
from agentic.agent.persona import only_guild
from agentic.chat.service import Person
from agentic.state.silence import Kind, Scope


async def with_rights(context: ActionContext, request: ActionRequest) -> ActionRequest:
    """Return the request with the person's rights in the program: the bots' owner has all of them in every server."""
    who = request.who
    if request.surface != "slash" or (who.manages_guild and who.manages_messages) or not await is_owner(context, who):
        return request
    return replace(request, who=replace(who, manages_messages=True, manages_guild=True))


async def refusal(context: ActionContext, right: Right, request: ActionRequest) -> Outcome | None:
    """Return why the person lacks this right; None if they have it. The console is the owner's."""
    if right == "everyone" or request.surface == "console":
        return None
    if right == "moderator":
        return None if may_moderate(context, request) else refused("moderators_only")
    if right == "message_manager":
        may = request.who.manages_messages or request.guild_id is None
        return None if may else refused("message_managers_only")
    if right == "manager":
        return None if request.who.manages_guild else refused("managers_only")
    if await acts_everywhere(context, request):
        return None
    if not request.who.manages_guild:
        return refused("managers_only")
    return refused("owners_only", person=request.who.user_id, guild=request.guild_id)


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
