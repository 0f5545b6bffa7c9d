"""Properties of the specification of the gateway: how long answers are cut, and what of an error a person sees."""

import asyncio
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic.chat.splitting import FENCE, MAX_MESSAGE, length, split_text
from agentic.llm.errors import ModelError, ServerFailed
from agentic.llm.types import Prompt
from agentic.turn.result import error_line
from tests.support.discord.chunks import spoken
from tests.support.models.agent_sdk_doubles import ClaudeSDKError, FakeSdk
from tests.support.models.agent_sdk_doubles import model_with as model_in

PIECE = st.one_of(
    st.text(max_size=120),
    st.integers(1980, 2010).map("y".__mul__),  # around the limit
    st.sampled_from(["\n", "\n\n", "```", "```py\n", "\n```\n", "a word ", "ü🙂 ", "x" * 900, "line of code\n" * 70]),
)
NAME = st.from_regex(r"\A[A-Z][A-Za-z]{2,30}(?:Error|Exception)\Z")
WORDS = st.text(min_size=12, max_size=60)
SECRETS = st.sampled_from(
    [
        "sk-ant-api03-abcdefghijklmnop",
        "/home/owner/agentic-discord/.env",
        'Traceback (most recent call last):\n  File "/srv/bot/agent.py", line 3, in run',
        "C:\\Users\\owner\\bot\\config.py",
        "BOT_TOKEN_CLAUDE=MTIz.abc.def",
    ]
)


# Feature: discord-claude-gateway, Property 9: For any string of arbitrary length, splitMessage(text) should produce chunks where: (a) every chunk is at most 2000 characters, (b) concatenating all chunks reproduces the original text (modulo inserted code block delimiters), and (c) if the original text contains a code block that spans a split boundary, each chunk is a valid markdown fragment with properly opened and closed code fences.  # noqa: E501
@settings(max_examples=200, deadline=None)
@given(pieces=st.lists(PIECE, max_size=25))
def test_chunks_fit_lose_nothing_and_are_whole_by_themselves(pieces):
    """Lengths are UTF-16 units, never fewer than characters. Nothing but white space around a cut is dropped, which
    Discord would trim anyway. A fence that the text itself never closes is closed."""
    text = "".join(pieces)
    chunks = split_text(text, MAX_MESSAGE)
    assert all(0 < len(chunk) <= length(chunk) <= MAX_MESSAGE == 2000 for chunk in chunks)
    assert all(chunk.count(FENCE) % 2 == 0 for chunk in chunks)
    assert [part for chunk in chunks for part in spoken(chunk)] == spoken(text)


# Feature: discord-claude-gateway, Property 12: For any error thrown by the Agent SDK (with a type/name and a message), the user-facing error message produced by the gateway should contain the error type/name but should not contain stack traces, API keys, or file paths from the server environment.  # noqa: E501
@settings(max_examples=200, deadline=None)
@given(
    name=NAME,
    said=st.lists(SECRETS | WORDS, min_size=1, max_size=3),
    source=st.sampled_from(["the SDK", "a model", "anything"]),
)
def test_an_error_is_told_by_its_kind_without_what_it_says(tmp_path_factory, name, said, source):
    """Of the error nothing but its kind is told, in words, and for the SDK's own errors by the name of the class. So no
    word of its message can be in the line, whatever stands there."""
    folder = tmp_path_factory.getbasetemp()
    base = {"the SDK": ClaudeSDKError, "a model": ServerFailed, "anything": Exception}[source]
    error = type(name, (base,), {})("\n".join(said))
    if source == "the SDK":  # its errors arrive as ours, made by the model
        try:
            asyncio.run(model_in(FakeSdk([error]), folder).complete(Prompt(text="x")))
        except ModelError as failed:
            error = failed
    line = error_line(error)
    assert name in line or source != "the SDK"
    assert "\n" not in line
    assert len(line) < 200
    for part in said:
        assert part not in line
    assert not {"/", "\\", "sk-", "Traceback"} & set(re.findall(r"/|\\|sk-|Traceback", line))
