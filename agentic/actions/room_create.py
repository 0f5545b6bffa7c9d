"""`/room create`, and opening a room from the console: its options, its members, and the opening.

The settings come from options or a form. Members come from names or a menu.
Nothing is created before they are known. The draft behind a menu is kept as long as Discord accepts answers to the
command, and only for the person who used it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic.fields import FieldInfo

from agent_config import NoModel
from agentic.actions.base import (
    CHOICE_CHARACTERS,
    FORM,
    MAX_CHOICES,
    MENU,
    ActionContext,
    ActionRefused,
    ActionRequest,
    Choice,
    Form,
    FormField,
    Menu,
    Outcome,
    give_back,
    report,
)
from agentic.actions.conversations import silenced_refusal
from agentic.actions.texts import TEXTS
from agentic.actions.values import Snowflake, Values, extra_of, option, read_values
from agentic.agent.roster import RosterEntry, members_of, without_mentions
from agentic.agent.services import today_of
from agentic.formats import DEFAULT_FORMAT, FORMAT_TEXTS, FORMATS, GUEST, SIDES
from agentic.pace import LIVE, is_pace, parse_pace
from agentic.policies import POLICY_TEXTS
from agentic.rooms.closing import cut
from agentic.rooms.judge import find_judge
from agentic.rooms.opening import JUST_OPENED, OPENED, RoomDraft, escaped, opening_text, room_of, thread_name, topic_of
from agentic.state.rooms import (
    DEFAULT_ARCHIVE_MINUTES,
    DEFAULT_POLICY,
    DEFAULT_THEME,
    DEFAULT_TURNS,
    MAX_DETAILS,
    MAX_MEMBERS,
    MAX_RULES,
    MAX_TURNS,
    MIN_MEMBERS,
)
from agentic.text import first_sentences, listed
from agentic.themes import THEMES
from agentic.wire.messages import MAX_TOPIC

ROOM = "room"  # the form and the menu of the members, as their ids begin
FORM_NAME, MENU_NAME = f"{FORM} {ROOM}", f"{MENU} {ROOM}"
FORM_RULES, FORM_QUESTION = 700, 200  # characters of the form; both together are a room's rules
MAX_SLOT = 3600  # seconds in which a room is open to its audience
MAX_TITLE = 100  # characters
MAX_SETTINGS = 600  # characters of the form's field
MAX_DIGITS = 10  # of a number in it
MAX_NAMES = 400  # characters: the members of a room
MAX_JUDGE = 100  # characters of a judge's name
MAX_PACE = 40  # characters
ARCHIVES = {"60": "after an hour", "1440": "after a day", "4320": "after three days", "10080": "after a week"}
MODERATOR = "moderator"
FILE = "room.txt"
OPENING = "opening_"  # before the outcome of an opening, in its code

OTHER_NAMES: Mapping[str, str] = {"pro": SIDES[0], "con": SIDES[1], "contra": SIDES[1]}  # of sides
YES_NO: Mapping[str, bool] = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}

_ROLES = "|".join((*SIDES, GUEST, MODERATOR, *OTHER_NAMES))
_SEAT = re.compile(rf"(?<!\s)\s*+(?:[:=]\s*+({_ROLES})\b|\(\s*+({_ROLES})\s*+\))", re.IGNORECASE)


class NewRoom(Values):
    topic: str = option("What it's about (leave it out to get a form)", "", most=MAX_DETAILS)
    personas: str = option(
        "Who takes part, such as: Claude: for, Grok: against (leave it out to choose from a list)",
        "",
        kind="agent",
        max_length=MAX_NAMES,
    )
    channel: Snowflake | None = option("Which channel (default: this one)", None, kind="channel", needed="console")
    title: str = option("A short name, if the topic is long", "", most=MAX_TITLE, max_length=MAX_TITLE)
    turns: int = option(f"How many turns (default: {DEFAULT_TURNS})", DEFAULT_TURNS, ge=2, le=MAX_TURNS)
    archive: str = option(
        "When to archive a silent thread (default: after a day)", str(DEFAULT_ARCHIVE_MINUTES), choices=ARCHIVES
    )
    policy: str = option("Who speaks next (default: in turn)", DEFAULT_POLICY, choices=POLICY_TEXTS)
    format: str = option(f"Its phases (default: {DEFAULT_FORMAT})", DEFAULT_FORMAT, choices=FORMAT_TEXTS)
    moderator: str = option("Who asks and sums up, or, if “moderated”, names the next speaker", "", kind="agent")
    audience: int = option("Seconds for people after each round (the thread is locked otherwise)", 0, ge=0, le=MAX_SLOT)
    pace: str = option(
        "live, slow (a turn an hour), seconds, or times such as 09:00 18:00 (default: live)", LIVE, max_length=MAX_PACE
    )
    goodbye_ends: bool = option(
        "End the room when a member says just goodbye (default: no)", False, name="goodbye-ends"
    )
    judge: str = option("A bot or model (provider/model) that judges the debate at its end", "", max_length=MAX_JUDGE)
    poll: bool = option("Ask people for their side before and after (default: no)", False)
    theme: str = option(f"Its theme (default: {DEFAULT_THEME})", DEFAULT_THEME, choices=tuple(THEMES))
    rules: str = option("Rules for all members", "", only="console", max_length=MAX_RULES)


class RoomHere(NewRoom):
    topic: str = option("What it's about", max_length=MAX_DETAILS)
    channel: Snowflake | None = option("Its channel", None, kind="channel", only="console")


async def create(context: ActionContext, request: ActionRequest, values: NewRoom, thread_id: int = 0) -> Outcome:
    """Open a room in a new thread, or in this thread if `thread_id` is given."""
    draft = await _prepare(context, request, values)
    draft = draft.model_copy(update={"thread_id": thread_id})
    if not draft.topic and request.place is None:
        raise ActionRefused("no_topic")
    if not draft.topic:
        return report(reply=build_form(draft, values))
    return await _choose_members(context, request, draft, values.personas)


async def here(context: ActionContext, request: ActionRequest, values: RoomHere) -> Outcome:
    """Make a room of the thread in which the command is used."""
    if request.place is None or request.place.parent_id is None:
        raise ActionRefused("not_in_thread")
    if not topic_of(values.topic):
        raise ActionRefused("no_topic")
    thread_id = request.channel_id
    if await context.services.state.coordination.rooms.read(thread_id) is not None:
        raise ActionRefused("room_exists", channel=thread_id)
    if (problem := context.place.thread_problem(thread_id)) is not None:
        raise ActionRefused("no_room_there", channel=thread_id, problem=problem)
    return await create(context, request, values, thread_id)


async def from_form(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    """Open a room from a submitted form. If that fails, give back the texts with the reason."""
    texts = {name: str(value) for name, value in request.values.items()}
    try:
        values = _read_form(context, request, texts)
        draft = await _prepare(context, request, values, texts.get("question", ""))
        if not draft.topic:
            raise ActionRefused("no_topic")
        return await _choose_members(context, request, draft, values.personas)
    except ActionRefused as refusal:
        return give_back(refusal.outcome, texts, FILE)


async def from_menu(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    openings, roster = context.services.state.coordination.room_openings, context.services.agents.roster
    number = str(request.values.get("id", "")).partition(":")[2]
    opening_id = int(number) if number.isdecimal() else 0
    kept = await openings.draft(opening_id)
    if kept is None:
        raise ActionRefused("choice_expired")
    draft = RoomDraft.model_validate_json(kept)
    if draft.asked_by != request.who.user_id:
        raise ActionRefused("not_your_room")
    _check_channel(context, request, draft)
    chosen = [entry for key in request.chosen if (entry := roster.of(key)) is not None]
    await _check_members(context, draft, chosen)
    if not await openings.take_draft(opening_id):
        raise ActionRefused("choice_expired")
    return await _open(context, opening_id, draft, chosen)


async def _choose_members(context: ActionContext, request: ActionRequest, draft: RoomDraft, names: str) -> Outcome:
    roster = tuple(context.services.agents.roster)
    names, seats = _seats_in(roster, context.without_mentions(names))
    found, problems = members_of(roster, names)
    if problems:
        raise ActionRefused("no_such_agent", why=" ".join(problems))
    if seats and draft.format == DEFAULT_FORMAT:
        raise ActionRefused("no_sides")
    moderators = [key for key, seat in seats.items() if seat == MODERATOR]
    if moderators and (len(moderators) > 1 or draft.moderator not in (None, moderators[0])):
        raise ActionRefused("several_moderators")
    sides = {key: seat for key, seat in seats.items() if seat != MODERATOR}
    draft = draft.model_copy(update={"sides": sides, "moderator": moderators[0] if moderators else draft.moderator})
    if not found and request.place is not None:
        return await _menu(context, request, draft)
    await _check_members(context, draft, found)
    return await _open(context, request.id, draft, found)


def _seats_in(roster: Sequence[RosterEntry], text: str) -> tuple[str, Mapping[str, str]]:
    """Return the names without the sides behind them, and each named agent's side: "Claude: for, Grok (against)"."""
    names, seats, start = "", dict[str, str](), 0
    for found in _SEAT.finditer(text):
        before, start = text[start : found.start()], found.end()
        named, _ = members_of(roster, before)
        if named:
            role = (found[1] or found[2]).casefold()
            seats[named[-1].key] = OTHER_NAMES.get(role, role)
        names += before
    return names + text[start:], seats


async def _menu(context: ActionContext, request: ActionRequest, draft: RoomDraft) -> Outcome:
    able = [entry for entry in context.services.agents.roster if entry.why_not is None]
    if len(able) < MIN_MEMBERS:
        raise ActionRefused("too_few_agents")
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
        raise ActionRefused("no_bot")
    members = [entry.member for entry in chosen]
    room = room_of(draft, members, draft.moderator, context.services.clock())
    name, text = thread_name(draft.topic), opening_text(room, draft.question, draft.asked_by_name, draft.rules)
    opening = await opener.open(opening_id, room, name, text)
    fields: dict[str, Any] = {"thread": opening.thread_id, "channel": draft.channel_id, "topic": escaped(name)}
    code = f"{OPENING}{opening.outcome}"
    if code not in TEXTS:
        code, fields = "opening_refused", {"outcome": opening.outcome}
    return Outcome(code=code, ok=opening.outcome in (OPENED, JUST_OPENED), fields=fields, detail=draft.topic)


def _judge_of(context: ActionContext, written: str) -> str:
    """Return the key of an agent, or provider/model; "" for none."""
    written = context.without_mentions(written).strip()
    if not written:
        return ""
    judge = written.lower() if "/" in written else context.agent(written, "no_such_judge").key
    _judges_model(context, judge, written)
    return judge


def _judges_model(context: ActionContext, judge: str, written: str) -> str:
    """Return provider/model. Raises ActionRefused if the judge has no model."""
    try:
        return find_judge(context.services, judge).models[0].name
    except NoModel as lacking:
        raise ActionRefused("cannot_judge", judge=written, reason=str(lacking)) from lacking


def _check_judge(context: ActionContext, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> None:
    """Raise ActionRefused if the judge is a member, or has the model of one."""
    if not draft.judge:
        return
    judges_model = _judges_model(context, draft.judge, draft.judge)
    for entry in chosen:
        if entry.key == draft.judge:
            raise ActionRefused("judge_is_member", judge=entry.shown)
        if entry.model == judges_model:
            raise ActionRefused("judge_like_member", agent=entry.shown, model=entry.model)


def _check_channel(context: ActionContext, request: ActionRequest, draft: RoomDraft) -> None:
    channel_id, services = draft.channel_id, context.services
    if channel_id not in services.chats.scope.channels or not context.is_here(channel_id, request):
        raise ActionRefused("unknown_channel", channel=channel_id)
    silenced = services.silence.check(context.ref(channel_id, request))
    if silenced is not None:
        raise silenced_refusal(silenced, channel_id)
    if problem := context.place.room_problem(channel_id, webhooks=False):
        raise ActionRefused("no_room_there", channel=channel_id, problem=problem)


async def _check_members(context: ActionContext, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> None:
    if len(chosen) < MIN_MEMBERS:
        raise ActionRefused("too_few_named", names=listed([one.shown for one in chosen]))
    if len(chosen) > MAX_MEMBERS:
        raise ActionRefused("too_many_named", number=len(chosen))
    if draft.moderator is not None and draft.moderator not in {one.key for one in chosen}:
        raise ActionRefused("moderator_not_member")
    _check_judge(context, draft, chosen)
    for entry in chosen:
        if entry.why_not is not None:
            raise ActionRefused("cannot_take_part", agent=entry.shown, reason=entry.why_not)
    need_webhooks = not all(entry.is_bot for entry in chosen)
    if need_webhooks and (problem := context.place.room_problem(draft.channel_id, webhooks=True)):
        raise ActionRefused("no_webhooks_there", channel=draft.channel_id, problem=problem)
    bots = {entry.key: entry.shown for entry in chosen if entry.is_bot}
    online = await context.services.state.coordination.presence.online(bots) if bots else ()
    if missing := [shown for key, shown in bots.items() if key not in online]:
        raise ActionRefused("offline" if len(missing) == 1 else "several_offline", agent=listed(missing))
    await _check_budget(context, draft, chosen)


async def _check_budget(context: ActionContext, draft: RoomDraft, chosen: Sequence[RosterEntry]) -> None:
    services = context.services
    shown = {
        "all": "all bots",
        f"channel:{draft.channel_id}": f"<#{draft.channel_id}>",
        **({f"person:{draft.asked_by}": "you"} if draft.asked_by else {}),
        **{f"agent:{entry.key}": entry.shown for entry in chosen},
    }
    uses = await services.state.limits.budgets.uses(today_of(services), shown)
    for scope, name in shown.items():
        if uses[scope].is_nearly_used_up:
            raise ActionRefused("budget_used_up", whose=name)


async def name_mentions(context: ActionContext, request: ActionRequest, channel_id: int, text: str) -> str:
    """Return a person's text with names for what it mentions instead of ids: models read it."""
    directory, who = context.services.chats.directory, request.who

    def name_of(user_id: int) -> str | None:
        return who.name or None if user_id == who.user_id else directory.name_of(user_id)

    return await context.place.with_names(without_mentions(text, name_of), channel_id)


async def _prepare(context: ActionContext, request: ActionRequest, values: NewRoom, question: str = "") -> RoomDraft:
    """Return the draft, without its members. Raises ActionRefused if no such room can be opened."""
    if len(values.topic) > MAX_DETAILS:
        raise ActionRefused("topic_too_long", length=len(values.topic))
    if not is_pace(values.pace):
        raise ActionRefused("bad_pace")
    channel_id, place = values.channel or 0, request.place
    if not channel_id and place is not None:
        channel_id = place.parent_id or place.channel_id
    redact, named = context.services.chats.redact, partial(name_mentions, context, request, channel_id)
    topic, details = map(redact, _topic_and_details(await named(values.topic), await named(values.title)))
    same = {"turns", "policy", "format", "goodbye_ends", "poll", "theme"}
    draft = RoomDraft(
        asked_by=request.who.user_id,
        channel_id=channel_id,
        guild_id=context.ref(channel_id, request).guild_id,
        topic=topic,
        details=details[:MAX_DETAILS],
        archive_minutes=int(values.archive),
        audience_seconds=values.audience,
        pace=parse_pace(values.pace),
        asked_by_name=redact(request.who.name),
        rules=redact(await named(values.rules)),
        question=redact(await named(question)),
        **values.model_dump(include=same),
    )
    moderator = context.agent(values.moderator, "no_such_moderator") if values.moderator else None
    if moderator is not None and draft.policy != "moderated" and draft.format == DEFAULT_FORMAT:
        raise ActionRefused("not_moderated")
    if values.poll and not FORMATS[values.format].has_sides:  # type: ignore[index]
        raise ActionRefused("poll_without_sides")
    found = {"moderator": moderator.key if moderator is not None else None, "judge": _judge_of(context, values.judge)}
    draft = draft.model_copy(update=found)
    _check_channel(context, request, draft)
    return draft


def _topic_and_details(written: str, written_title: str) -> tuple[str, str]:
    """Return the topic in one short line, and in full if that says more. Without a title, a long topic's first
    sentence is its short line."""
    topic, title = topic_of(written), topic_of(written_title)
    if len(topic) <= MAX_TOPIC and title in ("", topic):
        return topic, ""
    return title or first_sentences(topic, MAX_TITLE), written.strip()


SETTINGS: Mapping[str, str] = {
    name: field.alias or name
    for name, field in NewRoom.model_fields.items()
    if name not in ("topic", "personas", "channel", "rules")
}
"""The options that the form has in one field, a line for each: field → name."""


def _read_form(context: ActionContext, request: ActionRequest, texts: Mapping[str, str]) -> NewRoom:
    """Return the values of a submitted form. Raises ActionRefused if they don't fit."""
    given: dict[str, Any] = {"channel": texts.get("id", "").split(":")[1]}
    for line in texts.get("settings", "").splitlines():
        name, _, written = (part.strip() for part in line.partition(":"))
        key = re.sub(r"[\s-]+", "_", name.casefold())
        if name and key not in SETTINGS:
            raise ActionRefused("unknown_option", option=name)
        if written:
            given[SETTINGS[key]] = _typed(written, NewRoom.model_fields[key])
    given |= {name: texts.get(name, "") for name in ("topic", "personas")}
    values = read_values(context, NewRoom, replace(request, values=given))
    return values.model_copy(update={"rules": texts.get("rules", "")[:MAX_RULES]})


def _typed(written: str, field: FieldInfo) -> object:
    """Return a written value as the option's type; as it is, for the check that names it, if it isn't of that type. A
    choice's case and hyphens don't matter."""
    kind, plain = field.annotation, "-".join(written.casefold().split())
    if kind is bool:
        return YES_NO.get(plain, written)
    if plain in extra_of(field)["choices"]:
        return plain
    return int(written) if kind is int and written.isdecimal() and len(written) < MAX_DIGITS else written


def _written(value: object) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def build_form(draft: RoomDraft, values: NewRoom) -> Form:
    """Return the form for a new room. Its id carries the channel."""
    lines = [f"{shown}: {_written(getattr(values, name))}".rstrip() for name, shown in SETTINGS.items()]
    return Form(
        id=f"{ROOM}:{draft.channel_id}",
        title="New room",
        fields=(
            FormField(id="topic", label="Topic", hint="what it's about", required=True, long=True, most=MAX_DETAILS),
            FormField(
                id="personas",
                label="Who takes part",
                hint="such as: Claude: for, Grok: against (leave empty to choose from a list)",
                text=values.personas,
                most=MAX_NAMES,
            ),
            FormField(id="settings", label="Settings", text="\n".join(lines), long=True, most=MAX_SETTINGS),
            FormField(
                id="rules", label="Rules", hint="for example: at most five sentences", long=True, most=FORM_RULES
            ),
            FormField(id="question", label="First question", hint="the question they begin with", most=FORM_QUESTION),
        ),
    )
