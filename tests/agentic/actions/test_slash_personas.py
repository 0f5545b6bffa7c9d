"""`/agent`: personas made, changed, shown and deleted from Discord; what would not be understood is given back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentic.actions.base import FIELD_CHARACTERS, ActionRequest, Form
from agentic.actions.personas import key_of
from agentic.chat.service import Person
from agentic.personas.identity import parse_identity
from agentic.personas.store import versions_of
from agentic.state.silence import ChannelRef
from tests.support.slash_scene import BOB, ELSEWHERE, GUILD, LOUNGE, MANAGER, Place, a_place, a_room

WRITTEN = {
    "name": "Ada: the Sceptic",
    "who": "You doubt.\n\nEven this.",
    "model": "anthropic/claude-opus-5-5",
    "interests": "proofs, ships",
    "further": "avatar: https://example.org/ada.png\ntemperature: 0.4",
}


async def fill_in(place: Place, form: Form, **changes: str) -> Any:
    shown = {field.id: field.text for field in form.fields}
    return await place.use("form agent", id=form.id, **{**shown, **changes})


async def create(place: Place, **changes: str) -> Any:
    return await fill_in(place, await place.use("agent create"), **{**WRITTEN, **changes})


async def test_a_persona_is_made_by_one_form_and_can_take_part_at_once(tmp_path):
    async with a_place(tmp_path) as place:
        told = await create(place)
        assert told == (
            "Saved Ada: the Sceptic. It uses anthropic/claude-opus-5-5. Use /room create to open a room with it."
        )
        card, problems = parse_identity((tmp_path / "ada-the-sceptic" / "identity.md").read_text())
        assert problems == ()
        assert (card.display_name, card.interests, card.temperature) == ("Ada: the Sceptic", ("proofs", "ships"), 0.4)
        assert (tmp_path / "ada-the-sceptic" / "soul.md").read_text() == "You doubt.\n\nEven this.\n"
        assert "Ada: the Sceptic** (persona `ada-the-sceptic`)" in await place.use("agent list", Person(BOB))
        assert place.services.agents.roster.named("ADA: THE SCEPTIC").member.interests == ("proofs", "ships")
        assert [(note.action, note.detail) for note in place.notes] == [("save_persona", "Ada: the Sceptic")]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Ada the Ünlikely", "ada-the-unlikely"),
        ("  R2-D2!  ", "r2-d2"),
        ("x" * 40, "x" * 32),
        ("Σωκράτης", "persona-8a3e5e5c"),
        ("!?", ""),
        ("../../etc", "etc"),
    ],
)
def test_a_folder_has_a_name_that_any_disk_takes(name: str, key: str):
    made = key_of(name)
    assert made == key or (key.startswith("persona-") and made.startswith("persona-") and len(made) == len(key))


@pytest.mark.promise(273)
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"further": "temperature: 9"}, "temperature: expected less than or equal to 2"),
        ({"further": "favourite: tea"}, "'favourite' is unknown"),
        ({"further": "avatar: ftp://example.org/a.png"}, "avatar: expected an https address"),
        ({"further": "---\nmodel: x"}, "expected"),
        ({"model": "gpt-something"}, "expected provider/model"),
        ({"model": "nobody/model"}, "expected provider/model"),
        ({"name": "   "}, "the name is empty"),
        ({"name": "?!"}, "the name has no letter or digit"),
        ({"name": "S y s t e m"}, "the program uses that name"),
        ({"name": "GROK"}, "the name is too similar to Grok. Choose another one"),
        ({"name": "Cl4ude"}, ""),
        ({"who": " \n"}, "“Who it is” is empty"),
    ],
)
async def test_what_would_not_be_understood_is_given_back_and_nothing_is_made(tmp_path, changes, why):
    async with a_place(tmp_path) as place:
        told = await create(place, **changes)
        if not why:
            assert "Saved" in told
            return
        assert told.text.startswith("Not saved: ")
        assert why in told.text
        assert "Even this." in told.file[1] or "who" in changes
        assert [one.name for one in tmp_path.iterdir() if not one.name.startswith(".")] == []


async def test_a_name_is_taken_once(tmp_path):
    async with a_place(tmp_path) as place:
        await create(place)
        told = await create(place, name="ada the sceptic")
        assert "the name is too similar to Ada: the Sceptic" in told.text


@pytest.mark.parametrize(
    ("model", "level", "says_so"),
    [
        ("anthropic/claude-opus-5-5", "none", True),
        ("anthropic/claude-opus-5-5", "high", False),
        ("xai/grok-4", "high", True),
        ("xai/grok-4.7", "high", False),
    ],
)
async def test_the_answer_says_if_a_thinking_level_has_no_effect(tmp_path, model, level, says_so):
    async with a_place(tmp_path) as place:
        told = await create(place, model=model, further=f"thinking: {level}")
        assert told.startswith(f"Saved Ada: the Sceptic. It uses {model}")
        assert (f"doesn't have the thinking level “{level}”, so the level has no effect." in told) is says_so


async def test_a_persona_without_a_key_is_kept_and_says_what_it_lacks(tmp_path):
    async with a_place(tmp_path) as place:
        told = await create(place, model="google/gemini-3.8-flash")
        assert told.startswith("Saved Ada: the Sceptic. It can't take part yet: GEMINI_API_KEY isn't set")
        assert "GEMINI_API_KEY isn't set" in await place.use("agent list")


async def test_a_persona_is_changed_in_a_form_that_shows_it_and_keeps_what_the_form_does_not_have(tmp_path):
    async with a_place(tmp_path) as place:
        await create(place)
        file = tmp_path / "ada-the-sceptic" / "identity.md"
        file.write_text(file.read_text().replace("temperature: 0.4", "temperature: 0.4  # not more\ncolour: #D97757"))
        form = await place.use("agent edit", name="ada the sceptic")
        shown = {field.id: field.text for field in form.fields}
        assert shown == {
            **WRITTEN,
            "who": WRITTEN["who"] + "\n",
            "further": "avatar: https://example.org/ada.png\ntemperature: 0.4  # not more\ncolour: #D97757",
        }
        assert "Saved Ada II" in await fill_in(place, form, name="Ada II", model="xai/grok-4.7")
        text = file.read_text()
        assert "temperature: 0.4  # not more\ncolour: #D97757" in text
        assert text.endswith("You are Ada: the Sceptic.\n")
        assert parse_identity(text)[0].model == "xai/grok-4.7"
        assert "Ada: the Sceptic" in versions_of(tmp_path / "ada-the-sceptic", "identity.md")[-1].text


async def test_a_provider_of_its_own_line_is_shown_with_the_model(tmp_path):
    (tmp_path / "eve").mkdir()
    (tmp_path / "eve" / "identity.md").write_text("---\nprovider: xai\nmodel: grok-4.7\n---\nYou are Eve.\n")
    async with a_place(tmp_path) as place:
        form = await place.use("agent edit", name="eve")
        shown = {field.id: field.text for field in form.fields}
        assert (shown["name"], shown["model"], shown["further"]) == ("Eve", "xai/grok-4.7", "")
        await fill_in(place, form, who="You are calm.")
        assert "provider" not in (tmp_path / "eve" / "identity.md").read_text()


@pytest.mark.promise(273)
async def test_what_was_changed_on_disk_meanwhile_is_not_lost(tmp_path):
    async with a_place(tmp_path) as place:
        await create(place)
        form = await place.use("agent edit", name="ada the sceptic")
        (tmp_path / "ada-the-sceptic" / "soul.md").write_text("You believe.\n")
        told = await fill_in(place, form, who="You shrug.")
        assert "in the meantime" in told.text
        assert "You shrug." in told.file[1]
        assert (tmp_path / "ada-the-sceptic" / "soul.md").read_text() == "You believe.\n"


async def test_what_no_form_can_hold_is_to_be_edited_elsewhere(tmp_path):
    async with a_place(tmp_path) as place:
        await create(place)
        (tmp_path / "ada-the-sceptic" / "soul.md").write_text("x" * (FIELD_CHARACTERS + 1))
        assert "its files are too long" in await place.use("agent edit", name="ada the sceptic")


@pytest.mark.promise(273)
async def test_a_deleted_persona_is_gone_and_can_be_restored(tmp_path):
    async with a_place(tmp_path) as place:
        await create(place)
        told = await place.use("agent delete", name="ada the sceptic")
        (kept,) = (tmp_path / ".deleted").iterdir()
        assert f".deleted/{kept.name}" in told
        assert (kept / "soul.md").read_text().startswith("You doubt.")
        assert "Ada" not in await place.use("agent list")
        kept.rename(tmp_path / "ada-the-sceptic")
        await place.services.agents.roster.refresh()
        assert "Ada" in await place.use("agent list")


async def test_who_sits_in_a_running_room_stays(tmp_path):
    async with a_place(tmp_path) as place:
        await create(place)
        member = place.services.agents.roster.of("ada-the-sceptic").member
        await place.has(a_room(10**17, members=(member,), guild_id=GUILD), a_room(10**17 + 1, status="closed"))
        told = await place.use("agent delete", name="ada the sceptic")
        assert told == f"Ada: the Sceptic is a member of <#{10**17}>. Use /room remove there first."
        assert (tmp_path / "ada-the-sceptic").is_dir()


@pytest.mark.parametrize("command", ["edit", "delete"])
async def test_bots_are_no_personas(tmp_path, command: str):
    async with a_place(tmp_path) as place:
        assert "Grok is a bot, not a persona" in await place.use(f"agent {command}", name="grok")
        assert "Did you mean Grok?" in await place.use(f"agent {command}", name="grook")


async def test_a_persona_is_shown_with_its_soul_and_never_its_memory(tmp_path):
    async with a_place(tmp_path) as place:
        await create(place)
        (tmp_path / "ada-the-sceptic" / "memory.md").write_text("# Memory\n- Bob is ill.\n")
        shown = await place.use("agent show", name="ada: the sceptic")
        assert "You doubt." in shown
        assert "Interests: proofs, ships" in shown
        assert "Bob is ill" not in shown
        (tmp_path / "ada-the-sceptic" / "soul.md").write_text("word " * 1000)
        long = await place.use("agent show", name="ada: the sceptic")
        assert long.file[0] == "soul.md"


async def test_in_several_servers_only_the_owner_changes_personas(tmp_path):
    async with a_place(tmp_path, GUILD_IDS=str(GUILD), OUTPUT_CHANNEL_ID=str(ELSEWHERE)) as place:
        for command in ("create", "edit", "delete"):
            assert "Only the bots' owner" in await place.use(f"agent {command}", name="ada")


async def test_a_model_is_chosen_from_a_list_and_the_form_begins_with_what_was_chosen(tmp_path: Path):
    async with a_place(tmp_path) as place:
        typed = ActionRequest(id=1, name="agent create", who=MANAGER, place=ChannelRef(LOUNGE, guild_id=GUILD))
        models = [choice.value for choice in await place.actions.complete(typed, "model", "")]
        assert {name.partition("/")[0] for name in models} == {"anthropic", "xai"}, "the providers with a key"
        (grok,) = [choice.value for choice in await place.actions.complete(typed, "model", "GROK")]
        form = await place.use("agent create", model=grok, temperature=0.5, thinking="high", length=800)
        assert form.title == "New persona"
        texts = {field.id: field.text for field in form.fields}
        assert (texts["model"], texts["further"]) == (grok, "temperature: 0.5\nthinking: high\nmax_output_tokens: 800")
        for wrong in ({"temperature": 3.0}, {"length": 3}):
            assert "must be a" in await place.use("agent create", **wrong)
