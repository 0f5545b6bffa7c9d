"""The messages of an arena. Bots do not read them."""

from __future__ import annotations

from collections.abc import Sequence

from agentic.rooms.card import cut, plain
from agentic.rooms.steps import HIDDEN, counted
from agentic.state.arenas import Arena, ArenaAnswer

BOXES = ("🅰️", "🅱️")
LONGEST_QUOTE = 300  # characters of the question
TOO_FEW = f"{HIDDEN}There is no arena now: it takes two agents that can answer. Please try again in a while."
FAILED = f"{HIDDEN}There is no arena: one of the two had no answer. /why-not and the log say more; please ask again."
INTERRUPTED = f"{HIDDEN}There is no arena: it was interrupted before both had answered. Please ask again."


def question_of(arena: Arena) -> str:
    return cut(plain(arena.question), LONGEST_QUOTE)


def answer_text(box: str, answer: ArenaAnswer) -> str:
    return f"{HIDDEN}{box}\n{answer.text}"


def vote_text(arena: Arena) -> str:
    return (
        f"{HIDDEN}**Which answer is better?** {BOXES[0]} or {BOXES[1]}, one vote each;"
        f" the names are shown after {counted(arena.minutes, 'minute')}.\n> {question_of(arena)}"
    )


def result_text(arena: Arena, votes: Sequence[int]) -> str:
    """The names, the votes in order, and who won."""
    lines = [
        f"{box} **{plain(answer.shown)}** ({answer.model}): {counted(count, 'vote')}"
        for box, answer, count in zip(BOXES, arena.answers, votes, strict=True)
    ]
    return "\n".join([f"{HIDDEN}**The arena is over: {_verdict(arena, votes)}**", *lines, f"> {question_of(arena)}"])


def _verdict(arena: Arena, votes: Sequence[int]) -> str:
    if not any(votes):
        return "nobody voted"
    if len(set(votes)) == 1:
        return "a tie"
    return f"{plain(arena.answers[votes.index(max(votes))].shown)} wins"
