"""`/room create`, and opening a room from the console: its options, its members, and the opening.

The settings come from options or a form, which carries hidden options in its id. Members come from names or a menu.
Nothing is created before they are known. The draft behind a menu is kept as long as Discord accepts answers to the
command, and only for the person who used it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic.actions.base import (
    CHOICE_CHARACTERS,
    FORM,
    MAX_CHOICES,
    MENU,
    ActionContext,
    ActionRequest,
    Choice,
    Form,
    FormField,
    Menu,
    Outcome,
    give_back,
    refused,
    report,
    today_of,
)
from agentic.actions.conversations import silenced_refusal
from agentic.actions.texts import TEXTS
from agentic.actions.values import Snowflake, Values, option
from agentic.agent.roster import RosterEntry, members_of, without_mentions
from agentic.policies import POLICY_TEXTS
from agentic.rooms.closing import cut
from agentic.rooms.opening import OPENED, RoomDraft, escaped, opening_text, room_of, thread_name, topic_of
from agentic.state.budgets import CLOSING_SHARE
from agentic.state.rooms import (
    DEFAULT_ARCHIVE_MINUTES,
    DEFAULT_POLICY,
    DEFAULT_THEME,
    DEFAULT_TURNS,
    MAX_MEMBERS,
    MAX_RULES,
    MAX_TURNS,
    MIN_MEMBERS,
)
from agentic.text import listed
from agentic.themes import THEMES
from agentic.wire.messages import MAX_TOPIC

ROOM = "room"  # the form and the menu of the members, as their ids begin
FORM_NAME, MENU_NAME = f"{FORM} {ROOM}", f"{MENU} {ROOM}"
FORM_RULES, FORM_QUESTION = 700, 200  # characters of the form; both together are a room's rules
MAX_SLOT = 3600  # seconds in which a room is open to its audience
MAX_NAMES = 400  # characters: the members of a room
ARCHIVES = {"60": "after an hour", "1440": "after a day", "4320": "after three days", "10080": "after a week"}
FILE = "room.txt"
OPENING = "opening_"  # before the outcome of an opening, in its code


class NewRoom(Values):
    topic: str = option("What it's about (leave it out to get a form)", "", most=MAX_TOPIC)
    personas: str = option(
        "Who takes part, separated by commas (leave it out to choose from a list)",
        "",
        kind="agent",
        max_length=MAX_NAMES,
    )
    channel: Snowflake | None = option("Which channel (default: this one)", None, kind="channel", needed="console")
    turns: int = option(f"How many turns (default: {DEFAULT_TURNS})", DEFAULT_TURNS, ge=2, le=MAX_TURNS)
    archive: str = option(
        "When to archive a silent thread (default: after a day)", str(DEFAULT_ARCHIVE_MINUTES), choices=ARCHIVES
    )
    policy: str = option("Who speaks next (default: in turn)", DEFAULT_POLICY, choices=POLICY_TEXTS)
    moderator: str = option("Who names the next speaker (with the policy “moderated”)", "", kind="agent")
    audience: int = option("Seconds for people after each round (the thread is locked otherwise)", 0, ge=0, le=MAX_SLOT)
    goodbye_ends: bool = option(
        "End the room when a member says just goodbye (default: no)", False, name="goodbye-ends"
    )
    theme: str = option(f"Its theme (default: {DEFAULT_THEME})", DEFAULT_THEME, choices=tuple(THEMES))
    rules: str = option("Rules for all members", "", only="console", max_length=MAX_RULES)


async def create(context: ActionContext, request: ActionRequest, values: NewRoom) -> Outcome:
    length = len(topic_of(values.topic))
    if length > MAX_TOPIC:
        return refused("topic_too_long", length=length)
    draft = _clean_draft(context, _draft(context, request, values))
    moderator = context.find_agent(draft.moderator) if draft.moderator else None
    if isinstance(moderator, str):
        return refused("no_such_moderator", why=moderator)
    if moderator is not None and draft.policy != "moderated":
        return refused("not_moderated")
    draft = draft.model_copy(update={"moderator": moderator.key if moderator is not None else None})
    if (refusal := _refuse_channel(context, request, draft)) is not None:
        return refusal
    if not draft.topic:
        return refused("no_topic") if request.place is None else report(reply=build_form(draft, values.personas))
    return await _with_names(context, request, draft, values.personas)


async def from_form(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    """Open a room from a submitted form. If that fails, give back the texts with the reason."""
    values = {name: str(value) for name, value in request.values.items()}
    try:
        draft = _clean_draft(context, draft_from_form(context, request, values))
    except ValueError:
        return give_back(refused("bad_turns"), values, FILE)
    refusal = _refuse_channel(context, request, draft) if draft.topic else refused("no_topic")
    if refusal is not None:
        return give_back(refusal, values, FILE)
    outcome = await _with_names(context, request, draft, values.get("personas", ""))
    return outcome if outcome.ok or outcome.code.startswith(OPENING) else give_back(outcome, values, FILE)


async def from_menu(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    openings, roster = context.services.state.coordination.room_openings, context.services.agents.roster
    number = str(request.values.get("id", "")).partition(":")[2]
    opening_id = int(number) if number.isdecimal() else 0
    kept = await openings.draft(opening_id)
    if kept is None:
        return refused("choice_expired")
    draft = RoomDraft.model_validate_json(kept)
    if draft.asked_by != request.who.user_id:
        return refused("not_your_room")
    if (refusal := _refuse_channel(context, request, draft)) is not None:
        return refusal
    chosen = [entry for key in request.chosen if (entry := roster.of(key)) is not None]
    if (refusal := await _refuse_members(context, draft, chosen)) is not None:
        return refusal
    if not await openings.take_draft(opening_id):
        return refused("choice_expired")
    return await _open(context, opening_id, draft, chosen)


async def _with_names(context: ActionContext, request: ActionRequest, draft: RoomDraft, names: str) -> Outcome:
    found, problems = members_of(tuple(context.services.agents.roster), context.without_mentions(names))
    if problems:
        return refused("no_such_agent", why=" ".join(problems))
    if not found and request.place is not None:
        return await _menu(context, request, draft)
    if (refusal := await _refuse_members(context, draft, found)) is not None:
        return refusal
    return await _open(context, request.id, draft, found)


async def _menu(context: ActionContext, request: ActionRequest, draft: RoomDraft) -> Outcome:
    able = [entry for entry in context.services.agents.roster if entry.why_not is None]
    if len(able) < MIN_MEMBERS:
        return refused("too_few_agents")
    await context.services.state.coordination.room_openings.keep_draft(request.id, draft.model_dump_json())
    more = " To add someone who isn't in the list, use the option “personas”." if len(able) > MAX_CHOICES else ""
    choices = []
    for entry in able:
        kind = "bot" if entry.is_bot else "persona"
        about = " · ".join(filter(None, (kind, entry.model, ", ".join(entry.member.interests))))
        choices.append(Choice(entry.key, entry.shown, cut(about, CHOICE_CHARACTERS)))
    menu = Menu(
        id=f"{ROOM}:{request.id}",
        text=f"Who takes part in “{draft.topic}”?{more}",
        hint=f"{MIN_MEMBERS} to {MAX_MEMBERS}, in speaking order",
        fewest=MIN_MEMBERS,
        most=MAX_MEMBERS,
        choices=tuple(choices),
    )
    return report(reply=menu)


async def _open(context: ActionContext, opening_id: int, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> Outcome:
    opener = context.place.opener
    if opener is None:
        return refused("no_bot")
    members = [entry.member for entry in chosen]
    room = room_of(draft, members, draft.moderator, context.services.clock())
    name, text = thread_name(draft.topic), opening_text(room, draft.question, draft.asked_by_name)
    opening = await opener.open(opening_id, room, name, text)
    fields: dict[str, Any] = {"thread": opening.thread_id, "channel": draft.channel_id, "topic": escaped(name)}
    code = f"{OPENING}{opening.outcome}"
    if code not in TEXTS:
        code, fields = "opening_refused", {"outcome": opening.outcome}
    return Outcome(code=code, ok=opening.outcome == OPENED, fields=fields, detail=draft.topic)


def _refuse_channel(context: ActionContext, request: ActionRequest, draft: RoomDraft) -> Outcome | None:
    channel_id, services = draft.channel_id, context.services
    if channel_id not in services.chats.scope.channels or not context.is_here(channel_id, request):
        return refused("unknown_channel", channel=channel_id)
    silenced = services.silence.check(context.ref(channel_id, request))
    if silenced is not None:
        return silenced_refusal(silenced, channel_id)
    problem = context.place.room_problem(channel_id, webhooks=False)
    return refused("no_room_there", channel=channel_id, problem=problem) if problem else None


async def _refuse_members(context: ActionContext, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> Outcome | None:
    if len(chosen) < MIN_MEMBERS:
        return refused("too_few_named", names=listed([one.shown for one in chosen]))
    if len(chosen) > MAX_MEMBERS:
        return refused("too_many_named", number=len(chosen))
    if draft.moderator is not None and draft.moderator not in {one.key for one in chosen}:
        return refused("moderator_not_member")
    for entry in chosen:
        if entry.why_not is not None:
            return refused("cannot_take_part", agent=entry.shown, reason=entry.why_not)
    need_webhooks = not all(entry.is_bot for entry in chosen)
    if need_webhooks and (problem := context.place.room_problem(draft.channel_id, webhooks=True)):
        return refused("no_webhooks_there", channel=draft.channel_id, problem=problem)
    bots = {entry.key: entry.shown for entry in chosen if entry.is_bot}
    online = await context.services.state.coordination.presence.online(bots) if bots else ()
    if missing := [shown for key, shown in bots.items() if key not in online]:
        return refused("offline" if len(missing) == 1 else "several_offline", agent=listed(missing))
    return await _refuse_budget(context, draft, chosen)


async def _refuse_budget(context: ActionContext, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> Outcome | None:
    services = context.services
    shown = {
        "all": "all bots",
        f"channel:{draft.channel_id}": f"<#{draft.channel_id}>",
        f"person:{draft.asked_by}": "you",
        **{f"agent:{entry.key}": entry.shown for entry in chosen},
    }
    uses = await services.state.limits.budgets.uses(today_of(services), shown)
    for scope, name in shown.items():
        cap, used = uses[scope].cap, uses[scope].spent + uses[scope].reserved
        if cap is not None and used >= cap * (1 - CLOSING_SHARE):  # the rest of a budget is for mentions
            return refused("budget_used_up", whose=name)
    return None


def _clean_draft(context: ActionContext, draft: RoomDraft) -> RoomDraft:
    """Return the draft without secrets, and with the names of mentioned bots instead of their ids: Redis stores it, and
    models read it."""
    redact, directory = context.services.chats.redact, context.services.chats.directory

    def name_of(user_id: int) -> str | None:
        return draft.asked_by_name or None if user_id == draft.asked_by else directory.name_of(user_id)

    texts = {name: getattr(draft, name) for name in ("topic", "rules", "question", "asked_by_name")}
    texts = {name: redact(without_mentions(text, name_of)) for name, text in texts.items()}
    return draft.model_copy(update={**texts, "topic": texts["topic"][:MAX_TOPIC]})


def _draft(context: ActionContext, request: ActionRequest, values: NewRoom) -> RoomDraft:
    channel_id, place = values.channel or 0, request.place
    if not channel_id and place is not None:
        channel_id = place.parent_id or place.channel_id
    return RoomDraft(
        asked_by=request.who.user_id,
        channel_id=channel_id,
        guild_id=context.ref(channel_id, request).guild_id,
        topic=values.topic,
        turns=values.turns,
        archive_minutes=int(values.archive),
        policy=values.policy,  # type: ignore[arg-type]
        moderator=values.moderator or None,
        audience_seconds=values.audience,
        goodbye_ends=values.goodbye_ends,
        theme=values.theme,
        asked_by_name=request.who.name,
        rules=values.rules,
    )


def draft_from_form(context: ActionContext, request: ActionRequest, values: Mapping[str, str]) -> RoomDraft:
    """Return the draft that a submitted form describes. Raises ValueError if the turns aren't a number."""
    names = ("channel", "archive", "policy", "audience", "goodbye_ends", "moderator", "theme")
    _, *parts = values.get("id", "").split(":")
    given: dict[str, Any] = {name: value for name, value in zip(names, parts, strict=False) if value}
    for name, known in (("archive", ARCHIVES), ("policy", POLICY_TEXTS), ("theme", THEMES)):
        if given.get(name) not in known:  # a forged form
            given.pop(name, None)
    given["audience"] = min(max(int(given.get("audience", 0)), 0), MAX_SLOT)
    given["goodbye_ends"] = given.get("goodbye_ends") == "1"
    options = NewRoom(**given)
    texts = {name: values.get(name, "") for name in ("topic", "rules", "question")}
    turns = int(values.get("turns", "").strip() or DEFAULT_TURNS)
    return RoomDraft.model_validate({**_draft(context, request, options).model_dump(), **texts, "turns": turns})


def build_form(draft: RoomDraft, names: str) -> Form:
    """Return the form for a new room. Its id carries the options that it doesn't show."""
    options = (draft.channel_id, draft.archive_minutes, draft.policy, round(draft.audience_seconds))
    return Form(
        id=":".join(map(str, (ROOM, *options, int(draft.goodbye_ends), draft.moderator or "", draft.theme))),
        title="New room",
        fields=(
            FormField(id="topic", label="Topic", hint="what it's about", required=True, most=MAX_TOPIC),
            FormField(
                id="personas",
                label="Who takes part",
                hint="names, separated by commas (leave empty to choose from a list)",
                text=names,
                most=MAX_NAMES,
            ),
            FormField(id="turns", label="How many turns", text=str(draft.turns), most=3),
            FormField(
                id="rules", label="Rules", hint="for example: at most five sentences", long=True, most=FORM_RULES
            ),
            FormField(id="question", label="First question", hint="the question they begin with", most=FORM_QUESTION),
        ),
    )
