"""Properties of the specification of the gateway: what the Claude Agent SDK's query() is given.

Its options are made by a double and, if the extra is installed, by the SDK itself.
"""

import asyncio
import importlib
import importlib.util
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentic.context.entries import words
from agentic.llm.profiles import QueryConfig
from agentic.llm.providers.agent_sdk import (
    IN_FOLDER,
    AgentSdkModel,
    after_reading,
    options_of,
)
from agentic.llm.types import Message, Prompt
from tests.support.agent_scene import LOUNGE, MEMES
from tests.support.gateway_agent import gateway
from tests.support.models.agent_sdk_doubles import FakeSdk, MemoryConversations, ResultMessage, init
from tests.support.persona_strategies import INSTRUCTIONS, PROSE

TEXT = st.text(max_size=300)
WORDS = st.text(min_size=1, max_size=300).filter(str.strip)
TOOLS = st.lists(st.sampled_from([*IN_FOLDER, "WebSearch", "WebFetch", "Bash"]), unique=True).map(tuple)
MODES = st.sampled_from(["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"])
SESSION = st.uuids().map(str)
CHANNEL = st.integers(1, 2**63)
INSTALLED = importlib.util.find_spec("claude_agent_sdk") is not None
KINDS = [
    "double",
    pytest.param("installed", marks=pytest.mark.skipif(not INSTALLED, reason="claude-agent-sdk is not installed")),
]

quick = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=KINDS)
def sdk(request):
    return FakeSdk() if request.param == "double" else importlib.import_module("claude_agent_sdk")


def config(tools=("Read",), mode="dontAsk"):
    here = Path("/somewhere")
    return QueryConfig(
        model="m", workspace=here / "w", home=here / "h", api_key="k", allowed_tools=tools, permission_mode=mode
    )


# Feature: discord-claude-gateway, Property 6: For any prompt text, gateway configuration, and assembled system prompt, the arguments passed to the Agent SDK query() function should include the prompt text, the configured allowed tools array, the configured permission mode, and the assembled system prompt via the systemPrompt option.  # noqa: E501
@quick
@given(prompt=TEXT, system=TEXT, tools=TOOLS, mode=MODES)
def test_a_query_has_prompt_tools_mode_and_system_prompt(sdk, prompt, system, tools, mode):
    """Deviation: the configured tools are the SDK's `tools`; in its `allowed_tools`, which allows a tool for the whole
    machine, those for files stand as rules for the workspace."""
    double = FakeSdk()
    question = Prompt(text=prompt, system=system)
    asyncio.run(model_of(double, config(tools, mode)).complete(question))
    ((asked, given),) = double.asked
    assert asked == prompt
    for options in (given, options_of(sdk, config(tools, mode), question)):
        assert (options.system_prompt, options.permission_mode, tuple(options.tools)) == (system, mode, tools)
        assert set(options.allowed_tools) == {IN_FOLDER.get(tool, tool) for tool in tools}


def model_of(sdk, config=config()):  # noqa: B008
    model = AgentSdkModel(config, sessions=MemoryConversations())
    model._sdk = sdk
    return model


# Feature: discord-claude-gateway, Property 7: For any channel that has a stored session ID in the channel bindings, when a new prompt is received for that channel, the query() call should include the resume option set to the stored session ID.  # noqa: E501
@quick
@given(
    kept=st.dictionaries(st.sampled_from((LOUNGE, MEMES)), SESSION),
    wanted=st.lists(
        st.tuples(st.sampled_from(("message", "instruction")), st.sampled_from((LOUNGE, MEMES))), min_size=1, max_size=3
    ),
)
def test_a_channel_with_a_session_goes_on_with_it(kept, wanted):
    """People's and the coordinator's events through the inbox: each query resumes what is kept for its channel, else
    begins; what began is kept, so the next one resumes it."""

    async def play():
        double = FakeSdk(*([init(f"begun {number}"), ResultMessage('{"text": "Yes."}')] for number in range(3)))
        model = model_of(double)
        model.sessions.kept = {channel: after_reading(session, "") for channel, session in kept.items()}
        resumed = []
        async with gateway({}, model) as agent:
            for number, (kind, channel) in enumerate(wanted):
                known = model.sessions.kept.get(channel)
                await agent.raised(kind, channel, f"prompt {number}")
                await agent.idle()
                asked, options = double.asked[-1]
                assert len(double.asked) == number + 1
                assert f"prompt {number}" in asked
                assert options.resume == (known.session_id if known else None)
                assert model.sessions.kept[channel].session_id == f"begun {number}"
                resumed.append(options.resume)
        first = {channel: place for place, (_, channel) in reversed(list(enumerate(wanted)))}
        assert {channel: resumed[place] for channel, place in first.items()} == {
            channel: kept.get(channel) for channel in first
        }

    asyncio.run(play())


# Feature: discord-claude-gateway, Property 8: For any channel without an existing channel binding, when a prompt is processed and the Agent SDK returns an init message with a session_id, the session manager should store that session_id for the channel. A subsequent lookup for that channel should return the stored session_id.  # noqa: E501
@quick
@given(
    prompt=WORDS,
    channel=CHANNEL,
    session=SESSION,
    heard=st.lists(WORDS, max_size=4),
    fails=st.booleans(),
)
def test_the_session_that_began_is_kept_for_its_channel_and_gone_on_with(prompt, channel, session, heard, fails):
    """Kept when it begins, so also where the query fails afterwards."""
    double = FakeSdk([init(session), ValueError("x") if fails else ResultMessage("Yes.")])
    model, history = model_of(double), [Message("user", text) for text in heard]

    async def converse():
        for turn in range(2):
            try:
                await model.complete(Prompt(text=prompt, conversation=channel), history)
            except Exception:
                assert fails
                assert turn == 0
            if turn == 0:
                kept = model.sessions.kept
                assert {place: one.session_id for place, one in kept.items()} == {channel: session}

    asyncio.run(converse())
    assert [options.resume for _, options in double.asked] == [None, session]
    assert double.asked[1][0] == prompt, "what was heard is not told twice"


# Feature: discord-claude-gateway, Property 18: For any heartbeat or cron event with an instruction string, when the AgentRuntime processes it, the Agent SDK query() call should use the instruction string as the prompt text and include the assembled system prompt via the systemPrompt option.  # noqa: E501
@quick
@example(kind="heartbeat", instruction="\xad\n\n0", soul="0", channel=LOUNGE)
@example(kind="cron", instruction="\xad 0\n\xad\n1\n \xad", soul="0", channel=LOUNGE)
@given(
    kind=st.sampled_from(("heartbeat", "cron")),
    instruction=INSTRUCTIONS,
    soul=PROSE,
    channel=st.sampled_from((LOUNGE, MEMES)),
)
def test_an_errand_is_asked_with_its_instruction_in_no_channels_session(kind, instruction, soul, channel):
    """From its file over the clock and the inbox to the query. Each line of the instruction is quoted in the prompt,
    without what cannot be seen."""

    async def play():
        double = FakeSdk([init("s"), ResultMessage('{"text": "Done."}')])
        model = model_of(double)
        other = after_reading("another", "")
        model.sessions.kept[channel] = other
        async with gateway({"soul": soul}, model) as agent:
            await agent.raised(kind, channel, instruction)
            await agent.idle()
        ((asked, options),) = double.asked
        quoted = "\n".join(f"  {line}" for line in words(instruction).strip().splitlines()) or "  (no text)"
        assert f":\n{quoted}\n" in asked
        assert f"## Personality\n\n{soul}\n" in options.system_prompt
        assert options.resume is None
        assert model.sessions.kept == {channel: other}

    asyncio.run(play())
