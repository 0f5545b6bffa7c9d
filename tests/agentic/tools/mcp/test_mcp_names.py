"""Names of tools as every provider takes them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agentic.tools.mcp.servers import provider_names

TAKEN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SERVER = st.from_regex(r"[a-z0-9]{1,6}([-_][a-z0-9]{1,5})?", fullmatch=True)
TOOL = st.one_of(st.text(max_size=80), st.sampled_from(["_c", "b_c", "b.c", "b c", "x" * 70, "x" * 71]))


def test_a_plain_name_stays_readable():
    assert provider_names("files", ["read_file", "list-dir"]) == ["files__read_file", "files__list-dir"]


def test_odd_characters_are_replaced_and_doubles_told_apart():
    names = provider_names("s", ["a.b", "a b", "a_c"])
    assert names[2] == "s__a_c"
    assert all(re.fullmatch(r"s__a_b_[0-9a-f]{6}", name) for name in names[:2])


@given(SERVER, SERVER, st.lists(TOOL, max_size=8), st.lists(TOOL, max_size=8))
def test_names_are_taken_by_every_provider_and_never_the_same(one, other, tools, more):
    names = provider_names(one, tools)
    assert all(TAKEN.fullmatch(name) for name in names)
    assert len(set(names)) == len(names)
    if one != other:
        assert not set(names) & set(provider_names(other, more))


@given(SERVER, st.lists(TOOL, max_size=8, unique=True))
def test_names_do_not_depend_on_the_order_in_which_a_server_lists_its_tools(server, tools):
    forth = dict(zip(tools, provider_names(server, tools), strict=True))
    back = dict(zip(tools[::-1], provider_names(server, tools[::-1]), strict=True))
    assert forth == back
