"""An agent's own files: read anew for each event, cheaply; what they set; what is made where it is missing."""

import errno
import logging
import os
import re
import time

import pytest

from agent_config import AGENTS, load_settings
from agentic.agent import persona as persona_module
from agentic.agent.persona import Persona, PersonaMemory, Personas, front_of, read_fronts
from agentic.personas.files import folder_at, write_whole
from agentic.personas.identity import IdentityCard
from agentic.personas.memory import everywhere

FIELDS = "display_name: Clyde\nmode: prefill\nprovider: openai\nmodel: gpt-6-luna\ntalkativeness: 0.4"
CARD = f"---\n{FIELDS}\n---\nYou are Clyde."


@pytest.fixture(autouse=True)
def always_look():
    """Look at files again each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(persona_module, "READ_SECONDS", 0.0)
        yield patch


def folder_with(tmp_path, **files):
    folder = tmp_path / "claude"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        write(folder / f"{name}.md", text)
    return folder


def write(path, text):
    """As an edit that is a while ago, so that nothing is read twice for its sake."""
    path.write_text(text, encoding="utf-8")
    ago = time.time() - 60 - len(text)
    os.utime(path, (ago, ago))


def whole(prompt):
    return prompt.stable + prompt.memory


def test_an_edit_counts_from_the_next_look_on(tmp_path):
    folder = folder_with(tmp_path, soul="You are dry.", identity="You are Claude.", memory="- It snowed.")
    persona = Persona("claude", folder)
    prompt = persona.system()
    assert re.findall("^## (.*)$", whole(prompt), re.MULTILINE) == ["Identity", "Personality", "Long-Term Memory"]
    assert persona.system() is persona.system()
    write(folder / "soul.md", "You are wet.")
    assert "You are wet." in persona.system().stable
    assert "dry" not in persona.system().stable


@pytest.mark.promise(583)
def test_files_are_looked_at_once_a_second_but_what_the_process_writes_counts_at_once(tmp_path, always_look):
    always_look.undo()
    always_look.setattr(time, "monotonic", lambda: 100.0)
    folder = folder_with(tmp_path, soul="You are dry.", identity=CARD, memory="- It snowed.")
    persona = Persona("claude", folder)
    assert "dry" in persona.system().stable
    write(folder / "soul.md", "You are wet.")
    assert "dry" in persona.system().stable
    always_look.setattr(time, "monotonic", lambda: 101.0)
    assert "wet" in persona.system().stable
    with folder_at(folder) as opened:
        write_whole(opened, "memory.md", b"- It rained.\n")
    assert "It rained." in persona.system().memory


@pytest.mark.promise(555)
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.EACCES])
def test_an_edited_file_that_cannot_be_read_just_now_keeps_its_text(tmp_path, monkeypatch, caplog, number):
    folder = folder_with(tmp_path, soul="You are dry.", identity=CARD, agents="Rule.", memory="- It snowed.")
    persona = Persona("claude", folder)
    known, card, open_file = whole(persona.system()), persona.card, os.open
    write(folder / "soul.md", "You are wet.")
    write(folder / "identity.md", f"{CARD} Now.")

    def refuse(path, *arguments, **more):
        if str(path).endswith(".md"):
            raise OSError(number, os.strerror(number))
        return open_file(path, *arguments, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert whole(persona.system()) == whole(persona.system()) == known
    assert persona.card == card
    assert caplog.text.count("soul.md") == 1
    monkeypatch.undo()
    assert "You are wet." in persona.system().stable
    (folder / "soul.md").unlink()
    assert "You are" not in persona.system().stable.replace("You are Clyde", "")


def test_a_half_written_file_keeps_its_text(tmp_path):
    folder = folder_with(tmp_path, soul="You are dry.")
    persona = Persona("claude", folder)
    known = persona.system().stable
    (folder / "soul.md").write_bytes("You are très".encode()[:-2])
    assert persona.system().stable == known


def test_a_comment_that_hides_the_end_of_a_file_is_told_once_and_again_after_an_edit(tmp_path, caplog):
    folder = folder_with(tmp_path, soul="You are dry.\n<!-- and\nwet.", user="- Jo runs it.")
    persona = Persona("claude", folder)
    assert "wet" not in persona.system().stable
    persona.system(memory_tool=None)
    told = "claude: soul.md:2: this comment has no closing -->, so the rest of the file is hidden"
    assert [line for line in caplog.messages if "comment" in line] == [told]
    write(folder / "soul.md", "You are dry.\n<!-- and -->\nwet.")
    assert "wet" in persona.system().stable
    write(folder / "soul.md", "<!--")
    persona.system()
    assert [line for line in caplog.messages if "comment" in line] == [told, told.replace(":2:", ":1:")]


def test_a_memory_that_changes_leaves_every_byte_before_it(tmp_path):
    folder = folder_with(tmp_path, soul="You are dry.", tools="Search first.", memory="- It snowed.")
    persona = Persona("claude", folder)
    before = persona.system()
    write(folder / "memory.md", "- It snowed.\n- It rained.")
    after = persona.system()
    assert (after.stable == before.stable, after.memory == before.memory) == (True, False)
    assert "It rained." not in after.stable


def test_what_may_not_be_told_is_not_there(tmp_path):
    memory = "- For all\n- For few <!-- channel:8 guild:1 -->\n- For some <!-- channel:7 guild:1 -->"
    persona = Persona("claude", folder_with(tmp_path, soul="x", memory=memory))
    shown = persona.system(lambda channel: channel == 7).memory
    assert "For all" in shown
    assert "For some" in shown
    assert "For few" not in shown
    assert "channel:" not in shown


def test_a_setting_overrides_the_soul_and_nothing_else(tmp_path):
    folder = folder_with(tmp_path, soul="You are dry.", identity="You are Claude.")
    settings = load_settings(
        {"PERSONAS_DIR": str(tmp_path), "AGENT_PERSONALITY": "loud", "AGENT_PERSONALITY_CLAUDE": "calm"}, None
    )
    assert Personas(settings).of("claude").folder == folder
    assert "## Personality\n\ncalm" in Personas(settings).of("claude").system().stable
    assert "You are Claude." in Personas(settings).of("claude").system().stable
    assert settings.personality_of("grok") == "loud"


def test_without_a_folder_there_is_no_persona_and_no_warning(tmp_path, caplog):
    persona = Persona("claude", tmp_path / "claude", soul="loud")
    assert (whole(persona.system()), persona.card, persona.checks()) == ("", IdentityCard(), ())
    assert not caplog.records
    assert not persona.folder.exists()


def test_what_is_wrong_is_told_once_with_file_and_line_and_the_rest_is_used(tmp_path, caplog):
    folder = folder_with(
        tmp_path,
        soul="x",
        identity="---\ntalkativeness: 7\ndisplay_name: Clyde\n---\nHi",
        agents="a",
        user="u",
        tools="t",
    )
    (folder / "memory.md").write_bytes(b"\xff\xfe\xff")
    persona = Persona("claude", folder)
    for _ in range(3):
        assert persona.card == IdentityCard(display_name="Clyde")
        assert "## Personality" in persona.system().stable
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "identity.md:2: talkativeness" in told[0]
    assert "memory.md: it isn't UTF-8 text" in told[1]


def test_the_front_matter_sets_options_and_what_must_be_known_at_the_start(tmp_path):
    persona = Persona("claude", folder_with(tmp_path, identity=CARD))
    assert persona.layer() == {"mode": "prefill", "model": "openai/gpt-6-luna"}
    assert persona.layer() is persona.layer()
    front = read_fronts(tmp_path, ("claude", "grok"))["claude"]
    assert (front.display_name, front.models, front.talkativeness) == ("Clyde", ("openai/gpt-6-luna",), 0.4)


def test_before_the_start_makes_what_is_missing_nothing_is_told_of_it(tmp_path, caplog):
    folder_with(tmp_path, identity="---\ncolour: mauve\n---\n")
    read_fronts(tmp_path, ("claude", "grok"))
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("claude: identity.md:2: color")


@pytest.mark.parametrize(
    ("card", "models"),
    [
        (IdentityCard(model="claude-opus-5-5"), ("claude-opus-5-5",)),
        (IdentityCard(provider="openai", model="openai/gpt-6-luna"), ("openai/gpt-6-luna",)),
        (IdentityCard(provider="openai"), ()),
    ],
)
def test_a_model_is_named_with_or_without_its_provider(card, models):
    assert front_of(card).models == models


def test_the_front_matter_counts_more_than_env(tmp_path):
    folder_with(tmp_path, identity=CARD.replace("mode: prefill", "color: '#102030'"))
    env = {"PERSONAS_DIR": str(tmp_path), "CLAUDE_MODEL": "claude-opus-5-5", "OPENAI_API_KEY": "k"}
    claude = load_settings(env, None, fronts=read_fronts).agents["claude"]
    assert (claude.display_name, claude.provider, claude.model, claude.spec.color) == (
        "Clyde", "openai", "gpt-6-luna", 0x102030,
    )  # fmt: skip
    assert claude.usable


def test_a_start_removes_what_a_killed_write_left(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    persona = Persona("claude", folder_with(tmp_path, identity="You are Claude."))
    left = persona.folder / ".0123456789abcdef.tmp"
    left.write_text("half a memory")
    persona.boot(AGENTS["claude"])
    assert not left.exists()
    assert "removed 1 temporary file" in caplog.text


def test_a_start_makes_what_is_missing_and_says_so(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    persona = Persona("claude", folder_with(tmp_path, identity="You are Claude."))
    report = persona.boot(AGENTS["claude"])
    assert report.loaded == ("identity.md",)
    assert "memory.md" in report.made
    assert (persona.folder / "memory.md").read_text() == "# Memory\n"
    assert AGENTS["claude"].personality in persona.system().stable
    assert "persona read from identity.md; created: soul.md" in caplog.text


async def test_a_memory_that_was_deleted_is_made_anew(tmp_path):
    persona = Persona("claude", folder_with(tmp_path, soul="x"))
    memory = PersonaMemory(persona, Places(), never, everywhere)
    await memory.prompt(7, writes=True)
    assert (persona.folder / "memory.md").read_text() == "# Memory\n"


async def test_a_memory_that_cannot_be_made_anew_is_told_and_the_event_goes_on(tmp_path, caplog):
    folder = folder_with(tmp_path, soul="x")
    (folder / "memory.md").symlink_to(tmp_path / "nowhere.md")
    memory = PersonaMemory(Persona("claude", folder), Places(), never, everywhere)
    for _ in range(2):
        assert "## Personality" in (await memory.prompt(7, writes=True)).stable
    assert sum("memory.md: cannot be recreated" in record.getMessage() for record in caplog.records) == 1


async def test_the_preamble_names_the_tool_only_where_there_is_one(tmp_path):
    memory = PersonaMemory(
        Persona("claude", folder_with(tmp_path, soul="x", memory="# Memory")), Places(), never, everywhere
    )
    assert "with the `memory` tool" in (await memory.prompt(7, writes=True)).stable
    plain = (await memory.prompt(7, writes=False)).stable
    assert "`memory`" not in plain


def test_the_tools_are_those_that_have_something_to_work_on(tmp_path):
    persona = Persona("claude", tmp_path / "claude")
    memory = PersonaMemory(persona, Places(), never, everywhere)
    assert memory.tools() == ()
    folder_with(tmp_path)
    assert [tool.spec.name for tool in memory.tools()] == ["memory", "files_write", "files_edit"]
    (persona.folder / "workspace").mkdir()
    assert {"files_read", "files_glob", "files_grep"} < {tool.spec.name for tool in memory.tools()}


def test_who_asks_what_it_is_hears_the_disclosure(tmp_path):
    identity = "---\ndisclosure: I am an AI, run by Jo.\n---\nYou are Claude."
    persona = Persona("claude", folder_with(tmp_path, identity=identity))
    assert "If someone asks what you are, tell them: I am an AI, run by Jo." in persona.system().stable


def test_a_look_costs_an_event_next_to_nothing(tmp_path):
    files = dict.fromkeys(("soul", "identity", "agents", "user", "tools", "heartbeat", "boot"), "words " * 400)
    memory = "\n".join(f"- Entry {n} <!-- channel:{n % 20} guild:1 -->" for n in range(200))
    persona = Persona("claude", folder_with(tmp_path, **files, memory=memory))
    persona.system()
    best = min(timed(persona) for _ in range(200))
    assert best < 0.000_2


def timed(persona):
    began = time.perf_counter()
    persona.system(lambda channel: channel != 3)
    return time.perf_counter() - began


class Places:
    def may_see(self, here):
        return lambda channel: channel == here

    def origin(self, here):
        return here


async def never(context):
    raise AssertionError("nothing is written here")
