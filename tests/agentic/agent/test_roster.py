"""Who may sit in a room: bots and personas, their models and names, and what changes while the program runs."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil

import pytest

from agent_config import FrontMatter, load_settings
from agentic.agent.roster import PersonaFolders, Roster, list_agents
from agentic.chat.directory import Directory
from agentic.settings.agents import COLORS
from agentic.state.rooms import RoomMember
from tests.support.doubles import MemoryPresence

BOT = {"BOT_TOKEN_CLAUDE": "a-token", "ANTHROPIC_API_KEY": "a-key"}


def settings(**env):
    return load_settings({**BOT, **env}, None)


def entry(front=None, key="historian", **env):
    """The one persona's entry."""
    return next(one for one in list_agents(settings(**env), {key: front or FrontMatter()}) if one.key == key)


def folder(tmp_path, **identities):
    for key, text in identities.items():
        (tmp_path / key).mkdir(exist_ok=True)
        (tmp_path / key / "identity.md").write_text(text)
    return tmp_path


def roster(tmp_path, presence=None, **env):
    directory = Directory()
    return Roster(settings(**env), directory, presence or MemoryPresence(), tmp_path), directory


def test_a_persona_does_not_take_a_name_that_the_program_has_for_itself_in_prompts():
    assert "choose another display_name" in (entry(FrontMatter(display_name="SYSTEM"), key="voice").why_not or "")


def test_bots_come_first_and_an_agent_without_a_token_counts_as_a_persona():
    found = list_agents(settings(), {"historian": FrontMatter(), "claude": FrontMatter()})
    assert [(one.key, one.is_bot) for one in found] == [
        ("claude", True), ("chatgpt", False), ("gemini", False), ("grok", False), ("historian", False),
    ]  # fmt: skip
    assert [one.key for one in list_agents(settings(), {}, elsewhere={"grok"}) if one.is_bot] == ["claude", "grok"]


@pytest.mark.parametrize(
    ("front", "env", "model"),
    [
        (FrontMatter(), {}, "anthropic/claude-haiku-5-5"),
        (FrontMatter(), {"GEMINI_API_KEY": "k", "XAI_API_KEY": "k"}, "anthropic/claude-haiku-5-5"),
        (FrontMatter(provider="google"), {"GEMINI_API_KEY": "k"}, "google/gemini-3.8-flash"),
        (FrontMatter(models=("openai/gpt-6.1-sol",)), {"OPENAI_API_KEY": "k"}, "openai/gpt-6.1-sol"),
        (FrontMatter(models=("ollama/llama",)), {}, "ollama/llama"),
        (FrontMatter(provider="ollama"), {}, "ollama/gpt-oss:20b"),
        (FrontMatter(models=("ollama",)), {}, "ollama/gpt-oss:20b"),
    ],
)
def test_a_persona_has_the_model_of_its_front_matter_its_providers_default_or_the_least_expensive_one(
    front, env, model
):
    found = entry(front, **env)
    assert (found.model, found.why_not) == (model, None)


@pytest.mark.promise(162)
@pytest.mark.parametrize(
    ("front", "why"),
    [
        (FrontMatter(provider="google"), "GEMINI_API_KEY isn't set, and google/gemini-3.8-flash needs it"),
        (FrontMatter(provider="deepseek"), "identity.md: provider: deepseek has no default model"),
        (FrontMatter(provider="nobody"), "identity.md: provider: 'nobody' is unknown"),
        (FrontMatter(models=("some-model",)), "identity.md: model: expected provider/model"),
        (FrontMatter(display_name="Cl4ude"), ""),
        (FrontMatter(display_name="CLAUDE"), "its name 'CLAUDE' is too similar to 'Claude'"),
    ],
)
def test_a_persona_that_cannot_speak_says_why(front, why):
    assert (entry(front).why_not or "").startswith(why)


def test_of_two_personas_with_one_name_the_first_has_it():
    both = {"ada": FrontMatter(display_name="Ada L."), "zoe": FrontMatter(display_name="ada-l")}
    why_not = {one.key: one.why_not for one in list_agents(settings(), both)}
    assert (why_not["ada"], bool(why_not["zoe"])) == (None, True)


def test_a_persona_with_the_name_of_a_bot_goes_by_its_key_so_that_the_name_means_the_bot():
    found = {one.key: one.shown for one in list_agents(settings(), {"copy": FrontMatter(display_name="Claude")})}
    assert (found["copy"], list(found.values()).count("Claude")) == ("copy", 1)


def test_the_model_of_the_command_line_and_of_the_owners_file_for_all_count_for_personas_too(tmp_path):
    (tmp_path / "shared.yaml").write_text("model: ollama/llama")
    env = {"BOT_TOKEN_CLAUDE": "t", "CONFIG_FILES_DIR": str(tmp_path)}
    by_file = load_settings(env, None).persona_models.settings_of("historian", FrontMatter())
    assert by_file.models[0].name == "ollama/llama"
    forced = load_settings(env, None, model="openai/gpt-6-luna").persona_models
    assert forced.settings_of("historian", FrontMatter(provider="google")).models[0].name == "openai/gpt-6-luna"


def test_a_persona_draws_by_the_model_that_it_names_and_has_a_color_that_stays():
    front = FrontMatter(models=("openai/gpt-6-luna",), image_model="gpt-image-2.6-flare")
    assert entry(front, OPENAI_API_KEY="k").settings.image_model == "gpt-image-2.6-flare"
    elsewhere = FrontMatter(models=("openai/gpt-6-luna",), image_model="google/gemini-3.1-flash-image")
    assert entry(elsewhere, OPENAI_API_KEY="k").settings.image_model is None
    assert entry(FrontMatter(color=0x102030)).settings.spec.color == 0x102030
    assert entry().settings.spec.color == entry().settings.spec.color in COLORS


def test_a_persona_is_a_member_of_a_room_under_its_name():
    front = FrontMatter(display_name="The Historian", talkativeness=0.4, interests=("ships", "the sea"))
    member = RoomMember(name="historian", shown="The Historian", talkativeness=0.4, interests=("ships", "the sea"))
    assert entry(front).member == member
    assert entry(key="old-salt").shown == "Old Salt"


def test_only_folders_with_a_name_that_is_a_key_and_a_persona_in_them_are_personas(tmp_path, caplog):
    folder(tmp_path, historian="---\ninterests: ships\n---\n", **{"Big Name": "", ".hidden": ""})
    (tmp_path / "notes").mkdir()
    (tmp_path / "soulful").mkdir()
    (tmp_path / "soulful" / "soul.md").write_text("You sing.")
    folders = PersonaFolders(tmp_path)
    assert {key: front.interests for key, front in folders.refresh().items()} == {
        "historian": ("ships",),
        "soulful": (),
    }
    folders.refresh()
    assert [line.partition(": expected")[0] for line in caplog.messages] == [f"{tmp_path / 'Big Name'}: not a persona"]
    assert PersonaFolders(tmp_path / "none").refresh() == {}


@pytest.mark.promise(162)
async def test_a_new_a_changed_and_a_deleted_folder_take_effect_and_listeners_hear_of_each(tmp_path):
    agents, directory = roster(folder(tmp_path, historian=""))
    changes = []
    agents.on_change(lambda: changes.append(dict(agents.names)))
    names = agents.names
    await agents.refresh()
    assert changes == []
    folder(tmp_path, poet="---\ndisplay_name: The Poet\n---\n", historian="---\ndisplay_name: Clio\n---\n")
    await agents.refresh()
    assert (names["poet"], names["historian"]) == ("The Poet", "Clio")
    assert (agents.named("the poet"), agents.named("@CLIO")) == (agents.of("poet"), agents.of("historian"))
    assert directory.distinct_name(77, "Clio") == "Clio, a person"
    shutil.rmtree(tmp_path / "historian")
    await agents.refresh()
    assert (agents.of("historian"), "historian" in names, len(changes)) == (None, False, 2)
    assert directory.distinct_name(77, "Clio") == "Clio"


async def test_an_agent_whose_bot_another_process_runs_is_no_persona_until_that_ends(tmp_path):
    presence = MemoryPresence()
    agents, _ = roster(tmp_path, presence)
    presence.texts["grok"] = "42"
    await agents.refresh()
    assert agents.of("grok").is_bot
    presence.away = True
    await agents.refresh()
    assert agents.of("grok").is_bot, "nothing is known of it"
    presence.away = False
    del presence.texts["grok"]
    await agents.refresh()
    assert not agents.of("grok").is_bot


async def test_without_personas_there_are_bots_alone():
    agents, _ = roster(None)
    await agents.refresh()
    assert ([one.key for one in agents], agents.personas, len(agents.names)) == (["claude"], (), 4)


@pytest.mark.promise(566)
async def test_a_folder_of_personas_that_is_away_for_a_while_deletes_nobody(tmp_path):
    place, keys = tmp_path / "personas", ("ada", "zoe")
    place.mkdir()
    agents, _ = roster(folder(place, ada="Ada", zoe="Zoe"))
    for leave_empty in (False, True):
        place.rename(tmp_path / "elsewhere")
        if leave_empty:  # the folder of a mount
            place.mkdir()
        await agents.refresh()
        assert agents.gone(keys) == ()
        if leave_empty:
            place.rmdir()
        (tmp_path / "elsewhere").rename(place)
        assert agents.gone(keys) == (), "it is back, and was not read yet"
        await agents.refresh()
    shutil.rmtree(place / "ada")
    await agents.refresh()
    assert agents.gone(keys) == ("ada",)


async def test_the_watch_looks_again_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr("agentic.agent.roster.LOOK_EVERY", 0.01)
    agents, _ = roster(tmp_path)
    changed = asyncio.Event()
    agents.on_change(changed.set)
    watch = asyncio.create_task(agents.run())
    folder(tmp_path, poet="")
    async with asyncio.timeout(5):
        await changed.wait()
    watch.cancel()
    assert agents.of("poet") is not None


@pytest.mark.promise(531)
def test_a_folder_that_cannot_be_listed_takes_no_persona_away(tmp_path, monkeypatch, caplog):
    folder(tmp_path, poet="---\ninterests: ships\n---\n")
    folders = PersonaFolders(tmp_path)
    known = folders.refresh()

    def refuse(_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "scandir", refuse)
    assert folders.refresh() == folders.refresh() == known
    assert caplog.text.count("Too many open files") == 1


def test_a_persona_whose_card_cannot_be_read_just_now_stays_as_it_is(tmp_path, monkeypatch):
    edited = folder(tmp_path, poet="---\ninterests: ships\n---\n") / "poet" / "identity.md"
    folders, open_file = PersonaFolders(tmp_path), os.open
    known = folders.refresh()
    edited.write_text("---\ninterests: ships and stars\n---\n")

    def refuse(path, *arguments, **more):
        if str(path).endswith(".md"):
            raise OSError(errno.EMFILE, "Too many open files")
        return open_file(path, *arguments, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert folders.refresh() == known
    monkeypatch.undo()
    assert folders.refresh() != known
