"""Ask the agent's model, with its tools, until there is a decision.

    kept decision, or a cheap model's skip (gate.py) ─────────────────────────┐
    PrefillMode or ChatMode ─ ToolUse (tools.py) ─ a repair, where there must be ─ decision
                   └ a search before it, where the option says so (search_first.py)

An answer is parsed once. Each call of the model is made and booked by model_call.py.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from functools import partial

from agentic.agent.agent import Turn
from agentic.llm.errors import PrefillRefused
from agentic.llm.markup import NOTHING_KNOWN, KnownSources
from agentic.llm.turns import cut
from agentic.llm.types import Prompt, Reply, Source
from agentic.turn.chat_mode import ChatMode, ModelRequest
from agentic.turn.decision import Decision, UnreadableDecision, decided, fields_of, parse_decision, spoken
from agentic.turn.gate import skips
from agentic.turn.model_call import affords, call_model, may_continue, seconds_left
from agentic.turn.prefill_mode import PrefillMode
from agentic.turn.search_first import SearchFirst, fallback_source, fetched_pages, found_pages
from agentic.turn.streaming import StreamFilter, streamed
from agentic.turn.tools import ToolUse, toolbox_of
from agentic.turn.view import TurnView

log = logging.getLogger(__name__)

AnswerMode = ChatMode | PrefillMode
Answered = tuple[Decision, tuple[Source, ...]]  # and the web pages that its words rest on


async def decide(turn: Turn, view: TurnView) -> Answered:
    """Ask the model; where its answer cannot be read once more, in a forced turn or if that costs nothing. Small models
    on the owner's machine often forget the form while tools are offered; the second time none are.

    Raises UnreadableDecision, ModelError, TurnOver("deadline") or ("budget"), and CannotPost.
    """
    if turn.agent.asks_cheaply and await skips(turn, view):
        return Decision(skip=True), ()
    async with streamed(turn, view.options, names_of(turn, view)) as stream:
        mode = mode_of(turn, view)
        if isinstance(mode, PrefillMode):
            try:
                return await _ask(turn, mode, stream)
            except PrefillRefused as error:
                turn.agent.prefill.refused(error)
                mode = ChatMode(view, mode.cache_key)
        return await _ask(turn, mode, stream)


def kept_decision(turn: Turn, view: TurnView, text: str) -> Decision:
    """The decision that an earlier run of the program kept. Raises UnreadableDecision."""
    return _ruled(turn, ChatMode(view, ""), parse_decision(text))


def mode_of(turn: Turn, view: TurnView) -> AnswerMode:
    """The mode that is set for the channel, as far as the model takes it."""
    cache_key = f"{turn.agent.key}:{turn.event.channel_id}"
    if view.options.mode == "prefill" and turn.agent.prefill.takes(turn.agent.model.name):
        return PrefillMode(view, cache_key, forced=turn.event.forced)
    return ChatMode(view, cache_key)


def tools_of(turn: Turn, mode: AnswerMode, may_go_on: Callable[[], Awaitable[bool]]) -> ToolUse:
    """The tools that are offered in this mode; `may_go_on` is asked before each further completion."""
    return ToolUse(
        turn=turn,
        view=mode.view,
        box=toolbox_of(turn.agent, mode.view, prefilled=isinstance(mode, PrefillMode)),
        may_continue=may_go_on,
        actions=mode.tools,
        speaker=mode.speaker,
    )


async def _ask(turn: Turn, mode: AnswerMode, stream: StreamFilter | None) -> Answered:
    tools, search = tools_of(turn, mode, partial(may_continue, turn)), None
    if mode.view.context.search_first:
        search = SearchFirst(turn, mode.view, prefilled=isinstance(mode, PrefillMode))
        tools.box = search.within(tools.box)
    try:
        decision, sources = _read(turn, mode, await _reply(turn, mode, stream, tools, search), tools)
    except UnreadableDecision as error:
        worth_it = turn.event.forced or turn.agent.model.tariff.free
        if not worth_it or not await affords(turn, 1):
            raise
        log.info("%s: asking once more, the answer could not be read: %s", turn.agent.key, error.reason)
        repaired = await _repaired(turn, mode, stream, tools, search, error.reason)
        decision, sources = _read(turn, mode, repaired, tools)
    return decision, sources or fallback_source(decision.text, found_pages(tools.records))


async def _reply(
    turn: Turn, mode: AnswerMode, stream: StreamFilter | None, tools: ToolUse, search: SearchFirst | None
) -> Reply:
    """The model's answer; after a search, where one is wanted first."""
    found = await search.by_program(tools) if search is not None and not search.offered else None
    request = _streamed(_after(mode, found).request(seconds_left(turn), found or ""), mode, stream)

    async def ask(prompt: Prompt) -> Reply:
        return await call_model(turn, prompt, request.history)

    reply = await tools.run(ask if search is None else search.asking(ask), request.prompt)
    found = await _made_up_for(turn, mode, tools, search, reply) if search is not None else None
    if found is None:
        return reply
    again = _streamed(_after(mode, found).request(seconds_left(turn), found), mode, stream)
    return await call_model(turn, again.prompt, again.history)


async def _made_up_for(turn: Turn, mode: AnswerMode, tools: ToolUse, search: SearchFirst, reply: Reply) -> str | None:
    """The results of a search for an answer without one. What nobody waits for is searched for by its own words, and
    not where the agent stays silent."""
    if turn.event.forced:
        return await search.made_up_for(tools)
    try:
        said = mode.decision(reply.text)
    except UnreadableDecision:
        return None
    return None if said.is_empty else await search.made_up_for(tools, said.text)


async def _repaired(
    turn: Turn, mode: AnswerMode, stream: StreamFilter | None, tools: ToolUse, search: SearchFirst | None, reason: str
) -> Reply:
    """The answer that is asked for once more, without tools: it is given the results of all that were run."""
    if search is not None and not search.made:
        await search.by_program(tools)
    after = mode if search is None else mode.searched()
    request = _streamed(after.repair(seconds_left(turn), reason, tools.results), mode, stream)
    return await call_model(turn, request.prompt, request.history)


def _after(mode: AnswerMode, found: str | None) -> AnswerMode:
    return mode if found is None else mode.searched()


def _streamed(request: ModelRequest, mode: AnswerMode, stream: StreamFilter | None) -> ModelRequest:
    """The request, with a listener where a person reads the answer as it grows."""
    if stream is None:
        return request
    return replace(request, prompt=replace(request.prompt, on_text=stream.listener(mode.words, mode.prompt_lines)))


def _read(turn: Turn, mode: AnswerMode, reply: Reply, tools: ToolUse) -> Answered:
    known = _known_sources(mode.view, reply, tools)
    try:
        decision = mode.decision(reply.text)
    except UnreadableDecision:
        words = _words(turn, mode, reply, known) if turn.event.forced else None
        if words is None:
            raise
        decision = words
    decision = _ruled(turn, mode, decision, known)
    turn.trace.decided(fields_of(decision))
    return decision, reply.sources


def _known_sources(view: TurnView, reply: Reply, tools: ToolUse) -> KnownSources:
    """What the answer may link to: pages that were found or read in this turn, and what people in the window named."""
    fetched = [Source("", url) for url in fetched_pages(tools.records)]
    people = (entry for entry in view.context.window.entries if entry.speaker.kind == "person")
    named = [text for entry in people for text in (entry.text, *entry.extras)]  # a forward names addresses, too
    return KnownSources((*reply.sources, *found_pages(tools.records), *fetched), named)


def _words(turn: Turn, mode: AnswerMode, reply: Reply, known: KnownSources) -> Decision | None:
    """An answer without the form: a person who waits gets its words."""
    names = names_of(turn, mode.view)
    return spoken(reply.text, names, mode.prompt_lines, cut=reply.stop == "length", known=known)


def _ruled(turn: Turn, mode: AnswerMode, decision: Decision, known: KnownSources = NOTHING_KNOWN) -> Decision:
    """The decision under the rules of the turn."""
    context = mode.view.context
    if decision.text is not None:  # as stop sequences of the request they would end the form, not its words
        decision = replace(decision, text=cut(decision.text, mode.view.options.stop))
    return decided(
        decision,
        forced=turn.event.forced,
        always_draw=context.theme.always_draw,
        can_draw=context.can_draw,
        names=names_of(turn, mode.view),
        prompt=mode.prompt_lines,
        may_leave=context.room is not None,
        names_next=context.room is not None and context.room.names_next,
        known=known,
    )


def names_of(turn: Turn, view: TurnView) -> Collection[str]:
    """The names that the agent goes by."""
    me = turn.agent.identity
    return tuple(dict.fromkeys((me.display_name, me.key, view.context.me.display_name)))
