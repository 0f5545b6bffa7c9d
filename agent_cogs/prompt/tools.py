"""The tools of a turn: which there are, how they are run around the model, what is kept and shown of them.

    sight.options, model ─ box_of ─ agent_tools.loop ┬─ records (ToolRecords), for later contexts (tool_lines.py)
                                                     └─ a post by webhook (showing.py), where the option says so

A loop that a crash cut off is made anew from its beginning: only the last answer is kept (progress.py). What the tools
brought in the first run is in the records, so no call that went well is run once more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from agent_chat.outlet import Outlet
from agent_cogs.agent import Agent
from agent_cogs.events import POST_SECONDS, TurnEvent
from agent_cogs.prompt.view import TurnView
from agent_llm.profiles import PROVIDERS, Profile, profile_of
from agent_llm.types import Picture, Prompt, Reply
from agent_tools.builtin.memory import NAME as MEMORY
from agent_tools.call_log.call import ToolRecord
from agent_tools.call_log.rendering import record_text
from agent_tools.loop import run_tools, run_within
from agent_tools.protocol import RunnableTool, ToolContext
from agent_tools.running import ToolEvent
from agent_tools.toolbox import Toolbox, gathered

REPAIR_CHARACTERS = 8_000  # of each result, where an answer is asked for once more

Ask = Callable[[Prompt], Awaitable[Reply]]


@lru_cache(maxsize=64)
def profile(model_name: str) -> Profile:
    """Of `provider/model`; a provider of another name is an OpenAI-compatible address."""
    provider, _, model = model_name.partition("/")
    return profile_of(provider if provider in PROVIDERS else "compatible", model)


def searches_itself(model_name: str) -> bool:
    """The model has a web search of its own, also beside other tools."""
    known = profile(model_name)
    return bool(known.search) and known.tools_with_search


def box_of(agent: Agent, sight: TurnView, *, prefilled: bool = False) -> Toolbox:
    """The agent's tools in this channel: none in a conversation's last turn. In prefill mode they are words, so any
    model can call them, and none searches by itself. A model with a loop of its own has its memory alone."""
    options, model = sight.options, agent.model
    takes_any = not prefilled if model.own_loop else prefilled or profile(model.name).tools
    if sight.context.closing or not options.max_tool_depth or not takes_any:
        return Toolbox()
    box = agent.toolbox(options.tools, not prefilled and searches_itself(model.name))
    return box.allowed((MEMORY,)) if model.own_loop else box


@dataclass(slots=True, kw_only=True)
class ToolUse:
    """One turn's. `may_go_on` is asked before each further completion. `acts` are tools of this turn alone, of which
    nothing is kept and nothing shown."""

    agent: Agent
    outlet: Outlet
    event: TurnEvent
    sight: TurnView
    box: Toolbox
    may_go_on: Callable[[], Awaitable[bool]]
    acts: Sequence[RunnableTool] = ()
    speaker: str = ""
    _records: dict[str, ToolRecord] = field(default_factory=dict)

    async def run(self, ask: Ask, prompt: Prompt) -> Reply:
        """The model's last answer; `ask` books what each of its calls costs. Raises what `ask` and `may_go_on` do."""
        box, context, clock = self.box, self._context(), self.agent.clock
        if self.agent.model.own_loop:
            within = await run_within(
                ask, prompt, box, context=context, seen=self._seen, clock=clock, earlier=self._earlier()
            )
            return within.reply
        if self.acts:
            box, _ = gathered((*self.acts, *(tool for name in box.names if (tool := box.get(name)))))
        outcome = await run_tools(
            ask,
            prompt,
            box,
            context=context,
            max_depth=max(1, self.sight.options.max_tool_depth),
            seen=self._seen,
            clock=clock,
            may_go_on=self.may_go_on,
            speaker=self.speaker,
            earlier=self._earlier(),
        )
        return outcome.reply

    @property
    def brought(self) -> str:
        """What the tools have brought by now, in words; "" for nothing."""
        key, records = self.agent.key, {record.id: record for record in self._earlier()} | self._records
        return "\n".join(record_text(key, record, REPAIR_CHARACTERS) for record in records.values())

    def _earlier(self) -> Sequence[ToolRecord]:
        """What this turn has called before the program was cut off in it."""
        agent, event = self.agent, self.event
        if agent.tool_records is None:
            return ()
        kept = agent.tool_records.for_channel(agent.key, event.channel_id)
        return [record for record in kept if record.turn_id == event.id]

    def _context(self) -> ToolContext:
        context = self.sight.context
        answered = context.target if context.trigger in ("mention", "reactive") else None
        asks = answered is not None and answered.speaker.kind == "person"
        return ToolContext(
            agent=self.agent.key,
            channel_id=self.event.channel_id,
            guild_id=self.outlet.view.guild_id,
            asked_by=answered.speaker.id if answered is not None and asks else self.event.person_id,
            deadline=self.event.deadline - POST_SECONDS,
            turn_id=self.event.id,
            after_message_id=self.sight.newest,
            fit=self._fit if self.agent.fitted is not None else None,
        )

    async def _fit(self, picture: Picture) -> Picture | None:
        return await self.agent.fitted(picture, self.agent.model.fit) if self.agent.fitted is not None else picture

    def _seen(self, event: ToolEvent) -> None:
        record = event.record
        if any(act.spec.name == record.name for act in self.acts):
            return
        self._records[record.id] = record
        if self.agent.tool_records is not None:
            self.agent.tool_records.add(record)
        if self.sight.options.tool_output_visible:
            self.agent.show_tools(self.outlet.view, event)


def belongs_to(agent: Agent, event: TurnEvent, message_id: int | None) -> None:
    """The turn's tools led to this post."""
    if agent.tool_records is not None and message_id is not None:
        agent.tool_records.belongs_to(agent.key, event.channel_id, event.id, message_id)
