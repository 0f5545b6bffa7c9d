"""Message commands: `m continue` and `m context`.

A command is for the agent that it mentions or replies to, otherwise for the one that spoke last in the channel. The
message is deleted in the background, where the bot may do that.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from agentic.agent.agent import Agent, Channels, Turn
from agentic.agent.events import MentionEvent
from agentic.agent.services import AgentServices
from agentic.chat.outlet import CommandReplies, Outlet
from agentic.context.commands import parse_m
from agentic.context.entries import Entry, is_visible
from agentic.inbox.queue import TurnQueue
from agentic.inbox.triggers import Call
from agentic.llm.types import Message, Prompt, Reply
from agentic.tools.loop import always
from agentic.turn.busy_replies import BusyReplies
from agentic.turn.chat_mode import ModelRequest
from agentic.turn.decide import mode_of, tools_of
from agentic.turn.view import look

RULE = "-" * 20
MANAGERS_ONLY = "`m context` is for people who may manage messages here."

log = logging.getLogger(__name__)


class MessageCommands:
    """Carries out the commands that are for `agent`."""

    def __init__(
        self, agent: Agent, services: AgentServices, channels: Channels, queue: TurnQueue, busy: BusyReplies
    ) -> None:
        self._agent, self._services, self._channels, self._queue, self._busy = agent, services, channels, queue, busy

    async def on_message(self, asked: Entry, channel_id: int, theme: str, call: Call | None) -> None:
        """Carry out the command that a message may be. `call`: how it calls this agent."""
        command, outlet = parse_m(asked.text), self._channels.outlet_of(channel_id)
        if command is None or outlet is None:
            return
        await outlet.view.settle()
        entries = outlet.view.transcript.entries()
        if call is None and (self._names_an_agent(asked) or last_speaker(entries, asked.id) != self._agent.key):
            return
        replies = outlet.sink.command_replies
        goes = replies is not None and replies.discard(asked.id)
        event = self._services.mention(
            asked,
            outlet.view.channel_id,
            theme,
            to_all=call is Call.ROLE,
            continues=True,
            signs_at=last_seen(entries, asked.id) if goes else None,
        )
        if command == "context":
            await self._show(event, outlet, replies)
        elif not self._queue.enqueue(event) and event.id not in self._queue:
            self._busy.reply(outlet.sink, event)

    def _names_an_agent(self, asked: Entry) -> bool:
        directory = self._services.directory
        return any(directory.agent_of(user_id) for user_id in (*asked.mentions, asked.replied_to or 0))

    async def _show(self, event: MentionEvent, outlet: Outlet, replies: CommandReplies | None) -> None:
        asked = event.asked
        if replies is None:
            return
        if not asked.may_manage:
            await replies.reply(asked.id, MANAGERS_ONLY, f"{event.id}:rights")
            return
        agent = self._agent.at(outlet)
        sent = await as_sent(Turn(agent=agent, outlet=outlet, event=event))
        name = f"context-{agent.key}.txt"
        note = f"what {agent.identity.display_name} sees"
        await replies.send_file(name, written(sent.prompt, sent.history), note, f"{event.id}:context")


def last_speaker(entries: Sequence[Entry], before: int) -> str | None:
    """The agent that spoke last before a message, as agents see the channel."""
    spoken = (entry for entry in reversed(entries) if entry.id < before and entry.speaker.agent is not None)
    return next((entry.speaker.agent for entry in spoken if is_visible(entry)), None)


def commanded(asked: Entry, entries: Sequence[Entry]) -> str | None:
    """The agent that a message command is for though it names none."""
    bare = asked.hidden and not asked.mentions and asked.replied_to is None and parse_m(asked.text) is not None
    return last_speaker(entries, asked.id) if bare else None


def last_seen(entries: Sequence[Entry], before: int) -> int | None:
    """The newest message before another one that is no command itself."""
    return next((entry.id for entry in reversed(entries) if entry.id < before and not entry.hidden), None)


async def as_sent(turn: Turn) -> ModelRequest:
    """The first request that the model would get, with its tools."""
    sent: list[Prompt] = []

    async def heard(prompt: Prompt) -> Reply:
        sent.append(prompt)
        return Reply(text="")

    mode = mode_of(turn, await look(turn))
    request = mode.request(0.0)
    await tools_of(turn, mode, always).run(heard, request.prompt)
    return ModelRequest(sent[0], request.history)


def written(prompt: Prompt, history: Sequence[Message]) -> str:
    """A request to a model for people to read: each part under its role, with its pictures and cache markers."""
    parts = [("system", prompt.system or "")]
    for message in history:
        marks = f", {len(message.pictures)} pictures" if message.pictures else ""
        parts.append((f"{message.role}{marks}{', cache marker' if message.cache else ''}", message.text))
    if prompt.prefill is not None:
        parts.append(("assistant, to be continued", prompt.prefill))
    elif prompt.text:
        parts.append(("user", prompt.text))
    if prompt.schema is not None:
        parts.append(("form of the answer", json.dumps(prompt.schema, ensure_ascii=False, indent=1)))
    if prompt.search:
        parts.append(("search", "The web search of the model's maker is offered."))
    if prompt.tools:
        tools = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in prompt.tools]
        parts.append(("tools", json.dumps(tools, ensure_ascii=False, indent=1)))
    if prompt.stop:
        parts.append(("stop sequences", "\n".join(map(repr, prompt.stop))))
    return "\n\n".join(f"{RULE} {head}\n{text}" for head, text in parts)
