"""What of a memory goes with a person who wants to be forgotten, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.personas.files import LOCK, OutOfBounds
from agentic.personas.memory import (
    Notes,
    Origin,
    append,
    forget_person,
    replace_section,
    visible_memory,
    without_person,
)
from agentic.personas.store import versions_of

HALL, CAFE = 2, 3
ANN, BOB = 42, 43


def content(folder: Path) -> str:
    return (folder / "memory.md").read_text(encoding="utf-8")


def every_text(folder: Path) -> str:
    """The file and all that is kept of it."""
    kept = (folder / ".history").glob("memory.md.*")
    return "\n".join([content(folder), *(file.read_text(encoding="utf-8") for file in kept)])


def note(folder: Path, text: str, person: int | None, section: str | None = None) -> None:
    append(folder, text, Origin(HALL, 9, person), section)


def test_what_a_persons_words_brought_about_goes_also_out_of_every_version(tmp_path: Path) -> None:
    note(tmp_path, "Rows on Sundays\nin a blue boat", ANN, "People")
    note(tmp_path, "Sails", BOB, "People")
    note(tmp_path, "Hates puns", ANN)
    assert forget_person(tmp_path, ANN) == Notes(gone=2)
    assert content(tmp_path) == "# Memory\n\n## People\n- Sails <!-- channel:2 guild:9 by:43 -->\n"
    kept = every_text(tmp_path)
    for gone in ("Rows", "blue boat", "Hates", str(ANN)):
        assert gone not in kept
    assert "Sails" in versions_of(tmp_path, "memory.md")[-1].text, "the owner's undo stays"
    assert forget_person(tmp_path, ANN) == Notes()


def test_what_was_forgotten_by_words_before_is_not_found_in_the_versions(tmp_path: Path) -> None:
    note(tmp_path, "Rows", ANN)
    (tmp_path / "memory.md").write_text("# Memory\n")
    append(tmp_path, "x", None)
    append(tmp_path, "y", None)
    (tmp_path / ".history" / "memory.md.20261120T091500Z-000009").write_text("- Rows <!-- channel:2 by:42 -->\n")
    assert forget_person(tmp_path, ANN) == Notes()
    assert "Rows" not in every_text(tmp_path)


MEMORY = """# Memory of <@42>

The owner wrote of <@42>.
- by hand, 42

- alone <!-- channel:2 guild:9 by:42 -->
- both of 42 <!-- channel:2,3 by:42,43 -->
- with an unknown <!-- channel:2 by:0,42 -->
- another's of <@42> and <@420> <!-- channel:42 by:43 -->
- another's <!-- channel:42 guild:42 by:43 -->
- of before, of <@42> <!-- channel:2 guild:9 -->
- of before <!-- channel:42 guild:9 -->
- cannot be understood <!-- channel:#hall by:42 -->
- of 42 ones <!-- an ordinary comment by:42 -->
"""
LEFT = """# Memory of <@42>

The owner wrote of <@42>.
- by hand, 42

- both of 0 <!-- channel:2,3 by:43 -->
- with an unknown <!-- channel:2 by:0 -->
- another's of <@0> and <@420> <!-- channel:42 by:43 -->
- another's <!-- channel:42 guild:42 by:43 -->
- of before <!-- channel:42 guild:9 -->
- of 42 ones <!-- an ordinary comment by:42 -->
"""


def test_what_is_others_or_the_owners_stays_without_the_id_in_what_is_others() -> None:
    assert without_person(MEMORY, ANN) == (LEFT, Notes(gone=3, kept=3))
    assert without_person(LEFT, ANN) == (LEFT, Notes())


def test_a_person_gains_no_hold_of_others_notes_by_having_them_rewritten(tmp_path: Path) -> None:
    note(tmp_path, "Bob sails", BOB, "People")
    note(tmp_path, "Cy rows", None, "People")
    replace_section(tmp_path, "People", "Bob sails\n\nCy rows a lot\n\nAnn climbs", Origin(HALL, 9, ANN))
    assert "- Bob sails <!-- channel:2 guild:9 by:43 -->\n" in content(tmp_path), "what says the same is Bob's alone"
    assert forget_person(tmp_path, ANN) == Notes(kept=2)
    for words in ("Bob sails", "Cy rows a lot", "Ann climbs"):
        assert words in content(tmp_path)
    assert str(ANN) not in every_text(tmp_path)


def test_a_new_section_and_one_of_ones_own_are_ones_own(tmp_path: Path) -> None:
    note(tmp_path, "rows", ANN, "Ann")
    replace_section(tmp_path, "Ann", "climbs", Origin(CAFE, 9, ANN))
    assert "- climbs <!-- channel:2,3 guild:9 by:42 -->" in content(tmp_path)
    assert forget_person(tmp_path, ANN) == Notes(gone=1)


def test_what_two_people_said_is_both_theirs_and_what_nobody_is_known_of_stays_nobodys(tmp_path: Path) -> None:
    note(tmp_path, "The hall is cold", BOB)
    note(tmp_path, "The café is warm", None)
    for words in ("The hall is cold", "The café is warm"):
        note(tmp_path, words, ANN)
        note(tmp_path, words, ANN)
    assert "- The hall is cold <!-- channel:2 guild:9 by:42,43 -->\n" in content(tmp_path)
    assert forget_person(tmp_path, ANN) == Notes(kept=1)
    assert forget_person(tmp_path, BOB) == Notes(gone=1)
    assert content(tmp_path) == "# Memory\n- The café is warm <!-- channel:2 guild:9 -->\n"


def test_what_many_people_said_names_none_of_them(tmp_path: Path) -> None:
    for person in range(100, 111):
        note(tmp_path, "The hall is cold", person)
    assert "- The hall is cold <!-- channel:2 guild:9 by:0 -->\n" in content(tmp_path)
    assert forget_person(tmp_path, 100) == Notes()


def test_a_name_makes_nothing_vanish() -> None:
    text = "# Memory\n- Ann keeps bees <!-- channel:2 by:43 -->\n"
    assert without_person(text, ANN) == (text, Notes())


@given(st.text(), st.text(), st.integers(8, 2**63 - 1))
def test_others_entries_say_what_they_said_whatever_stands_around_them(before: str, after: str, user_id: int) -> None:
    entry = "- sails on the lake <!-- channel:2 by:7 -->"
    text = f"{before}\n\n# Notes\n{entry}\n# More\n{after}"
    left, _ = without_person(text, user_id)
    seen, still = (visible_memory(one, lambda _: True) for one in (text, left))
    assert ("- sails on the lake" in seen) <= ("- sails on the lake" in still)


def test_where_nothing_is_of_the_person_the_folder_is_only_read(tmp_path: Path) -> None:
    (tmp_path / "memory.md").write_text(MEMORY, encoding="utf-8")
    assert forget_person(tmp_path, 77) == Notes()
    assert not (tmp_path / LOCK).exists()
    assert forget_person(tmp_path / "..", ANN) == Notes(), "no memory is there"


def test_a_memory_that_cannot_be_looked_through_is_told(tmp_path: Path) -> None:
    (tmp_path / "memory.md").symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(OutOfBounds):
        forget_person(tmp_path, ANN)
