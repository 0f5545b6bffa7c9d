"""The personas that come with the program."""

from __future__ import annotations

import logging

import pytest

from agent_config import AGENTS, load_settings
from agentic.agent.persona import Persona, Personas
from agentic.agent.roster import Roster
from agentic.chat.directory import Directory
from agentic.personas.identity import parse_identity
from agentic.process.root import ROOT
from tests.support.doubles import MemoryPresence

SHIPPED = ROOT / "personas"
FOR_DEBATES = ("economist", "engineer", "ethicist", "historian", "optimist", "sceptic")
COMPANION = "penny"
MOST_CHARACTERS = 3_000  # docs/persona-files.md: each is paid for at each turn


def test_six_debaters_and_a_companion_come_without_a_bot():
    assert {path.name for path in SHIPPED.iterdir() if path.is_dir()} == {*AGENTS, *FOR_DEBATES, COMPANION}


@pytest.mark.parametrize("key", [*FOR_DEBATES, COMPANION])
def test_each_can_be_read_names_no_provider_and_is_short(key, caplog):
    card, problems = parse_identity((SHIPPED / key / "identity.md").read_text(encoding="utf-8"))
    assert (problems, card.provider, card.model) == ((), None, None)
    assert all((card.display_name, card.interests, card.disclosure, card.talkativeness))
    persona = Persona(key, SHIPPED / key, complete=False)
    with caplog.at_level(logging.WARNING):
        prompt = persona.system()
    assert (caplog.messages, len(prompt.stable) < MOST_CHARACTERS, persona.jobs()) == ([], True, ())
    assert "Should I quit?" in prompt.stable


@pytest.mark.parametrize("key", ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "XAI_API_KEY"])
def test_all_of_them_speak_with_whichever_key_is_set(key):
    settings = load_settings({key: "a-key", "PERSONAS_DIR": str(SHIPPED)}, None)
    roster = Roster(settings, Directory(), MemoryPresence(), SHIPPED)
    shown = {one.shown: one.why_not for one in roster.personas if one.key not in AGENTS}
    assert shown == dict.fromkeys(map(str.title, (*FOR_DEBATES, COMPANION)))


def test_the_companion_alone_searches_logs_recalls_and_writes_unasked():
    cards = {
        path.name: parse_identity((path / "identity.md").read_text(encoding="utf-8"))[0]
        for path in SHIPPED.iterdir()
        if path.is_dir()
    }
    penny = cards.pop(COMPANION)
    assert (penny.always_search, penny.search_pictures, penny.message_log, penny.recall) == (True,) * 4
    assert (penny.idle_tasks, penny.unprompted) == (("summarise", "profile", "follow_up", "discover"), "everyone")
    assert {(card.always_search, card.message_log, card.recall, card.idle_tasks) for card in cards.values()} == {
        (None,) * 4
    }


def test_their_options_are_those_of_their_own_file(tmp_path):
    (tmp_path / "poet").mkdir()
    (tmp_path / "poet" / "identity.md").write_text("---\ntemperature: 1.5\nthinking: none\n---\n")
    personas = Personas(load_settings({"PERSONAS_DIR": str(tmp_path)}, None))
    assert personas.layer("poet") == {"temperature": 1.5, "thinking": "none"}
    assert personas.of("poet").read().problems == ()
