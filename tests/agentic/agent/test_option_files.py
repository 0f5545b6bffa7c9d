"""The owner's option files: found, read again, and told of where they are wrong."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from agentic.agent.options import OptionFiles, read_layer


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "guilds").mkdir()
    (tmp_path / "bots").mkdir()
    return tmp_path


def files_in(folder):
    files = OptionFiles(folder, ("claude", "grok"))
    files.refresh()
    return files


def write(path, text, when=1):
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(when, when))


def test_the_four_levels_come_in_their_order_and_only_for_whom_they_are(folder):
    write(folder / "shared.yaml", "max_messages: 1")
    write(folder / "guilds" / "7.yaml", "max_messages: 2")
    write(folder / "bots" / "claude.yaml", "max_messages: 3")
    write(folder / "bots" / "claude.7.yaml", "max_messages: 4")
    files = files_in(folder)
    assert [layer["max_messages"] for layer in files.layers("claude", 7)] == [1, 2, 3, 4]
    assert [layer["max_messages"] for layer in files.layers("claude", 8)] == [1, 3]
    assert [layer["max_messages"] for layer in files.layers("grok", 7)] == [1, 2]


def test_what_is_wrong_is_told_in_the_words_of_the_documents(folder, caplog):
    write(folder / "shared.yaml", "max_messages: lots\ninclude_images: maybe\nmode: chatty\ntemperature: hot\n")
    files = files_in(folder)
    told = [line.partition("shared.yaml: ")[2] for line in files.problems()]
    assert told == [
        "line 1: max_messages: expected a whole number from 1 to 400",
        "line 2: include_images: expected true or false",
        "line 3: mode: expected chat or prefill",
        "line 4: temperature: expected a number from 0 to 2",
    ]
    assert all(line in caplog.text for line in told)


def test_no_folder_is_no_file(tmp_path):
    assert files_in(tmp_path / "nothing").layers("claude", 7) == []


def test_a_change_a_new_file_and_a_file_that_is_gone_are_seen_at_the_next_look(folder):
    shared = folder / "shared.yaml"
    write(shared, "max_messages: 1")
    files = files_in(folder)
    version = files.version
    files.refresh()
    assert files.version == version
    write(shared, "max_messages: 9", when=2)
    write(folder / "bots" / "grok.yaml", "stream: true")
    files.refresh()
    assert (files.layers("grok", 7), files.version) == ([{"max_messages": 9}, {"stream": True}], version + 1)
    shared.unlink()
    files.refresh()
    assert files.layers("grok", 7) == [{"stream": True}]


def test_what_is_wrong_is_told_once_with_its_place_and_the_rest_counts(folder, caplog):
    write(folder / "shared.yaml", "stream: true\nmax_messages: many\n\nmax_image: 3\n")
    with caplog.at_level(logging.WARNING):
        files = files_in(folder)
        write(folder / "bots" / "grok.yaml", "stream: true")
        files.refresh()
    assert files.layers("claude", 7) == [{"stream": True}]
    told = [record.getMessage().removeprefix(f"{folder}/") for record in caplog.records]
    assert [line.split(":")[:3] for line in told] == [
        ["shared.yaml", " line 2", " max_messages"],
        ["shared.yaml", " line 4", " max_image"],
    ]


def test_a_file_that_is_no_yaml_at_the_start_is_said_to_set_nothing(folder, caplog):
    write(folder / "shared.yaml", "max_messages: 6\n  stream: [\n")
    assert files_in(folder).layers("claude", 7) == [{}]
    assert "none of its options is in effect" in caplog.text


def test_a_file_that_is_no_yaml_keeps_what_it_said_and_says_where(folder, caplog):
    shared = folder / "shared.yaml"
    write(shared, "max_messages: 5")
    files = files_in(folder)
    write(shared, "max_messages: 6\n  stream: [\n", when=2)
    files.refresh()
    assert files.layers("claude", 7) == [{"max_messages": 5}]
    assert "shared.yaml: line 2, column" in caplog.text
    assert "stay in effect" in caplog.text
    write(shared, "max_messages: 6", when=3)
    files.refresh()
    assert files.layers("claude", 7) == [{"max_messages": 6}]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bots/cluade.yaml", "unknown bot"),
        ("guilds/here.yaml", "name it guilds/<guild id>.yaml"),
        ("bots/claude.here.yaml", "name it guilds/<guild id>.yaml"),
    ],
)
def test_a_file_for_nobody_is_told_of(folder, caplog, name, said):
    write(folder / name, "stream: true")
    assert files_in(folder).layers("claude", 7) == []
    assert said in caplog.text


def test_other_files_of_the_folder_are_somebody_elses(folder, caplog):
    write(folder / "servers.yaml", "mcp: nonsense")
    assert files_in(folder).layers("claude", 7) == []
    assert caplog.text == ""


def test_a_list_is_no_map_of_options_and_an_empty_file_sets_nothing():
    assert read_layer("") == ({}, [])
    with pytest.raises(ValueError, match="expected lines"):
        read_layer("- 1")


def test_a_change_of_the_model_counts_from_the_next_start_on_and_the_log_says_so(folder, caplog):
    write(folder / "shared.yaml", "model: openai/x\nmax_messages: 1")
    files = files_in(folder)
    assert "model" not in caplog.text
    write(folder / "shared.yaml", "model: openai/x\nmax_messages: 2", when=2)
    write(folder / "bots" / "nobody.yaml", "model: openai/y")
    files.refresh()
    assert "model: changed" not in caplog.text
    write(folder / "guilds" / "7.yaml", "model: openai/y")
    files.refresh()
    (folder / "shared.yaml").unlink()
    files.refresh()
    told = [record.getMessage() for record in caplog.records if "model: changed" in record.getMessage()]
    assert [line.split(":")[0] for line in told] == [str(folder / "guilds" / "7.yaml"), str(folder / "shared.yaml")]


def test_a_model_in_the_first_file_of_all_is_told_too(folder, caplog):
    files = files_in(folder)
    write(folder / "shared.yaml", "model: openai/x")
    files.refresh()
    assert "shared.yaml: model: changed; restart the bots to use it" in caplog.text


@pytest.mark.promise(531)
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.EACCES])
def test_a_folder_that_cannot_be_listed_changes_no_option(folder, caplog, monkeypatch, number):
    write(folder / "shared.yaml", "max_messages: 1")
    files, scandir = files_in(folder), os.scandir

    def refuse(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "scandir", refuse)
    files.refresh()
    files.refresh()
    assert [layer["max_messages"] for layer in files.layers("claude", 7)] == [1]
    assert caplog.text.count(os.strerror(number)) == 1
    monkeypatch.setattr(os, "scandir", scandir)
    write(folder / "shared.yaml", "max_messages: 2", when=2)
    files.refresh()
    assert [layer["max_messages"] for layer in files.layers("claude", 7)] == [2]


@pytest.mark.promise(531)
def test_a_changed_file_that_cannot_be_read_now_is_read_later(folder, caplog, monkeypatch):
    write(folder / "shared.yaml", "max_messages: 1")
    files, read_text = files_in(folder), Path.read_text
    write(folder / "shared.yaml", "max_messages: 2", when=2)

    def refuse(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Path, "read_text", refuse)
    files.refresh()
    assert [layer["max_messages"] for layer in files.layers("claude", 7)] == [1]
    assert "Too many open files" in caplog.text
    monkeypatch.setattr(Path, "read_text", read_text)
    files.refresh()
    assert [layer["max_messages"] for layer in files.layers("claude", 7)] == [2]
