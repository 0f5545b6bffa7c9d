from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentic.personas import files
from agentic.personas.files import PERSONA_FILES, FileCache, PersonaFiles, read_persona


def filled(folder: Path) -> Path:
    for name in PERSONA_FILES:
        (folder / name).write_text(f"text of {name}", encoding="utf-8")
    return folder


def aged(path: Path, seconds: float = 60.0) -> None:
    """Changed so long ago that a file system's clock cannot hide a change."""
    found = path.stat()
    os.utime(path, (found.st_atime, found.st_mtime - seconds))


def test_each_file_is_read_from_its_own_path(tmp_path: Path) -> None:
    found = read_persona(filled(tmp_path))
    assert dict(found) == {name: f"text of {name}" for name in PERSONA_FILES}
    assert found.problems == ()


def test_missing_files_are_warnings_but_those_that_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "soul.md").write_text("kind", encoding="utf-8")
    found = read_persona(tmp_path)
    assert found == PersonaFiles(
        soul="kind", problems=tuple(f"{name}.md: missing" for name in ("identity", "agents", "user", "memory", "tools"))
    )
    assert len(read_persona(tmp_path / "nowhere").problems) == 6


def test_a_file_that_cannot_be_read_is_a_warning_and_the_rest_is_used(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "soul.md").write_bytes("caf\xe9".encode("latin-1"))
    (tmp_path / "user.md").write_bytes(b"x" * (files.MAX_FILE_BYTES + 1))
    (tmp_path / "tools.md").unlink()
    (tmp_path / "tools.md").mkdir()
    (tmp_path / "agents.md").unlink()
    os.mkfifo(tmp_path / "agents.md")  # to wait for a writer would be to hang
    found = read_persona(tmp_path)
    assert found.problems == (
        "soul.md: it isn't UTF-8 text (byte 4); skipped",
        "agents.md: it isn't a regular file; skipped",
        "user.md: it has more than 65,536 bytes; skipped",
        "tools.md: it isn't a regular file; skipped",
    )
    assert (found.soul, found.identity, found.memory) == (None, "text of identity.md", "text of memory.md")


def test_a_byte_order_mark_and_the_ends_of_lines_of_windows_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "soul.md").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n")
    assert read_persona(tmp_path).soul == "one\ntwo\nthree\n"


def test_an_edit_counts_at_the_next_reading(tmp_path: Path) -> None:
    cache = FileCache()
    soul = filled(tmp_path) / "soul.md"
    aged(soul)
    assert read_persona(tmp_path, cache).soul == "text of soul.md"
    soul.write_text("TEXT of soul.md", encoding="utf-8")  # as long as before
    assert read_persona(tmp_path, cache).soul == "TEXT of soul.md"
    soul.unlink()
    assert read_persona(tmp_path, cache).soul is None


def test_two_edits_in_one_tick_of_the_file_system_are_both_seen(tmp_path: Path) -> None:
    cache, soul = FileCache(), tmp_path / "soul.md"
    soul.write_text("one", encoding="utf-8")
    found = soul.stat()
    assert read_persona(tmp_path, cache).soul == "one"
    soul.write_text("two", encoding="utf-8")
    os.utime(soul, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert read_persona(tmp_path, cache).soul == "two"


def test_an_unchanged_file_is_not_opened_again_and_stays_the_same_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, opened = FileCache(), list[str]()
    filled(tmp_path)
    for name in PERSONA_FILES:
        aged(tmp_path / name)
    read = files.read_plain

    def read_plain(path: str, limit: int, *, follow: bool) -> bytes:
        opened.append(Path(path).name)
        return read(path, limit, follow=follow)

    monkeypatch.setattr(files, "read_plain", read_plain)
    first, second = read_persona(tmp_path, cache), read_persona(tmp_path, cache)
    assert sorted(opened) == sorted(PERSONA_FILES)
    assert first.soul is second.soul


def test_the_owners_links_are_followed(tmp_path: Path) -> None:
    """Files that a container's configuration brings are links."""
    (tmp_path / "elsewhere.md").write_text("kind", encoding="utf-8")
    (tmp_path / "persona").mkdir()
    (tmp_path / "persona" / "soul.md").symlink_to(tmp_path / "elsewhere.md")
    assert read_persona(tmp_path / "persona").soul == "kind"
