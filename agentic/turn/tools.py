"""The tools of a turn: which tools the model gets, how they run, and where their calls are saved and shown.

    options, model ─ toolbox_of ─ agentic.tools.loop ┬─ records (ToolRecords), for later contexts (history.py)
                                                     └─ a webhook post, if the option `tool_output_visible` is on

After a crash a tool loop starts again, since only the final answer is saved (progress.py). The results of the first run
are in the records, so no successful call runs twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentic.agent.events import POST_SECONDS
from agentic.context.prompt import PromptContext
from agentic.llm.provider_table import profile_named
from agentic.llm.types import Prompt, ToolCall, ToolResult
from agentic.tools.call_log import ToolRecord, record_text
from agentic.tools.call_runner import CallRunner, LoopLimits, ToolEvent
from agentic.tools.loop import ToolLoop
from agentic.tools.own_tools import MEMORY, QUOTING, RECALL, THREAD_READ
from agentic.tools.tool import RunnableTool, Toolbox, ToolContext, collect_tools
from agentic.turn.chat_mode import AnswerMode
from agentic.turn.progress import Turn
from agentic.turn.view import TurnView

RECENT_MESSAGES = 20  # in which a person may have named an address that they ask about
REPAIR_CHARACTERS = 8_000  # of each result, if the model is asked again


def searches_itself(model_name: str) -> bool:
    """Return whether the model has its own web search, and it works together with other tools."""
    known = profile_named(model_name)
    return bool(known.search) and known.tools_with_search


def toolbox_of(turn: Turn, view: TurnView, *, prefilled: bool = False) -> Toolbox:
    """Return the agent's tools in this channel; none in a conversation's last turn. In prefill mode any model can call
    tools, since calls are text, and no model searches by itself. A coding agent only gets its memory."""
    agent, options, model = turn.agent, view.options, turn.model
    takes_any = not prefilled if model.runs_own_tools else prefilled or profile_named(model.name).tools
    if view.context.abilities.frugal or not options.max_tool_depth or not takes_any:
        return {}
    box = agent.toolbox(options.tools, searches=not prefilled and searches_itself(model.name))
    if model.runs_own_tools:
        return {name: tool for name, tool in box.items() if name == MEMORY}
    # A room's members see only its thread, so they can't search older messages, but they may read earlier rooms.
    is_here, in_room = agent.services.record.memory.is_here, view.context.talk.room is not None
    left_out = {RECALL: not (options.recall and is_here) or in_room, THREAD_READ: not is_here or not in_room}
    return {name: tool for name, tool in box.items() if not left_out.get(name)}


def words_of_asker(context: PromptContext) -> str:
    """Return the recent messages of the person that the turn answers, one per line."""
    target = context.task.target
    if target is None or target.speaker.kind != "person":
        return ""
    recent = context.window.entries[-RECENT_MESSAGES:]
    said = [entry.text for entry in recent if entry.speaker.id == target.speaker.id and entry.id != target.id]
    return "\n".join((*said, target.text))


class ToolUse:
    """Run the tools of one turn. Calls of the mode's own tools are neither saved nor shown."""

    def __init__(self, turn: Turn, mode: AnswerMode) -> None:
        self._turn, self._mode, self._view = turn, mode, mode.view
        self.box = toolbox_of(turn, mode.view, prefilled=mode.is_prefill)
        self._records: dict[str, ToolRecord] = {}

    def loop(self, prompt: Prompt) -> ToolLoop:
        """Return the loop that asks the model, starting with this prompt."""
        box, context, model = self.box, self._context(), self._turn.model
        if self._mode.tools and not model.runs_own_tools:
            box, _ = collect_tools((*self._mode.tools, *box.values()))
        ends = min(context.deadline, self._turn.agent.now() + prompt.timeout)
        return ToolLoop(
            prompt,
            self._runner(box, context, ends, calls_before(self._turn)),
            max_depth=max(1, self._view.options.max_tool_depth),
            speaker=self._mode.speaker,
            runs_own_tools=model.runs_own_tools,
        )

    async def call(self, tool: RunnableTool, call: ToolCall) -> ToolResult:
        """Run a call that the program makes itself; it's saved and shown like the model's calls."""
        context = self._context()
        (result,) = await self._runner({tool.spec.name: tool}, context, context.deadline, self.records).run((call,))
        return result

    def _runner(self, box: Toolbox, context: ToolContext, ends: float, earlier: Sequence[ToolRecord]) -> CallRunner:
        return CallRunner(box, context, LoopLimits(), self._note, self._turn.agent.now, ends, earlier)

    @property
    def results(self) -> str:
        """The results so far as text; "" without any."""
        key = self._turn.agent.key
        return "\n".join(record_text(key, record, REPAIR_CHARACTERS) for record in self.records)

    @property
    def records(self) -> Sequence[ToolRecord]:
        """The turn's calls so far, including an earlier run's."""
        return tuple(({record.id: record for record in calls_before(self._turn)} | self._records).values())

    def _context(self) -> ToolContext:
        agent, event, context = self._turn.agent, self._turn.event, self._view.context
        known = self._turn.outlet.view.transcript
        answered = context.task.target if context.task.trigger in ("mention", "reactive") else None
        asks = answered is not None and answered.speaker.kind == "person"
        return ToolContext(
            agent=agent.key,
            channel_id=event.channel_id,
            guild_id=self._turn.outlet.view.guild_id,
            asked_by=answered.speaker.id if answered is not None and asks else event.person_id or None,
            asked=words_of_asker(context),
            deadline=event.deadline - POST_SECONDS,
            turn_id=event.id,
            after_message_id=self._view.newest,
            first_message_id=next((entry.id for entry in context.window.entries if entry.id in known), 0),
            fit=lambda picture: agent.services.chats.attachments.fitted(picture, self._turn.model.image_limits),
        )

    def _note(self, event: ToolEvent) -> None:
        record, agent = event.record, self._turn.agent
        if any(tool.spec.name == record.name for tool in self._mode.tools):
            return
        self._turn.state.trace.note_tool(event)
        self._turn.state.trace.note_quotes(event.people, event.messages)
        self._records[record.id] = record
        if record.name in QUOTING:  # it has other people's words, which a deletion or /forget me would have to find
            return
        if agent.tool_records is not None:
            agent.tool_records.add(record)
        if self._view.options.tool_output_visible and agent.display is not None:
            agent.display.show(self._turn.outlet.view, event)


def calls_before(turn: Turn) -> Sequence[ToolRecord]:
    """Return this turn's saved calls, from an earlier run or from before its question was edited."""
    agent, event = turn.agent, turn.event
    if agent.tool_records is None:
        return ()
    kept = agent.tool_records.for_channel(agent.key, event.channel_id)
    return [record for record in kept if record.turn_id == event.id]
