"""Tables of a model's answer as bullets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.turn.cleaning import clean_prose, clean_text, settled_lines, without_tables
from agentic.turn.streaming import certain_part

WEATHER = "| City | Rain |\n|:---|---:|\n| Oslo | 3 mm |\n| Rome | none |"
BULLETS = "- City: Oslo · Rain: 3 mm\n- City: Rome · Rain: none"


@pytest.mark.promise(403)
@pytest.mark.parametrize(
    ("table", "bullets"),
    [
        (WEATHER, BULLETS),
        ("City | Rain\n--- | ---\nOslo | 3 mm", "- City: Oslo · Rain: 3 mm"),
        (f"Look:\n\n{WEATHER}\n\nTake a coat.", f"Look:\n\n{BULLETS}\n\nTake a coat."),
        (f"{WEATHER}\nTake a coat.", f"{BULLETS}\nTake a coat."),
        ("> | A | B |\n> |---|---|\n> | 1 | 2 |", "> - A: 1 · B: 2"),
        ("| Name |\n|---|\n| Ada |\n| Bob |", "- Ada\n- Bob"),
        ("| **A** | B: |\n|---|---|\n| **1** | 2 |", "- A: **1** · B: 2"),
        ("| A | B |\n|---|---|", "- A · B"),
        ("| A | B |\n|---|---|\n| 1<br>2 | 3 |", "- A: 1 2 · B: 3"),
    ],
)
def test_each_row_is_a_bullet_with_the_headings_as_labels(table, bullets):
    assert without_tables(table) == bullets


@pytest.mark.parametrize(
    ("row", "bullet"),
    [
        ("| 1 | 2 | 3 |", "- A: 1 · B: 2 · 3"),
        ("| 1 |", "- 1"),
        ("| 1", "- 1"),
        ("| | 2 |", "- B: 2"),
        ("| 1 | |", "- A: 1"),
        (r"| a \| b | `x\|y` |", "- A: a | b · B: `x|y`"),
        ("|---|---|\n| 1 | 2 |", "- A: 1 · B: 2"),
        ("| | |\n| 1 | 2 |", "- A: 1 · B: 2"),
    ],
)
def test_a_ragged_row_keeps_what_it_says(row, bullet):
    assert without_tables(f"| A | B |\n| :-: | - |\n{row}") == bullet


@pytest.mark.promise(403)
@pytest.mark.parametrize(
    "text",
    [
        f"```\n{WEATHER}\n```",
        f"```md\n{WEATHER}",
        "a | b\n---\nc",
        "a || b\nc | d",
        "||a spoiler||\n- and a list",
        "|---|---|",
        "no table - at | all",
        "",
    ],
)
def test_code_and_what_is_no_table_stay_as_they_are(text):
    assert without_tables(text) == text


def test_a_table_after_a_code_block_is_a_table():
    assert without_tables(f"```\n{WEATHER}\n```\n{WEATHER}") == f"```\n{WEATHER}\n```\n{BULLETS}"


def test_an_answer_is_cleaned_of_tables_in_its_form_and_in_words_alone():
    assert clean_text(f"So:\n{WEATHER}") == f"So:\n{BULLETS}"
    assert clean_prose(f"So:\n{WEATHER}") == f"So:\n{BULLETS}"


def test_a_mark_that_a_table_hid_is_removed():
    assert "im_end" not in clean_text("| A | B |\n|---|---|\n| <\\|im_end\\|> | x |")


@pytest.mark.promise(403)
def test_no_bar_of_a_table_is_shown_while_it_grows_and_no_bullet_changes():
    text, before = f"So:\n{WEATHER}\n\nTake a coat.", ""
    for end in range(len(text) + 1):
        shown = certain_part(text[:end])
        assert "|" not in shown
        assert shown.startswith(before) or before.startswith(shown), (before, shown)
        before = max(before, shown, key=len)
    assert before == clean_text(text)


@given(st.text(alphabet="ab|-: \n`\\>", max_size=120))
def test_any_text_is_converted_once_and_what_is_settled_is_its_beginning(text):
    assert without_tables(without_tables(text)) == without_tables(text)
    assert text.startswith(settled_lines(text))


@given(st.lists(st.text(alphabet="abc é|\\", max_size=8), min_size=1, max_size=4), st.integers(0, 4))
def test_no_word_of_a_row_is_lost(cells, count):
    row = "|".join(["", *(cell.replace("\\", "").replace("|", "\\|") for cell in cells), ""])
    table = f"|{'h|' * (count + 1)}\n|{'-|' * (count + 1)}\n{row}"
    words = [word for cell in cells for word in cell.replace("\\", "").split()]
    converted = without_tables(table)
    assert all(word in converted for word in words)
