"""What people see and change of their own data: `/profile`, `/privacy`, `/forget me`."""

from __future__ import annotations

from agentic.actions.base import (
    FORM,
    REPLY_CHARACTERS,
    ActionContext,
    ActionRefused,
    ActionRequest,
    File,
    Form,
    FormField,
    Outcome,
    report,
)
from agentic.actions.values import Values, option
from agentic.agent.privacy import EXPORT_FILE
from agentic.wire.entries import MAX_TOPICS, TOPIC_CHARACTERS

PROFILE = "profile"  # the form, and the file of a long profile
SAVE_PROFILE = f"{FORM} {PROFILE}"
TOPICS = "topics"  # its field


class Topics(Values):
    topics: str = option("Your topics, separated by commas", "", only="text")


class Consent(Values):
    unprompted: str = option("May bots write to you on their own?", "", choices=("on", "off"))
    export: str = option("Get a copy of what's stored about you", "", choices={"file": "as a file"})


class Confirmation(Values):
    yes: str = option("Are you sure?", "", only="text", choices=("yes",))


async def show_profile(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    if request.is_shared:
        raise ActionRefused("in_our_chat")
    text = await context.services.record.own_memory.profile_text(request.who.user_id)
    if len(text) <= REPLY_CHARACTERS:
        return report(text)
    return report("Your profile:", File(f"{PROFILE}.txt", text))


async def edit_profile(context: ActionContext, request: ActionRequest, values: Topics) -> Outcome:
    """Show a form, or save the topics that came with the request if the service has no forms."""
    if request.is_shared:
        raise ActionRefused("in_our_chat")
    own, who = context.services.record.own_memory, request.who.user_id
    if own.problem:
        raise ActionRefused("report", text=own.problem)
    if values.topics:
        return report(own.save_profile(who, values.topics.replace(",", "\n")))
    if request.surface == "text":
        raise ActionRefused("how_to_edit_profile")
    field = FormField(
        id=TOPICS,
        label=f"Your topics, one per line, {MAX_TOPICS} at most",
        text="\n".join(await own.topics(who)),
        hint=f"Up to {TOPIC_CHARACTERS} characters per line. Leave this empty to delete your profile.",
        long=True,
    )
    form = Form(id=PROFILE, title="Topics you talk about", fields=(field,))
    return report(reply=form)


async def save_profile(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    return report(
        context.services.record.own_memory.save_profile(request.who.user_id, str(request.values.get(TOPICS, "")))
    )


async def delete_profile(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    return report(context.services.record.own_memory.delete_profile(request.who.user_id))


async def privacy(context: ActionContext, request: ActionRequest, values: Consent) -> Outcome:
    """Say what is stored and who reads here, export it, or set whether bots may write unprompted."""
    services, who = context.services, request.who.user_id
    answer = (
        await services.record.own_memory.set_unprompted(who, values.unprompted == "on") if values.unprompted else ""
    )
    if answer and not values.export:
        return report(answer)
    if request.is_shared:
        raise ActionRefused("in_our_chat")
    if values.export:
        text, data = await services.record.own_memory.export(who)
        text = f"{answer}\n{text}" if answer else text
        return report(text, File(EXPORT_FILE, data) if data else None)
    return report(await services.record.privacy.text(who, request.channel_id))


async def forget_me(context: ActionContext, request: ActionRequest, values: Confirmation) -> Outcome:
    """Delete everything that is stored about the person. A text command needs a confirmation."""
    if request.surface == "text" and not values.yes:
        raise ActionRefused("confirm_forget")
    forgotten = await context.services.record.forgetting.forget(request.who.user_id)
    if not forgotten.whole:
        raise ActionRefused("not_all_forgotten")
    more = forgotten.details(context.place.left_messages)
    return Outcome(code="report", fields={"text": forgotten.text}, more=more)
