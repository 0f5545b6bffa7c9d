"""What an agent sees when it begins to think: the channel as far as it matters, and what the turn is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_cogs.agent import Agent, Outlet
from agent_cogs.contract import CONTRACT
from agent_cogs.ending import trigger_of
from agent_cogs.events import InstructionEvent, MentionEvent, TurnEvent
from agent_cogs.gathering import question
from agent_cogs.sessions import after
from agent_context.build import TurnContext, shown
from agent_context.depth import Depth
from agent_context.entries import Entry
from agent_context.merge import merge_history
from agent_context.options import MAX_MESSAGES, Options
from agent_context.window import Window, conversation_entries
from agent_discord.mentions import clean_name
from agent_llm.types import Picture
from agent_themes import theme_named

HINTS = 2  # openings that a starter is offered


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """`pictures` by message id, `files` (texts) by attachment id: what is shown beside the words. `newest` is the
    channel's newest message when it was looked at."""

    context: TurnContext
    options: Options
    newest: int
    pictures: Mapping[int, tuple[Picture, ...]] = field(default_factory=dict)
    files: Mapping[int, str] = field(default_factory=dict)


class Eyes:
    """One turn's look at its channel. `closing`: it is the conversation's last turn."""

    def __init__(self, agent: Agent, outlet: Outlet, event: TurnEvent, *, can_draw: bool) -> None:
        self.agent, self.outlet, self.event, self.can_draw = agent, outlet, event, can_draw
        self.reset = 0  # the last message that is context no longer

    def options(self) -> Options:
        """What is set for the agent in this channel."""
        return Options(max_messages=min(self.agent.context_size, MAX_MESSAGES))

    async def look(self, *, closing: bool) -> Sight:
        await self.outlet.settle()
        self.reset = await self.agent.reset(self.event.channel_id)
        agent, event, options, theme = self.agent, self.event, self.options(), theme_named(self.event.theme)
        trigger, window = trigger_of(event), self._window(options, theme.window_share)
        topic, round_number, started_with = None, 1, None
        if isinstance(event, InstructionEvent):
            topic, round_number = event.instruction.topic, event.instruction.round_number
            started_with = min(history_ids(event), default=None) if agent.barge_in != "ignore" else None
        context = TurnContext(
            me=agent.identity,
            theme=theme,
            channel_name=self.outlet.name,
            window=window,
            trigger=trigger,
            now=agent.clock(),
            timezone=agent.timezone,
            contract=CONTRACT,
            target=self._target(window),
            topic=topic,
            started_with=started_with,
            round_number=round_number,
            can_draw=self.can_draw,
            searches=(theme.search or trigger == "starter") and not closing,
            closing=closing,
            hints=tuple(agent.rng.sample(theme.topic_hints, HINTS)) if trigger == "starter" else (),
        )
        newest = self.outlet.transcript.newest
        return Sight(
            context=context, options=options, newest=newest, pictures=await self.outlet.pictures(window.entries)
        )

    def _window(self, options: Options, share: float) -> Window:
        """A conversation is seen from before its start to now, anything else by its last messages."""
        agent, event, transcript = self.agent, self.event, self.outlet.transcript
        entries: Sequence[Entry] = transcript.entries()
        kind = "recent"
        if isinstance(event, InstructionEvent) and not event.cools_down:
            history = event.instruction.conversation_history
            names = {**{record.agent: clean_name(record.agent) for record in history}, **agent.names}
            entries = after(shown(merge_history(entries, history, names, transcript.deleted)), self.reset)
            entries = conversation_entries(entries, history_ids(event))
            kind, share = "conversation", 1.0
        else:
            entries = after(shown(entries), self.reset)
        depth = Depth.of(options, share)
        return agent.windows.lay(event.channel_id, kind, entries, agent.clock(), depth, whole=kind == "conversation")

    def _target(self, window: Window) -> Entry | None:
        """The message that the turn is about, as it reads now."""
        event, transcript = self.event, self.outlet.transcript
        if isinstance(event, MentionEvent):
            return question(event, transcript) or event.asked
        if isinstance(event, InstructionEvent) and event.instruction.trigger_message_id is not None:
            return transcript.get(event.instruction.trigger_message_id)
        heard = window.entries
        if isinstance(event, InstructionEvent) and self.agent.barge_in == "ignore":
            heard = tuple(entry for entry in heard if entry.speaker.kind != "person")
        others = (entry for entry in reversed(heard) if entry.speaker.agent != self.agent.key)
        return next(others, None)


def history_ids(event: InstructionEvent) -> list[int]:
    """The messages of the conversation so far that have an id."""
    return [entry.message_id for entry in event.instruction.conversation_history if entry.message_id is not None]
