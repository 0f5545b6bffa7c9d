from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from agentic.personas import files as safe_files
from agentic.personas.files import NotFound, OutOfBounds, PersonaError
from agentic.personas.memory import append
from agentic.personas.store import (
    Version,
    bootstrap,
    change,
    parse_boot,
    remove_leftovers,
    versions_of,
)
from agentic.personas.workspace import Workspace


def replace(folder: Path, name: str, text: str, **clock: Callable[[], float]) -> None:
    change(folder, name, lambda old: text, **clock)


def test_the_last_ten_versions_are_kept_also_over_a_clock_that_goes_back(tmp_path: Path) -> None:
    for number in range(13):
        replace(tmp_path, "soul.md", f"text {number}", clock=lambda now=1e9 - number * 1e6: now)  # type: ignore[misc]
    assert [version.text for version in versions_of(tmp_path, "soul.md")] == [f"text {n}" for n in range(2, 12)]
    assert versions_of(tmp_path, "user.md") == []


def test_former_contents_are_read_with_the_time_at_which_they_were_replaced(tmp_path: Path) -> None:
    for number in range(3):
        replace(tmp_path, "soul.md", f"text {number}", clock=lambda now=1e9 + number: now)  # type: ignore[misc]
    assert versions_of(tmp_path, "soul.md") == [Version(1e9 + 1, "text 0"), Version(1e9 + 2, "text 1")]
    (tmp_path / ".history" / "soul.md.20260231T000000Z-000000").write_text("by hand", encoding="utf-8")
    assert versions_of(tmp_path, "soul.md")[0] == Version(0.0, "by hand")
    assert versions_of(tmp_path, "user.md") == []
    with pytest.raises(OutOfBounds):
        versions_of(tmp_path, "../soul.md")


def test_the_same_text_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "soul.md").write_bytes(b"a\r\nb")
    replace(tmp_path, "soul.md", "a\nb")
    assert (tmp_path / "soul.md").read_bytes() == b"a\r\nb"
    assert not (tmp_path / ".history").exists()


@pytest.mark.parametrize("name", ["../x.md", "/etc/passwd", "", ".lock", "other.md", "soul.md/../x"])
def test_only_a_personas_files_are_changed(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutOfBounds):
        change(tmp_path, name, lambda old: "x")


def test_links_are_not_written_through(tmp_path: Path) -> None:
    folder, outside = tmp_path / "persona", tmp_path / "outside.md"
    folder.mkdir()
    outside.write_text("theirs", encoding="utf-8")
    (folder / "memory.md").symlink_to(outside)
    with pytest.raises(OutOfBounds):
        append(folder, "mine", None)
    (folder / "memory.md").unlink()
    (folder / "memory.md").symlink_to(tmp_path / "nowhere.md")  # leads to nothing yet
    with pytest.raises(OutOfBounds):
        append(folder, "mine", None)
    (folder / "memory.md").unlink()
    (folder / "memory.md").write_text("a", encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    (folder / ".history").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutOfBounds):
        append(folder, "mine", None)
    assert outside.read_text(encoding="utf-8") == "theirs"
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.promise(76)
def test_a_write_that_fails_leaves_the_old_text_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace(tmp_path, "memory.md", "old")
    os.chmod(tmp_path / "memory.md", 0o640)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device", "/secret/path")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(PersonaError, match=r"^no space left on device$"):
            append(tmp_path, "new", None)
    assert (tmp_path / "memory.md").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"memory.md", ".lock", ".history"}
    assert not list(tmp_path.rglob("*.tmp"))
    replace(tmp_path, "memory.md", "new")
    assert (tmp_path / "memory.md").stat().st_mode & 0o777 == 0o640


def test_a_write_is_on_the_disk_before_it_takes_the_old_ones_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(tmp_path, "memory.md", "old")
    done: list[str] = []
    flush, rename = os.fsync, os.rename

    def flushed(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        done.append(f"{kind} flushed at {os.fstat(descriptor).st_size} bytes" if kind == "file" else f"{kind} flushed")
        flush(descriptor)

    def renamed(*names: str, **folders: int) -> None:
        done.append("renamed")
        rename(*names, **folders)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "rename", renamed)
    replace(tmp_path, "memory.md", "new")
    assert done[-3:] == ["file flushed at 3 bytes", "renamed", "folder flushed"]


@pytest.mark.promise(76)
def test_what_a_killed_write_left_is_removed_at_the_start_and_nothing_else(tmp_path: Path) -> None:
    folder, left = tmp_path / "claude", ".0123456789abcdef.tmp"
    folder.mkdir()
    replace(folder, "soul.md", "old")
    replace(folder, "soul.md", "new")
    Workspace(folder / "workspace").write("notes/bees.md", "bees")
    kept = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert remove_leftovers(folder) == 0
    for place in (folder, folder / ".history", folder / "workspace", folder / "workspace" / "notes"):
        (place / left).write_text("what Ann has had forgotten", encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / left).write_text("theirs", encoding="utf-8")
    (folder / "workspace" / "link").symlink_to(tmp_path / "elsewhere")
    assert remove_leftovers(folder) == 4
    (folder / "workspace" / "link").unlink()
    (tmp_path / "elsewhere" / left).unlink()
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock") == [
        path for path in kept if path.name != ".lock"
    ]


def test_a_history_that_is_a_link_is_not_tidied_up(tmp_path: Path) -> None:
    folder, theirs = tmp_path / "claude", tmp_path / ".0123456789abcdef.tmp"
    folder.mkdir()
    theirs.write_text("theirs", encoding="utf-8")
    (folder / ".history").symlink_to(tmp_path)
    with pytest.raises(OutOfBounds):
        remove_leftovers(folder)
    assert theirs.exists()


def test_a_lock_that_is_never_given_back_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_files, "LOCK_SECONDS", 0.0)
    with safe_files.folder_at(tmp_path) as descriptor, safe_files.locked(descriptor):  # noqa: SIM117 - what is raised within
        with pytest.raises(PersonaError, match="another writer"):
            replace(tmp_path, "soul.md", "x")
    replace(tmp_path, "soul.md", "x")


def test_a_file_beyond_its_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PersonaError, match="80,000 bytes, but the limit is"):
        replace(tmp_path, "soul.md", "é" * 40_000)
    assert not (tmp_path / "soul.md").exists()


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        replace(tmp_path / "nowhere", "soul.md", "x")


# --- the first start ------------------------------------------------------------------------------------------------


def test_without_boot_md_what_is_built_in_counts(tmp_path: Path) -> None:
    report = bootstrap(tmp_path / "new" / "claude", {"soul.md": "Dry.\n"})
    assert report.made == ("soul.md", "identity.md", "agents.md", "user.md", "memory.md", "tools.md", "heartbeat.md")
    assert (tmp_path / "new" / "claude" / "soul.md").read_text() == "Dry.\n"
    assert (tmp_path / "new" / "claude" / "memory.md").read_text() == "# Memory\n"
    again = bootstrap(tmp_path / "new" / "claude")
    assert (again.loaded, again.made, again.problems) == (report.made, (), ())


def test_a_default_is_a_text_or_one_code_block_with_its_comments() -> None:
    config, problems = parse_boot(
        "## Required\n- soul.md\n\n## Defaults\n### `user.md`\n\n<!-- who? -->\nPeople.\n\n### tools.md\n````\n"
        "# Tools\n```\nx\n```\n````\n### two.md\n```\na\n```\n```\nb\n```\n### none.md\n## Optional\n"
    )
    assert (config.required, config.optional) == (("soul.md",), ())
    assert config.defaults == {
        "user.md": "<!-- who? -->\nPeople.\n",
        "tools.md": "# Tools\n```\nx\n```\n",
        "two.md": "```\na\n```\n```\nb\n```\n",
        "none.md": "",
    }
    assert problems == ()


def test_boot_md_names_no_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "boot.md").write_text(
        "## Required\n- ../x.md\n- /etc/y.md\n- soul.txt\n- .z.md\n- a/b.md\n- soul.md\n## Optional\nNone.\n"
        "## Defaults\n### ../x.md\nx\n",
        encoding="utf-8",
    )
    report = bootstrap(tmp_path)
    assert report.made == ("soul.md",)
    assert [problem.split(":")[1] for problem in report.problems] == ["2", "3", "4", "5", "6", "11"]


def test_a_folder_that_cannot_be_written_is_told_once_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "soul.md").write_text("kind", encoding="utf-8")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/secret/path")

    monkeypatch.setattr(os, "rename", refused)
    report = bootstrap(tmp_path)
    assert report.loaded == ("soul.md",)
    (problem,) = report.problems
    assert problem.startswith("identity.md, agents.md,")
    assert problem.endswith("missing, and creating failed: permission denied")


def test_what_cannot_be_read_is_not_among_what_was_loaded_nor_written_over(tmp_path: Path) -> None:
    (tmp_path / "soul.md").write_bytes(b"\xff\xfe")
    report = bootstrap(tmp_path)
    assert "soul.md" not in (*report.loaded, *report.made)
    assert report.problems == ("soul.md: it isn't UTF-8 text (byte 1); skipped",)
    assert (tmp_path / "soul.md").read_bytes() == b"\xff\xfe"


def test_a_file_in_the_place_of_the_folder_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hi")
    report = bootstrap(tmp_path / "file" / "claude")
    assert report.loaded == report.made == ()
    assert {problem.partition(": ")[2] for problem in report.problems} == {"a part of its path isn't a folder; skipped"}


def test_a_file_of_the_largest_size_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert safe_files.read_plain(str(tmp_path / "a"), 5) == b"12345"
    with pytest.raises(PersonaError, match="more than 4 bytes"):
        safe_files.read_plain(str(tmp_path / "a"), 4)


def test_a_byte_order_mark_is_no_text() -> None:
    assert safe_files.as_text(b"\xef\xbb\xbfone\r\ntwo\rthree") == "one\ntwo\nthree"
