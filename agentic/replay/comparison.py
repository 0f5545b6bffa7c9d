"""A recorded turn and its replay, beside each other. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from agentic.record.queries.turns import Call, Turn
from agentic.replay.asking import NewAnswer
from agentic.turn.decision import Decision, UnreadableDecision, parse_decision
from agentic.wire.entries import CallRecord, CallWords

GONE = {
    "forgotten": "a person had its words removed with /forget me",
    "deleted": "a message that its prompt quotes was deleted",
    "unreadable": "its words were recorded by another version",
}


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A turn with its calls of a text model, in order, and the words of the first ones. `gone` says in one line why
    there are no words, "" where there are."""

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
            gone = GONE.get(asked[0].removed or "", "its prompt is not recorded, or no longer (RECORD_PROMPTS_DAYS)")
        return cls(turn, tuple(call.record for call in asked), () if gone else tuple(words), gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A turn's answer: the last completion, and the tokens and US dollars of all its calls. `decision` has the fields
    that it sets, None for no readable decision."""

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
        """The words that it decided to post, "" for none; without a decision the completion."""
        return self.text if self.decision is None else str(self.decision.get("text") or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`new` is None where the turn could not be replayed; `problem` says why, or what the new answer lacks, in one
    line. `same`: the completions are equal to the byte."""

    agent: str
    turn_id: str
    round: int | None
    at: float
    trigger: str
    old: Answer
    new: Answer | None = None
    problem: str = ""
    pictures_missing: int = 0
    same: bool = field(default=False)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def old_answer(recorded: RecordedTurn) -> Answer:
    last = recorded.words[-1] if recorded.words else None
    decided = next((words.decision for words in reversed(recorded.words) if words.decision is not None), None)
    calls, turn = recorded.calls, recorded.turn
    return Answer(
        model=(last.model if last else "") or turn.model,
        text=last.completion if last else "",
        decision=_set(decided) if decided is not None else _parsed(last.completion) if last else None,
        calls=len(calls),
        input_tokens=sum(call.input_tokens for call in calls),
        cached_tokens=sum(call.cached_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        cost_usd=sum(call.cost_usd for call in calls),
    )


def new_answer(answer: NewAnswer) -> Answer:
    usage = answer.usage
    return Answer(
        model=answer.model,
        text=answer.text,
        decision=_fields(answer.decision) if answer.decision is not None else None,
        calls=usage.calls,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
    )


def compared(
    recorded: RecordedTurn, new: NewAnswer | None = None, *, problem: str = "", pictures_missing: int = 0
) -> Comparison:
    turn, old = recorded.turn, old_answer(recorded)
    return Comparison(
        agent=turn.agent,
        turn_id=turn.id,
        round=turn.round,
        at=turn.at,
        trigger=turn.trigger,
        old=old,
        new=new_answer(new) if new is not None else None,
        problem=new.problem if new is not None else problem,
        pictures_missing=pictures_missing,
        same=new is not None and not new.problem and new.text == old.text,
    )


def decided(decision: Mapping[str, Any] | None) -> str:
    """A decision in a few words: "says it, reacts 👍"."""
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
    names = [each.name for each in fields(Answer) if each.name not in ("model", "text", "decision")]
    return {name: sum(getattr(answer, name) for answer in found) for name in names}


def _parsed(completion: str) -> Mapping[str, Any] | None:
    try:
        return _fields(parse_decision(completion))
    except UnreadableDecision:
        return None


def _fields(decision: Decision) -> Mapping[str, Any]:
    shown = {**asdict(decision)}
    if decision.react_to_message_id is not None:
        shown["react_to_message_id"] = str(decision.react_to_message_id)  # beyond JavaScript's numbers
    return _set(shown)


def _set(decision: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in decision.items() if value not in (None, False, "")}
