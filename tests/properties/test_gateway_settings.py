"""Properties of the specification of the gateway: what is read from the environment, what is missing."""

import io
import logging
import os
import re
from contextlib import chdir, redirect_stderr
from pathlib import Path
from unittest.mock import patch

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent_config import load_settings
from agentic.runtime.cli import main

WORD = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=80)
TOOLS = ["Read", "Write", "Edit", "Glob", "Grep", "WebSearch", "WebFetch", "Bash(git log:*)"]
MODES = ["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"]
OFFLINE = "Claude stays offline: BOT_TOKEN_CLAUDE is set, but ANTHROPIC_API_KEY isn't"
OTHERS = ("BOT_TOKEN_CHATGPT", "BOT_TOKEN_GEMINI", "BOT_TOKEN_GROK")
FOLDER = st.from_regex(r"\A[a-z][a-z0-9_-]{0,20}(?:/[a-z][a-z0-9_-]{0,20}){0,3}\Z")


# Feature: discord-claude-gateway, Property 1: For any set of valid environment variable values for DISCORD_BOT_TOKEN, ANTHROPIC_API_KEY, ALLOWED_TOOLS, PERMISSION_MODE, QUERY_TIMEOUT_MS, CONFIG_DIR, and MAX_QUEUE_DEPTH, calling loadConfig() should produce a GatewayConfig whose fields match the corresponding environment variable values, with ALLOWED_TOOLS correctly split from a comma-separated string into an array.  # noqa: E501
@settings(max_examples=150, deadline=None)
@given(
    token=WORD,
    key=WORD,
    tools=st.lists(st.sampled_from(TOOLS), min_size=1, unique=True),
    mode=st.sampled_from(MODES),
    milliseconds=st.integers(1000, 600_000),
    folder=FOLDER,
    depth=st.integers(1, 1_000_000),
)
def test_what_is_set_is_what_is_read(token, key, tools, mode, milliseconds, folder, depth):
    """The spec's names are other names of ours: DISCORD_BOT_TOKEN is Claude's token, QUERY_TIMEOUT_MS is
    TURN_TIMEOUT_SECONDS (so it is compared in seconds), CONFIG_DIR is PERSONAS_DIR. Tools and mode reach the coding
    agent, which AGENT_RUNTIME switches on."""
    read = load_settings(
        {
            "DISCORD_BOT_TOKEN": token,
            "ANTHROPIC_API_KEY": key,
            "ALLOWED_TOOLS": ",".join(tools),
            "PERMISSION_MODE": mode,
            "QUERY_TIMEOUT_MS": str(milliseconds),
            "CONFIG_DIR": folder,
            "MAX_QUEUE_DEPTH": str(depth),
            "AGENT_RUNTIME": "claude-agent-sdk",
            "TIMEZONE": "UTC",
        },
        env_file=None,
    )
    claude = read.agents["claude"]
    assert (claude.token.get_secret_value(), claude.api_key.get_secret_value()) == (token, key)
    assert (read.turn_timeout_seconds, read.personas_dir) == (milliseconds / 1000, Path(folder))
    assert (read.allowed_tools, read.permission_mode, read.max_queue_depth) == (tuple(tools), mode, depth)
    assert (claude.coding.allowed_tools, claude.coding.permission_mode) == (tuple(tools), mode)
    assert claude.coding.workspace == (Path(folder) / "claude" / "workspace").absolute()
    assert all(agent.coding is None for name, agent in read.agents.items() if name != "claude")


# Feature: discord-claude-gateway, Property 2: For any subset of the required environment variables (DISCORD_BOT_TOKEN, ANTHROPIC_API_KEY) that are unset, calling loadConfig() should throw an error whose message contains the names of all missing variables.  # noqa: E501
@settings(max_examples=100, deadline=None)
@given(token=st.none() | WORD, key=st.none() | WORD, in_file=st.booleans())
def test_all_that_is_missing_is_named(tmp_path_factory, token, key, in_file):
    """By a start that ends. There are four bots, and one is enough: without any token it names every token and every
    key that are not there. Where a bot has a token, it alone stays away without its key, and the line names it.
    DISCORD_BOT_TOKEN is named as what it stands for, BOT_TOKEN_CLAUDE."""
    assume(token is None or key is None)
    secret = token or key
    assume(secret is None or secret not in " ".join((OFFLINE, *OTHERS)))  # what is the same as a secret isn't shown
    given_values = {"DISCORD_BOT_TOKEN": token, "ANTHROPIC_API_KEY": key}
    there = {name: value for name, value in given_values.items() if value is not None}
    folder = tmp_path_factory.mktemp("start")
    if in_file and not {"'", "\\"} & set("".join(there.values())):
        (folder / ".env").write_text("".join(f"{name}='{value}'\n" for name, value in there.items()))
        there = {}
    code, said = start(folder, there)
    missing = {"BOT_TOKEN_CLAUDE": token is None, "ANTHROPIC_API_KEY": key is None}
    assert code == 2
    if token is None:
        assert {name: bool(re.search(rf"\b{name}\b", said)) for name in missing} == missing
        assert all(name in said for name in OTHERS)
    else:
        assert OFFLINE in said


def start(folder, environment):
    """The exit code of `python run_all.py` in a folder, and what it says."""
    root = logging.getLogger()
    handlers, level, said = root.handlers[:], root.level, io.StringIO()
    try:
        with (
            chdir(folder),
            redirect_stderr(said),
            patch.dict(os.environ, {"TIMEZONE": "UTC", **environment}, clear=True),
        ):
            return main([]), said.getvalue()
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
