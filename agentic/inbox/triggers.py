"""Which messages call an agent; `m` commands.

Calls between agents: another agent's message calls this one by a mention or a reply, until the chain ends.

A message from an agent's turn in a running conversation calls nobody, since the coordinator gives everybody a turn
there; one from a reactive turn, which joins in on an answer to a person, does. The turn that a message came from is
known by its record while it is open, and by a mark afterwards (agentic.state.posts), in every process.

Triggers: whether and how a person's message calls this agent. Pure.

People call an agent by mentioning it, by mentioning the bots' role, or by replying to one of its messages, in the
channels in scope and their threads. With the option `answer_all` a person's message that is for nobody else calls one
agent, too. For messages of our other agents see bot_mentions.py; those of foreign bots and webhooks call nobody.

Message commands: `m continue` and `m context`.

A command is for the agent that it mentions or replies to, otherwise for the one that spoke last in the channel. The
message is deleted in the background, where the bot may do that.
"""

from __future__ import annotations

import json
import logging
import unicodedata
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import Literal

from cachetools import LRUCache

from agentic.agent.agent import Agent, Channels
from agentic.agent.events import InstructionEvent, MentionEvent, read_begun
from agentic.agent.services import AgentServices
from agentic.chat.outlet import CommandReplies, Outlet, unfinished
from agentic.chat.service import IncomingMessage
from agentic.context.commands import parse_m
from agentic.context.entries import Entry, is_visible
from agentic.inbox.inbox import TurnQueue
from agentic.inbox.room_calls import RoomCalls
from agentic.llm.types import Message, Prompt, Reply
from agentic.tools.loop import always
from agentic.turn.chat_mode import ModelRequest
from agentic.turn.decide import mode_of
from agentic.turn.progress import Turn, TurnState
from agentic.turn.result import BusyReplies
from agentic.turn.tools import ToolUse
from agentic.turn.view import build_view
from agentic.wire.connection import RedisAway

log = logging.getLogger(__name__)


CHAIN_END = "🔁"

UNFINISHED = 200  # growing posts that are remembered


Verdict = Literal["call", "no", "end"]


class BotMentions:
    """Finds the messages of other agents that call `agent`, and enqueues them."""

    def __init__(
        self, agent: Agent, services: AgentServices, channels: Channels, queue: TurnQueue, room_calls: RoomCalls
    ) -> None:
        self._agent, self._services, self._channels, self._queue = agent, services, channels, queue
        self._room_calls = room_calls
        self._growing: LRUCache[int, None] = LRUCache(UNFINISHED)

    async def heard(self, channel_id: int, message_id: int, theme: str, *, edited: bool = False) -> None:
        """A bot wrote a message, or edited one."""
        entry = self._services.transcripts.of(channel_id).get(message_id)
        if entry is None or entry.speaker.agent in (None, self._agent.key) or self._still_grows(entry, edited=edited):
            return
        if not calls(entry, self._me(channel_id)) or self._channels.is_stopped(channel_id):
            return
        outlet = self._channels.outlet_of(channel_id)
        if outlet is None:
            return
        room = await self._room_calls.room_of(channel_id, self._channels.parent(channel_id))
        if room is not None and room.status == "active" and room.member(self._agent.key) is not None:
            return  # it speaks there in its turns alone
        await outlet.view.settle()
        options = self._agent.options_for(outlet)
        if not options.bot_mentions:
            return
        verdict = await self._judge(entry, outlet, options.max_bot_chain)
        if verdict == "call":
            self._enqueue(entry, outlet, theme if room is None else room.theme)
        elif verdict == "end":
            await self._mark(entry, outlet)

    def _me(self, channel_id: int) -> int:
        own = self._channels.own_id(channel_id)
        assert own is not None  # it hears nothing before its login
        return own

    def _still_grows(self, entry: Entry, *, edited: bool) -> bool:
        """A streamed post calls once it is complete; an edit of any other post calls nobody."""
        grew = entry.id in self._growing
        self._growing.pop(entry.id, None)
        if unfinished(entry.text):
            self._growing[entry.id] = None
            return True
        return edited and not grew

    async def _judge(self, entry: Entry, outlet: Outlet, most: int) -> Verdict:
        instructed = await self._services.ledger.instructed_posts.read(outlet.view.channel_id)
        if await self._was_its_turn(entry, outlet.view.channel_id, instructed):
            return "no"
        transcript = outlet.view.transcript
        entries = transcript.entries()
        before = spoken_before(entry, entries, instructed)
        if called_already(entry, before, self._me(outlet.view.channel_id)):
            return "no"
        if last_person(entry, entries) is None and not (transcript.whole or transcript.begins):
            log.info(
                "%s: skipped message %d: what came before it is not known",
                self._agent.key,
                entry.id,
            )
            return "no"
        return "call" if links(entry, before) < most else "end"

    async def _was_its_turn(self, entry: Entry, channel_id: int, instructed: Mapping[int, bool]) -> bool:
        """Whether the message is from the author's turn in a conversation. A turn may end between the two reads, and
        its end sets the mark: so the marks are read again after the open turns."""
        author = entry.speaker.agent or ""
        if entry.id in instructed:
            return not instructed[entry.id]
        try:
            turns = self._services.ledger.turns
            for turn_id in await turns.open_ids(author):
                event = read_begun(await turns.left(author, turn_id)).event
                if isinstance(event, InstructionEvent) and event.channel_id == channel_id:
                    return not event.cools_down
        except RedisAway:
            log.debug("%s: open turns of %s are not known, Redis is away", self._agent.key, author)
        return not (await self._services.ledger.instructed_posts.read(channel_id)).get(entry.id, True)

    def _enqueue(self, entry: Entry, outlet: Outlet, theme: str) -> None:
        begun_by = last_person(entry, outlet.view.transcript.entries())
        on_behalf = begun_by.speaker.id if begun_by is not None else None
        event = self._services.mention(entry, outlet.view.channel_id, theme, on_behalf=on_behalf)
        if not self._queue.enqueue(event):
            log.info(
                "%s: skipped message %d of %s: the inbox is full",
                self._agent.key,
                entry.id,
                entry.speaker.agent,
            )

    async def _mark(self, entry: Entry, outlet: Outlet) -> None:
        """Show that the chain ends, once for all agents that it would have called."""
        log.info("%s: a chain of calls ends at message %d", self._agent.key, entry.id)
        if await self._services.notices.first(entry.id, CHAIN_END):
            await outlet.sink.react(entry.id, CHAIN_END)


def calls(entry: Entry, user_id: int) -> bool:
    """Whether an agent's message mentions a user or replies to one. Hidden messages and webhooks' call nobody."""
    if entry.speaker.kind != "agent" or entry.webhook or entry.hidden or entry.speaker.id == user_id:
        return False
    return user_id in entry.mentions or entry.replied_to == user_id


def spoken_before(message: Entry, entries: Sequence[Entry], instructed: Collection[int]) -> list[Entry]:
    """The agents' posts of their own accord since the last person's message, newest first; `entries` oldest first."""
    earlier = (entry for entry in reversed(entries) if entry.id < message.id)
    among_agents = takewhile(lambda entry: entry.speaker.kind != "person", earlier)
    return [entry for entry in among_agents if entry.speaker.kind == "agent" and entry.id not in instructed]


def links(message: Entry, before: Sequence[Entry]) -> int:
    """The length of the chain of calls behind a message; `before` is what `spoken_before` found."""
    count, current = 0, message
    for entry in before:
        if entry.speaker.id != current.speaker.id and calls(entry, current.speaker.id):
            count, current = count + 1, entry
    return count


def called_already(message: Entry, before: Sequence[Entry], user_id: int) -> bool:
    """Whether an earlier message of an unbroken row by the same agent called the user."""
    row = takewhile(lambda entry: entry.speaker.id == message.speaker.id, before)
    return any(calls(entry, user_id) for entry in row)


def last_person(message: Entry, entries: Sequence[Entry]) -> Entry | None:
    """The person's message that set off the chain of a message."""
    return next(
        (entry for entry in reversed(entries) if entry.id < message.id and entry.speaker.kind == "person"), None
    )


_BLANKS = frozenset("\u2800\u3164\u115f\u1160\uffa0")  # letters and signs that look like a space


class Call(Enum):
    """How a person calls an agent."""

    MENTION = "mention"
    ROLE = "role"
    REPLY = "reply"
    ALL = "all"  # it names nobody, and the agent answers everything there


@dataclass(frozen=True, slots=True)
class Ignored:
    """Users and roles whose messages call nobody; `also` are the users that are ignored by command, as of now."""

    users: frozenset[int] = frozenset()
    roles: frozenset[int] = frozenset()
    also: Container[int] = ()

    def __contains__(self, heard: IncomingMessage) -> bool:
        if heard.author_id in self.users or heard.author_id in self.also:
            return True
        return not self.roles.isdisjoint(heard.author_roles)


def says_nothing(asked: Entry, heard: IncomingMessage, call: Call | None) -> bool:
    """Whether a message that needs no mention says nothing at all: spaces, characters that nobody sees, an empty quote.
    A mention alone does say something: that somebody wants an answer to what was said before."""
    needs_no_mention = heard.is_private or call is Call.ALL or (heard.group and call is Call.REPLY)
    if asked.attachments or asked.extras or not needs_no_mention:
        return False
    return all(char == ">" or char.isspace() or not _is_seen(char) for char in asked.text)


def _is_seen(char: str) -> bool:
    return char not in _BLANKS and unicodedata.category(char) not in ("Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Zs")


def called(heard: IncomingMessage, *, me: int, bots_role: int | None) -> Call | None:
    """How the message calls the bot with user id `me`, None when it does not."""
    if not heard.by_person or heard.author_id == me:
        return None
    if heard.is_private:
        return Call.MENTION
    if me in heard.mentioned_users:
        return Call.REPLY if heard.replied_to == me else Call.MENTION
    if heard.replied_to == me:
        return Call.REPLY
    if bots_role is not None and bots_role in heard.mentioned_roles:
        return Call.ROLE
    return None


RULE = "-" * 20
MANAGERS_ONLY = "`m context` is for people who may manage messages here."


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
        state = TurnState(self._services.ledger, agent.key, event.id)
        sent = await as_sent(Turn(agent=agent, outlet=outlet, event=event, state=state))
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

    mode = mode_of(turn, await build_view(turn))
    request = mode.request(0.0)
    await ToolUse(turn, mode, always).run(heard, request.prompt)
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
