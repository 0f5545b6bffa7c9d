"""Properties of the specification of the gateway: what is read from the environment, what is missing."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_config import load_settings, missing_key_message, missing_tokens_message

WORD = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=80)
TOOLS = ["Read", "Write", "Edit", "Glob", "Grep", "WebSearch", "WebFetch", "Bash(git log:*)"]
MODES = ["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"]
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
    """There are four bots, and one is enough: without any token the start fails, and the message names every token and
    every key that are not there. Where a bot has a token, it alone stays away without its key, and the line names it.
    DISCORD_BOT_TOKEN is named as what it stands for, BOT_TOKEN_CLAUDE."""
    values = {"DISCORD_BOT_TOKEN": token, "ANTHROPIC_API_KEY": key}
    given_values = {name: value for name, value in values.items() if value is not None}
    path = None
    if in_file:
        path = tmp_path_factory.mktemp("env") / ".env"
        quoted = {name: value for name, value in given_values.items() if not {"'", "\\"} & set(value)}
        path.write_text("".join(f"{name}='{value}'\n" for name, value in quoted.items()))
        given_values = {name: value for name, value in given_values.items() if name not in quoted}
    read = load_settings({**given_values, "TIMEZONE": "UTC"}, path)
    missing = {"BOT_TOKEN_CLAUDE": token is None, "ANTHROPIC_API_KEY": key is None}
    if token is None:
        said = missing_tokens_message(read)
        assert all((name in said) == lacks for name, lacks in missing.items())
    elif key is None:
        assert "ANTHROPIC_API_KEY" in missing_key_message(read.agents["claude"])
    assert read.agents["claude"].api_key is None or key is not None
