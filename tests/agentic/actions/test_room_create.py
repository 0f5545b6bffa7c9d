"""`/room create`: by options, in a form, from a menu; each refusal; nothing is made before the members are known."""

from __future__ import annotations

from typing import Any

import pytest

from agentic.actions.base import Form, Menu
from agentic.actions.room_create import ARCHIVES
from agentic.actions.texts import TEXTS
from agentic.chat.outlet import CannotPost
from agentic.chat.service import Person
from agentic.policies import POLICIES, POLICY_TEXTS
from agentic.rooms.opening import VOTES
from agentic.state import rooms
from agentic.state.rooms import MAX_TURNS, Room
from agentic.state.silence import EVERYTHING, Scope
from agentic.wire.bus import NOBODY
from agentic.wire.messages import MAX_TOPIC
from tests.support.slash_scene import (
    ANN,
    BOB,
    DEBATE,
    ELSEWHERE,
    GUILD,
    LOUNGE,
    NOW,
    SECRET,
    THREAD,
    Place,
    Reply,
    a_place,
)

TOPIC = "Is P equal to NP?"
ID_CHARACTERS = 100  # of a form; Discord's limit
ADA = "---\ndisplay_name: Ada the Sceptic\ninterests: proofs, ships\ntalkativeness: 0.4\n---\nYou are Ada.\n"
FIRST = 10**15  # the first message that the channel gets


@pytest.fixture
def personas(tmp_path):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "identity.md").write_text(ADA)
    return tmp_path


async def online(place: Place) -> None:
    for name in ("claude", "grok"):
        await place.state.coordination.presence.renew(name, "")


def opened(orders: list[Any]) -> Room:
    (order,) = orders
    room = Room.model_validate_json(order.room.room)
    assert (order.command, order.channel_id) == ("room-open", room.thread_id)
    return room


def text_of(response: Any) -> str:
    return response.text if isinstance(response, Reply) else str(response)


def test_the_choices_that_discord_shows_are_those_that_a_room_knows():
    assert tuple(map(int, ARCHIVES)) == rooms.ARCHIVE_MINUTES
    assert set(POLICY_TEXTS) == set(POLICIES)
    assert (MAX_TURNS, MAX_TOPIC) == (rooms.MAX_TURNS, MAX_TOPIC)


async def test_with_topic_and_names_it_is_opened_at_once(personas):
    async with a_place(personas) as place:
        await online(place)
        orders = place.coordinator("opened")
        told = await place.use(
            "room create", topic=f" {TOPIC}\n", personas="GROK, ada the  sceptic,grok", turns=12, archive="60"
        )
        assert text_of(told) == f"The room is open: <#{FIRST}>, on “{TOPIC}”"
        room = opened(orders)
        assert [(member.name, member.shown) for member in room.members] == [
            ("grok", "Grok"),
            ("ada", "Ada the Sceptic"),
        ]
        assert (room.members[1].interests, room.members[1].talkativeness) == (("proofs", "ships"), 0.4)
        assert (room.thread_id, room.channel_id, room.guild_id) == (FIRST, LOUNGE, GUILD)
        assert (room.topic, room.turns, room.archive_minutes, room.policy) == (TOPIC, 12, 60, "round-robin")
        assert (room.opened_by, room.opened_at, room.status) == (ANN, NOW, "active")
        assert place.channel.names == {FIRST: (TOPIC, 60)}
        assert place.channel.messages == {
            FIRST: f"**{TOPIC}**: Grok and Ada the Sceptic discuss this in the thread, in 12 turns."
            f" Ann opened this room. {VOTES}"
        }
        assert await place.state.coordination.room_openings.of("grok") == []
        assert [(note.action, note.detail) for note in place.notes] == [("open_room", TOPIC)]


async def test_every_option_reaches_the_room():
    async with a_place() as place:
        await online(place)
        orders = place.coordinator("opened")
        await place.use(
            "room create",
            topic=TOPIC,
            personas="claude, grok",
            policy="moderated",
            moderator="Claude",
            audience=90,
            goodbye_ends=True,
            channel_=str(DEBATE),
        )
        room = opened(orders)
        assert (room.policy, room.moderator, room.audience_seconds, room.goodbye_ends) == (
            "moderated",
            "claude",
            90,
            True,
        )
        assert room.channel_id == DEBATE


async def test_a_slow_room_s_thread_stays_open_between_two_turns_and_says_its_pace():
    async with a_place() as place:
        await online(place)
        orders = place.coordinator("opened")
        await place.use("room create", topic=TOPIC, personas="claude, grok", pace="2h", archive="60")
        room = opened(orders)
        assert (room.pace, room.archive_minutes) == ("7200", 1440)
        assert "**Pace**: a turn every 2 hours" in place.channel.messages[FIRST]


async def test_an_unknown_pace_opens_no_room_and_names_the_known_ones():
    async with a_place() as place:
        await online(place)
        assert "live, slow" in text_of(
            await place.use("room create", topic=TOPIC, personas="claude, grok", pace="fast")
        )
        assert place.channel.messages == {}


@pytest.mark.parametrize("topic", [TOPIC, None], ids=["options", "form"])
async def test_an_unknown_archive_time_opens_no_room_and_names_the_known_ones(topic):
    async with a_place() as place:
        await online(place)
        more = {"topic": topic, "personas": "claude, grok"} if topic else {}
        told = await place.use("room create", archive="61", **more)
        assert "archive called" in told
        assert "1440" in told
        assert place.channel.messages == {}


async def test_in_a_thread_the_room_is_opened_beside_it():
    async with a_place() as place:
        await online(place)
        orders = place.coordinator("opened")
        await place.use("room create", topic=TOPIC, personas="claude, grok", channel=THREAD, parent=LOUNGE)
        assert opened(orders).channel_id == LOUNGE


async def test_an_unknown_name_is_named_with_the_nearest_one(personas):
    async with a_place(personas) as place:
        told = await place.use("room create", topic=TOPIC, personas="Gork, ada the septic, 𒀀")
        for name, nearest in (("Gork", "Grok"), ("ada the septic", "Ada the Sceptic"), ("𒀀", None)):
            assert f"“{name}”. Did you mean {nearest}?" in text_of(told) or (nearest is None and name in text_of(told))
        assert place.channel.messages == {}


@pytest.mark.promise(271)
@pytest.mark.parametrize(
    ("names", "refusal"),
    [
        ("grok", "A room needs at least two bots or personas. You named Grok."),
        ("grok, Grok", "A room needs at least two"),
        ("grok, gemini", "Gemini can't take part: GEMINI_API_KEY isn't set"),
        ("grok, claude", "Claude is offline."),
        ("grok, p0, p1, p2, p3, p4, p5, p6, p7", "A room can have at most 8 members. You named 9."),
    ],
)
async def test_members_that_do_not_fit_are_refused(tmp_path, names: str, refusal: str):
    for number in range(8):
        (tmp_path / f"p{number}").mkdir()
        (tmp_path / f"p{number}" / "soul.md").write_text("A voice.\n")
    async with a_place(tmp_path) as place:
        await place.state.coordination.presence.renew("grok", "")
        assert text_of(await place.use("room create", topic=TOPIC, personas=names)).startswith(refusal)
        assert place.channel.messages == {}


async def test_a_moderator_who_does_not_take_part_is_refused(personas):
    async with a_place(personas) as place:
        await online(place)
        told = await place.use("room create", topic=TOPIC, personas="claude, grok", moderator="hal")
        assert "“hal”" in told
        told = await place.use("room create", topic=TOPIC, personas="claude, grok", policy="moderated", moderator="ada")
        assert "The moderator must be a member of the room." in told


async def test_a_moderator_is_refused_with_a_policy_by_which_nobody_moderates():
    async with a_place() as place:
        await online(place)
        told = await place.use("room create", topic=TOPIC, personas="claude, grok", moderator="claude")
        assert told == TEXTS["not_moderated"]
        assert await place.use("room create", moderator="claude", policy="pull") == told, "before a form is filled in"


@pytest.mark.promise(271)
@pytest.mark.parametrize("topic", [TOPIC, None], ids=["options", "form"])
async def test_a_channel_where_no_room_can_be_is_refused_before_anything_is_asked(topic, personas):
    async with a_place(personas) as place:
        await online(place)
        given = {"personas": "claude, ada", **({"topic": topic} if topic else {})}
        assert "isn't a channel of the bots" in await place.use("room create", channel_=str(ELSEWHERE), **given)
        place.channel.problem = "the bot lacks Create Public Threads there"
        told = await place.use("room create", **given)
        assert told == f"No room can be opened in <#{LOUNGE}>: the bot lacks Create Public Threads there."
        place.channel.problem = None
        await place.silence.stop(Scope.channel(LOUNGE), source="m1")
        assert "The bots are stopped" in await place.use("room create", **given)
        await place.silence.stop(EVERYTHING, source="m2")
        assert await place.use("room create", **given) == "All bots are paused. Use /bots resume first."
        assert place.channel.messages == {}


async def test_webhooks_are_needed_for_personas_alone(personas):
    async with a_place(personas) as place:
        await online(place)
        place.coordinator("opened")
        place.channel.webhook_problem = "the bot lacks Manage Webhooks there"
        told = await place.use("room create", topic=TOPIC, personas="claude, ada")
        assert text_of(told) == (
            f"Personas speak through a webhook in <#{LOUNGE}>, but the bot lacks Manage Webhooks there."
        )
        assert "open" in text_of(await place.use("room create", topic=TOPIC, personas="claude, grok"))


@pytest.mark.promise(271)
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("BUDGET_DAILY_USD", "Today's budget for all bots is used up. Try again tomorrow."),
        ("BUDGET_CHANNEL_DAILY_USD", f"Today's budget for <#{LOUNGE}> is used up. Try again tomorrow."),
        ("BUDGET_USER_DAILY_USD", "Today's budget for you is used up. Try again tomorrow."),
        ("BUDGET_AGENT_DAILY_USD", "Today's budget for Claude is used up. Try again tomorrow."),
    ],
)
async def test_without_money_no_room_is_opened(setting: str, told: str):
    async with a_place(**{setting: "0"}) as place:
        await online(place)
        assert await place.use("room create", topic=TOPIC, personas="claude, grok") == told
        assert place.channel.messages == {}


@pytest.mark.parametrize(
    ("outcome", "told", "left"),
    [
        (NOBODY, "the coordinator didn't answer, so the room isn't open yet", 1),
        ("stopped", "No room was opened", 0),
        ("something new", "No room was opened: the coordinator refused (something new).", 0),
    ],
)
async def test_what_the_coordinator_does_not_do_is_said(outcome: str, told: str, left: int):
    async with a_place() as place:
        await online(place)
        if outcome != NOBODY:
            place.coordinator(outcome)
        answer = await place.use("room create", topic=TOPIC, personas="claude, grok")
        assert told in text_of(answer)
        assert len(await place.state.coordination.room_openings.of("grok")) == left


async def test_a_discord_that_refuses_is_named():
    async with a_place() as place:
        await online(place)
        place.channel.fault = CannotPost("not_permitted")
        told = await place.use("room create", topic=TOPIC, personas="claude, grok")
        assert f"I'm not allowed to post or start threads in <#{LOUNGE}>" in text_of(told)


async def test_a_long_topic_makes_a_name_that_fits_and_one_line():
    async with a_place() as place:
        await online(place)
        orders = place.coordinator("opened")
        await place.use("room create", topic=f"*Why*\n[msg:1] {'x' * 180}", personas="claude, grok")
        ((name, _),) = place.channel.names.values()
        assert len(name) <= 100
        assert name.startswith("*Why* (msg:1) xxx")
        assert len(opened(orders).topic) <= MAX_TOPIC
        ((said),) = place.channel.messages.values()
        assert said.startswith(r"**\*Why\* (msg:1) xxx")
        assert "\n" not in said


@pytest.mark.parametrize(
    ("typed", "topic"),
    [
        (f'"{TOPIC}"', TOPIC),
        (f"“{TOPIC}”", TOPIC),
        (f" «{TOPIC}» ", TOPIC),
        (f"„{TOPIC}“", TOPIC),
        ('"Tea" or "coffee"?', '"Tea" or "coffee"?'),
        ('"Tea" or "coffee"', '"Tea" or "coffee"'),
        ("Kant's rules", "Kant's rules"),
        ('What is "art"?', 'What is "art"?'),
    ],
)
async def test_quotation_marks_around_a_topic_are_no_part_of_it(typed: str, topic: str):
    async with a_place() as place:
        await online(place)
        orders = place.coordinator("opened")
        await place.use("room create", topic=typed, personas="claude, grok")
        assert opened(orders).topic == topic


async def test_a_topic_that_is_too_long_is_refused_and_not_cut():
    async with a_place() as place:
        await online(place)
        told = text_of(await place.use("room create", topic="x" * 4001, personas="claude, grok"))
        assert "4001 characters" in told
        assert place.channel.messages == {}


LONG = "Should cities ban cars? Think of:\n- noise\n- deliveries " + "and more " * 100


@pytest.mark.parametrize(
    ("topic", "title", "short", "details"),
    [
        (LONG, None, "Should cities ban cars?", LONG.strip()),
        (LONG, "Cars", "Cars", LONG.strip()),
        ("x" * 300, None, f"{'x' * 99}…", "x" * 300),
        (TOPIC, "P and NP", "P and NP", TOPIC),
        (TOPIC, TOPIC, TOPIC, ""),
        (TOPIC, None, TOPIC, ""),
    ],
)
async def test_a_long_topic_has_a_title_and_is_kept_in_full(topic, title, short, details):
    async with a_place() as place:
        await online(place)
        orders = place.coordinator("opened")
        more = {"title": title} if title else {}
        await place.use("room create", topic=topic, personas="claude, grok", **more)
        room = opened(orders)
        assert (room.topic, room.details) == (short, details)
        ((name, _),) = place.channel.names.values()
        assert name == short
        (message,) = place.channel.messages.values()
        assert details.split("\n")[0][:90] in message
        assert len(message) < 2000


@pytest.mark.parametrize("names", ["<@{claude}> and <@!{grok}>", "Claude & GROK", "“claude”; the Grok"])
async def test_members_may_be_mentioned_and_listed_as_people_write(names: str):
    async with a_place() as place:
        await online(place)
        directory = place.services.chats.directory
        directory.learn("claude", 701)
        directory.learn("grok", 702)
        orders = place.coordinator("opened")
        await place.use("room create", topic=TOPIC, personas=names.format(claude=701, grok=702))
        assert opened(orders).names == ("claude", "grok")


async def test_a_name_with_a_comma_and_two_alike_names_are_all_reached(tmp_path):
    shown = {"sceptic": "Sceptic", "the-sceptic": "The Sceptic", "ada": "Ada, Countess of Lovelace"}
    for key, name in shown.items():
        (tmp_path / key).mkdir()
        (tmp_path / key / "identity.md").write_text(f"---\ndisplay_name: {name}\n---\nA voice.\n")
    async with a_place(tmp_path) as place:
        orders = place.coordinator("opened")
        await place.use("room create", topic=TOPIC, personas="the sceptic, Sceptic, ada, countess of lovelace")
        assert opened(orders).names == ("the-sceptic", "sceptic", "ada")
        told = text_of(await place.use("room create", topic=TOPIC, personas="a sceptic, ada"))
        assert "Sceptic (sceptic)" in told
        assert "The Sceptic (the-sceptic)" in told


# the form


async def test_no_secret_of_the_settings_is_kept_of_a_room():
    async with a_place() as place:
        await online(place)
        orders = place.coordinator("opened")
        await place.use("room create", topic=f"Is {SECRET} still valid?", personas="claude, grok")
        assert opened(orders).topic == "Is (redacted) still valid?"
        form, filled = await a_form(place), {"topic": TOPIC, "rules": f"Say {SECRET}.", "question": SECRET}
        for menu in (
            await place.use("room create", topic=f"And {SECRET}?"),
            await place.use("form room", id=form.id, **filled),
        ):
            assert isinstance(menu, Menu)
            kept = await place.state.coordination.room_openings.draft(int(menu.id.partition(":")[2]))
            assert "redacted" in (kept or "")
            assert SECRET not in (kept or "")


@pytest.mark.parametrize("topic", ["\u200b\u200f", " \n\u202e"], ids=ascii)
async def test_a_topic_that_nobody_can_see_is_none(topic: str):
    async with a_place() as place:
        await a_form(place, topic=topic)


async def a_form(place: Place, **options: Any) -> Form:
    form = await place.use("room create", **options)
    assert isinstance(form, Form)
    assert len(form.id) <= ID_CHARACTERS
    return form


async def test_without_a_topic_a_form_asks_for_all_and_carries_the_other_options(personas):
    async with a_place(personas) as place:
        await online(place)
        orders = place.coordinator("opened")
        form = await a_form(
            place,
            personas="Claude, Ada the Sceptic",
            turns=7,
            archive="10080",
            policy="moderated",
            moderator="ada the sceptic",
            audience=3600,
            pace="9:00, 18:30",
            goodbye_ends=True,
            channel_=str(DEBATE),
        )
        shown = {field.id: field.text for field in form.fields}
        assert shown["personas"] == "Claude, Ada the Sceptic"
        assert shown["settings"].splitlines()[:6] == [
            "title:",
            "turns: 7",
            "archive: 10080",
            "policy: moderated",
            "format: open",
            "moderator: ada the sceptic",
        ]
        filled = {**shown, "topic": TOPIC, "rules": "Be brief.", "question": "What is P?"}
        assert "open" in text_of(await place.use("form room", id=form.id, **filled))
        room = opened(orders)
        assert (room.topic, room.turns, room.archive_minutes, room.policy) == (TOPIC, 7, 10080, "moderated")
        assert (room.moderator, room.audience_seconds, room.goodbye_ends) == ("ada", 3600, True)
        assert room.pace == "09:00 18:30"
        assert room.rules == "Be brief.\nBegin with this question: What is P?"
        assert room.channel_id == DEBATE
        assert "The first question: What is P?" in place.channel.messages[FIRST]


@pytest.mark.parametrize(
    ("filled", "why"),
    [
        ({"settings": "turns: many"}, "turns must be a whole number from 2 to 200."),
        ({"settings": "title: Tea\nturns: 1000"}, "turns must be a whole number from 2 to 200."),
        ({"settings": "format: debat"}, "There's no format called “debat”. Did you mean debate?"),
        ({"settings": "speed: 3"}, "There's no option called speed."),
        ({"settings": "rules: none"}, "There's no option called rules."),
        ({"settings": "goodbye-ends: perhaps"}, "goodbye-ends must be yes or no."),
        ({"settings": "policy: pull\nmoderator: Grok"}, "Only a room with the policy"),
        ({"topic": "  "}, "The topic is empty."),
        ({"personas": "grok, hal"}, "There's no bot or persona called “hal”"),
    ],
)
async def test_a_form_with_a_fault_is_given_back_with_the_reason(filled: dict[str, str], why: str):
    async with a_place() as place:
        await online(place)
        form = await a_form(place)
        values = {"topic": TOPIC, "personas": "claude, grok", "settings": "", "rules": "Long rules.", "question": ""}
        told = await place.use("form room", id=form.id, **{**values, **filled})
        assert told.text.startswith(why)
        assert "Long rules." in told.file[1]
        assert place.channel.messages == {}


async def test_a_form_takes_values_as_a_phone_writes_them():
    async with a_place() as place:
        await online(place)
        form, orders = await a_form(place), place.coordinator("opened")
        settings = "Format: Debate\nPOLICY: Round robin\nTheme: Would you rather\nPoll: True\nGoodbye ends: On"
        filled = {"topic": TOPIC, "personas": "Claude (for) vs. @Grok (Con)", "settings": settings}
        await place.use("form room", id=form.id, **filled, rules="", question="")
        room = opened(orders)
        assert (room.format, room.policy, room.theme) == ("debate", "round-robin", "would-you-rather")
        assert (room.poll, room.goodbye_ends) == (True, True)
        assert [(member.name, member.side) for member in room.members] == [("claude", "for"), ("grok", "against")]


@pytest.mark.promise(271)
async def test_a_forged_form_opens_nothing_in_another_channel_and_knows_no_other_policy():
    async with a_place() as place:
        await online(place)
        values = {"topic": TOPIC, "personas": "claude, grok", "settings": "turns: 5", "rules": "", "question": ""}
        told = await place.use("form room", id=f"room:{ELSEWHERE}:7:chaos:-5:0:", **values)
        assert "isn't a channel of the bots" in told.text
        orders = place.coordinator("opened")
        await place.use("form room", id=f"room:{LOUNGE}:7:chaos:-5:0:", **values)
        room = opened(orders)
        assert (room.archive_minutes, room.policy, room.audience_seconds) == (1440, "round-robin", 0)


# the menu


async def a_menu(place: Place, **options: Any) -> Menu:
    menu = await place.use("room create", topic=TOPIC, **options)
    assert isinstance(menu, Menu)
    return menu


async def test_without_names_the_able_ones_are_offered_and_the_choice_opens_the_room(personas):
    async with a_place(personas) as place:
        await online(place)
        orders = place.coordinator("opened")
        menu = await a_menu(place, turns=9)
        assert [choice.value for choice in menu.choices] == ["claude", "grok", "ada"]
        assert menu.choices[2].about == "persona · anthropic/claude-haiku-5-5 · proofs, ships"
        assert (menu.fewest, menu.most) == (2, 8)
        assert place.channel.messages == {}
        assert "open" in await place.use("menu room", id=menu.id, chosen=("ada", "grok"))
        room = opened(orders)
        assert ([member.name for member in room.members], room.turns) == (["ada", "grok"], 9)


async def test_a_choice_opens_one_room_and_expires_with_its_command():
    async with a_place() as place:
        await online(place)
        place.coordinator("opened")
        menu = await a_menu(place)
        assert "open" in await place.use("menu room", id=menu.id, chosen=("claude", "grok"))
        assert (
            await place.use("menu room", id=menu.id, chosen=("claude", "grok"))
            == "This choice has expired or was already used. Use /room create again."
        )
        assert (
            await place.use("menu room", id="room:77", chosen=("claude", "grok"))
            == "This choice has expired or was already used. Use /room create again."
        )
        assert (
            await place.use("menu room", id="room:no number", chosen=("claude", "grok"))
            == "This choice has expired or was already used. Use /room create again."
        )
        assert len(place.channel.messages) == 1


@pytest.mark.promise(271)
async def test_only_who_asked_may_choose():
    async with a_place() as place:
        await online(place)
        menu = await a_menu(place)
        other = Person(BOB, manages_guild=True)
        assert await place.use("menu room", other, id=menu.id, chosen=("claude", "grok")) == TEXTS["not_your_room"]
        assert place.channel.messages == {}


async def test_a_choice_is_checked_as_names_are_and_can_be_made_again():
    async with a_place() as place:
        await place.state.coordination.presence.renew("grok", "")
        menu = await a_menu(place)
        assert await place.use("menu room", id=menu.id, chosen=("claude", "grok")) == "Claude is offline."
        await place.state.coordination.presence.renew("claude", "")
        place.coordinator("opened")
        assert "open" in await place.use("menu room", id=menu.id, chosen=("claude", "grok"))


async def test_with_fewer_than_two_able_ones_nothing_is_offered():
    async with a_place(XAI_API_KEY="") as place:
        told = await place.use("room create", topic=TOPIC)
        assert told == "Fewer than two bots and personas are available right now. /agent list shows why."


async def test_a_policy_that_does_not_exist_is_answered_with_those_that_do():
    async with a_place() as place:
        told = await place.use("room create", topic="Tea?", policy="moderatd")
        assert "Did you mean moderated?" in told
        assert "rounds" in told


async def test_a_debate_has_the_sides_that_were_written_behind_the_names(personas):
    async with a_place(personas) as place:
        await online(place)
        orders = place.coordinator("opened")
        names = "Claude: against, ada the sceptic = Moderator; grok"
        await place.use("room create", topic=TOPIC, personas=names, format="debate")
        room = opened(orders)
        assert [(member.name, member.side) for member in room.members] == [
            ("ada", ""),
            ("claude", "against"),
            ("grok", "for"),
        ]
        assert (room.format, room.moderator, room.policy) == ("debate", "ada", "round-robin")
        (message,) = place.channel.messages.values()
        assert "Ada the Sceptic (moderator), Claude (against), and Grok (for) discuss this" in message
        assert "**Format**: debate: opening statements (until turn 3), rebuttals (until turn 11)" in message


@pytest.mark.parametrize(
    ("names", "options", "code"),
    [
        ("Claude: for, Grok: against", {}, "no_sides"),
        ("Claude: moderator, Grok: moderator", {"format": "panel"}, "several_moderators"),
        ("Claude: moderator, Grok", {"format": "panel", "moderator": "Grok"}, "several_moderators"),
    ],
)
async def test_sides_that_a_room_cannot_have_are_refused(names, options, code):
    async with a_place() as place:
        await online(place)
        assert await place.use("room create", topic=TOPIC, personas=names, **options) == TEXTS[code]
        assert place.channel.messages == {}


async def test_the_message_above_the_thread_names_the_rules():
    async with a_place() as place:
        await online(place)
        place.coordinator("opened")
        form = await a_form(place, format="panel")
        rules = "At most *five* sentences.\nNo jargon. " + "x" * 600
        await place.use("form room", id=form.id, topic=TOPIC, personas="claude, grok", settings="", rules=rules)
        (message,) = place.channel.messages.values()
        assert "**Rules**: At most \\*five\\* sentences. No jargon. xxx" in message
        assert len(message) < 2000


@pytest.mark.parametrize("moderator", [None, "Grok"])
async def test_a_room_that_waits_for_people_says_so_above_its_thread(moderator):
    async with a_place() as place:
        await online(place)
        place.coordinator("opened")
        more = {"moderator": moderator} if moderator else {}
        await place.use("room create", topic=TOPIC, personas="claude, grok", policy="moderated", **more)
        (message,) = place.channel.messages.values()
        assert ("the room waits until you name a member" in message) is (moderator is None)


# the judge

KEYS = {"GEMINI_API_KEY": "a-key", "OPENAI_API_KEY": "a-key"}


@pytest.mark.parametrize(
    ("judge", "options", "told"),
    [
        ("grok", {}, "Grok can't judge a debate that it takes part in"),
        ("xai/grok-4.7", {}, "The judge would have the same model as Grok"),
        ("nobody", {}, "The judge is a bot, a persona, or a model such as"),
        ("mistral/x", {}, "“mistral/x” can't judge: ENDPOINT_MISTRAL_KEY isn't set"),
    ],
)
async def test_a_judge_that_a_room_cannot_have_is_refused(judge: str, options: dict[str, str], told: str):
    async with a_place(XAI_MODEL="grok-4.7", GROK_MODEL="xai/grok-4.7", XAI_API_KEY="a-key", **KEYS) as place:
        await online(place)
        answer = await place.use("room create", **{"topic": TOPIC, "personas": "claude, grok", **options}, judge=judge)
        assert told in text_of(answer)
        assert place.channel.messages == {}


@pytest.mark.parametrize(("judge", "kept"), [("Google/gemini-3.8-flash", "google/gemini-3.8-flash"), ("", "")])
async def test_a_room_keeps_its_judge(judge: str, kept: str):
    async with a_place(**KEYS) as place:
        await online(place)
        orders = place.coordinator("opened")
        await place.use("room create", topic=TOPIC, personas="claude, grok", judge=judge)
        assert opened(orders).judge == kept


# polls


@pytest.mark.parametrize("kind", ["open", "panel", "interview"])
async def test_a_room_without_sides_has_no_polls(kind: str):
    async with a_place() as place:
        await online(place)
        answer = await place.use("room create", topic=TOPIC, personas="claude, grok", format=kind, poll=True)
        assert text_of(answer) == TEXTS["poll_without_sides"]
        assert place.channel.messages == {}


@pytest.mark.parametrize("poll", [True, False])
async def test_a_debate_keeps_that_people_are_asked(poll: bool):
    async with a_place() as place:
        await online(place)
        orders = place.coordinator("opened")
        await place.use("room create", topic=TOPIC, personas="claude, grok", format="debate", poll=poll)
        assert opened(orders).poll is poll
