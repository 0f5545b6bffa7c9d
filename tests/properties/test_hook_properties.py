"""Property 26 of the specification: hooks around events."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cogs.events import CronEvent, HeartbeatEvent, HookEvent, TurnEvent, WebhookEvent
from tests.agent_scene import DEBATE, LOUNGE, MEMES, Scene
from tests.doubles import settle

AGENTS = "## Hooks\n### agent_begin\nFIRST-OF-ALL\n### agent_stop\nLAST-OF-ALL\n"
KINDS = ("message", "instruction", "heartbeat", "cron", "webhook", "hook")


def errand(kind: str, name: str, channel: int, deadline: float) -> TurnEvent:
    common = {"id": name, "channel_id": channel, "theme": "casual", "deadline": deadline}
    if kind == "heartbeat":
        return HeartbeatEvent(check="c", instruction="THE-EVENT", **common)
    if kind == "cron":
        return CronEvent(job="j", instruction="THE-EVENT", **common)
    if kind == "webhook":
        return WebhookEvent(name="build", payload_text="THE-EVENT", **common)
    return HookEvent(hook="startup", instruction="THE-EVENT", **common)


async def asked_for(wanted: list[tuple[str, int]]) -> list[str]:
    """The events one after another; what the model was asked, in order."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "claude").mkdir()
        (Path(folder) / "claude" / "agents.md").write_text(AGENTS)
        scene = await Scene(env={"PERSONAS_DIR": folder, "MENTIONS_PER_MINUTE": "0"}).start()
        for number, (kind, channel) in enumerate(wanted):
            if kind == "message":
                await scene.ask("THE-EVENT", channel=channel)
            elif kind == "instruction":
                await scene.instruct(f"i{number}", channel=channel)
            else:
                assert scene.cog._taker.enter(errand(kind, f"e{number}", channel, scene.clock.now + 60))
            for _ in range(4):
                await settle()
        await scene.aclose()
    tails = [prompt.text for prompt, _ in scene.cog.asked]
    return ["begin" if "FIRST-OF" in tail else "stop" if "LAST-OF" in tail else "event" for tail in tails]


# Feature: discord-claude-gateway, Property 26: For any event processed by the AgentRuntime, the agent_begin hook should fire before the main processing and the agent_stop hook should fire after the main processing completes, both processed inline.  # noqa: E501
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from((LOUNGE, MEMES, DEBATE))), min_size=1, max_size=4))
def test_both_hooks_stand_around_every_event_but_hooks(wanted: list[tuple[str, int]]) -> None:
    """Deviations: an event that a limit stands against is not processed, so no hook is paid for it
    (tests/agent_cogs/test_hooks.py); hooks have no hooks, so a startup hook in the lane stands alone."""
    expected = [["event"] if kind == "hook" else ["begin", "event", "stop"] for kind, _ in wanted]
    assert asyncio.run(asked_for(wanted)) == [step for steps in expected for step in steps]
