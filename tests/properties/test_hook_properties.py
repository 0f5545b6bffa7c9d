"""Property 26 of the specification: hooks around events."""

from __future__ import annotations

import asyncio
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.agent_scene import DEBATE, LOUNGE, MEMES
from tests.support.gateway_agent import KINDS, gateway

AROUND = "### agent_begin\nFIRST-OF-ALL\n### agent_stop\nLAST-OF-ALL\n"
AGENTS = f"## Hooks\n{AROUND}"


def step(asked: str) -> str:
    """The hook, or the event's number."""
    if hook := re.search(r"FIRST-OF-ALL|LAST-OF-ALL", asked):
        return {"FIRST-OF-ALL": "begin", "LAST-OF-ALL": "stop"}[hook[0]]
    own = re.findall(r"instruction-(\d+)-", asked)  # its topic; it is also told what people said meanwhile
    (number,) = own or re.findall(rf"(?:{'|'.join(KINDS)})-(\d+)-", asked)
    return str(number)


async def asked_for(wanted: list[tuple[str, int]]) -> dict[int, list[str]]:
    """All events are raised before they are waited for; what the model was asked in each channel, in order."""
    steps: dict[int, list[str]] = {channel: [] for _, channel in wanted}
    async with gateway({"agents": AGENTS}) as agent:
        for number, (kind, channel) in enumerate(wanted):
            await agent.raised(kind, channel, f"{kind}-{number}-")
        await agent.idle()
        for channel, prompt in agent.asked:
            steps[channel].append(step(prompt.text))
    return steps


# Feature: discord-claude-gateway, Property 26: For any event processed by the AgentRuntime, the agent_begin hook should fire before the main processing and the agent_stop hook should fire after the main processing completes, both processed inline.  # noqa: E501
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from((LOUNGE, MEMES, DEBATE))), min_size=1, max_size=5))
def test_both_hooks_stand_around_every_event_but_hooks(wanted: list[tuple[str, int]]) -> None:
    """Events of each kind are raised as the program raises them, and wait in the inbox for each other: nothing comes
    between a channel's event and its hooks. Deviations: an event that a limit stands against is not processed, so no
    hook is paid for it (test_hooks.py); hooks have no hooks, so a startup hook stands alone."""
    expected: dict[int, list[str]] = {channel: [] for _, channel in wanted}
    for number, (kind, channel) in enumerate(wanted):
        expected[channel] += [f"{number}"] if kind == "hook" else ["begin", f"{number}", "stop"]
    assert asyncio.run(asked_for(wanted)) == expected
