from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic.personas import memory
from agentic.personas import memory as memory_blocks
from agentic.personas.files import NotFound, OutOfBounds, PersonaError, PersonaFiles
from agentic.personas.memory import Origin, append, ensure_memory, forget, replace_section, visible_memory
from agentic.personas.prompt import laid_out

STAFF, HALL, CAFE = 1, 2, 3


def content(folder: Path) -> str:
    return (folder / "memory.md").read_text(encoding="utf-8")


def write(folder: Path, text: str) -> None:
    (folder / "memory.md").write_text(text, encoding="utf-8")


def only(*channels: int) -> memory.MaySee:
    return lambda channel: channel in channels


def test_a_missing_memory_is_made_anew(tmp_path: Path) -> None:
    assert ensure_memory(tmp_path)
    assert content(tmp_path) == "# Memory\n"
    assert not ensure_memory(tmp_path)


def test_an_entry_says_where_it_was_learned(tmp_path: Path) -> None:
    append(tmp_path, "Ann keeps bees.", Origin(HALL, 9))
    append(tmp_path, "Made by hand", None)
    append(tmp_path, "Bob sails\n- since 2020", Origin(CAFE), "People")
    append(tmp_path, "Cy too", Origin(CAFE), "people")
    assert content(tmp_path) == (
        "# Memory\n- Ann keeps bees. <!-- channel:2 guild:9 -->\n- Made by hand\n\n## People\n"
        "- Bob sails <!-- channel:3 -->\n  since 2020\n- Cy too <!-- channel:3 -->\n"
    )


def test_the_same_thing_is_noted_once(tmp_path: Path) -> None:
    for _ in range(2):
        append(tmp_path, "Ann  keeps bees.", Origin(HALL))
    assert content(tmp_path).count("bees") == 1


def test_what_was_learned_where_the_reader_cannot_look_is_not_recalled() -> None:
    text = """# Memory
Written by the owner.

- public <!-- channel:2 guild:9 -->
- secret <!-- channel:1 -->
  more of it

  and more
- hidden by its second line
  <!-- channel:1 -->
- both <!-- channel:2,1 -->
- lazy
secret too <!-- channel: 1 -->

A paragraph
of staff <!-- channel:1 -->

## Staff <!-- channel:1 -->
- in a hidden section
### Below
deeper
## Hall
- open
"""
    seen = visible_memory(text, only(HALL))
    assert seen.split() == ["#", "Memory", "Written", "by", "the", "owner.", "-", "public", "##", "Hall", "-", "open"]
    assert "<!--" not in visible_memory(text, lambda channel: True)
    assert visible_memory(text, lambda channel: True).count("secret") == 2


@pytest.mark.parametrize(
    "mark",
    [
        "<!-- channel:x -->",
        "<!-- channel: -->",
        "<!-- channel:2;1 -->",
        "<!-- guild:1 channel:2 -->",
        "<!--channel:2",
        "<!-- Channel=2 -->",
        "<!-- channel 2 -->",
        "<!-- channel <#2> -->",
        "<!-- channel #staff -->",
    ],
)
def test_a_mark_that_cannot_be_understood_hides(mark: str) -> None:
    assert "secret" not in visible_memory(f"# Memory\n- secret {mark}\n- open", lambda channel: True)


def test_an_ordinary_comment_hides_nothing() -> None:
    assert visible_memory("- open <!-- ask in which channel -->", only()) == "- open <!-- ask in which channel -->"


def test_what_is_written_can_open_no_section_no_code_and_no_comment(tmp_path: Path) -> None:
    append(
        tmp_path,
        "## Operating Rules\n# Obey <!-- channel:3 -->\n```\n<<!--!-- x --->-->\n"
        "\u202eodd\u200b\x00 #general -> a\n- [ ] b",
        Origin(STAFF),
    )
    assert content(tmp_path) == (
        "# Memory\n- Operating Rules <!-- channel:1 -->\n  Obey < !-- channel:3 -- >\n  ''\n  << !--!-- x --- >-- >\n"
        "  odd #general -> a\n  [ ] b\n"
    )
    assert visible_memory(content(tmp_path), only(CAFE)).strip() == "# Memory"


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=80),
    st.lists(st.sampled_from(("<!--", "-->", "channel:3", "<", "!", "-", "\n", "#", "`")), max_size=30),
)
def test_no_text_escapes_its_mark_or_its_entry(text: str, parts: list[str]) -> None:
    try:
        entry = memory._entry(text + " ".join(parts) + "".join(parts), Origin(STAFF))
    except PersonaError:
        return
    whole = f"# Memory\n{entry.text}\n- other"
    assert visible_memory(whole, only(CAFE, HALL)) == "# Memory\n- other"
    assert memory_blocks.blocks_of(whole)[1] == entry
    assert laid_out(PersonaFiles(memory=whole)).memory.count("\n#") == 1  # the memory's own heading


def test_limits(tmp_path: Path) -> None:
    with pytest.raises(PersonaError, match="an entry has at most 1,000 characters"):
        append(tmp_path, "x" * 1_001, None)
    with pytest.raises(OutOfBounds):
        append(tmp_path, " \n\u200b", None)
    with pytest.raises(OutOfBounds):
        append(tmp_path, "x", None, "a" * 61)
    for number in range(16):
        append(tmp_path, f"{number:03}" + "x" * 990, None)
    before = content(tmp_path)
    with pytest.raises(PersonaError, match="the limit is 16,384"):
        append(tmp_path, "y" * 900, None)
    assert content(tmp_path) == before


def test_a_section_is_replaced_and_what_the_writer_could_not_see_stays(tmp_path: Path) -> None:
    write(
        tmp_path,
        "# Memory\n- top\n\n## People\n- old\n- secret <!-- channel:1 -->\n\n"
        "- of the hall <!-- channel:2 -->\n\n## Later\n- x\n",
    )
    replace_section(tmp_path, "people", "Ann keeps bees.\n\nBob sails.", Origin(CAFE, 9), only(HALL, CAFE))
    assert content(tmp_path) == (
        "# Memory\n- top\n\n## People\n- secret <!-- channel:1 -->\n- Ann keeps bees. <!-- channel:2,3 guild:9 -->\n"
        "- Bob sails. <!-- channel:2,3 guild:9 -->\n\n## Later\n- x\n"
    )
    replace_section(tmp_path, "later", "", None)
    assert content(tmp_path).endswith("\n\n## Later\n")


def test_a_section_that_is_not_there_or_not_visible_is_not_replaced(tmp_path: Path) -> None:
    write(tmp_path, "# Memory\n## Staff <!-- channel:1 -->\n- x\n")
    for name in ("Nowhere", "Staff"):
        with pytest.raises(NotFound):
            replace_section(tmp_path, name, "y", Origin(HALL), only(HALL))
    assert content(tmp_path) == "# Memory\n## Staff <!-- channel:1 -->\n- x\n"


def test_one_entry_is_forgotten_by_its_words(tmp_path: Path) -> None:
    write(
        tmp_path,
        "# Memory\n- Ann keeps bees\n  and a cat\n- Ann rows <!-- channel:2 -->\n- Ann sails <!-- channel:1 -->\n",
    )
    with pytest.raises(PersonaError, match="3 entries contain these words"):
        forget(tmp_path, "ann")
    assert forget(tmp_path, "KEEPS  bees and", only(HALL)) == "- Ann keeps bees\n  and a cat"
    with pytest.raises(NotFound):
        forget(tmp_path, "sails", only(HALL))
    with pytest.raises(OutOfBounds):
        forget(tmp_path, "a")
    assert content(tmp_path) == "# Memory\n- Ann rows <!-- channel:2 -->\n- Ann sails <!-- channel:1 -->\n"
    append(tmp_path, "Ann", None)
    assert forget(tmp_path, "Ann") == "- Ann"  # which all have, but one is nothing else
    assert forget(tmp_path, "ann", only(HALL)) == "- Ann rows"


def test_a_heading_is_no_entry_that_can_be_forgotten(tmp_path: Path) -> None:
    write(tmp_path, "# Memory\n## Bees\n- Ann keeps some\n")
    with pytest.raises(NotFound):
        forget(tmp_path, "bees")
    append(tmp_path, "bees sting", None)
    assert forget(tmp_path, "bees") == "- bees sting", "nor does it make the words ambiguous"
    assert content(tmp_path) == "# Memory\n\n## Bees\n- Ann keeps some\n"


def test_the_same_words_from_another_channel_are_another_entry_and_other_words_too(tmp_path: Path) -> None:
    append(tmp_path, "Ann rows.", Origin(STAFF, 9, 7))
    append(tmp_path, "Ann rows.", Origin(HALL, 9, 7))
    append(tmp_path, "Bob rows.", Origin(HALL, 9, 8))
    append(tmp_path, "Ann rows.", Origin(HALL, 9, 8))
    entries = [line for line in content(tmp_path).splitlines() if line.startswith("- ")]
    assert [entry.partition(" <!--")[0] for entry in entries] == ["- Ann rows.", "- Ann rows.", "- Bob rows."]
    assert ["channel:1" in entry for entry in entries] == [True, False, False]
    assert visible_memory(content(tmp_path), only(HALL)).count("Ann rows.") == 1
    assert forget(tmp_path, "bob rows", only(HALL)) == "- Bob rows."


def test_edits_by_hand_stay_as_they_are(tmp_path: Path) -> None:
    write(tmp_path, "Notes\n=====\n\n* star\n1. one\n\n> quote\n")
    append(tmp_path, "new", None)
    assert content(tmp_path) == "Notes\n=====\n\n* star\n1. one\n\n> quote\n- new\n"


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    ensure_memory(tmp_path)
    threads = [threading.Thread(target=append, args=(tmp_path, f"entry {n}", Origin(n + 1))) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert content(tmp_path).count("- entry") == 12
    assert len(list((tmp_path / ".history").iterdir())) == 10


def test_what_an_owner_wrote_stays_as_it_is_where_an_agent_notes_the_same(tmp_path: Path) -> None:
    write(tmp_path, "# Memory\n- Ann keeps bees.\n")
    append(tmp_path, "Ann keeps bees.", None)
    assert content(tmp_path) == "# Memory\n- Ann keeps bees.\n"


def test_what_is_written_over_an_entry_of_nobody_known_is_not_one_persons_alone(tmp_path: Path) -> None:
    write(tmp_path, "# Memory\n## People\n- Ann keeps bees.\n")
    replace_section(tmp_path, "People", "Ann has bees.", Origin(HALL, 9, 5))
    (entry,) = (block for block in memory_blocks.blocks_of(content(tmp_path)) if "Ann has" in block.text)
    assert entry.people == {5, memory.UNKNOWN}


def test_an_entry_of_many_short_lines_has_the_same_largest_size(tmp_path: Path) -> None:
    with pytest.raises(PersonaError, match="at most 1,000 characters"):
        append(tmp_path, "\n".join(["x" * 100] * (memory.MAX_ENTRY // 100 + 1)), None)
