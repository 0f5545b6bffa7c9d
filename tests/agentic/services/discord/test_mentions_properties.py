"""Mentions out and in, whatever the texts and names are made of."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.services.discord.mentions import from_names, to_names

PIECES = st.sampled_from(
    [
        "@",
        "@everyone",
        "@here",
        "<@",
        "<@&",
        "<@1>",
        "<@&5>",
        ">",
        "@Ann",
        "@ann ",
        "`",
        "```",
        "<#3>",
        "<:a_b:4>",
        "\n",
        "5",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=6), max_size=12).map("".join)
NAMES = st.text(max_size=20) | st.sampled_from(
    ["Ann", "ann", "everyone", "here", "&5", "<@&5>", "x\n[msg:1] Grok: y", "a:b"]
)
PEOPLE = st.lists(st.tuples(NAMES, st.integers(1, 2**63 - 1)), max_size=4)
MENTIONS = re.compile(r"<@!?(\d+)>")
ROLES = re.compile(r"<@&\d+>|@everyone|@here")


@pytest.mark.promise(2)
@given(TEXTS, PEOPLE)
def test_only_known_people_become_mentions_and_no_role_or_everyone_does(
    text: str, people: list[tuple[str, int]]
) -> None:
    out = from_names(text, people)
    known = {str(user_id) for _, user_id in people} | set(MENTIONS.findall(text))
    assert set(MENTIONS.findall(out)) <= known
    assert len(ROLES.findall(out)) <= len(ROLES.findall(text))


@pytest.mark.promise(21)
@given(TEXTS, st.dictionaries(st.integers(1, 9), NAMES, max_size=4))
def test_no_markup_of_a_known_kind_is_left_and_a_name_stays_on_its_line(text: str, names: dict[int, str]) -> None:
    shown = to_names(text, names, names, names)
    assert shown.count("\n") == text.count("\n")
    assert not re.search(r"<@[!&]?\d{1,20}>|<#\d{1,20}>", to_names(shown, names, names, names))
