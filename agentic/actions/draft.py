"""A wish for a room, as a person gives it by the options of `/room create` or in its form.

The form carries the options that it does not show in its id.
"""

from __future__ import annotations

from collections.abc import Mapping

import pydantic

from agentic.actions.base import ARCHIVES, MAX_NAMES, MAX_SLOT, POLICY_TEXTS, ActionRequest, Form, FormField
from agentic.context.entries import one_line
from agentic.state.rooms import (
    DEFAULT_ARCHIVE_MINUTES,
    DEFAULT_POLICY,
    DEFAULT_THEME,
    DEFAULT_TURNS,
    MOST_TURNS,
    RoomPolicy,
)
from agentic.themes import THEMES
from agentic.wire.entries import StoredValue
from agentic.wire.messages import MAX_TOPIC

ROOM = "room"  # the form and the menu of the members, as their ids begin
QUOTES = {
    '"': '"',
    "“": "”",
    "„": "“”",
    "”": "”",
    "«": "»",
    "»": "«",
    "‹": "›",
    "‘": "’",
    "'": "'",
    "「": "」",
    "『": "』",
}
MOST_RULES, MOST_QUESTION = 700, 200  # characters; both together are a room's rules


class RoomDraft(StoredValue):
    """All of a room but its members, as one person asked for it. `question` is the one that it begins with."""

    asked_by: int  # 0: the owner, by the console
    channel_id: int
    guild_id: int | None = None
    topic: str = ""
    turns: int = pydantic.Field(DEFAULT_TURNS, ge=2, le=MOST_TURNS)
    archive_minutes: int = DEFAULT_ARCHIVE_MINUTES
    policy: RoomPolicy = DEFAULT_POLICY
    moderator: str | None = None  # as the person wrote it
    audience_seconds: float = 0.0
    goodbye_ends: bool = False
    theme: str = DEFAULT_THEME
    asked_by_name: str = ""  # as this server shows it
    rules: str = ""
    question: str = ""

    @pydantic.field_validator("topic")
    @classmethod
    def _one_line(cls, topic: str) -> str:
        return topic_of(topic)[:MAX_TOPIC].rstrip()


def topic_of(text: str) -> str:
    """The topic that a person typed, on one line, without quotation marks around it."""
    topic = one_line(text, len(text))
    while len(topic) >= 2 and topic[-1] in QUOTES.get(topic[0], ""):
        within = topic[1:-1].strip()
        if topic[0] in within or topic[-1] in within:  # two quotations: "Tea" or "coffee"
            break
        topic = within
    return topic


def too_long(text: str) -> str | None:
    """Return why a topic can't be used, or None if it can."""
    if (length := len(topic_of(text))) <= MAX_TOPIC:
        return None
    return (
        f"The topic is {length} characters long, and {MAX_TOPIC} is the most. Shorten it, and put the details into the"
        " rules: /room create without a topic opens a form that has them."
    )


def draft_of(command: ActionRequest) -> RoomDraft:
    """The draft that the options make."""
    values = command.values
    theme = str(values.get("theme", DEFAULT_THEME))
    policy, archive = str(values.get("policy", DEFAULT_POLICY)), str(values.get("archive", DEFAULT_ARCHIVE_MINUTES))
    return RoomDraft(
        asked_by=command.who.user_id,
        channel_id=int(values.get("channel") or command.parent_id or command.channel_id),
        guild_id=command.guild_id,
        topic=str(values.get("topic", "")),
        turns=min(max(int(values.get("turns", DEFAULT_TURNS)), 2), MOST_TURNS),
        archive_minutes=int(archive) if archive in ARCHIVES else DEFAULT_ARCHIVE_MINUTES,
        policy=policy if policy in POLICY_TEXTS else DEFAULT_POLICY,  # type: ignore[arg-type]
        moderator=str(values.get("moderator") or "") or None,
        audience_seconds=min(max(int(values.get("audience", 0)), 0), MAX_SLOT),
        goodbye_ends=bool(values.get("goodbye-ends", False)),
        theme=theme if theme in THEMES else DEFAULT_THEME,
        asked_by_name=command.who.name,
    )


def form_of(draft: RoomDraft, names: str) -> Form:
    """The long version. Its id carries what it does not show."""
    options = (draft.channel_id, draft.archive_minutes, draft.policy, round(draft.audience_seconds))
    return Form(
        id=":".join(map(str, (ROOM, *options, int(draft.goodbye_ends), draft.moderator or "", draft.theme))),
        title="A new room",
        fields=(
            FormField(id="topic", label="Topic", hint="what it is about", required=True, most=MAX_TOPIC),
            FormField(
                id="personas",
                label="Who takes part",
                hint="names, separated by commas; left empty, you choose from a list",
                text=names,
                most=MAX_NAMES,
            ),
            FormField(id="turns", label="How many turns", text=str(draft.turns), most=3),
            FormField(
                id="rules",
                label="Rules",
                hint="for example: at most five sentences",
                long=True,
                most=MOST_RULES,
            ),
            FormField(id="question", label="First question", hint="what they begin with", most=MOST_QUESTION),
        ),
    )


def draft_in(command: ActionRequest, values: Mapping[str, str]) -> RoomDraft:
    """The draft that a filled-in form makes. Raises ValueError for turns that are none."""
    names = ("channel", "archive", "policy", "audience", "goodbye", "moderator", "theme")
    _, *parts = values.get("id", "").split(":")
    options = dict(zip(names, parts, strict=False))
    goodbye = options.pop("goodbye", "")
    given = {name: value for name, value in options.items() if value}
    base = draft_of(
        ActionRequest(
            id=command.id,
            name=command.name,
            who=command.who,
            channel_id=command.channel_id,
            guild_id=command.guild_id,
            parent_id=command.parent_id,
            values={**given, "goodbye-ends": int(goodbye or 0)},
        )
    )
    texts = {name: values.get(name, "") for name in ("topic", "rules", "question")}
    turns = int(values.get("turns", "").strip() or DEFAULT_TURNS)
    try:
        return RoomDraft.model_validate({**base.model_dump(), **texts, "turns": turns})
    except pydantic.ValidationError as error:
        raise ValueError("turns") from error
