"""What local mode writes of personas stays apart from the folder that they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_config import AGENTS, load_settings
from agentic.agent.persona import Persona
from agentic.agent.roster import PersonaFolders
from agentic.local.settings import link_personas, local_personas, to_edit
from agentic.personas.memory import append


def files_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_an_edit_counts_here_and_what_is_noted_here_stays_here(tmp_path: Path) -> None:
    source = tmp_path / "personas"
    (source / "claude").mkdir(parents=True)
    (source / "claude" / "soul.md").write_text("Dry humour.")
    (source / "claude" / "memory.md").write_text("# Memory\n\n- of the real server\n")
    before = files_of(source)
    for _ in range(2):  # a start, and one more
        apart = link_personas(source, tmp_path / "data", ("claude", "grok"))
        for name in ("claude", "grok"):
            Persona(name, apart / name).boot(AGENTS[name])
    append(apart / "claude", "Ann keeps bees", None, None)
    assert files_of(source) == before
    persona = Persona("claude", apart / "claude")
    (source / "claude" / "soul.md").write_text("You speak in rhymes.")
    assert "You speak in rhymes." in persona.system().stable
    assert "Ann keeps bees" in persona.system().memory
    assert "real server" not in persona.system().memory
    assert (apart / "grok" / "soul.md").is_file()
    (source / "grok").mkdir()
    (source / "grok" / "soul.md").write_text("New here.")
    (source / "claude" / "soul.md").unlink()
    apart = link_personas(source, tmp_path / "data", ("claude", "grok"))
    assert Persona("grok", apart / "grok").read().soul == "New here."
    assert Persona("claude", apart / "claude").read().soul is None
    assert "Ann keeps bees" in Persona("claude", apart / "claude").system().memory, "and a restart forgets nothing"


def test_a_persona_without_a_bot_is_there_too_until_it_is_gone(tmp_path: Path) -> None:
    source = tmp_path / "personas"
    (source / "poet").mkdir(parents=True)
    (source / "poet" / "identity.md").write_text("You are Orpheus.")
    apart = link_personas(source, tmp_path / "data", ("claude",))
    assert PersonaFolders(apart).refresh().keys() == {"poet"}
    (source / "poet" / "identity.md").unlink()
    link_personas(source, tmp_path / "data", ("claude",))
    assert PersonaFolders(apart).refresh().keys() == set()


@pytest.mark.parametrize("mine", ["mine", "data/personas", "data/local/personas"])
def test_a_folder_that_the_owner_names_is_read_and_keeps_its_memory(tmp_path: Path, mine: str) -> None:
    (tmp_path / mine / "claude").mkdir(parents=True)
    (tmp_path / mine / "claude" / "soul.md").write_text("Dry humour.")
    environ = {"DATA_DIR": str(tmp_path / "data"), "PERSONAS_DIR": str(tmp_path / mine)}
    for _ in range(2):
        apart = local_personas(load_settings(environ, None, local=True))
        assert apart == tmp_path / "data" / "local" / "personas"
        assert Persona("claude", apart / "claude").read().soul == "Dry humour."
    append(apart / "claude", "Ann keeps bees", None)
    assert (tmp_path / mine / "claude" / "memory.md").exists() == (mine == "data/local/personas")


def test_the_file_that_is_named_for_an_edit_is_one_whose_edit_stays(tmp_path: Path) -> None:
    source = tmp_path / "personas"
    (source / "claude").mkdir(parents=True)
    (source / "claude" / "soul.md").write_text("Dry humour.")

    def start() -> Path:
        apart = link_personas(source, tmp_path / "data", ("claude",))
        Persona("claude", apart / "claude").boot(AGENTS["claude"])
        return apart / "claude"

    for name in ("soul.md", "memory.md", "user.md"):  # a link, local mode's own, made since nothing was there
        file = to_edit(start() / name)
        beside = file.with_name("new")
        beside.write_text("edited\n")
        beside.replace(file)  # as many editors save
        assert (start() / name).read_text() == "edited\n"


def test_an_edit_that_replaced_a_link_is_kept_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = tmp_path / "personas"
    (source / "claude").mkdir(parents=True)
    (source / "claude" / "soul.md").write_text("Dry humour.")
    for _ in range(2):
        here = link_personas(source, tmp_path / "data", ("claude",)) / "claude" / "soul.md"
        here.unlink()
        here.write_text("You speak in rhymes.")
    link_personas(source, tmp_path / "data", ("claude",))
    assert here.read_text() == "Dry humour."
    assert here.with_name("soul.md.edited").read_text() == "You speak in rhymes."
    assert str(source / "claude" / "soul.md") in caplog.text
