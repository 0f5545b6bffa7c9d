"""What tools brought in earlier turns, in its place again: the one part of a context that Discord does not keep."""

from __future__ import annotations

from agent_cogs.agent import Agent
from agent_context.selecting.blocks import ToolLine
from agent_tools.call_log.rendering import record_text

MAX_LINES = 40
LINE_CHARACTERS = 2_000


def tool_lines(agent: Agent, channel_id: int, window_start: int) -> list[ToolLine]:
    """The newest `MAX_LINES` calls with their results, each after the newest message that the model had seen then.

    `window_start` is the id of the oldest message that a context of the channel may show. A line reads the same each
    time, and stays in its place: what a window has shown once it does not show again.
    """
    if agent.tool_records is None:
        return []
    told = [
        record
        for record in agent.tool_records.for_channel(agent.key, channel_id)
        if record.output is not None and record.after_message_id >= window_start
    ]
    return [
        ToolLine(record.after_message_id, record_text(agent.key, record, LINE_CHARACTERS))
        for record in told[-MAX_LINES:]
    ]


def forget_before(agent: Agent, channel_id: int, oldest: int) -> None:
    """Takes out of memory what lies before the oldest message that any context of the channel will show."""
    if agent.tool_records is not None:
        agent.tool_records.prune(agent.key, channel_id, oldest)
