"""Where .env is, and writing it: whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentic.process.root import ROOT
from agentic.setup import env_file as env_place
from agentic.setup.env_file import CannotWriteError, find_place, template, write_settings

NOW = 1_800_000_000.0


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "secrets"
    elsewhere.mkdir()
    (elsewhere / "bots.env").write_text("A=1\n")
    (tmp_path / ".env").symlink_to(elsewhere / "bots.env")
    place = find_place(tmp_path)
    assert (place.is_link, place.path) == (True, elsewhere / "bots.env")
    write_settings(place, {"A": "2"}, "", NOW)
    assert (tmp_path / ".env").is_symlink()
    assert (tmp_path / ".env").read_text() == "A=2\n"
    assert len(files(elsewhere)) == 2


def test_a_link_to_nothing_is_filled_and_one_in_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").symlink_to(tmp_path / "new.env")
    write_settings(find_place(tmp_path), {"A": "2"}, "# first\n", NOW)
    assert files(tmp_path)["new.env"] == "# first\nA=2\n"
    (tmp_path / ".env").unlink()
    (tmp_path / ".env").symlink_to(tmp_path / ".env")
    with pytest.raises(CannotWriteError, match="can't be read"):
        find_place(tmp_path)


def test_a_file_that_cannot_be_changed_is_refused_at_the_beginning(tmp_path: Path) -> None:
    env = tmp_path / ".env"
    env.write_text("A=1\n")
    env.chmod(0o400)
    with pytest.raises(CannotWriteError, match="read-only"):
        find_place(tmp_path)
    env.unlink()
    env.mkdir()
    with pytest.raises(CannotWriteError, match="isn't a regular file"):
        find_place(tmp_path)
    env.rmdir()
    env.write_bytes(b"A=\xff\n")
    with pytest.raises(CannotWriteError, match="isn't UTF-8 text"):
        find_place(tmp_path)


def test_a_folder_that_cannot_be_written_is_refused_at_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env_place.os, "access", lambda path, mode: False)  # the tests may run as root
    with pytest.raises(CannotWriteError, match="This user can't write"):
        find_place(tmp_path)
    assert files(tmp_path) == {}


@pytest.mark.promise(120)
@pytest.mark.parametrize(("before", "after"), [(0o600, 0o600), (0o644, 0o600), (0o640, 0o640), (0o666, 0o600)])
def test_only_a_group_that_was_let_in_alone_may_read_the_new_file(tmp_path: Path, before: int, after: int) -> None:
    env = tmp_path / ".env"
    env.write_text("A=1\n")
    env.chmod(before)
    kept = write_settings(find_place(tmp_path), {"A": "2"}, "", NOW)
    assert kept is not None
    assert [stat.S_IMODE(path.stat().st_mode) for path in (env, kept)] == [after, 0o600]


def test_a_group_that_the_new_file_cannot_be_given_to_may_not_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    env = tmp_path / ".env"
    env.write_text("A=1\n")
    env.chmod(0o640)
    other_group = env.stat().st_gid + 1
    monkeypatch.setattr(env_place.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(env_place.os, "fchown", refused)
    monkeypatch.setattr(env_place.os, "fstat", lambda _: SimpleNamespace(st_uid=1000, st_gid=other_group))
    write_settings(find_place(tmp_path), {"A": "2"}, "", NOW)
    assert stat.S_IMODE(env.stat().st_mode) == 0o600


def test_two_old_files_of_one_second_are_both_kept(tmp_path: Path) -> None:
    for value in ("1", "2", "3"):
        write_settings(find_place(tmp_path), {"A": value}, "", NOW)
    assert sorted(files(tmp_path).values()) == ["A=1\n", "A=2\n", "A=3\n"]


def test_what_somebody_else_wrote_meanwhile_stays(tmp_path: Path) -> None:
    place = find_place(tmp_path)
    (tmp_path / ".env").write_text("B=theirs\n")
    assert write_settings(place, {"A": "1"}, "# example\n", NOW) is not None
    assert (tmp_path / ".env").read_text() == "B=theirs\nA=1\n"


@pytest.mark.promise(120)
@pytest.mark.parametrize("step", ["open", "fsync", "fchmod", "rename"])
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError])
def test_an_interrupted_write_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, interruption: type[BaseException]
) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    place = find_place(tmp_path)
    real, calls = getattr(os, step), []

    def interrupted(*arguments: object, **more: object) -> object:
        calls.append(step)
        if step == "rename" or len(calls) == 2:  # of the old file, when the new one is there
            raise interruption
        return real(*arguments, **more)

    monkeypatch.setattr(env_place.os, step, interrupted)
    with pytest.raises(interruption):
        write_settings(place, {"A": "2"}, "", NOW)
    assert files(tmp_path) == {".env": "A=1\n"}


def test_an_interruption_after_the_rename_keeps_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    place, real = find_place(tmp_path), os.rename

    def then_interrupted(*names: object) -> None:
        real(*names)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(env_place.os, "rename", then_interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_settings(place, {"A": "2"}, "", NOW)
    assert sorted(files(tmp_path).values()) == ["A=1\n", "A=2\n"]


def test_the_example_of_the_folder_comes_before_that_of_the_program(tmp_path: Path) -> None:
    assert "BOT_TOKEN_CLAUDE=" in template(tmp_path)
    (tmp_path / ".env.example").write_text("# mine\n")
    assert template(tmp_path) == "# mine\n"


def test_git_and_docker_leave_every_file_out_that_holds_secrets() -> None:
    git, docker = ((ROOT / name).read_text().split() for name in (".gitignore", ".dockerignore"))
    assert {".env*", "!.env.example"} <= set(git)
    assert "*" in docker  # what goes into an image is listed there
    assert not any(line.startswith("!.env") for line in docker)
