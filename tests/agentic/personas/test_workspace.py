from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic.personas import workspace
from agentic.personas.files import NotFound, OutOfBounds, PersonaError
from agentic.personas.workspace import Hit, Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret", encoding="utf-8")
    return tmp_path / "workspace"


def test_files_are_written_read_edited_and_found(root: Path) -> None:
    files = Workspace(root)
    assert files.glob() == ()
    files.write("notes/bees.md", "Ann\nkeeps bees\nand bees")
    files.write("todo.md", "Ask ANN")
    assert files.read("notes/bees.md") == "Ann\nkeeps bees\nand bees"
    assert files.read("notes/bees.md", 2, 1) == "keeps bees"
    with pytest.raises(PersonaError, match="2 times"):
        files.edit("notes/bees.md", "bees", "wasps")
    assert files.edit("notes/bees.md", "bees", "wasps", everywhere=True) == 2
    assert files.edit("todo.md", "Ask", "Tell") == 1
    with pytest.raises(NotFound):
        files.edit("todo.md", "Ask", "Tell")
    assert files.grep("ann") == (Hit("notes/bees.md", 1, "Ann"), Hit("todo.md", 1, "Tell ANN"))
    assert files.grep("ann", "*.md") == (Hit("todo.md", 1, "Tell ANN"),)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**", ["a.md", "b/c.md", "b/d/e.txt"]),
        ("*", ["a.md"]),
        ("*.md", ["a.md"]),
        ("**/*.md", ["a.md", "b/c.md"]),
        ("b/**", ["b/c.md", "b/d/e.txt"]),
        ("b/**/e.*", ["b/d/e.txt"]),
        ("?/c.md", ["b/c.md"]),
        ("../**", []),
        ("**/" * 6 + "*a*a*a*a*a*b", []),
    ],
)
def test_patterns(root: Path, pattern: str, found: list[str]) -> None:
    files = Workspace(root)
    for path in ("a.md", "b/c.md", "b/d/e.txt"):
        files.write(path, "x")
    assert list(files.glob(pattern)) == found


def test_stars_in_a_row_are_one_so_that_none_multiplies_the_ways_to_look() -> None:
    assert workspace._pattern("**/**/a/**/**/b/**") == ["**", "a", "**", "b", "**"]


OUTSIDE = ["../outside/secret.txt", "/etc/passwd", "a/../../outside/secret.txt", "", "/", "a//b", ".", "a/.", ".lock"]


@pytest.mark.parametrize(
    "path", [*OUTSIDE, ".hidden/x", "a\\..\\b", "a\nb", "a\x00b", "x" * 241, "/".join("abcdefghi"), "\ud800"]
)
def test_no_path_leads_out(root: Path, path: str) -> None:
    files = Workspace(root)
    files.write("a/inside.txt", "x")
    for act in (files.read, lambda path: files.write(path, "x"), lambda path: files.edit(path, "x", "y")):
        with pytest.raises(OutOfBounds):
            act(path)


def test_no_link_leads_out(root: Path) -> None:
    files = Workspace(root)
    files.write("inside.txt", "x")
    (root / "link.txt").symlink_to(root.parent / "outside" / "secret.txt")
    (root / "folder").symlink_to(root.parent / "outside")
    (root / "self").symlink_to(root)
    for path in ("link.txt", "folder/secret.txt", "self/inside.txt"):
        for act in (files.read, lambda path: files.write(path, "x"), lambda path: files.edit(path, "secret", "y")):
            with pytest.raises(OutOfBounds):
                act(path)
    assert files.glob() == ("inside.txt",)
    assert files.grep("secret") == ()
    assert (root.parent / "outside" / "secret.txt").read_text() == "secret"


def test_what_is_no_text_and_no_plain_file_is_refused(root: Path) -> None:
    files = Workspace(root)
    files.write("a.txt", "x")
    (root / "b.bin").write_bytes(b"\xff\xfe x")
    os.mkfifo(root / "pipe")
    (root / "dir").mkdir()
    for path in ("b.bin", "pipe", "dir"):
        with pytest.raises(OutOfBounds):
            files.read(path)
    for path in ("pipe", "dir"):
        with pytest.raises(OutOfBounds):
            files.write(path, "x")
    with pytest.raises(NotFound):
        files.read("nowhere/a.txt")
    with pytest.raises(OutOfBounds):
        files.write("a.txt/b.txt", "x")
    assert files.grep("x") == (Hit("a.txt", 1, "x"),)


def test_limits_of_a_file_of_all_of_them_and_of_their_number(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Workspace(root)
    with pytest.raises(PersonaError, match="a file has at most"):
        files.write("a.txt", "x" * (workspace.MAX_FILE_BYTES + 1))
    monkeypatch.setattr(workspace, "MAX_TOTAL_BYTES", 10)
    monkeypatch.setattr(workspace, "MAX_FILES", 2)
    files.write("a.txt", "12345")
    files.write("b.txt", "12345")
    files.write("b.txt", "54321")
    with pytest.raises(PersonaError, match="more than 10 bytes"):
        files.edit("b.txt", "5", "55")
    with pytest.raises(PersonaError, match="2 files"):
        files.write("c.txt", "")
    assert not (root / "c.txt").exists()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(("..", ".", "a", "link", "folder", "", "~", "secret.txt")), min_size=1, max_size=6).map(
        "/".join
    )
)
def test_no_made_up_path_reaches_what_is_outside(tmp_path_factory: pytest.TempPathFactory, path: str) -> None:
    base = tmp_path_factory.getbasetemp() / "confined"
    root, outside = base / "inner" / "workspace", base / "inner" / "secret.txt"
    if not root.exists():
        (root / "a").mkdir(parents=True)
        (root / "folder").symlink_to(base / "inner")
        (root / "a" / "link").symlink_to(outside)
    outside.write_text("secret", encoding="utf-8")
    files = Workspace(root)
    with contextlib.suppress(PersonaError):
        assert files.read(path) != "secret"
    with contextlib.suppress(PersonaError):
        files.write(path, "mine")
    assert outside.read_text(encoding="utf-8") == "secret"
    assert not (base / "secret.txt").exists()
