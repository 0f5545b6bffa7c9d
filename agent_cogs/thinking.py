"""The agent's model is asked, until there is a decision."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from agent_cogs.actions import POST_SECONDS
from agent_cogs.agent import Agent
from agent_cogs.contract import CONTRACT, REPAIR
from agent_cogs.decision import DECISION_SCHEMA, Decision, UnreadableDecision, decided, parse_decision
from agent_cogs.events import TurnEvent
from agent_cogs.labels import labels
from agent_cogs.machinery import lines_of_prompt
from agent_cogs.over import TurnOver
from agent_cogs.progress import Progress
from agent_cogs.sessions import conversation_of
from agent_cogs.sight import Sight
from agent_cogs.spending import Spending
from agent_context.build import TurnContext, build_system
from agent_context.chat import build_history
from agent_context.tail import build_tail
from agent_llm.errors import BadAnswer, ModelError
from agent_llm.types import Message, Prompt, Reply, Usage

MIN_MODEL_SECONDS = 1.0
CONTRACT_LINES = lines_of_prompt(CONTRACT)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mind:
    """One turn's thinking. `estimate` is of one call, in US dollars."""

    agent: Agent
    event: TurnEvent
    spending: Spending
    progress: Progress
    can_draw: bool
    estimate: float

    async def decide(self, sight: Sight) -> tuple[Decision, Reply]:
        """Asks the model, unless it has answered; on a forced turn, once more when the answer cannot be read.

        Raises UnreadableDecision, ModelError and TurnOver("deadline").
        """
        context = sight.context
        if self.progress.answer is not None:
            reply = self.progress.answer.reply()
            return self._read(reply, context), reply
        history = build_history(context, sight.pictures)
        prompt = self._prompt(context, build_tail(context))
        try:
            reply = await self._think(prompt, history)
            return self._read(reply, context), reply
        except UnreadableDecision as error:
            if not self.event.forced:
                raise
            if not await self.agent.limits.afford(self.event.id, self.spending.total.cost_usd + self.estimate):
                raise
            log.info("%s: asking once more, the answer could not be read: %s", self.agent.key, error.reason)
            repair = REPAIR.format(reason=error.reason)
        reply = await self._think(self._prompt(context, f"{prompt.text}\n\n{repair}"), history)
        return self._read(reply, context), reply

    async def _think(self, prompt: Prompt, history: Sequence[Message]) -> Reply:
        try:
            reply = await self.agent.think(prompt, history)
        except ModelError as error:
            self.spending.add(error.usage or Usage())
            self.agent.bench.failed(error)
            if isinstance(error, BadAnswer):
                raise UnreadableDecision(error.detail or error.kind) from error
            raise
        self.spending.add(reply.usage)
        self.agent.bench.worked()
        return reply

    def _read(self, reply: Reply, context: TurnContext) -> Decision:
        return decided(
            parse_decision(reply.text),
            forced=self.event.forced,
            always_draw=context.theme.always_draw,
            can_draw=self.can_draw,
            names=(self.agent.identity.display_name, self.agent.key),
            prompt=lines_of_prompt(build_tail(context)) | CONTRACT_LINES,
        )

    def _prompt(self, context: TurnContext, text: str) -> Prompt:
        left = self.event.deadline - self.agent.clock() - POST_SECONDS
        if left < MIN_MODEL_SECONDS:
            raise TurnOver("deadline")
        return Prompt(
            text=text,
            system=build_system(context),
            schema=DECISION_SCHEMA,
            search=context.searches,
            timeout=left,
            cache_key=f"{self.agent.key}:{self.event.channel_id}",
            conversation=conversation_of(self.event),
            labels=labels(context),
        )
