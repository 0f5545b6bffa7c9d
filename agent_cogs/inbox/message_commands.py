"""`m continue` and `m context`: who is meant, and what is done.

The agent that is mentioned or replied to is meant, otherwise the one that spoke last in the channel. Its command is
taken away where that is allowed; nobody waits for it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence

from agent_chat.outlet import ChannelSink, CommandReplies, Outlet
from agent_cogs.agent import Agent, Turn
from agent_cogs.events import MentionEvent
from agent_cogs.inbox.runner import TurnRunner
from agent_cogs.inbox.triggers import Call
from agent_cogs.prompt.chat_mode import ModelRequest
from agent_cogs.prompt.decide import mode_of, tools_of
from agent_cogs.prompt.view import look
from agent_cogs.services import AgentServices
from agent_context.entries import Entry
from agent_context.selecting.visibility import is_visible
from agent_context.steering.commands import MCommand, parse_m
from agent_llm.types import Message, Prompt, Reply
from agent_tools.loop import always

RULE = "-" * 20
MANAGERS_ONLY = "`m context` is for people who may manage messages here."

log = logging.getLogger(__name__)


class MCommands:
    """One agent's. `busy` hears of an event for which there was no room."""

    def __init__(
        self,
        agent: Agent,
        services: AgentServices,
        taker: TurnRunner,
        busy: Callable[[ChannelSink, MentionEvent], None],
    ) -> None:
        self._agent, self._services, self._taker, self._busy = agent, services, taker, busy

    async def given(
        self, command: MCommand, asked: Entry, outlet: Outlet, theme: str, *, call: Call | None, to_one: bool
    ) -> None:
        """Carries a person's command out, if this agent is meant. `call`: how the message calls it; `to_one`: the
        message calls any of our agents."""
        await outlet.view.settle()
        entries = outlet.view.transcript.entries()
        if call is None and (to_one or last_speaker(entries, asked.id) != self._agent.key):
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
        elif not self._taker.enter(event) and event.id not in self._taker.book:
            self._busy(outlet.sink, event)

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
    """The agent that spoke last in front of a message, as bots see the channel."""
    spoken = (entry for entry in reversed(entries) if entry.id < before and entry.speaker.agent is not None)
    return next((entry.speaker.agent for entry in spoken if is_visible(entry)), None)


def commanded(asked: Entry, entries: Sequence[Entry]) -> str | None:
    """The agent that a message command means without naming any."""
    bare = asked.hidden and not asked.mentions and asked.replied_to is None and parse_m(asked.text) is not None
    return last_speaker(entries, asked.id) if bare else None


def last_seen(entries: Sequence[Entry], before: int) -> int | None:
    """The newest message in front of another one that is no command itself, by whomever."""
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
    """A request to a model as a person reads it: each part under its role, pictures and cache marks named."""
    parts = [("system", prompt.system or "")]
    for message in history:
        marks = f", {len(message.pictures)} pictures" if message.pictures else ""
        parts.append((f"{message.role}{marks}{', cache mark' if message.cache else ''}", message.text))
    if prompt.prefill is not None:
        parts.append(("assistant, to be continued", prompt.prefill))
    elif prompt.text:
        parts.append(("user", prompt.text))
    if prompt.schema is not None:
        parts.append(("form of the answer", json.dumps(prompt.schema, ensure_ascii=False, indent=1)))
    if prompt.search:
        parts.append(("search", "The web search of the model's maker is offered."))
    if prompt.tools:
        told = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in prompt.tools]
        parts.append(("tools", json.dumps(told, ensure_ascii=False, indent=1)))
    if prompt.stop:
        parts.append(("stop sequences", "\n".join(map(repr, prompt.stop))))
    return "\n\n".join(f"{RULE} {head}\n{text}" for head, text in parts)
