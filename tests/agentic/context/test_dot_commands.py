import re
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.context.commands import Config, History, Link, Malformed, is_for, parse_command, parse_m
from agentic.context.options import may_command, may_configure, read_pins
from tests.support.said import ALICE, CLAUDE, said

ONE, TWO = "https://discord.com/channels/7/8/9", "https://ptb.discordapp.com/channels/7/8/10"


def test_a_history_names_an_interval_by_links():
    found = parse_command(f".history\n---\nfirst: {ONE}\nlast: <{TWO}>\n")
    assert found == History(frozenset(), Link(7, 8, 9), Link(7, 8, 10))


def test_the_first_link_is_optional_and_a_bare_one_clears():
    assert parse_command(f".history Claude grok\n---\nlast: {ONE}") == History(
        frozenset({"claude", "grok"}), None, Link(7, 8, 9)
    )
    assert parse_command(".history") == parse_command(" .history\n---\n") == History()
    assert parse_command("@Some One .history") == History()
    assert parse_command(f".history\n```\n---\nlast: {ONE}\n```") == History(frozenset(), None, Link(7, 8, 9))


def test_a_history_may_lack_the_dashes_and_stand_on_one_line():
    whole = History(frozenset({"claude"}), Link(7, 8, 9), Link(7, 8, 10))
    assert parse_command(f".history claude\nfirst: {ONE}\nlast: {TWO}") == whole
    assert parse_command(f".history claude first: {ONE} last: {TWO}") == whole
    assert parse_command(f".history last: {ONE}") == History(frozenset(), None, Link(7, 8, 9))


@pytest.mark.parametrize(
    "text", [f".history {ONE}", f".history claude {ONE} {TWO}", ".config max_messages: 8", ".config claude mode: chat"]
)
def test_what_stands_behind_a_command_and_names_no_bot_is_told(text):
    found = parse_command(text)
    assert isinstance(found, Malformed)
    assert is_for(found, ("claude",))
    assert "`---`" in found.reason


@pytest.mark.parametrize(
    "body",
    [f"first: {ONE}", "last: https://evil.example/channels/1/2/3", "last:", f"last: {ONE}\nlast: {ONE}", "until: now"],
)
def test_a_history_that_cannot_be_read_says_why(body):
    found = parse_command(f".history claude\n---\n{body}")
    assert isinstance(found, Malformed)
    assert (found.command, found.targets, bool(found.reason)) == ("history", {"claude"}, True)


@pytest.mark.parametrize("text", ["", "history", ".historyx", "see .history", "..history", "@a .foo .history", ".hist"])
def test_other_texts_are_no_commands(text):
    assert parse_command(text) is None


def test_a_config_holds_yaml():
    found = parse_command(".config claude\n---\nmax_images: 2\ntools: [a, b]\n")
    assert found == Config(frozenset({"claude"}), {"max_images": 2, "tools": ["a", "b"]})
    assert parse_command(".config\n---\n```yaml\nmode: chat\n```") == Config(frozenset(), {"mode": "chat"})
    assert parse_command("```\n.config") is None


@pytest.mark.parametrize(
    "body", ["", "- a\n- b", "a: [", "a: &x [1]\nb: *x", "x" * 5000, "!!python/object:os.system x", "[" * 9]
)
def test_a_config_that_is_no_map_of_options_says_why(body):
    assert isinstance(parse_command(f".config\n---\n{body}"), Malformed)


@pytest.mark.parametrize(
    "text",
    [
        ".config\n---\nmax_images: 2\n\tstream: true",
        ".config\n\nmax_images: 2\n- stream",
        ".config\n```yaml\nmax_images: 2\nmax_messages:20\nstream: true\n```",
    ],
)
def test_yaml_that_cannot_be_read_is_reported_with_its_line_in_the_message(text):
    command = parse_command(text)
    assert isinstance(command, Malformed)
    assert re.search(r"line [45]: ", command.reason)


@pytest.mark.parametrize("body", ["[" * 3900, "- " * 1900, "{a: " * 900, "a: 1\n" * 700, "? " * 1900])
def test_no_short_text_takes_long_to_read(body):
    began = time.process_time()  # of the processor: others may use it meanwhile
    parse_command(f".config\n---\n{body}")
    assert time.process_time() - began < 1


@given(st.text(), st.sampled_from(["", "---\n", "---\nfirst: ", "---\nlast: https://discord.com/channels/1/2/3\n"]))
def test_no_text_breaks_the_reading(text, between):
    for head in (".config ", ".history ", "@x .config\n", ""):
        command = parse_command(f"{head}{between}{text}")
        assert command is None or isinstance(command, History | Config | Malformed)
        assert parse_m(text) in (None, "continue", "context")


def test_a_command_without_targets_is_for_all_and_one_with_for_those_it_names():
    everyone, two = parse_command(".history"), parse_command(".history CLAUDE @Grok")
    assert is_for(everyone, ("gemini",))
    assert is_for(two, ("Claude", "other"))
    assert is_for(two, ("grok",))
    assert not is_for(two, ("gemini",))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("m continue", "continue"),
        ("@Claude m continue", "continue"),
        ("M Continue", "continue"),
        ("m context", "context"),
        ("m continue @Claude", "continue"),
        ("M continue, @Some One.", "continue"),
        ("m context @Claude", "context"),
        ("m continue please", None),
        ("m continue @Claude\nand more", None),
        ("I'm continue", None),
        ("mcontinue", None),
    ],
)
def test_m_commands_stand_alone(text, found):
    assert parse_m(text) == found


MANAGER, READER = replace(ALICE, may_manage=True), replace(ALICE, roles=frozenset({50}))


def pinned(entry_id, text, speaker=ALICE):
    return said(entry_id, speaker, text, pinned=True, hidden=True)


def test_pins_count_from_people_who_may_set_them_older_first_and_problems_are_told():
    entries = [
        pinned(9, ".config\n---\nmax_images: 1\nmodel: openai/x", MANAGER),
        pinned(3, ".config claude\n---\nmax_images: 2", READER),
        pinned(4, ".config\n---\nmax_images: 3"),
        pinned(5, ".config grok\n---\nmax_images: 4", MANAGER),
        pinned(6, ".config\n---\nmax_images: [", MANAGER),
        pinned(7, ".config\n---\nmax_images: 5", replace(CLAUDE, may_manage=True)),
        said(8, MANAGER, ".config\n---\nmax_images: 6"),
        pinned(2, ".history", MANAGER),
    ]
    pins = read_pins(entries, {50}, {"claude"})
    assert [(pin.message_id, pin.layer) for pin in pins] == [(3, {"max_images": 2}), (6, {}), (9, {"max_images": 1})]
    assert [len(pin.problems) for pin in pins] == [0, 1, 1]
    assert pins[2].author_id == ALICE.id


def test_histories_need_one_of_the_roles_or_where_none_is_set_the_right_to_manage_messages():
    manager = said(1, MANAGER)
    reader = said(2, READER)
    assert [may_command(entry, ()) for entry in (manager, reader)] == [True, False]
    assert [may_command(entry, {50}) for entry in (manager, reader)] == [False, True]
    assert not may_command(said(3, replace(CLAUDE, may_manage=True)), ())
    assert [may_configure(entry, {50}) for entry in (manager, reader, said(4))] == [True, True, False]
