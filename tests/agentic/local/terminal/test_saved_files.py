"""Files that bots post, in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentic.local.discord.world import Attachment
from agentic.local.terminal import view as saved_files
from agentic.local.terminal.view import SavedFiles


def stored(*contents: bytes) -> dict[int, Attachment]:
    """Attachments by their ids, from 1."""
    return {number: Attachment(number, "", content, "", 0) for number, content in enumerate(contents, 1)}


def test_a_file_is_saved_once_and_another_of_its_name_beside_it(tmp_path: Path) -> None:
    files = SavedFiles(tmp_path / "files", stored(b"one", b"two"))
    first, again = ({"id": "1", "filename": "fox.png"} for _ in range(2))
    assert files.save(first) == tmp_path / "files" / "fox.png"
    assert files.save(again) is None
    assert files.save({"id": "2", "filename": "fox.png"}) == tmp_path / "files" / "fox-2.png"
    assert files.save({"id": "3", "filename": "gone.png"}) is None
    assert (tmp_path / "files" / "fox-2.png").read_bytes() == b"two"


@pytest.mark.parametrize("name", ["../../evil", "..", "/etc/passwd", "a\x1b[2J", ".bashrc", "x" * 300, ""])
def test_a_name_leads_to_no_other_folder(tmp_path: Path, name: str) -> None:
    path = SavedFiles(tmp_path, stored(b"x")).save({"id": "1", "filename": name})
    assert path is not None
    assert path.parent == tmp_path
    assert path.name.replace("_", "").replace(".", "").replace("-", "").isalnum()
    assert not path.name.startswith(".")


def test_only_the_newest_files_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_files, "MAX_FILES", 3)
    files = SavedFiles(tmp_path, stored(*[b"x"] * 5))
    paths = [files.save({"id": str(number), "filename": f"{number}.txt"}) for number in range(1, 6)]
    assert sorted(tmp_path.iterdir()) == paths[2:]
