"""The agent's model is asked, with its tools, until there is a decision.

    kept answer ─────────────────────────────────────┐
    PrefillMode (prefilling.py) ─ or ─ Chat (chatting.py) ─┴─ ToolUse (tooling.py) ─ once more, if it must be ─ decision

Every call of the model is booked where it is made, what a failed one has cost too.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from agent_chat.outlet import Outlet
from agent_cogs.agent import Agent
from agent_cogs.answer.decision import Decision, UnreadableDecision, as_json, decided, parse_decision, spoken
from agent_cogs.events import POST_SECONDS, TurnEvent, TurnOver
from agent_cogs.limits.usage import TurnSpending
from agent_cogs.prompt.chat_mode import Asked, Chat
from agent_cogs.prompt.conversation import conversation_of
from agent_cogs.prompt.prefill_mode import PrefillMode
from agent_cogs.prompt.streaming import StreamFilter, listening
from agent_cogs.prompt.tools import ToolUse, box_of
from agent_cogs.prompt.view import TurnView
from agent_cogs.turn.progress import Progress
from agent_llm.errors import BadAnswer, ModelError, PrefillRefused
from agent_llm.types import Message, Prompt, Reply, Usage
from agent_llm.usage_estimate import expected
from agent_llm.usage_estimate import read as tokens_read
from agent_llm.wire.stop_sequences import cut

MIN_MODEL_SECONDS = 1.0

log = logging.getLogger(__name__)

Way = Chat | PrefillMode


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One turn's thinking. `estimate` is of one call, in US dollars."""

    agent: Agent
    outlet: Outlet
    event: TurnEvent
    spending: TurnSpending
    progress: Progress
    can_draw: bool
    estimate: float

    async def decide(self, sight: TurnView) -> tuple[Decision, Reply]:
        """Asks the model, unless it has answered; on a forced turn, once more when the answer cannot be read. The
        reply's text is the JSON of the decision.

        Raises UnreadableDecision, ModelError, TurnOver("deadline") or ("budget"), and CannotPost.
        """
        chat = Chat(sight, self._cache_key)
        if self.progress.answer is not None:
            reply = self.progress.answer.reply()
            return self._read(reply, chat), reply
        after = self.progress.after
        async with listening(self.outlet.sink, self.event, sight.options, self._names(sight), after) as ear:
            if sight.options.mode == "prefill" and self.agent.prefill.takes(self.agent.model.name):
                begun = PrefillMode(sight, self._cache_key, forced=self.event.forced, can_draw=self.can_draw)
                try:
                    return await self._asked(begun, ear)
                except PrefillRefused as error:
                    self.agent.prefill.refused(error)
            return await self._asked(chat, ear)

    async def _asked(self, way: Way, ear: StreamFilter | None) -> tuple[Decision, Reply]:
        sight = way.sight
        use = ToolUse(
            agent=self.agent,
            outlet=self.outlet,
            event=self.event,
            sight=sight,
            box=box_of(self.agent, sight, prefilled=isinstance(way, PrefillMode)),
            may_go_on=self._may_go_on,
            acts=way.acts,
            speaker=way.speaker,
        )
        try:
            asked = self._heard(way.asked(self._seconds_left()), way, ear)
            reply = await use.run(lambda prompt: self._think(prompt, asked.history), asked.prompt)
            return self._understood(reply, way)
        except UnreadableDecision as error:
            if not self.event.forced or not await self._afford(1):
                raise
            log.info("%s: asking once more, the answer could not be read: %s", self.agent.key, error.reason)
            reason = error.reason
        asked = self._heard(way.asked_again(self._seconds_left(), reason, use.brought), way, ear)
        return self._understood(await self._think(asked.prompt, asked.history), way)

    async def _think(self, prompt: Prompt, history: Sequence[Message]) -> Reply:
        cost = self.agent.model.tariff.most(expected(prompt, history))  # until more is known of it
        await self._reserve(cost)
        self.agent.frame.note(tokens_read(prompt, ()))
        try:
            reply = await self.agent.model.think(replace(prompt, conversation=conversation_of(self.event)), history)
            cost = reply.usage
        except ModelError as error:
            cost = error.usage or Usage()
            self.agent.model.backoff.failed(error)
            if isinstance(error, BadAnswer):
                raise UnreadableDecision(error.detail or error.kind) from error
            raise
        finally:  # also where it is cut off in the middle
            self.spending.add(cost)
        self.agent.model.backoff.worked()
        return reply

    async def _reserve(self, cost: Usage) -> None:
        """The money for a call, and a note of it in the turn's record; where limits were asked in the step that claimed
        the turn, its first call needs neither.

        Raises TurnOver("budget"), and CannotPost for a turn that is not ours any more.
        """
        together = self.spending.total + cost
        if not await self.agent.limits.afford(self.event.id, together.cost_usd):
            raise TurnOver("budget")
        if self.spending.total.calls or together.cost_usd > self.progress.foreseen:
            await self.progress.foresee(together)

    async def may_ask_again(self) -> bool:
        """Whether there is time and money to ask anew what was answered already."""
        left = self.event.deadline - self.agent.clock() - POST_SECONDS
        return left >= MIN_MODEL_SECONDS and await self._afford(1)

    def _understood(self, reply: Reply, way: Way) -> tuple[Decision, Reply]:
        """Whoever waits for words gets those of a model that knows no form."""
        reply = way.understood(reply)
        try:
            return self._read(reply, way), reply
        except UnreadableDecision:
            said = self._spoken(reply, way)
            if said is None:
                raise
        reply = replace(reply, text=as_json(said))
        return self._read(reply, way), reply

    def _spoken(self, reply: Reply, way: Way) -> Decision | None:
        if not self.event.forced:
            return None
        return spoken(reply.text, self._names(way.sight), way.lines, cut=reply.stop == "length")

    def _read(self, reply: Reply, way: Way) -> Decision:
        decision = parse_decision(reply.text)
        if decision.text is not None:  # in a request they would end the form, not the words in it
            decision = replace(decision, text=cut(decision.text, way.sight.options.stop))
        return decided(
            decision,
            forced=self.event.forced,
            always_draw=way.sight.context.theme.always_draw,
            can_draw=self.can_draw,
            names=self._names(way.sight),
            prompt=way.lines,
        )

    def _heard(self, asked: Asked, way: Way, ear: StreamFilter | None) -> Asked:
        """The same, where somebody hears the answer as it grows."""
        if ear is None:
            return asked
        return replace(asked, prompt=replace(asked.prompt, on_text=ear.hearing(way.heard, way.lines)))

    def _names(self, sight: TurnView) -> Collection[str]:
        """What the agent itself goes by."""
        names = (self.agent.identity.display_name, self.agent.key, sight.context.me.display_name)
        return tuple(dict.fromkeys(names))

    @property
    def _cache_key(self) -> str:
        return f"{self.agent.key}:{self.event.channel_id}"

    def _seconds_left(self) -> float:
        left = self.event.deadline - self.agent.clock() - POST_SECONDS
        if left < MIN_MODEL_SECONDS:
            raise TurnOver("deadline")
        return left

    async def _may_go_on(self) -> bool:
        """Whether there is money for more than one call after what a tool brought. The turn ends where there is not
        even so much."""
        if await self._afford(2):
            return True
        if await self._afford(1):
            return False
        raise TurnOver("budget")

    async def _afford(self, calls: int) -> bool:
        """What results add to a prompt shows in what the calls have cost so far."""
        total = self.spending.total
        each = max(self.estimate, total.cost_usd / max(1, total.calls))
        return await self.agent.limits.afford(self.event.id, total.cost_usd + calls * each)
