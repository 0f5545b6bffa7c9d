"""The personas that the program brings: whole, valid, cheap, and silent until somebody switches something on."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from agentic.personas.files import PERSONA_FILES, read_persona
from agentic.personas.identity import parse_identity
from agentic.personas.prompt import laid_out
from agentic.personas.schedules import parse_cron, parse_heartbeat, parse_hooks
from agentic.personas.store import bootstrap, parse_boot
from agentic.process.root import ROOT
from agentic.settings.agents import AGENTS

PERSONAS = ROOT / "personas"
MAX_SHOWN = 3_000  # characters: each turn pays for them, if only at the price of what is cached


def shipped(name: str, tmp_path: Path) -> Path:
    """A copy of the persona's folder as it is shipped, without what the bot has written there since."""
    made_by_use = shutil.ignore_patterns("memory.md", ".*", "workspace")
    return shutil.copytree(PERSONAS / name, tmp_path / name, ignore=made_by_use)


def uncommented(text: str | None) -> str:
    return re.sub(r"^<!--$|^-->$", "", text or "", flags=re.MULTILINE)


@pytest.mark.parametrize("name", list(AGENTS))
def test_a_shipped_persona_is_whole_and_does_nothing_by_itself(name: str, tmp_path: Path) -> None:
    folder = shipped(name, tmp_path)
    assert bootstrap(folder).made == ("memory.md",)
    files = read_persona(folder)
    assert files.problems == ()
    assert all(text is not None for _, text in files)
    assert files.memory == "# Memory\n"
    card, problems = parse_identity(files.identity)
    assert problems == ()
    assert (card.display_name, card.color) == (AGENTS[name].display_name, AGENTS[name].color)
    assert card.disclosure is not None
    assert "AI" in card.disclosure
    assert (card.provider, card.model, card.image_model) == (None, None, None)  # .env says that
    assert parse_heartbeat(files.heartbeat) == ((), ())
    assert parse_cron(files.agents) == ((), ())
    assert parse_hooks(files.agents) == ({}, ())
    config, problems = parse_boot(files.boot)
    assert problems == ()
    assert {*config.required, *config.optional, "boot.md"} == set(PERSONA_FILES)


@pytest.mark.parametrize("name", list(AGENTS))
def test_its_prompt_is_short_and_shows_no_settings(name: str, tmp_path: Path) -> None:
    laid = laid_out(read_persona(shipped(name, tmp_path)))
    text = laid.stable + laid.memory
    assert len(text) < MAX_SHOWN
    headings = ["Identity", "Personality", "Operating Rules", "Tool Configuration"]  # nothing is noted yet
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == headings
    assert not re.search(r"<!--|-->|cron:|display_name", text)
    for other in AGENTS.values():
        assert other.display_name in text


@pytest.mark.parametrize("name", list(AGENTS))
def test_its_examples_work_once_their_comment_marks_are_gone(name: str) -> None:
    files = read_persona(PERSONAS / name)
    checks, problems = parse_heartbeat(uncommented(files.heartbeat))
    assert [check.channel for check in checks] == ["general"]
    assert problems == ()
    jobs, problems = parse_cron(uncommented(files.agents))
    assert [job.expression for job in jobs] == ["0 9 * * 1"]
    assert problems == ()
    hooks, problems = parse_hooks(uncommented(files.agents))
    assert hooks["agent_stop"].when == {"message"}
    assert problems == ()


def test_the_voices_are_four() -> None:
    souls = [set(re.findall(r"[a-z']{5,}", (read_persona(PERSONAS / name).soul or "").lower())) for name in AGENTS]
    for one in souls:
        for other in souls:
            assert one is other or len(one & other) / len(one | other) < 0.25
