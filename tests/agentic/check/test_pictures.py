"""--check says how personas get their pictures, and which picture is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

from agent_config import load_settings
from agentic.check.agents import check_personas
from agentic.findings import Findings
from agentic.process.root import ROOT


def told(folder: Path, **env: str) -> str:
    found = Findings()
    check_personas(load_settings({"PERSONAS_DIR": str(folder), "ANTHROPIC_API_KEY": "a-key", **env}, None), found)
    return "\n".join(one.text for one in found)


def test_pictures_in_files_need_a_channel_to_upload_them_and_the_files(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "personas" / "historian", tmp_path / "historian")
    assert "set OWNER_CHANNEL_ID, and a bot uploads them" in told(tmp_path)
    assert "picture" not in told(tmp_path, OWNER_CHANNEL_ID="123456789012345678")
    (tmp_path / "historian" / "avatar.png").unlink()
    assert "avatar.png is missing" in told(tmp_path, OWNER_CHANNEL_ID="123456789012345678")
