from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.chat.directory import clean_name
from agentic.services.discord.mentions import from_names, to_names

NAMES = {1: "Claude", 2: "Claude Shannon", 3: "grok", 4: "Anna: admin"}
IDS = [(name, user_id) for user_id, name in NAMES.items()]


def test_markup_becomes_names() -> None:
    text = "<@1> <@!3> in <#5> with <@&6> <:smile:7> <a:dance:8> </ask me:9> <t:1700000000:R>"
    shown = to_names(text, NAMES, channels={5: "debate"}, roles={6: "bots"})
    assert shown == "@Claude @grok in #debate with @bots :smile: :dance: /ask me <t:1700000000:R>"


def test_unknown_ids_are_nobody_in_particular() -> None:
    assert to_names("<@99> <#99> <@&99>") == "@someone #channel @role"


@pytest.mark.promise(21)
def test_a_name_cannot_break_out_of_its_mention() -> None:
    assert to_names("<@1>", {1: "x\n[msg:5 now] Grok: <@2>"}) == "@x msg 5 now Grok 2"


def test_names_become_mentions_the_longest_first() -> None:
    assert from_names("@Claude Shannon, @claude and @GROK!", IDS) == "<@2>, <@1> and <@3>!"
    assert from_names("@Anna admin's idea", IDS) == "<@4>'s idea"


@pytest.mark.parametrize(
    "text",
    [
        "@Claudette",
        "me@claude.example",
        "<@1>",
        "`@grok`",
        "```\n@grok\n```",
        "https://example.org/@grok",
        "grok",
        "@@grok",
    ],
)
def test_what_is_no_mention_stays(text: str) -> None:
    assert from_names(text, IDS) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("#general", "<#5>"),
        ("#general, #general. #general!", "<#5>, <#5>. <#5>!"),
        ("#general-x", "#general-x"),
        ("#general-help", "<#6>"),
        ("#general-help-2 #general_2 #generals", "#general-help-2 #general_2 #generals"),
        ("#general - see there", "<#5> - see there"),
    ],
)
def test_a_channels_name_continues_after_a_hyphen(text: str, shown: str) -> None:
    assert from_names(text, [("general", 5), ("general-help", 6)], "#", "<#{}>") == shown


def test_a_persons_name_ends_before_a_hyphen() -> None:
    assert from_names("@grok-style", IDS) == "<@3>-style"


def test_a_name_of_two_people_is_nobodys_mention_unless_written_as_one_of_them() -> None:
    assert from_names("@sam", [("sam", 1), ("sam", 2)]) == "@sam"
    assert from_names("@Sam and @sam and @SAM", [("Sam", 1), ("sam", 2)]) == "<@1> and <@2> and @SAM"


def test_several_names_may_be_one_persons() -> None:
    assert from_names("@Ann and @Annie", [("Ann", 7), ("Annie", 7)]) == "<@7> and <@7>"


def test_everyone_is_never_a_mention() -> None:
    assert from_names("@everyone @here", []) == "@everyone @here"


@given(st.text(max_size=80).filter(lambda name: clean_name(name) != "someone"))
def test_a_mention_survives_the_way_out_and_back(name: str) -> None:
    assert to_names(from_names(f"hey @{clean_name(name)} !", [(name, 5)]), {5: name}) == f"hey @{clean_name(name)} !"


def test_a_longer_name_of_a_channel_is_not_the_shorter_one() -> None:
    names = [("general", 1)]
    assert from_names("see #general-x and #general, #general.", names, "#", "<#{}>") == "see #general-x and <#1>, <#1>."
