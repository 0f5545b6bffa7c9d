"""Gather the context of a turn: the relevant part of the channel, and the message or task to answer.

People write in pieces. A message that a person adds while their question waits in its lane joins that turn, so the
whole question gets one answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from agentic.agent.agent import Agent
from agentic.agent.events import (
    AutomationEvent,
    InstructionEvent,
    MentionEvent,
    TurnEvent,
    asked_id,
    is_proactive,
    looks_things_up,
    searches_first,
    trigger_of,
)
from agentic.agent.options import EffectiveOptions, reach_of
from agentic.chat.attachments import NOTHING_ATTACHED, AttachmentLimits, TextFile
from agentic.chat.directory import clean_name, strip_mention
from agentic.chat.transcript import Transcript
from agentic.context.entries import Entry, is_visible, units_of
from agentic.context.history import malformed
from agentic.context.options import Options
from agentic.context.prompt import (
    Abilities,
    Answered,
    Identity,
    KeptText,
    Place,
    PromptContext,
    RoomTurn,
    TalkContext,
    Task,
    Trigger,
)
from agentic.context.render import ReplyChain
from agentic.context.small_layout import ANSWER_TOKENS, FORMAT_TOKENS, MESSAGES
from agentic.context.window import Window
from agentic.llm.types import Picture
from agentic.personas.prompt import PersonaPrompt
from agentic.record.memories import MemoryReader
from agentic.state.context import Summary
from agentic.themes import Theme, theme_named
from agentic.tools.own_tools import MEMORY
from agentic.tools.tool import WEB_SEARCH, is_allowed
from agentic.turn.form import form_for
from agentic.turn.history import ChainPlace, FoundChain, build_window, find_reply_chain, history_ids, with_channel_names
from agentic.turn.progress import Turn
from agentic.turn.room_turns import in_room, room_entries, room_summary, room_turn
from agentic.turn.trace import Sources, authors
from agentic.wire.messages import Instruction

HOME_TOKENS = 500  # of an answer by a model on the owner's machines, which writes a few in a second
MAX_IDEAS = 2  # topics that are offered to a starter
NO_SUMMARY = Summary(text="", first=0, upto=0)
ANSWERS: frozenset[Trigger] = frozenset({"mention", "call", "reactive"})  # turns that answer their target


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """The parts of a turn's prompt, as they were when the view was built.

    `names` has the agents with a special name in this channel. `pictures`, by message id, and `files` (their texts), by
    attachment id, are shown with the messages. `newest` is the channel's newest message, `wording` a person's question,
    and `about` the texts of the messages that an unprompted post is about, by id. The context begins after the message
    `reset`. `posted`: the bots' earlier posts in a small model's room, even those before the window.
    """

    context: PromptContext
    options: Options
    newest: int
    names: Mapping[str, str] = field(default_factory=dict)
    wording: str | None = None
    about: Mapping[int, str] = field(default_factory=dict)
    reset: int = 0
    posted: Sequence[Entry] = ()
    pictures: Mapping[int, tuple[Picture, ...]] = field(default_factory=dict)
    files: Mapping[int, str] = field(default_factory=dict)

    def said(self, *, own: bool = True) -> list[str]:
        """Return what a small model may not repeat, the newest last. `own`: include what the agent itself said."""
        entries = (*self.posted, *self.context.window.entries)
        return [entry.text for entry in entries if own or entry.speaker.agent != self.context.me.key]


async def build_view(turn: Turn) -> TurnView:
    """Build the view, in the stages of agentic.context.prompt, and note its sources for the record."""
    with turn.state.trace.phase("context"):
        agent, channel, event = turn.agent, turn.outlet.view, turn.event
        in_force, small = await _fit_options(turn, await _load_options(turn))
        options, toolset = in_force.options, agent.toolset
        if toolset is not None and options.max_tool_depth:
            await toolset.servers.ready(agent.key)
        persona = PersonaPrompt("", "")
        if agent.persona is not None:
            writes = options.max_tool_depth > 0 and MEMORY in agent.toolbox(options.tools, searches=True)
            persona = await agent.persona.prompt(event.channel_id, writes=writes)
        reset = await agent.services.state.context.resets.since(agent.key, event.channel_id)
        names = agent.options.channel_names(channel)
        turn.outlet.sink.set_channel_names(names)
        summary = (await room_summary(turn, reset) if in_room(event) else None) or NO_SUMMARY
        window, chosen = await build_window(turn, in_force, names, reset=reset, begins_after=summary.upto)
        target = find_target_message(turn, window)
        chain = await _find_reply_chain(turn, target, options, reset)
        # The prompt has the part of the chain that the window lacks, under the window's names.
        units = units_of(window.entries)
        shown = {unit.id for unit in units}
        parents = room_entries(chain.entries) if in_room(event) else chain.entries
        lacking = with_channel_names([entry for entry in parents if entry.id not in shown], agent, names)
        attached = await channel.attached(chosen.of(units), _limits(turn, options)) if chosen else NOTHING_ATTACHED
        about = [target, *(each for each in (*units, *lacking) if each.id == target.reply_to)] if target else []
        unseen = [file.filename for entry in about for file in entry.attachments if file.id not in attached.shown]
        given = event.instruction if isinstance(event, InstructionEvent) else None
        room = room_turn(given, names, agent.names)
        theme = theme_named(event.theme)
        if theme.search and not is_allowed(WEB_SEARCH, options.tools):
            theme = replace(theme, search=False)
        task = _build_task(turn, theme, target, ReplyChain(tuple(lacking), chain.summary), tuple(unseen))
        talk = _build_talk(turn, names, room)
        context = PromptContext(
            me=_identity_in_channel(agent, names, room),
            place=Place(
                theme=theme,
                membership=channel.service.membership,
                heading=channel.service.heading.format(channel.name),
                calls=frozenset({*agent.user_ids(agent.names), agent.settings.bots_role_id or 0} - {0}),
                is_thread=channel.parent is not None,
            ),
            window=window,
            task=task,
            talk=talk,
            abilities=_build_abilities(turn, theme, options, task, talk, small=small),
            kept=KeptText(
                persona=persona.stable,
                short=persona.short,
                memory=persona.memory,
                summary=summary.text,
            ),
            now=agent.now(),
            timezone=agent.settings.timezone,
            small=small,
        )
        # Outside of messages, the prompt has words of these people in the agent's memory, and in the summaries of its
        # room and of the reply chain. Pins set names in it.
        people = persona.people | chain.people | summary.people
        quoted = dict.fromkeys((*summary.messages, *chain.sources))
        about_ids: tuple[int, ...] = ()
        if is_proactive(event):
            people, about_ids = people | event.about, (event.reply_to or 0, *event.reflection.message_ids)
            quoted |= dict.fromkeys(event.reflection.message_ids)
        _record_sources(turn, context, {**quoted, **{pin.message_id: pin.author_id for pin in in_force.pins}}, people)
        return TurnView(
            context=context,
            options=options,
            names=names,
            newest=channel.transcript.newest,
            wording=wording(event, channel.transcript),
            about={each: entry.text for each in about_ids if (entry := channel.transcript.get(each)) is not None},
            reset=reset,
            posted=_posts(channel.transcript) if small and room is not None else (),
            pictures=attached.pictures,
            files={key: quote_file(file) for key, file in attached.texts.items()},
        )


def _posts(transcript: Transcript) -> list[Entry]:
    return [each for each in transcript.entries() if each.speaker.agent and not each.speaker.is_service]


def _record_sources(
    turn: Turn, context: PromptContext, quoted: Mapping[int, int | None], people: frozenset[int]
) -> None:
    """Note the prompt's sources for the record."""
    event, state, target = turn.event, turn.state, context.task.target
    state.entries = len(context.window.entries)
    if context.task.trigger == "reactive" and target is not None and target.speaker.kind == "person":
        state.asked_by = target.speaker.id
    asked = authors((event.asked, *event.pieces)) if isinstance(event, MentionEvent) else {}
    state.trace.sources = Sources(context=context, quoted={**quoted, **asked}, people=people)


async def _load_options(turn: Turn) -> EffectiveOptions:
    """Return the options, after loading the channel's pins and as much of its history as the options need."""
    agent, outlet = turn.agent, turn.outlet
    in_force = agent.options.of(agent.key, outlet.view)
    for _ in range(2):  # newly loaded pins may need more history
        for channel in filter(None, (outlet.view, outlet.view.parent)):
            channel.transcript.deepen(reach_of(in_force.options))
        await outlet.view.ensure_history()
        before, in_force = in_force, agent.options.of(agent.key, outlet.view)
        if in_force.options is before.options:  # the same object if nothing changed
            break
    roles, entries = in_force.options.history_roles, outlet.view.transcript.entries()
    faults = [fault for pin in in_force.pins for fault in pin.faults]
    faults += malformed(entries, roles=roles, names=in_force.names)
    agent.options.report(agent.key, faults, outlet)
    return in_force


async def _fit_options(turn: Turn, in_force: EffectiveOptions) -> tuple[EffectiveOptions, bool]:
    """Return the options as the turn's model needs them, and whether it gets the prompt for small models. Automation's
    tasks need the usual one. What the owner has set stays."""
    options, model = in_force.options, turn.model
    small = options.prompt_profile == "small"
    if options.prompt_profile == "auto" and model.home is not None:
        small = await model.home.is_small()
    small = small or (options.mode == "prefill" and model.continues_text)
    small = small and not isinstance(turn.event, AutomationEvent)
    changes: dict[str, Any] = {}
    if "max_output_tokens" not in options.model_fields_set and (small or model.prices.free):
        brief = turn.event.instruction.room if in_room(turn.event) else None
        has_format = brief is not None and bool(brief.format)
        changes["max_output_tokens"] = (FORMAT_TOKENS if has_format else ANSWER_TOKENS) if small else HOME_TOKENS
    if small and not in_force.own_depth:
        changes["max_messages"] = min(options.max_messages, MESSAGES)
    if small and options.tools == ("*",):
        changes["tools"] = ()
    if not changes:
        return in_force, small
    fitted = options.model_copy(update=changes)
    return replace(in_force, options=fitted, own_depth=in_force.own_depth or small), small


def _limits(turn: Turn, options: Options) -> AttachmentLimits:
    return AttachmentLimits(
        min(options.max_images, turn.model.max_pictures) if options.include_images else 0,
        turn.model.image_limits,
        options.max_file_characters if options.include_files else 0,
    )


def _build_task(turn: Turn, theme: Theme, target: Entry | None, chain: ReplyChain, unseen: tuple[str, ...]) -> Task:
    """Build the turn's task. It closes the conversation if the daily budget runs out, or if it's a room's last turn,
    which keeps its tools."""
    event, trigger = turn.event, trigger_of(turn.event)
    given = event.instruction if isinstance(event, InstructionEvent) else None
    is_last = given is not None and given.room is not None and given.room.closing
    chooses_topic = trigger == "starter" and not (given is not None and given.topic)
    return Task(
        trigger=trigger,
        target=target,
        must_answer=given is not None and given.take_up is not None and (target is not None or given.room is None),
        questions=_questions(turn, given),
        closing=turn.state.closing or is_last,
        perspective=given.angle if given else None,
        topic_ideas=tuple(Random(event.id).sample(theme.topic_hints, MAX_IDEAS)) if chooses_topic else (),
        errand=event.task if isinstance(event, AutomationEvent) else None,
        chain=chain,
        unseen=unseen,
    )


def _questions(turn: Turn, given: Instruction | None) -> tuple[Entry, ...]:
    """Return people's messages that a room's turn must answer, if there are several."""
    transcript = turn.outlet.view.transcript
    found = [entry for each in (given.questions if given else ()) if (entry := transcript.get(each)) is not None]
    return tuple(room_entries(found)) if len(found) > 1 else ()


def _build_talk(turn: Turn, names: Mapping[str, str], room: RoomTurn | None) -> TalkContext:
    if not isinstance(turn.event, InstructionEvent):
        return TalkContext(room=room)
    agent, given = turn.agent, turn.event.instruction
    answers = [entry for entry in given.conversation_history if entry.answers_message_id is not None]
    last, answered = max(answers, key=lambda entry: entry.answers_message_id or 0, default=None), None
    if last is not None and last.answers_message_id is not None:
        name = {**agent.names, **names}.get(last.agent) or clean_name(last.agent)
        answered = Answered(last.answers_message_id, name)
    return TalkContext(
        topic=given.topic,
        started_with=min(history_ids(given), default=None) if agent.settings.barge_in != "ignore" else None,
        answered=answered,
        round_number=given.round_number,
        room=room,
    )


def _build_abilities(
    turn: Turn, theme: Theme, options: Options, task: Task, talk: TalkContext, *, small: bool
) -> Abilities:
    event, closing = turn.event, turn.state.closing
    search_first = not (closing or small) and searches_first(event, options) and turn.agent.can_search(options)
    may_look_up = theme.search or trigger_of(event) == "starter" or looks_things_up(event)
    may_search = may_look_up and is_allowed(WEB_SEARCH, options.tools)  # by the provider's search or by our tool
    only_words = task.errand is not None and (task.errand.unasked or task.errand.unheard)
    can_draw = turn.model.can_draw and turn.outlet.sink.may_attach and not (only_words or small)
    reacts = turn.outlet.sink.may_react and not (only_words or small)
    return Abilities(
        contract=form_for(task, talk, can_draw=can_draw, reacts=reacts, small=small).on(turn.outlet.view.service),
        can_draw=can_draw,
        reacts=reacts,
        searches=(may_search and not closing) or search_first,
        search_first=search_first,
        frugal=closing,
    )


def _identity_in_channel(agent: Agent, names: Mapping[str, str], room: RoomTurn | None) -> Identity:
    """Return the agent's identity under the channel's names. In a room it also knows the members' names, which people
    may not use."""
    me = agent.me
    shown = names.get(me.key, me.display_name)
    others = [names.get(key, name) for key, name in agent.names.items() if name in me.others]
    if room is not None:
        others = list(dict.fromkeys((*others, *(name for name in room.names if name != shown))))
    absent = tuple(name for key, name in agent.names.items() if key != me.key and name not in me.others)
    return replace(me, display_name=shown, others=tuple(others), absent=absent)


def find_target_message(turn: Turn, window: Window) -> Entry | None:
    """Return the message that the turn is about, in its current wording."""
    event, transcript = turn.event, turn.outlet.view.transcript
    if isinstance(event, AutomationEvent):
        return None
    if isinstance(event, MentionEvent) and not event.continues:
        # The transcript shows the mention that calls the agent, so the question is given without it.
        asked = question(event, transcript) or event.asked
        text = strip_mention(asked.text, (f"@{turn.outlet.view.own_name}",)) if event.by_person else ""
        return replace(asked, text=text) if text else asked
    if isinstance(event, InstructionEvent) and (message_id := asked_id(event)) is not None:
        # This is a person's message. In a room, people are the audience, and it's the newest one that wasn't deleted
        # while the program was down.
        asked_for = [*event.instruction.questions, message_id] if in_room(event) else [message_id]
        there = [entry for each in asked_for if (entry := transcript.get(each)) is not None]
        return next(iter(room_entries(there[-1:]) if in_room(event) else there), None)
    heard = window.entries
    if isinstance(event, InstructionEvent) and turn.agent.settings.barge_in == "ignore":
        heard = tuple(entry for entry in heard if entry.speaker.kind != "person")
    if in_room(event):  # what people said there is either among the questions, or needs no answer
        heard = tuple(entry for entry in heard if entry.speaker.kind == "agent")
    others = (e for e in reversed(heard) if e.speaker.agent != turn.agent.key and not e.speaker.is_service)
    return next(others, None)


async def _find_reply_chain(turn: Turn, asked: Entry | None, options: Options, reset: int) -> FoundChain:
    """Return the messages that the question replies to. A room's members see only its thread and its summary; after a
    reset, a thread doesn't continue into its parent channel."""
    event, channel, agent = turn.event, turn.outlet.view, turn.agent
    must_answer = isinstance(event, InstructionEvent) and event.instruction.take_up is not None
    if asked is None or not (trigger_of(event) in ANSWERS or must_answer):
        return FoundChain()
    above, ignored = channel.parent if not (reset or in_room(turn.event)) else None, agent.services.agents.ignored

    def may_show(entry: Entry) -> bool:
        is_person = entry.speaker.kind == "person"
        is_ignored = is_person and ignored.has(entry.speaker.id, entry.speaker.roles, channel.guild_id)
        return is_visible(entry) and not is_ignored

    place = ChainPlace(
        transcripts=[view.transcript for view in (channel, above) if view is not None],
        reset=reset,
        may_show=may_show,
        may_tell=lambda people: not any(ignored.has(person, frozenset(), channel.guild_id) for person in people),
    )
    memory = MemoryReader() if in_room(turn.event) else agent.services.record.memory
    return await find_reply_chain(asked, place, options.chain_messages, memory)


def quote_file(file: TextFile) -> str:
    return f"{file.text}\n… ({file.left_out:,} more characters)" if file.left_out else file.text


def question(event: MentionEvent, transcript: Transcript) -> Entry | None:
    """Return the whole question as one message, in its current wording; None if all of it was deleted."""
    parts = [transcript.get(part.id) or part for part in sorted((event.asked, *event.pieces), key=lambda p: p.id)]
    left = [part for part in parts if not is_gone(part.id, transcript)]
    if len(left) < 2:
        return left[0] if left else None
    asked = next((part for part in left if part.id == event.asked.id), left[-1])
    return replace(
        asked,
        text="\n".join(part.text for part in left if part.text),
        attachments=tuple(file for part in left for file in part.attachments),
        extras=tuple(line for part in left for line in part.extras),
    )


def wording(event: TurnEvent, transcript: Transcript) -> str | None:
    """Return the current text of a person's question; None if no person asked."""
    if not isinstance(event, MentionEvent) or not event.by_person or event.continues:
        return None
    asked = question(event, transcript)
    return None if asked is None else asked.text


def is_gone(message_id: int, transcript: Transcript) -> bool:
    """Return whether a message was deleted, or hidden from bots."""
    entry = transcript.get(message_id)
    return message_id in transcript.deleted or (entry is not None and not is_visible(entry))


def is_deleted(event: MentionEvent, transcript: Transcript) -> bool:
    """Return whether all of the question was deleted, except by the bot itself, which deletes message commands."""
    return not event.continues and all(is_gone(part.id, transcript) for part in (event.asked, *event.pieces))


def no_longer_calls(event: MentionEvent, transcript: Transcript, own_ids: Collection[int]) -> bool:
    """Return whether the mention that called the agent was edited out of the question. `own_ids` are the ids that
    mention the agent; a call of all bots mentions their role. A reply calls without a mention."""
    if not event.by_person or event.continues:
        return False
    before, now = set[int](), set[int]()
    for part in (event.asked, *event.pieces):
        current = transcript.get(part.id) or part
        if current.addressees.replied_to in own_ids:
            return False
        before, now = before | part.addressees.mentions, now | current.addressees.mentions
    called = before if event.to_all else before.intersection(own_ids)
    return bool(called) and called.isdisjoint(now)
