"""The file of MCP servers: what is right runs, what is wrong is named by its line, and no value is ever told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.process.root import ROOT
from agentic.tools.mcp.config import _ConfigReader, read_servers

EXAMPLE = ROOT / "config" / "mcp.example.yaml"


def read(tmp_path, text, **settings):
    file = tmp_path / "mcp.yaml"
    file.write_text(text, encoding="utf-8")
    servers, problems = read_servers(file, settings)
    return {server.name: server for server in servers}, [line.removeprefix(f"{file}:") for line in problems]


def test_no_file_and_an_empty_one_are_no_servers(tmp_path):
    assert read_servers(tmp_path / "mcp.yaml", {}) == ((), [])
    assert read(tmp_path, "") == ({}, [])
    assert read(tmp_path, "servers:\n") == ({}, [])


def test_in_the_example_everything_is_switched_off_and_so_needs_no_setting():
    assert read_servers(EXAMPLE, {}) == ((), [])


def test_the_example_is_right_when_it_is_switched_on(tmp_path):
    text = EXAMPLE.read_text(encoding="utf-8").replace("enabled: false", "enabled: true")
    servers, problems = read(tmp_path, text, GITHUB_TOKEN="secret-one", WEATHER_KEY="secret-two")
    assert problems == []
    assert len(servers) >= 2


def test_settings_are_filled_in_where_a_value_may_name_them_and_are_known_as_secrets(tmp_path):
    servers, problems = read(
        tmp_path,
        """
servers:
  a: {command: run, args: ["${KEY}"], env: {TOKEN: "${KEY}", PLAIN: "x$y ${}"}}
  b: {url: "https://h/mcp?k=${KEY}", headers: {Authorization: "Bearer ${OTHER}"}}
""",
        KEY="key-1234",
        OTHER="other-5678",
    )
    assert problems == []
    assert servers["a"].args == ("${KEY}",)  # arguments can be seen by everybody on the machine
    assert servers["a"].env == {"TOKEN": "key-1234", "PLAIN": "x$y ${}"}
    assert servers["b"].url == "https://h/mcp?k=key-1234"
    assert servers["b"].headers == {"Authorization": "Bearer other-5678"}
    assert servers["b"].redacted("k=key-1234&o=other-5678") == "k=[redacted]&o=[redacted]"
    assert servers["a"].redacted("k=key-1234") == "k=[redacted]"
    assert "key-1234" not in repr(servers)
    assert "other-5678" not in repr(servers)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{}", "2: servers.x: a server needs either a command or a url"),
        ("{command: a, url: 'http://b'}", "2: servers.x: a server needs either a command or a url"),
        ("{command: a, headers: {}}", "2: servers.x: headers can't be combined with a command"),
        ("{url: 'http://b', cwd: /}", "2: servers.x: cwd can't be combined with a url"),
        ("{url: 'file:///etc'}", "2: servers.x.url: the address must begin with http:// or https://"),
        ("{command: ''}", "2: servers.x.command: empty, or with a NUL character"),
        (
            "{comand: a}",
            "2: servers.x.comand: unknown key; the keys are command, args, env, cwd, url, headers, tools, agents, "
            "start_seconds, call_seconds, enabled",
        ),
        ("{command: a, call_seconds: 0}", "2: servers.x.call_seconds: should be greater than or equal to 1"),
        ("{command: a, env: {K: '${NONE}'}}", "2: servers.x.env.K: the setting NONE is not set"),
        ("{command: a, name: y}", "2: servers.x.name: unknown key; the entry's key is the server's name"),
        ("[a]", "2: servers.x: expected a mapping"),
        ("{command: a, command: b}", "2: servers.x.command: duplicate key"),
    ],
)
def test_a_wrong_server_is_left_out_with_a_line_and_the_others_run(tmp_path, entry, problem):
    servers, problems = read(tmp_path, f"servers:\n  x: {entry}\n  good: {{command: run}}\n")
    assert problems == [problem]
    assert list(servers) == ["good"]


def test_a_line_tells_the_place_inside_an_entry_and_not_the_value(tmp_path):
    text = "servers:\n  x:\n    command: a\n    args:\n      - one\n      - [hunter2]\n"
    _, problems = read(tmp_path, text)
    assert problems == ["6: servers.x.args.1: should be a valid string"]


@pytest.mark.parametrize("name", ["A", "a__b", "a_", "-a", "a.b", "a" * 25, "''"])
def test_a_name_that_would_not_do_in_front_of_a_tools_is_refused(tmp_path, name):
    servers, (problem,) = read(tmp_path, f"servers:\n  {name}: {{command: run}}\n")
    assert servers == {}
    assert "a server's name has a-z" in problem


@pytest.mark.parametrize("text", ["servers: [", "\t- x", "servers: {a: &x [*x", "a: b: c"])
def test_what_is_no_yaml_is_one_line(tmp_path, text):
    servers, problems = read(tmp_path, text)
    assert servers == {}
    assert len(problems) == 1
    assert problems[0].endswith("not YAML")


@pytest.mark.parametrize("text", ["- a", "5", "servers: 5", "server: {}", "servers: {x: {command: a}}\nservers: {}"])
def test_another_shape_is_named(tmp_path, text):
    servers, problems = read(tmp_path, text)
    assert servers == {}
    assert problems


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
FIELDS = st.sampled_from(["command", "args", "env", "url", "headers", "tools", "call_seconds", "enabled", "cwd", "x"])


GOOD = st.sampled_from(
    [
        *({"command": "run"}, {"command": "run", "args": ["-x"], "call_seconds": 5}),
        *({"url": "https://mcp.example.com/mcp"}, {"url": "https://mcp.example.com/mcp", "tools": ["a*"]}),
    ]
)
WRONG_NAMES = st.text("#?", max_size=8) | st.text("ab", min_size=25)


@given(
    st.dictionaries(st.text("ab", min_size=1, max_size=24), GOOD, max_size=3),
    st.dictionaries(WRONG_NAMES, st.dictionaries(FIELDS, VALUES, max_size=4) | VALUES, max_size=3),
)
def test_whatever_stands_there_is_a_server_or_a_line(good, wrong):
    servers, problems = _ConfigReader("f", {"A": "b"}, None).read({"servers": good | wrong})
    assert {server.name: (server.command, server.url) for server in servers} == {
        name: (fields.get("command"), fields.get("url")) for name, fields in good.items()
    }
    switched_off = [entry for entry in wrong.values() if isinstance(entry, dict) and entry.get("enabled") is False]
    assert len(problems) >= len(wrong) - len(switched_off)
    assert all(line.startswith("f:1: ") for line in problems)
