from __future__ import annotations

from agent_check.findings import Findings, Level
from agent_check.personas import check_personas
from agent_config import load_settings


def test_the_check_says_who_can_sit_in_rooms_and_once_why_others_cannot(tmp_path):
    for key, text in (("poet", ""), ("ada", "---\nprovider: xai\n---\n"), ("bob", "---\nprovider: xai\n---\n")):
        (tmp_path / key).mkdir()
        (tmp_path / key / "identity.md").write_text(text)
    found = Findings()
    env = {"PERSONAS_DIR": str(tmp_path), "OPENAI_API_KEY": "a-key", "BOT_TOKEN_CHATGPT": "a-token"}
    check_personas(load_settings(env, None), found)
    assert [(one.level, one.text) for one in found] == [
        (Level.OK, "Poet can sit in rooms, without a bot; a room of 20 turns costs about $0.011"),
        (Level.NOTE, "Ada, Bob cannot sit in rooms: XAI_API_KEY is not set, which xai/grok-4.7 needs"),
    ]
