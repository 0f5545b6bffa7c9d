"""Write a text for the coordinator: one call of the cheap model, or of the agent's own where there is none.

It is a turn as any other, claimed, settled and recorded once; only that it reads no channel, posts nothing, counts as
none of the agent's turns of the day, and is paid from the share for idle tasks, on no person's account.
"""

from __future__ import annotations

from dataclasses import replace

from agentic.agent.agent import Agent, Turn
from agentic.agent.events import ReflectionEvent
from agentic.agent.limits import AFTER_DEADLINE, AgentLimits, Frame, under_way
from agentic.llm.pricing import expected
from agentic.state.budgets import BudgetRequest
from agentic.state.limits import TurnRequest
from agentic.turn.decision import UnreadableDecision
from agentic.turn.model_call import call_model, seconds_left
from agentic.turn.texts import SECONDS, prompt_of, text_in
from agentic.turn.trace import CallKind
from agentic.turn.unasked import is_about_ignored
from agentic.wire.reasons import TurnOver

_KINDS: dict[str, CallKind] = {"summarise": "summary", "profile": "profile"}


def writer_of(agent: Agent) -> Agent:
    """The agent as it writes: with the cheap model, under the budgets alone."""
    cheap, model = agent.cheap, agent.model
    if cheap is not None:
        model = replace(
            model, name=cheap.name, think=cheap.think, tariff=cheap.tariff, backoff=cheap.backoff, own_loop=False
        )
    limits = AgentLimits.budgets_alone(agent.key, agent.limits.store)
    return replace(agent, model=model, limits=limits, frame=Frame())


def writing_request(agent: Agent, event: ReflectionEvent) -> TurnRequest:
    """The request to the limits. It is counted apart from the day's turns, as those are whose model costs nothing."""
    most = agent.model.tariff.most(expected(prompt_of(event.reflection, agent.key)))
    wish = BudgetRequest(
        turn_id=event.id,
        estimate=most.cost_usd,
        until=event.deadline + AFTER_DEADLINE,
        kind="joining",
        under_way=under_way(most),
        idle=True,
    )
    return agent.limits.ask(event.channel_id, agent.today(), cools_down=False, for_people=False, wish=wish, free=True)


def check_able(agent: Agent) -> None:
    """A coding agent is asked for nothing of the kind: it would run its own tools on what people wrote.

    Raises TurnOver.
    """
    if agent.model.own_loop:
        raise TurnOver("unknown_action")


async def write(turn: Turn, event: ReflectionEvent) -> str:
    """The text. Raises UnreadableDecision for an answer that has none, and what `call_model` does."""
    given = event.reflection
    if given.task == "profile" and is_about_ignored(turn.agent, event):
        return ""  # whom the bots ignore has no topics, so they are not asked for again
    prompt = prompt_of(given, turn.agent.key, seconds=min(SECONDS, seconds_left(turn)))
    reply = await call_model(turn, prompt, (), _KINDS[given.task])
    text = text_in(reply.text, given, prompt)
    if text is None:
        raise UnreadableDecision("no words in the answer")
    return text
