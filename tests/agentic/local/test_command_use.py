"""Answers to commands that the person at the terminal uses."""

from pathlib import Path

import pytest

from agentic.local.discord.dialogs import EPHEMERAL
from agentic.local.discord.world import Attachment
from agentic.local.person import answer_text
from agentic.local.terminal.view import SavedFiles


def nothing(file):
    raise AssertionError(f"{file} was saved")


def test_of_an_answer_to_one_person_the_files_are_shown_too():
    soul = Attachment(5, "soul.md", b"Dry humour.", "text/markdown", 1)
    file = {"id": "5", "filename": "soul.md"}
    answer = {"content": "soul.md of Claude:", "flags": EPHEMERAL, "attachments": [file]}
    assert answer_text(answer, {5: soul}, nothing) == "soul.md of Claude:\nDry humour."
    assert answer_text({**answer, "flags": 0}, {5: soul}, nothing) == "", "it is in the channel already"
    assert answer_text({"content": "Done.", "flags": EPHEMERAL}, {}, nothing) == "Done."


def test_a_page_is_saved_and_its_path_shown(tmp_path: Path):
    answer = {"content": "The room:", "flags": EPHEMERAL, "attachments": [{"id": "5", "filename": "room.html"}]}
    save = SavedFiles(tmp_path, {5: Attachment(5, "", b"<html>", "", 0)}).save
    assert answer_text(answer, {}, save) == f"The room:\n{tmp_path / 'room.html'}"
    assert (tmp_path / "room.html").read_bytes() == b"<html>"


def test_a_page_that_cannot_be_saved_is_no_silent_loss():
    def full(_):
        raise OSError(28, "No space left on device")

    answer = {"content": "The room:", "flags": EPHEMERAL, "attachments": [{"id": "5", "filename": "room.html"}]}
    with pytest.raises(ValueError, match=r"room.html was not saved: No space left"):
        answer_text(answer, {}, full)
