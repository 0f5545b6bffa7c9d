"""Ask a model again what it was asked in a recorded turn, and compare the answers.

    recorded words ─ prompt ─ model ─┬─ an answer ─ decision
                       ▲             └─ tool calls ─ recorded results ─┐
                       └───────────────────────────────────────────────┘

A prompt is what it was to the byte, without its pictures: those are not recorded. The model is the agent's own, another
one by name, or the script that spoke in local mode. A call whose result is not recorded ends the replay: no tool is
run. A turn's second attempt after an unreadable answer (agentic.turn.decide) is not made. What a replay may cost is
reserved, and what it has cost is charged.
"""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, cast, get_args

from agent_config import AgentSettings, Settings
from agentic.agent.limits import ModelPrices
from agentic.agent.persona import Persona
from agentic.llm.errors import ModelError
from agentic.llm.pricing import expected
from agentic.llm.turns import cut_at_stop
from agentic.llm.types import Message, Model, Prompt, Reply, Role, Tool, ToolCall, ToolResult, ToolRound, Usage
from agentic.local.voices.voice import ScriptedVoice
from agentic.personas.prompt import preamble
from agentic.process.redaction import Redactor, own_folders
from agentic.record.queries.turns import Call, Turn
from agentic.runtime.services import provider_model
from agentic.state.budgets import COUNTS, ReplayCosts
from agentic.tools.own_tools import MEMORY
from agentic.tools.prefill_tools import CALL_STOP, TextCall, call_in, continued_prefill, speech_text
from agentic.turn.decision import UnreadableDecision, parse_decision
from agentic.turn.form import Decision, fields_of
from agentic.turn.prefill_mode import SYSTEM_SPEAKS, Actions
from agentic.wire.connection import StateUnavailable
from agentic.wire.entries import CallRecord, CallWords

# Options that are recorded as a Prompt has them. Its conversation is left out: a replay joins no model's session. It is
# not retried either, since each attempt may cost as much as the first.
SAME = (
    *("schema", "schema_name", "search", "max_output_tokens", "cache_key", "since", "cache_ttl", "temperature"),
    *("fields", "labels"),
)
SCRIPTED = "scripted/"
FORCED = ("mention", "continue", "call")  # triggers of a person who waits for words
SETTLED_AFTER = 60.0  # seconds after the last call: a replay is settled by then, or its process is gone
REFUSED = {
    "budget": "today's budget is used up (BUDGET_DAILY_USD)",
    "agent_budget": "the agent's budget for today is used up (BUDGET_AGENT_DAILY_USD)",
}
GONE = {
    "forgotten": "a person had its words deleted with /forget me",
    "deleted": "a message that its prompt quotes was deleted",
    "unreadable": "its words were recorded by another version",
}

Key = tuple[str, str]  # a tool's name, its arguments as JSON
MakeModel = Callable[[AgentSettings], Model]


class NotReplayable(Exception):
    """The turn can't be made again. The text says why, in one line."""


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A turn with its calls of a text model, in order, and the first ones' words. `gone`: why there are none, or ""."""

    turn: Turn
    calls: tuple[CallRecord, ...]
    words: tuple[CallWords, ...]
    gone: str = ""

    @classmethod
    def of(cls, turn: Turn, calls: Sequence[Call]) -> RecordedTurn:
        asked = [call for call in calls if call.record.kind == "text"]
        words = [call.words for call in asked if call.words is not None]
        gone = ""
        if not asked:
            gone = f"no model was called ({turn.reason or turn.outcome})"
        elif asked[0].words is None:
            gone = GONE.get(asked[0].removed or "", "its prompt isn't recorded, or no longer (RECORD_PROMPTS_DAYS)")
        return cls(turn, tuple(call.record for call in asked), () if gone else tuple(words), gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The last completion, and the tokens and US dollars of all calls. `decision`: its fields, None if unreadable."""

    model: str
    text: str
    decision: Mapping[str, Any] | None
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_usd: float

    @property
    def says(self) -> str:
        return self.text if self.decision is None else str(self.decision.get("text") or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`new`: None if the turn couldn't be replayed. `problem`: why, or what it lacks. `same`: equal to the byte."""

    agent: str
    turn_id: str
    round: int | None
    at: float
    trigger: str
    old: Answer
    new: Answer | None = None
    problem: str = ""
    pictures_missing: int = 0
    same: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """A turn that can be replayed. At most, it costs `most_usd` and has `calls` calls, each of which uses `call`."""

    recorded: RecordedTurn
    words: tuple[CallWords, ...]
    model: Model
    call: Usage
    calls: int
    pictures_missing: int

    @property
    def most_usd(self) -> float:
        return self.calls * self.call.cost_usd


class Replayer:
    """Replays turns with `models`, and the `persona` of a folder if given. Calls that cost money ask `costs` for it."""

    def __init__(
        self,
        settings: Settings,
        models: AskedModels,
        costs: ReplayCosts | None,
        *,
        persona: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._models, self._costs = settings, models, costs
        self._persona, self._clock = persona, clock
        self._redact = Redactor(settings.secrets(), own_folders(settings.data_dir))  # as turns' answers are

    def prepare(self, recorded: RecordedTurn) -> Prepared:
        """Raises NotReplayable."""
        if recorded.gone:
            raise NotReplayable(recorded.gone)
        words, turn = recorded.words, recorded.turn
        if self._persona is not None:
            persona = persona_in(self._persona, words)
            words = tuple(with_persona(each, persona) for each in words)
        model, prices = self._models.of(turn.agent, turn.guild_id, words[0].model)
        inputs = [inputs_of(each, least_seconds=0.0) for each in words]
        call = max(
            (prices.worst_case(expected(each.prompt, each.history)) for each in inputs),
            key=lambda usage: usage.cost_usd,
        )
        action = inputs[0].prompt.prefill is not None  # a reaction, after which the words may follow
        calls = 1 + len(RecordedResults(words)) + action
        return Prepared(recorded, words, model, call, calls, inputs[0].pictures_missing)

    async def replay(self, prepared: Prepared) -> Comparison:
        """Ask the model. Raises StateUnavailable, without a call, if it costs money and Redis is unavailable."""
        agent, now = prepared.recorded.turn.agent, self._clock()
        replaying = Replaying(prepared.model, prepared.words, self._redact, self._settings.turn_timeout_seconds)
        replay_id = f"replay-{secrets.token_hex(8)}"
        date = datetime.fromtimestamp(now, self._settings.timezone).date().isoformat()
        if prepared.most_usd and (refused := await self._reserve(agent, replay_id, date, prepared)):
            return compare(prepared.recorded, problem=refused, pictures_missing=prepared.pictures_missing)
        try:
            answer, problem = await replaying.answer()
        finally:  # even if it is canceled
            spent = replaying.usage + (prepared.call if replaying.asking else Usage())
            if prepared.most_usd and self._costs is not None:
                await self._costs.settle(agent, replay_id, date, spent, spent.model or prepared.model.name)
        return compare(prepared.recorded, answer, problem=problem, pictures_missing=prepared.pictures_missing)

    async def _reserve(self, agent: str, replay_id: str, date: str, prepared: Prepared) -> str:
        """Return the line of a refusal, or ""."""
        if self._costs is None:
            raise StateUnavailable("no Redis")
        seconds = max(each.options.get("timeout", 0.0) for each in prepared.words)
        within = prepared.calls * max(seconds, self._settings.turn_timeout_seconds) + SETTLED_AFTER
        refused = await self._costs.reserve(agent, replay_id, date, prepared.most_usd, within)
        return REFUSED[refused] if refused else ""


class AskedModels:
    """Agents' models, each made once. If one was `named`, all turns use it, also a script's or a coding agent's."""

    def __init__(self, settings: Settings, *, named: bool, make_model: MakeModel = provider_model) -> None:
        self._settings, self._named, self._make = settings, named, make_model
        self._made: dict[tuple[str, int | None], tuple[Model, ModelPrices]] = {}

    def of(self, agent: str, guild_id: int | None, recorded_model: str) -> tuple[Model, ModelPrices]:
        if recorded_model.startswith(SCRIPTED) and not self._named:
            return ScriptedVoice(agent, rng=random.Random()), ModelPrices("scripted", agent, None, free=True)
        configured = self._settings.agents.get(agent)
        if configured is None:
            raise NotReplayable(f"the agent {agent} no longer exists; name a model")
        there = configured.elsewhere.get(guild_id or 0)
        key = (agent, guild_id if there is not None else None)
        if key not in self._made:
            self._made[key] = self._make_one(there or configured)
        return self._made[key]

    def _make_one(self, agent: AgentSettings) -> tuple[Model, ModelPrices]:
        if self._named:
            agent = replace(agent, coding=None)
        if agent.coding is not None:
            raise NotReplayable(f"{agent.display_name} is a coding agent, whose tools act; name another model")
        if not agent.usable:
            lacks = ", ".join(dict.fromkeys(model.lacks for model in agent.models if model.lacks))
            raise NotReplayable(f"{agent.display_name} has no usable model here: {lacks} isn't set")
        model = self._make(agent)
        return model, ModelPrices.of(agent, free=model.free)

    async def aclose(self) -> None:
        for model, _ in self._made.values():
            await model.aclose()


# -- the prompt --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Inputs:
    prompt: Prompt
    history: tuple[Message, ...]
    pictures_missing: int


def inputs_of(words: CallWords, *, least_seconds: float) -> Inputs:
    """Return the inputs of a call, with as much time as it had and at least this many seconds. Raises NotReplayable."""
    options = words.options
    try:
        if not {message.role for message in words.history} <= set(get_args(Role)):
            raise ValueError("an unknown role")
        history = tuple(Message(cast(Role, each.role), each.text, cache=each.cache) for each in words.history)
        prompt = Prompt(
            text=words.text,
            system=words.system,
            stable=words.stable,
            prefill=words.prefill,
            retries=0,
            timeout=max(least_seconds, float(options.get("timeout", 0.0))),
            tools=tuple(Tool(**tool) for tool in options.get("tools", ())),
            rounds=tuple(map(_round, options.get("rounds", ()))),
            stop=tuple(options.get("stop", ())),
            **{name: options[name] for name in SAME if name in options},
        )
    except (TypeError, ValueError, KeyError) as error:
        raise NotReplayable("this version can't read its recorded prompt") from error
    pictures = sum(message.pictures for message in words.history) + int(options.get("pictures", 0))
    return Inputs(prompt, history, pictures)


def _round(step: Mapping[str, Any]) -> ToolRound:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in step["calls"])
    results = tuple(
        ToolResult(result["call_id"], result["name"], result["text"], is_error=bool(result.get("is_error")))
        for result in step["results"]
    )
    return ToolRound(calls, results, step.get("text", ""))


def persona_in(folder: Path, recorded: Sequence[CallWords]) -> str:
    """Return the persona of these files as turns show it, with the memory tool if the recorded turn had it.

    Raises NotReplayable for a folder without any persona.
    """
    if not folder.is_dir():
        raise NotReplayable(f"the folder {folder.name} doesn't exist")
    writes = any(preamble(MEMORY).strip() in words.persona for words in recorded)
    persona = Persona(folder.name, folder).system(memory_tool=MEMORY if writes else None).stable.strip()
    if not persona:
        raise NotReplayable(f"{folder.name} has no persona files, such as soul.md")
    return persona


def with_persona(words: CallWords, persona: str) -> CallWords:
    """Return the call with another persona instead of its own; everything else stays, including the agent's notes.

    Raises NotReplayable.
    """
    if not words.persona or words.persona not in words.system:
        raise NotReplayable("its prompt has no persona to replace")
    longer = len(persona) - len(words.persona)
    system = words.system.replace(words.persona, persona, 1)
    stable = words.stable + longer if words.stable else 0
    return words.model_copy(update={"system": system, "stable": stable, "persona": persona})


# -- the answer --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Replaying:
    """A turn that is made again. `recorded`: its calls' words in order. `usage`: until now. `asking`: a call runs."""

    model: Model
    recorded: Sequence[CallWords]
    redact: Callable[[str], str]
    least_seconds: float
    usage: Usage = field(default_factory=Usage, init=False)
    asking: bool = field(default=False, init=False)

    async def answer(self) -> tuple[Answer, str]:
        """Return the answer, and what it lacks in one line, or "". Raises NotReplayable.

        If it is canceled during a call, that call's cost isn't in `usage`.
        """
        inputs = inputs_of(self.recorded[0], least_seconds=self.least_seconds)
        results = RecordedResults(self.recorded)
        ask = self._chat if inputs.prompt.prefill is None else self._prefilled
        try:
            return await ask(inputs.prompt, inputs.history, results)
        except ModelError as error:
            self.asking = False
            self.usage += error.usage or Usage()
            status = f" ({error.status})" if error.status else ""
            return self._end(problem=f"{error.kind}{status}")

    async def _chat(self, prompt: Prompt, history: Sequence[Message], results: RecordedResults) -> tuple[Answer, str]:
        while True:
            reply = await self._ask(prompt, history)
            if not reply.tool_calls:
                try:
                    return self._end(reply.text, parse_decision(reply.text))
                except UnreadableDecision as error:
                    return self._end(reply.text, problem=f"the answer can't be read: {error.reason}")
            step = results.round_of(reply.tool_calls, reply.text, reply.echo)
            if step is None:
                return self._end(reply.text, problem=_wants(results.lacks(reply.tool_calls) or ["a tool twice"]))
            prompt = replace(prompt, rounds=(*prompt.rounds, step))

    async def _prefilled(
        self, prompt: Prompt, history: Sequence[Message], results: RecordedResults
    ) -> tuple[Answer, str]:
        actions = Actions(forced=prompt.labels.get("trigger") in FORCED, can_draw=True, in_conversation=True)
        known = {tool.spec.name: tool for tool in actions.tools}  # each once
        speaker, parts, whole = prompt.labels.get("display_name", ""), list[str](), ""
        while True:
            reply = await self._ask(prompt, history)
            text = cut_at_stop(reply.text, (SYSTEM_SPEAKS, *prompt.stop))
            whole += text
            call = call_in(text)
            parts.append(call.before if call else text)
            action = known.pop(call.name, None) if call else None
            if call is not None and action is not None:
                action.note(call.arguments or {})
            if call is None or (action is not None and action.ends_turn):
                return self._end(whole, actions.decision(speech_text(parts, speaker)))
            if action is None:
                prefill = results.prefill_after(prompt.prefill or "", call)
            else:
                prefill = continued_prefill(prompt.prefill or "", call, ToolResult("", call.name, "done"))
            if prefill is None:
                return self._end(whole, problem=_wants([call.name or "a tool"]))
            prompt = replace(prompt, prefill=prefill)

    async def _ask(self, prompt: Prompt, history: Sequence[Message]) -> Reply:
        self.asking = True
        reply = await self.model.complete(prompt, history)
        self.asking = False
        self.usage += reply.usage
        return replace(reply, text=self.redact(reply.text))

    def _end(self, text: str = "", decision: Decision | None = None, problem: str = "") -> tuple[Answer, str]:
        counts = {name: getattr(self.usage, name) for name in COUNTS}
        fields = None if decision is None else _set(fields_of(decision))
        return Answer(model=self.usage.model or self.model.name, text=text, decision=fields, **counts), problem


def _wants(names: Sequence[str]) -> str:
    return f"it wants {', '.join(dict.fromkeys(names))}, and no such call is recorded (a replay runs no tools)"


class RecordedResults:
    """The results by their calls, each given once, so a replay makes at most one call more than the turn."""

    def __init__(self, recorded: Sequence[CallWords]) -> None:
        """Take the turn's calls of a model, in order. Raises NotReplayable."""
        self._results: dict[Key, ToolResult] = {}
        self._blocks: dict[Key, str] = {}  # of prefill mode, where calls and results are text
        for words in recorded:
            for step in inputs_of(words, least_seconds=0.0).prompt.rounds:
                for call, result in zip(step.calls, step.results, strict=False):
                    self._results[_key(call.name, call.arguments)] = result
        for words, following in pairwise(recorded):
            made = call_in(words.completion) if words.prefill is not None else None
            if made is not None and following.prefill is not None:
                start = _text_up_to(words.prefill or "", made)
                if following.prefill.startswith(start):
                    self._blocks[_key(made.name, made.arguments or {})] = following.prefill[len(start) :]

    def __len__(self) -> int:
        return len(self._results) + len(self._blocks)

    def round_of(self, calls: Sequence[ToolCall], text: str, echo: object) -> ToolRound | None:
        """Return the step in which these calls got their results; None if one of them isn't recorded."""
        wanted = [_key(call.name, call.arguments) for call in calls]
        if not self._results.keys() >= set(wanted) or len(set(wanted)) < len(wanted):
            return None
        found = [self._results.pop(key) for key in wanted]
        results = (
            ToolResult(call.id, call.name, result.text, is_error=result.is_error)
            for call, result in zip(calls, found, strict=True)
        )
        return ToolRound(tuple(calls), tuple(results), text, echo)

    def lacks(self, calls: Sequence[ToolCall]) -> list[str]:
        return [call.name for call in calls if _key(call.name, call.arguments) not in self._results]

    def prefill_after(self, prefill: str, call: TextCall) -> str | None:
        """Return the text from which the model continues after the call's result; None if it isn't recorded."""
        block = self._blocks.pop(_key(call.name, call.arguments or {}), None)
        return None if block is None else f"{_text_up_to(prefill, call)}{block}"


def _text_up_to(prefill: str, call: TextCall) -> str:
    return f"{prefill}{call.before}{call.text}{CALL_STOP}\n"


def _key(name: str, arguments: Mapping[str, Any]) -> Key:
    return name, json.dumps(arguments, sort_keys=True, default=str)


# -- the comparison ----------------------------------------------------------------------------------------------------


def compare(
    recorded: RecordedTurn, new: Answer | None = None, *, problem: str = "", pictures_missing: int = 0
) -> Comparison:
    turn, old = recorded.turn, old_answer(recorded)
    return Comparison(
        agent=turn.agent,
        turn_id=turn.id,
        round=turn.round_number,
        at=turn.at,
        trigger=turn.trigger,
        old=old,
        new=new,
        problem=problem,
        pictures_missing=pictures_missing,
        same=new is not None and not problem and new.text == old.text,
    )


def old_answer(recorded: RecordedTurn) -> Answer:
    last = recorded.words[-1] if recorded.words else None
    decision = next((_set(each.decision) for each in reversed(recorded.words) if each.decision is not None), None)
    if decision is None and last is not None:
        with suppress(UnreadableDecision):
            decision = _set(fields_of(parse_decision(last.completion)))
    calls = recorded.calls
    return Answer(
        model=(last.model if last else "") or recorded.turn.model,
        text=last.completion if last else "",
        decision=decision,
        calls=len(calls),
        **{name: sum(getattr(call, name) for call in calls) for name in COUNTS[1:]},
    )


def _set(decision: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in decision.items() if value not in (None, False, "")}


def describe_decision(decision: Mapping[str, Any] | None) -> str:
    """Describe a decision in a few words: "says it, reacts 👍"."""
    if decision is None:
        return "no decision"
    if decision.get("skip"):
        return "skips"
    parts = ["speaks"] if decision.get("text") else []
    parts += ["draws"] if decision.get("generate_image") else []
    parts += [f"reacts {decision['react_emoji']}"] if decision.get("react_emoji") else []
    parts += ["ends"] if decision.get("end_conversation") else []
    return ", ".join(parts) or "does nothing"


def totals(answers: Iterable[Answer | None]) -> dict[str, float]:
    found = [answer for answer in answers if answer is not None]
    return {name: sum(getattr(answer, name) for answer in found) for name in COUNTS}
