"""What an agent sees when it begins to think: the channel as far as it matters, and what the turn is about."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent_chat.attachments import Look
from agent_chat.outlet import Outlet
from agent_chat.text_files import TextFile
from agent_cogs.agent import Agent
from agent_cogs.answer.schema import CONTRACT
from agent_cogs.events import ErrandEvent, InstructionEvent, MentionEvent, TurnEvent, looks_things_up, trigger_of
from agent_cogs.persona.options import reach_of
from agent_cogs.prompt.conversation import after
from agent_cogs.prompt.history import renamed, source_of
from agent_cogs.prompt.question import question
from agent_cogs.prompt.tool_lines import forget_before, tool_lines
from agent_context.build import Identity, TurnContext, seen
from agent_context.entries import Entry
from agent_context.selecting.depth import Depth
from agent_context.selecting.history import Resolved, malformed
from agent_context.selecting.merge import merge_history
from agent_context.selecting.selection import Chosen
from agent_context.selecting.window import Window, conversation_entries
from agent_context.steering.options import Options
from agent_discord.objects.mentions import clean_name, strip_mention
from agent_llm.types import Picture
from agent_themes import theme_named
from agent_tools.toolbox import WEB_SEARCH, is_allowed

HINTS = 2  # openings that a starter is offered


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """`pictures` by message id, `files` (texts) by attachment id: what is shown beside the words. `newest` is the
    channel's newest message when it was looked at."""

    context: TurnContext
    options: Options
    newest: int
    reset: int = 0  # the last message that is context no longer
    pictures: Mapping[int, tuple[Picture, ...]] = field(default_factory=dict)
    files: Mapping[int, str] = field(default_factory=dict)


class ViewBuilder:
    """One turn's look at its channel, in the stages of agent_context.build. `closing`: the conversation's last turn."""

    def __init__(self, agent: Agent, outlet: Outlet, event: TurnEvent, *, can_draw: bool) -> None:
        self.agent, self.outlet, self.event, self.can_draw = agent, outlet, event, can_draw
        self.reset = 0  # the last message that is context no longer

    def options(self) -> Options:
        """What is set for the agent in this channel."""
        return self.agent.options_for(self.outlet)

    async def look(self, *, closing: bool) -> TurnView:
        agent, event, theme = self.agent, self.event, theme_named(self.event.theme)
        options = await self._settled()
        told = await agent.persona_prompt(event.channel_id, options)
        self.reset = await agent.reset(event.channel_id)
        may_search = is_allowed(WEB_SEARCH, options.tools)  # whoever searches: the model's maker, or a tool of ours
        theme = replace(theme, search=theme.search and may_search)
        inner = agent.options.inner_names(self.outlet.view)
        self.outlet.sink.know_as(inner)
        share = 1.0 if agent.options.of(agent.key, self.outlet.view).own_depth else theme.window_share
        window, chosen = await self._window(options, share, inner)
        trigger = trigger_of(event)
        given = event.instruction if isinstance(event, InstructionEvent) else None
        context = TurnContext(
            me=self._identity(inner),
            theme=theme,
            channel_name=self.outlet.view.name,
            window=window,
            trigger=trigger,
            now=agent.clock(),
            timezone=agent.timezone,
            contract=CONTRACT,
            target=self._target(window),
            topic=given.topic if given else None,
            started_with=self._started_with(),
            round_number=given.round_number if given else 1,
            can_draw=self.can_draw,
            searches=(theme.search or trigger == "starter" or looks_things_up(event)) and may_search and not closing,
            closing=closing,
            errand=event.errand if isinstance(event, ErrandEvent) else None,
            persona=told.stable,
            memory=told.memory,
            hints=tuple(agent.rng.sample(theme.topic_hints, HINTS)) if trigger == "starter" else (),
        )
        newest = self.outlet.view.transcript.newest
        pictures, files = await self._attached(window, chosen, options)
        return TurnView(
            context=context, options=options, newest=newest, reset=self.reset, pictures=pictures, files=files
        )

    def _started_with(self) -> int | None:
        """The running conversation's first message, where what people say in it since is to be heard."""
        if not isinstance(self.event, InstructionEvent) or self.agent.barge_in == "ignore":
            return None
        return min(history_ids(self.event), default=None)

    async def _settled(self) -> Options:
        """The options, when the channel's past is known as far as they want to see it, and its pins."""
        options = self.options()
        for _ in range(2):  # pins, once they are known, may ask for more
            for view in filter(None, (self.outlet.view, self.outlet.view.parent)):
                view.transcript.deepen(reach_of(options))
            await self.outlet.view.settle()
            before, options = options, self.options()
            if options is before:  # the book gives the same object for as long as nothing changes
                break
        self._tell_faults(options)
        return options

    def _tell_faults(self, options: Options) -> None:
        if self.agent.pin_reporter is not None:
            in_force, roles = self.agent.options.of(self.agent.key, self.outlet.view), options.history_roles
            histories = malformed(self.outlet.view.transcript.entries(), roles=roles, names=in_force.names)
            pins = (fault for pin in in_force.pins for fault in pin.faults)
            self.agent.pin_reporter.report((*pins, *histories), self.outlet)

    def _identity(self, inner: Mapping[str, str]) -> Identity:
        """Who the agent is where these inner names hold."""
        me = self.agent.identity
        if not inner:
            return me
        others = tuple(inner.get(key, name) for key, name in self.agent.names.items() if key != me.key)
        return replace(me, display_name=inner.get(me.key, me.display_name), others=others)

    async def _window(self, options: Options, share: float, inner: Mapping[str, str]) -> tuple[Window, Chosen]:
        """A conversation is seen from before its start to now, anything else by its last messages."""
        agent, event, channel_id = self.agent, self.event, self.event.channel_id
        kind, whole, seen_all = "recent", False, await self._seen(options, inner)
        entries = seen_all.entries
        if isinstance(event, InstructionEvent) and not event.cools_down:
            entries = conversation_entries(entries, history_ids(event))
            kind, whole, share = "conversation", True, 1.0
        await agent.keeper.restore(channel_id, kind)
        # A prefix may come from several places, in any order.
        first = min((entry.id for entry in (*seen_all.prefix, *entries[:1])), default=0)
        if kind == "recent":
            forget_before(agent, channel_id, first)
        window = agent.windows.lay(
            channel_id,
            kind,
            entries,
            agent.clock(),
            Depth.of(options, share),
            prefix=seen_all.prefix,
            tools=tool_lines(agent, channel_id, first),
            marker_depth=options.marker_depth,
            whole=whole,
        )
        most = min(options.max_images, agent.model.max_pictures)
        chosen = agent.windows.choose(channel_id, kind, window, options.model_copy(update={"max_images": most}))
        if window.fresh:
            agent.keeper.keep(channel_id, kind)
        return window, chosen

    async def _seen(self, options: Options, inner: Mapping[str, str]) -> Resolved:
        """Stages 1 to 4."""
        agent, event, transcript = self.agent, self.event, self.outlet.view.transcript
        entries: Sequence[Entry] = transcript.entries()
        history = event.instruction.conversation_history if isinstance(event, InstructionEvent) else ()
        if history and not event.cools_down:
            names = {**{record.agent: clean_name(record.agent) for record in history}, **agent.names}
            entries = merge_history(entries, history, names, transcript.deleted)
        entries = after(entries, self.reset)
        names_here = agent.options.of(agent.key, self.outlet.view).names
        source = await source_of(self.outlet.view, entries, options, names_here, reset=self.reset)
        ids = {agent.user_id(key): (agent.names[key], name) for key, name in inner.items()}
        called = {user_id: both for user_id, both in ids.items() if user_id is not None}
        return seen(renamed(source, called), options, names_here, inner)

    async def _attached(
        self, window: Window, chosen: Chosen, options: Options
    ) -> tuple[Mapping[int, tuple[Picture, ...]], Mapping[int, str]]:
        """Pictures by message id and texts by attachment id."""
        if not (chosen.pictures or chosen.files):
            return {}, {}
        units = [unit for entry in window.entries for unit in entry.units]
        look = Look(len(chosen.pictures), self.agent.model.fit)
        pictures = self.outlet.view.pictures(Chosen(pictures=chosen.pictures).of(units), look)
        texts = self.outlet.view.text_files(
            Chosen(files=chosen.files).of(units), max_characters=options.max_file_characters, most=len(chosen.files)
        )
        shown, read = await asyncio.gather(pictures, texts)
        return shown, {attachment_id: quoted(file) for attachment_id, file in read.items()}

    def _prompt(self, asked: Entry) -> Entry:
        """What is asked, without the mention that calls the agent; the transcript above has all of it."""
        said = strip_mention(asked.text, (f"@{self.outlet.view.own_name}",))
        return replace(asked, text=said) if said else asked

    def _target(self, window: Window) -> Entry | None:
        """The message that the turn is about, as it reads now."""
        event, transcript = self.event, self.outlet.view.transcript
        if isinstance(event, ErrandEvent):
            return None
        if isinstance(event, MentionEvent) and not event.continues:
            asked = question(event, transcript) or event.asked
            return self._prompt(asked) if event.by_person else asked
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


def quoted(file: TextFile) -> str:
    """A file's text, and how much of it is not shown."""
    return f"{file.text}\n… ({file.left_out:,} more characters)" if file.left_out else file.text
