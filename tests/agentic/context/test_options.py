import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.context.options import (
    NOT_PINNABLE,
    PINNABLE,
    Options,
    merge_layers,
    narrow_tools,
    options_of,
    read_options,
)


def test_a_layer_is_read_option_by_option_and_what_is_wrong_is_told_by_name_and_not_by_value():
    layer, problems = read_options({"max_messages": 80, "mode": "prefil", "max_image": 3, "retries": 1e9, 7: "x"})
    assert layer == {"max_messages": 80}
    assert [problem.partition(":")[0] for problem in problems] == ["mode", "max_image", "retries", "7"]
    assert "did you mean max_images?" in problems[1]
    assert not any("prefil'" in problem for problem in problems)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", "two words"),
        ("name", "a:b"),
        ("model", "no-provider"),
        ("max_messages", 0),
        ("max_messages", 401),
        ("max_characters", 10),
        ("split_at", 2001),
        ("temperature", 3),
        ("temperature", float("nan")),
        ("cache_ttl", "2h"),
        ("tools", ["a[b]"]),
        ("history_roles", ["everyone"]),
        ("max_tool_depth", 101),
    ],
)
def test_a_value_out_of_range_is_left_out(name, value):
    layer, problems = read_options({name: value})
    assert layer == {}
    assert problems[0].startswith(f"{name}: ")


def test_none_lifts_the_limit_of_a_lower_layer():
    layer, problems = read_options({"max_characters": "None"})
    assert (layer, problems) == ({"max_characters": None}, [])
    assert options_of([{"max_characters": 900}, layer]).max_characters is None


def test_one_value_stands_for_a_list_of_one():
    layer, problems = read_options({"model": "openai/gpt-6-luna", "tools": "web_*", "history_roles": 5})
    assert (layer, problems) == (
        {"model": ("openai/gpt-6-luna",), "tools": ("web_*",), "history_roles": (5,)},
        [],
    )


def test_later_layers_win_maps_merge_one_level_deep_and_lists_replace():
    layers = [
        {"max_images": 1, "custom_fields": {"a": {"x": 1}, "b": 2}, "tools": ("a", "b")},
        {"custom_fields": {"a": {"y": 2}}, "tools": ("c",), "max_characters": 900},
        {"max_characters": None},
    ]
    assert merge_layers(layers) == {
        "max_images": 1,
        "custom_fields": {"a": {"y": 2}, "b": 2},
        "tools": ("c",),
        "max_characters": None,
    }
    assert options_of(layers).custom_fields == {"a": {"y": 2}, "b": 2}


def test_pins_come_above_files_and_of_the_tools_they_only_take_away():
    files = [{"tools": ("web_*", "notes")}]
    assert options_of(files, [{"tools": ("web_search", "shell"), "mode": "prefill"}]).tools == ("web_search",)
    assert options_of(files, [{"tools": ("*",)}]).tools == ("web_*", "notes")
    assert options_of([], [{"tools": ("web_*",)}, {"tools": ("web_fetch", "x")}]).tools == ("web_fetch",)
    assert options_of(files, [{"tools": ()}]).tools == ()
    assert options_of([{"max_messages": 50}], [{"max_messages": 60}]).max_messages == 60


NAMES = st.lists(st.text("ab_*", min_size=1, max_size=5), max_size=4)


@given(NAMES, NAMES, st.text("ab_", min_size=1, max_size=6))
def test_a_tool_passes_narrowed_patterns_only_where_it_passes_both(allowed, wanted, tool):
    def passes(patterns):
        import fnmatch

        return any(fnmatch.fnmatchcase(tool, pattern) for pattern in patterns)

    if passes(narrow_tools(allowed, wanted)):
        assert passes(allowed)
        assert passes(wanted)


def test_pins_set_no_model_no_roles_no_fields_of_requests_and_nothing_that_searches_or_keeps_words():
    fixed = {"model", "history_roles", "config_roles", "moderator_roles", "custom_fields"}
    assert fixed | {"always_search", "answer_all", "search_pictures", "message_log", "recall"} == NOT_PINNABLE
    layer, problems = read_options({"model": "openai/x", "custom_fields": {}, "max_images": 2}, PINNABLE)
    assert layer == {"max_images": 2}
    assert problems == ["model: can't be set here", "custom_fields: can't be set here"]


def test_a_window_grows_to_twice_its_size_unless_a_threshold_is_set():
    assert [Options().step(wanted) for wanted in (1, 40, 400)] == [1, 40, 100]
    assert Options(rolling_threshold=5).step(40) == 5
