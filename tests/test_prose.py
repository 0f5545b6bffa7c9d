"""The check of English in the docs and in texts that people see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import prose


@pytest.mark.parametrize(
    "text",
    [
        "Where nobody voted, it says so.",
        "A bot without a key uses one that has it.",
        "The limits: what is hidden goes away.",
        "An edit counts from the next event on.",
        "Running conversations end, also by a restart.",
        "These topics were noted of you.",
        "It sends an unasked message.",
        "The day's money is used up.",
        "Redis is away.",
        "This is no room's thread.",
        "It keeps the colour for ever.",
        "It waits so many seconds as you say.",
        "An answer from a dear model.",
        f"| {'word ' * 26}| two |",
    ],
)
def test_each_rule_finds_its_words(text: str) -> None:
    assert {line for line, _, _ in prose.hits("docs/page.md", f"# Page\n\n{text}\n")} == {3}


def test_words_are_found_over_the_end_of_a_line_and_in_strings_only() -> None:
    assert [hit[0] for hit in prose.hits("page.md", "Say so\n- where\n  nobody voted\n")] == [2]
    assert prose.hits("page.md", "Run `where nobody` or\n```\nwhere nobody\n```\n") == []
    code = '"""Say where nobody voted."""\n# where nobody voted\nTEXT = "Say so where nobody voted."\n'
    assert [hit[0] for hit in prose.hits("module.py", code)] == [3]
    assert [hit[0] for hit in prose.hits("page.js", 'say("Only where nobody voted."); // where nobody\n')] == [1]


def test_an_exception_is_marked_in_its_line() -> None:
    assert prose.hits("page.md", "See where it breaks. <!-- prose: ok -->\n") == []


def test_no_file_has_more_hits_than_it_may(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["prose"])
    assert prose.main() == 0, capsys.readouterr().out


def test_the_allowed_counts_only_shrink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "ALLOWED", tmp_path / "allowed.txt")
    monkeypatch.setattr(prose, "counts", lambda: {"LICENSE": 3, "README.md": 1, "new.md": 1})
    monkeypatch.setattr(prose, "hits", lambda path, source: [])
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    prose.ALLOWED.write_text("2 LICENSE\n4 README.md\n1 gone.md\n", encoding="utf-8")
    for name in ("LICENSE", "new.md"):
        (tmp_path / name).touch()
    monkeypatch.setattr(sys, "argv", ["prose", "--update"])
    assert prose.main() == 1
    assert prose.ALLOWED.read_text(encoding="utf-8") == "2 LICENSE\n1 README.md\n"
