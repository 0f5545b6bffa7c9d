"""Which messages call an agent: people's, other agents', and the commands `m continue` and `m context`.

People call an agent by mentioning it, mentioning the bots' role, or replying to one of its messages, in the channels in
scope and their threads. With the option `answer_all`, a person's message for nobody else calls one agent, too. Messages
of other bots and webhooks call nobody.

Another agent's message calls this one with a mention or a reply, until the chain ends. A message from an agent's turn
in a running conversation calls nobody, since the coordinator gives everyone a turn there; a message from a reactive
turn does. While a message's turn is open, its record shows which kind it is; afterwards a mark does, in every process.

In the thread of a room, a member answers a person's mention or reply with its next turn. A bot that isn't a member
answers as in any other thread, and so does everyone while the room is paused or closed.
"""

from __future__ import annotations

import json
import logging
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from itertools import takewhile
from typing import Literal

from cachetools import LRUCache

from agentic.agent.agent import Agent
from agentic.agent.events import InstructionEvent, MentionEvent, read_saved_event
from agentic.agent.services import Services
from agentic.chat.outlet import CommandReplies, Outlet, is_unfinished
from agentic.chat.service import AgentChannels, IncomingMessage, PersonReaction
from agentic.context.commands import parse_m
from agentic.context.entries import NOBODY_CALLED, Entry, is_mark, is_visible
from agentic.inbox.inbox import TurnQueue
from agentic.llm.types import Message, Prompt
from agentic.state.rooms import Room
from agentic.turn.decide import mode_of
from agentic.turn.progress import Turn, TurnState
from agentic.turn.result import BusyReplies
from agentic.turn.tools import ToolUse
from agentic.turn.view import build_view
from agentic.wire.connection import or_default
from agentic.wire.messages import Command, RoomOrder

CHAIN_END = "🔁"
MAX_GROWING = 200  # growing posts that are remembered
RULE = "-" * 20
MANAGERS_ONLY = "Only moderators can use `m context` here."

_BLANKS = frozenset("\u2800\u3164\u115f\u1160\uffa0")  # letters and signs that look like a space

log = logging.getLogger(__name__)


# -- people -----------------------------------------------------------------------------------------------------------


class Call(Enum):
    MENTION = "mention"
    ROLE = "role"
    REPLY = "reply"
    ALL = "all"  # it names nobody, and the agent answers everything there


class CallDetector:
    """Decides whether and how people's messages call one agent."""

    def __init__(self, agent: str, services: Services, channels: AgentChannels) -> None:
        self._agent, self._services, self._channels = agent, services, channels

    def detect(self, heard: IncomingMessage) -> Call | None:
        """Return how the message calls the agent. If it is for no other agent, it calls the first agent with
        `answer_all`."""
        services, me = self._services, self._channels.own_id(heard.channel_id)
        if me is None:
            return None
        call = detect_call(heard, me=me, bots_role=services.settings.bots_role_id)
        if call is not None or not heard.by_person or heard.author_id == me:
            return call
        others = {*heard.mentioned_users, heard.replied_to or 0}
        if any(services.chats.directory.agent_of(user) is not None for user in others):
            return None
        if (view := self._channels.view_of(heard.channel_id)) is None:
            return None
        id_of, names = services.chats.directory.id_of, services.agents.names
        here = (name for name in names if name == self._agent or id_of(name) is not None)
        answering = (name for name in here if services.agents.options.options(name, view).answer_all)
        return Call.ALL if next(answering, None) == self._agent else None


def detect_call(heard: IncomingMessage, *, me: int, bots_role: int | None) -> Call | None:
    """Return how the message calls the bot with user id `me`; None if it doesn't."""
    if not heard.by_person or heard.author_id == me:
        return None
    if heard.is_private:
        return Call.MENTION
    if heard.replied_to == me:
        return Call.REPLY
    if me in heard.mentioned_users:
        return Call.MENTION
    if bots_role is not None and bots_role in heard.mentioned_roles:
        return Call.ROLE
    return None


def says_nothing(asked: Entry, heard: IncomingMessage, call: Call | None) -> bool:
    """Return whether a message that needs no mention is empty: spaces, invisible characters, an empty quote. A mention
    alone isn't: somebody wants an answer to what was said before."""
    needs_no_mention = heard.is_private or call is Call.ALL or (heard.group and call is Call.REPLY)
    if asked.attachments or asked.extras or not needs_no_mention:
        return False
    unseen = ("Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Zs")
    return all(
        char == ">" or char.isspace() or char in _BLANKS or unicodedata.category(char) in unseen for char in asked.text
    )


# -- rooms ------------------------------------------------------------------------------------------------------------


@or_default(None, "threads count as no rooms")
async def room_of_thread(services: Services, channel_id: int, parent_id: int | None) -> Room | None:
    """Return the room of a thread, whatever its status; None for any other channel, and if Redis is unavailable."""
    return await services.state.coordination.rooms.read(channel_id) if parent_id is not None else None


def replies_to_notice(services: Services, said: Entry, channel_id: int) -> bool:
    """Return whether it replies to a notice of the program, such as "This room is waiting for a person"."""
    replied = services.chats.transcripts.of(channel_id).get(said.reply_to) if said.reply_to is not None else None
    return replied is not None and replied.hidden


@or_default(False, "messages in rooms get no turn")
async def request_room_turn(services: Services, agent: str, room: Room, asked: Entry) -> bool:
    """Ask for the agent's next turn in the room to answer a message; False if the agent has to answer it by itself."""
    if room.status != "active" or room.member(agent) is None:
        return False
    order = RoomOrder(message_id=asked.id)
    command = Command(command="room-next", channel_id=room.thread_id, agent_name=agent, room=order)
    outcome = await services.bus.orders.give(command)
    if outcome != "requested":
        log.info("%s: message %d in room %d gets no turn: %s", agent, asked.id, room.thread_id, outcome)
    return outcome == "requested"


async def note_reaction(services: Services, channels: AgentChannels, reaction: PersonReaction) -> None:
    """Tell the coordinator of a person's message in an active room to which enough people reacted."""
    channel_id, parent_id = reaction.channel_id, channels.place(reaction.channel_id).parent_id
    transcript = services.chats.transcripts.known(channel_id)
    said = transcript.get(reaction.message_id) if transcript is not None else None
    if said is None or said.speaker.kind != "person" or said.hidden or is_mark(reaction.emoji):
        return
    if parent_id is None or not services.agents.person_notices.react(said, reaction.who.user_id):
        return
    room = await room_of_thread(services, channel_id, parent_id)
    if room is not None and room.status == "active":
        _note_again(services, room, said, is_wanted=True)


async def note_edit(services: Services, channels: AgentChannels, channel_id: int, said: Entry) -> None:
    """Tell the coordinator of a person's message in a room that asks something now, or calls a member, after an
    edit."""
    if said.speaker.kind != "person" or said.hidden or not services.agents.person_notices.has_noted(said.id):
        return
    room = await room_of_thread(services, channel_id, channels.place(channel_id).parent_id)
    if room is not None:
        _note_again(services, room, said)


def _note_again(services: Services, room: Room, said: Entry, *, is_wanted: bool = False) -> None:
    """Report what is new about a message in a room, unless its author is ignored."""
    if not services.agents.ignored.has(said.speaker.id, said.speaker.roles, room.guild_id):
        to_notice, thread_id = replies_to_notice(services, said, room.thread_id), room.thread_id
        services.agents.person_notices.note(said, thread_id, calls=False, to_notice=to_notice, is_wanted=is_wanted)


@or_default(None, "people's deleted messages in rooms still wait for an answer")
async def withdraw_messages(
    services: Services, channels: AgentChannels, channel_id: int, message_ids: Collection[int]
) -> None:
    """Tell the coordinator of messages that were deleted in a room, so that nobody has to answer them."""
    if await room_of_thread(services, channel_id, channels.place(channel_id).parent_id) is None:
        return
    await services.agents.person_notices.withdraw(channel_id, message_ids)


# -- other agents -----------------------------------------------------------------------------------------------------


class BotMentions:
    """Finds the messages of other agents that call `agent`, and enqueues them."""

    def __init__(self, agent: Agent, services: Services, channels: AgentChannels, queue: TurnQueue) -> None:
        self._agent, self._services, self._channels, self._queue = agent, services, channels, queue
        self._growing: LRUCache[int, bool] = LRUCache(MAX_GROWING)

    async def heard(self, channel_id: int, message_id: int, theme: str, *, edited: bool = False) -> None:
        services, key = self._services, self._agent.key
        entry = services.chats.transcripts.of(channel_id).get(message_id)
        if entry is None or entry.speaker.agent in (None, key):
            return
        # A streamed post calls once it is complete; an edit of any other post calls nobody.
        grew = self._growing.pop(entry.id, False)
        if is_unfinished(entry.text):
            self._growing[entry.id] = True
            return
        me = self._channels.own_id(channel_id)
        place, outlet = self._channels.place(channel_id), self._channels.outlet_of(channel_id)
        if (edited and not grew) or me is None or not calls(entry, me) or outlet is None:
            return
        if services.silence.check(place) is not None:
            return
        room = await room_of_thread(services, channel_id, place.parent_id)
        if room is not None and room.status == "active" and room.member(key) is not None:
            return  # it speaks there in its turns alone
        await outlet.view.ensure_history()
        options = self._agent.options_for(outlet)
        if not options.bot_mentions:
            return
        verdict = await self._judge(entry, outlet, me, options.max_bot_chain)
        if verdict == "call":
            begun_by = last_person(entry, outlet.view.transcript.entries())
            on_behalf = begun_by.speaker.id if begun_by is not None else None
            theme = theme if room is None else room.theme
            if not self._queue.enqueue(services.mention(entry, channel_id, theme, on_behalf=on_behalf)):
                log.info("%s: skipped message %d of %s: the inbox is full", key, entry.id, entry.speaker.agent)
        elif verdict == "end":
            log.info("%s: a chain of mentions ends at message %d", key, entry.id)
            # Show it once for all agents that it would have called.
            if await services.state.posts.notices.first(entry.id, CHAIN_END):
                await outlet.sink.react(entry.id, CHAIN_END)

    async def _judge(self, entry: Entry, outlet: Outlet, me: int, limit: int) -> Literal["call", "no", "end"]:
        instructed = await self._services.state.posts.instructed.read(outlet.view.channel_id)
        if await self._was_its_turn(entry, outlet.view.channel_id, instructed):
            return "no"
        transcript = outlet.view.transcript
        entries = transcript.entries()
        before = find_earlier_posts(entry, entries, instructed)
        if has_called_before(entry, before, me):
            return "no"
        if last_person(entry, entries) is None and not (transcript.is_complete or transcript.begins):
            log.info("%s: skipped message %d: the messages before it are unknown", self._agent.key, entry.id)
            return "no"
        return "call" if count_links(entry, before) < limit else "end"

    async def _was_its_turn(self, entry: Entry, channel_id: int, instructed: Mapping[int, bool]) -> bool:
        """Return whether the message is from its author's turn in a conversation."""
        author = entry.speaker.agent or ""
        if entry.id in instructed:
            return not instructed[entry.id]
        if (instruction := await self._open_instruction(author, channel_id)) is not None:
            return not instruction.cools_down
        # The turn may have ended between the two reads, and its end sets the mark.
        return not (await self._services.state.posts.instructed.read(channel_id)).get(entry.id, True)

    @or_default(None, "open turns of other bots are not known")
    async def _open_instruction(self, agent: str, channel_id: int) -> InstructionEvent | None:
        """Return the instruction in the channel that the agent carries out now."""
        turns = self._services.state.turns
        for turn_id in await turns.open_ids(agent):
            event = read_saved_event(await turns.left(agent, turn_id)).event
            if isinstance(event, InstructionEvent) and event.channel_id == channel_id:
                return event
        return None


def calls(entry: Entry, user_id: int) -> bool:
    """Return whether an agent's message mentions a user or replies to one. Hidden messages and webhooks' call
    nobody."""
    if entry.speaker.kind != "agent" or entry.speaker.webhook or entry.hidden or entry.speaker.id == user_id:
        return False
    return entry.addressees.has(user_id)


def find_earlier_posts(message: Entry, entries: Sequence[Entry], instructed: Collection[int]) -> list[Entry]:
    """Return the agents' posts of their own accord since the last person's message, newest first; `entries` oldest
    first."""
    earlier = (entry for entry in reversed(entries) if entry.id < message.id)
    among_agents = takewhile(lambda entry: entry.speaker.kind != "person", earlier)
    return [entry for entry in among_agents if entry.speaker.kind == "agent" and entry.id not in instructed]


def count_links(message: Entry, before: Sequence[Entry]) -> int:
    """Return the length of the chain of calls behind a message; `before` is the result of `find_earlier_posts`."""
    count, current = 0, message
    for entry in before:
        if entry.speaker.id != current.speaker.id and calls(entry, current.speaker.id):
            count, current = count + 1, entry
    return count


def has_called_before(message: Entry, before: Sequence[Entry], user_id: int) -> bool:
    """Return whether an earlier message in an unbroken row by the same agent called the user."""
    row = takewhile(lambda entry: entry.speaker.id == message.speaker.id, before)
    return any(calls(entry, user_id) for entry in row)


def last_person(message: Entry, entries: Sequence[Entry]) -> Entry | None:
    """Return the person's message that set off the chain of a message."""
    earlier = (entry for entry in reversed(entries) if entry.id < message.id)
    return next((entry for entry in earlier if entry.speaker.kind == "person"), None)


# -- message commands -------------------------------------------------------------------------------------------------


class MessageCommands:
    """Carries out the commands that are for `agent`. A command is for the agent it mentions or replies to, otherwise
    for the agent that spoke last in the channel. The message is deleted in the background, if the bot may do that."""

    def __init__(
        self, agent: Agent, services: Services, channels: AgentChannels, queue: TurnQueue, busy: BusyReplies
    ) -> None:
        self._agent, self._services, self._channels, self._queue, self._busy = agent, services, channels, queue, busy

    async def on_message(self, asked: Entry, channel_id: int, theme: str, call: Call | None) -> None:
        command, outlet = parse_m(asked.text), self._channels.outlet_of(channel_id)
        if command is None or outlet is None:
            return
        await outlet.view.ensure_history()
        entries, agent_of = outlet.view.transcript.entries(), self._services.chats.directory.agent_of
        if call is None:
            names_an_agent = any(agent_of(user_id) for user_id in asked.addressees)
            if names_an_agent or last_speaker(entries, asked.id) != self._agent.key:
                return
        replies, reacts_to = outlet.sink.command_replies, None
        if replies is not None and replies.discard(asked.id):  # reactions go to the message before it
            before = (entry.id for entry in reversed(entries) if entry.id < asked.id and not entry.hidden)
            reacts_to = next(before, None)
        event = self._services.mention(
            asked, outlet.view.channel_id, theme, to_all=call is Call.ROLE, continues=True, signs_at=reacts_to
        )
        if command == "context":
            await self._show_context(event, outlet, replies)
        elif not self._queue.enqueue(event) and event.id not in self._queue:
            self._busy.reply(outlet.sink, event)

    async def _show_context(self, event: MentionEvent, outlet: Outlet, replies: CommandReplies | None) -> None:
        """Show the first request that the model would get, with its tools."""
        asked, agent = event.asked, self._agent
        if replies is None:
            return
        if not asked.speaker.may_manage:
            await replies.reply(asked.id, MANAGERS_ONLY, f"{event.id}:rights")
            return
        state = TurnState(self._services.state, agent.key, event.id)
        turn = Turn(agent=agent, outlet=outlet, event=event, state=state)
        mode = mode_of(turn, await build_view(turn))
        prompt, history = mode.request(0.0)
        first = ToolUse(turn, mode).loop(prompt).first_prompt()
        note, text = f"what {agent.me.display_name} sees", format_request(first, history)
        await replies.send_file(f"context-{agent.key}.txt", text, note, f"{event.id}:context")


def last_speaker(entries: Sequence[Entry], before: int) -> str | None:
    """Return the agent that spoke last before a message, as agents see the channel."""
    spoken = (entry for entry in reversed(entries) if entry.id < before and entry.speaker.agent is not None)
    return next((entry.speaker.agent for entry in spoken if is_visible(entry)), None)


def find_commanded_agent(asked: Entry, entries: Sequence[Entry]) -> str | None:
    bare = asked.hidden and asked.addressees == NOBODY_CALLED and parse_m(asked.text) is not None
    return last_speaker(entries, asked.id) if bare else None


def format_request(prompt: Prompt, history: Sequence[Message]) -> str:
    """Format a request to a model for people: each part under its role, with its pictures and cache markers."""
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
        parts.append(("search", "The model can use its provider's web search."))
    if prompt.tools:
        tools = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in prompt.tools]
        parts.append(("tools", json.dumps(tools, ensure_ascii=False, indent=1)))
    if prompt.stop:
        parts.append(("stop sequences", "\n".join(map(repr, prompt.stop))))
    return "\n\n".join(f"{RULE} {head}\n{text}" for head, text in parts)
