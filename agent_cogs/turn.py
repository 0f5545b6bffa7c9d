"""The one path that every turn walks:

    event → limits → context → model → decision → actions → result

`take_turn` knows an agent and an outlet, never a cog or a bot user. It ends in exactly one Result, whatever happens on
the way; the reasons of results that posted nothing are in REASONS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from agent_cogs.actions import POST_SECONDS, Deed, act
from agent_cogs.agent import Agent, Outlet
from agent_cogs.contract import CONTRACT, REPAIR
from agent_cogs.decision import DECISION_SCHEMA, Decision, UnreadableDecision, decided, parse_decision
from agent_cogs.ending import asked_id, log_turn, result_of, trigger_of
from agent_cogs.events import LONGEST_TURN, InstructionEvent, MentionEvent, TurnEvent
from agent_cogs.excuses import excuse
from agent_cogs.gathering import question, taken_back
from agent_cogs.labels import labels
from agent_cogs.machinery import lines_of_prompt
from agent_cogs.money import wish_of
from agent_cogs.progress import Done, Facts, Progress
from agent_cogs.running import Brake
from agent_cogs.spending import Spending
from agent_context.build import TurnContext, build_system, shown
from agent_context.chat import build_history
from agent_context.depth import Depth
from agent_context.entries import Entry
from agent_context.merge import merge_history
from agent_context.options import MAX_MESSAGES, Options
from agent_context.tail import build_tail
from agent_context.window import Window, conversation_entries
from agent_discord.mentions import clean_name
from agent_discord.outlet import CannotPost, Posted
from agent_llm.errors import BadAnswer, ModelError, Refused
from agent_llm.types import Message, Prompt, Reply, Usage
from agent_protocol.messages import Result
from agent_themes import theme_named

MIN_MODEL_SECONDS = 1.0
CONTRACT_LINES = lines_of_prompt(CONTRACT)
HINTS = 2  # openings that a starter is offered

REASONS: Mapping[str, str] = {
    "skipped": "the model chose to stay silent",
    "cooldown": "the agent has just spoken in the channel",
    "daily_limit": "the agent's turns of the day are used up",
    "budget": "the day's money for all agents or for the channel is used up, or nearly so",
    "agent_budget": "the agent's money of the day is used up",
    "person_budget": "what the person may bring about in a day is used up",
    "too_often": "the person has called too often in the last minute",
    "benched": "the provider refused the agent three times in a row, it rests",
    "muted": "a person with the right silenced the agent for a while",
    "withdrawn": "the message to answer was deleted",
    "busy": "too many events wait already",
    "deadline": "the time was over",
    "invalid": "the instruction could not be read",
    "unknown_action": "an action that this agent does not know",
    "unknown_channel": "a channel that the bot does not see",
    "not_permitted": "the bot may not write there",
    "not_ours": "another process has taken the agent over",
    "discord_failed": "Discord did not take the post",
    "model_failed": "the model or its provider failed",
    "refused": "the model declined to answer",
    "unreadable": "the model's answer held no decision",
    "picture_failed": "only a picture was wanted, and it could not be drawn",
    "reaction_failed": "only a reaction was wanted, and Discord did not take it",
    "stopped": "a person wants silence in the channel",
    "overtaken": "a person spoke while the agent was thinking",
    "interrupted": "an earlier run of the program ended in the middle of this turn",
    "internal_error": "a fault of the program, see its log",
}

log = logging.getLogger(__name__)


class TurnOver(Exception):
    """The turn ends early, for one of REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def take_turn(
    agent: Agent, outlet: Outlet, event: TurnEvent, progress: Progress, brake: Brake | None = None
) -> Result:
    """Takes the turn, or goes on with it, and says how it ended; `brake` ends it early.

    Raises nothing but CancelledError.
    """
    began = agent.clock()
    spending = _spent(agent, progress)
    turn = _Turn(agent, outlet, event, spending, progress)
    brake = brake or Brake()
    done = await _ended(turn, min(event.deadline - began, LONGEST_TURN), brake)
    if brake.reason is not None and done.nothing:
        done = Done(reason=brake.reason)
    said = None
    if done.nothing and done.reason is not None and isinstance(event, MentionEvent):
        said = await _excused(agent, outlet, event, done.reason)
    seconds = agent.clock() - began
    progress.facts = turn.facts(seconds, said.message_ids if said else done.message_ids)
    # Whoever waits for the result need not wait for the log.
    asyncio.get_running_loop().call_soon(log_turn, agent.key, event, done, spending, seconds)
    return result_of(agent.key, event.id, done, spending)


async def _excused(agent: Agent, outlet: Outlet, event: MentionEvent, reason: str) -> Posted | None:
    """At most one line for a person in a channel and minute; of a rest only one is said in a channel."""
    who = (event.channel_id, event.asked.speaker.id)
    quiet = agent.told.lately(*who) or (reason == "benched" and not agent.bench.tells(event.channel_id))
    said = await excuse(outlet, event, reason, quiet=quiet)
    if said is not None:
        agent.told.note(*who)
    return said


def given_up(agent: Agent, event: TurnEvent, progress: Progress, reason: str) -> Result:
    """The result of a turn that is not gone on with: what can be seen of it, and what it has cost so far."""
    done, spending = replace(progress.done, reason=reason), _spent(agent, progress)
    progress.facts = Facts(model=spending.total.model, posted=done.message_ids)
    log_turn(agent.key, event, done, spending, 0.0)
    return result_of(agent.key, event.id, done, spending)


def _spent(agent: Agent, progress: Progress) -> Spending:
    """What an earlier run spent on the turn counts with what this one spends."""
    spending = Spending(agent.costs, agent.key, agent.today())
    if progress.answer is not None:
        spending.add(progress.answer.usage)
    return spending


async def _ended(turn: _Turn, seconds: float, brake: Brake) -> Done:
    """Every way in which a turn can end, as what it did."""
    try:
        if seconds <= 0:
            raise TurnOver("deadline")
        async with brake.within(seconds):
            return await turn.walk()
    except TurnOver as over:
        return replace(turn.progress.done, reason=over.reason)
    except TimeoutError:
        return replace(turn.progress.done, reason=brake.reason or "deadline")
    except UnreadableDecision as error:
        log.warning("%s: no decision in the model's answer: %s", turn.agent.key, error.reason)
        return Done(reason="unreadable")
    except ModelError as error:
        log.warning("%s: %s", turn.agent.key, error)
        return Done(reason="refused" if isinstance(error, Refused) else "model_failed")
    except CannotPost as error:
        return replace(turn.progress.done, reason=error.reason)
    except Exception:
        # The outermost edge of a turn: whoever gave it is owed a result.
        log.exception("%s: turn %s failed", turn.agent.key, turn.event.id)
        return replace(turn.progress.done, reason="internal_error")


class _Turn:
    """The steps in their order; what they share."""

    def __init__(self, agent: Agent, outlet: Outlet, event: TurnEvent, spending: Spending, progress: Progress) -> None:
        self.agent, self.outlet, self.event, self.spending, self.progress = agent, outlet, event, spending, progress
        self.can_draw = agent.can_draw and outlet.may_attach
        self.closing = False  # the conversation's last turn: there is no money for another
        self.estimate = 0.0  # of one call, in US dollars
        self.read = 0  # messages
        self.asked_by = event.asked.speaker.id if isinstance(event, MentionEvent) else None
        self.seen: int | None = None  # the newest message when it began to think, where a newer one is given way to

    def facts(self, seconds: float, posted: tuple[int, ...]) -> Facts:
        """For the turn's record, when it has ended."""
        tariff = self.agent.tariff
        return Facts(
            model=self.spending.total.model or f"{tariff.provider}/{tariff.model}",
            entries=self.read,
            seconds=seconds,
            guild_id=self.outlet.guild_id,
            asked_by=self.asked_by,
            posted=posted,
        )

    async def walk(self) -> Done:
        self._check_question()
        await self._admit()
        with self.outlet.typing() if self.event.forced else nullcontext():
            context = await self._look()
            decision, reply = await self._decide(context)
            if decision.is_empty:
                await self._give_back()
                raise TurnOver("budget" if self.closing else "skipped")
            self._check_question()
            if self.progress.answer is None:
                await self.progress.keep_answer(reply, self.spending.total)
            self._check_overtaken()
            self._check_clock()
            deed = Deed(decision=decision, sources=reply.sources, target=context.target)
            done = await act(self.agent, self.outlet, self.event, deed, self.spending, self.progress)
            return replace(done, reason="budget") if self.closing else done

    def _check_question(self) -> None:
        """What was taken back is neither read nor answered any more."""
        event, deleted = self.event, self.outlet.transcript.deleted
        if taken_back(event, deleted) if isinstance(event, MentionEvent) else asked_id(event) in deleted:
            raise TurnOver("withdrawn")

    def _check_clock(self) -> None:
        """A machine that slept, or a clock that was set, ends no timer: the deadline is looked at once more."""
        if self.agent.clock() >= self.event.deadline:
            raise TurnOver("deadline")

    def _check_overtaken(self) -> None:
        """Words that pass by what a person has just said are not posted; the next turn hears the person."""
        if self.seen is not None and self.outlet.transcript.person_spoke_after(self.seen):
            raise TurnOver("overtaken")

    async def _admit(self) -> None:
        refusal = self.outlet.refusal()
        if refusal is not None:
            raise TurnOver(refusal)
        if self.progress.going_on:  # it was let in when it began
            self.closing = self.progress.closing
            return
        agent, event = self.agent, self.event
        if agent.bench.seconds_left:
            raise TurnOver("benched")
        depth = self._depth(1.0)
        longest = depth.messages + depth.step
        wish = wish_of(event, trigger_of(event), agent.tariff, self.outlet.transcript, longest)
        verdict = await agent.limits.take(event.channel_id, agent.today(), cools_down=event.cools_down, wish=wish)
        if verdict not in ("ok", "closing"):
            raise TurnOver(verdict)
        self.closing, self.estimate = verdict == "closing", wish.estimate
        if self.closing:
            await self.progress.keep_closing()

    async def _give_back(self) -> None:
        if self.event.cools_down:
            await self.agent.limits.give_back_cooldown(self.event.channel_id)

    async def _look(self) -> TurnContext:
        """What the agent knows when it begins to think."""
        await self.outlet.settle()
        agent, event, theme = self.agent, self.event, theme_named(self.event.theme)
        trigger, window = trigger_of(event), self._window(theme.window_share)
        topic, round_number, started_with = None, 1, None
        if isinstance(event, InstructionEvent):
            topic, round_number = event.instruction.topic, event.instruction.round_number
            started_with = min(history_ids(event), default=None) if agent.barge_in != "ignore" else None
        context = TurnContext(
            me=agent.identity,
            theme=theme,
            channel_name=self.outlet.name,
            window=window,
            trigger=trigger,
            now=agent.clock(),
            timezone=agent.timezone,
            contract=CONTRACT,
            target=self._target(window),
            topic=topic,
            started_with=started_with,
            round_number=round_number,
            can_draw=self.can_draw,
            searches=(theme.search or trigger == "starter") and not self.closing,
            closing=self.closing,
            hints=tuple(agent.rng.sample(theme.topic_hints, HINTS)) if trigger == "starter" else (),
        )
        self.read = len(window.entries)
        if trigger == "reactive" and context.target is not None and context.target.speaker.kind == "person":
            self.asked_by = context.target.speaker.id
        # What turns to a person is not given up for another one, or a lively channel would silence the bots.
        if agent.barge_in == "yield" and trigger == "round" and not context.unheard:
            self.seen = self.outlet.transcript.newest
        return context

    def _window(self, share: float) -> Window:
        """A conversation is seen from before its start to now, anything else by its last messages."""
        agent, event, transcript = self.agent, self.event, self.outlet.transcript
        entries: Sequence[Entry] = transcript.entries()
        kind = "recent"
        if isinstance(event, InstructionEvent) and not event.cools_down:
            history = event.instruction.conversation_history
            names = {**{record.agent: clean_name(record.agent) for record in history}, **agent.names}
            entries = shown(merge_history(entries, history, names, transcript.deleted))
            entries = conversation_entries(entries, history_ids(event))
            kind, share = "conversation", 1.0
        else:
            entries = shown(entries)
        depth = self._depth(share)
        return agent.windows.lay(event.channel_id, kind, entries, agent.clock(), depth, whole=kind == "conversation")

    def _depth(self, share: float) -> Depth:
        return Depth.of(Options(max_messages=min(self.agent.context_size, MAX_MESSAGES)), share)

    def _target(self, window: Window) -> Entry | None:
        """The message that the turn is about, as it reads now."""
        event, transcript = self.event, self.outlet.transcript
        if isinstance(event, MentionEvent):
            return question(event, transcript) or event.asked
        if isinstance(event, InstructionEvent) and event.instruction.trigger_message_id is not None:
            return transcript.get(event.instruction.trigger_message_id)
        heard = window.entries
        if isinstance(event, InstructionEvent) and self.agent.barge_in == "ignore":
            heard = tuple(entry for entry in heard if entry.speaker.kind != "person")
        others = (entry for entry in reversed(heard) if entry.speaker.agent != self.agent.key)
        return next(others, None)

    async def _decide(self, context: TurnContext) -> tuple[Decision, Reply]:
        """Asks the model, unless it has answered; on a forced turn, once more when the answer cannot be read."""
        if self.progress.answer is not None:
            reply = self.progress.answer.reply()
            return self._read(reply, context), reply
        history = build_history(context, await self.outlet.pictures(context.window.entries))
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
            labels=labels(context),
        )


def history_ids(event: InstructionEvent) -> list[int]:
    """The messages of the conversation so far that have an id."""
    return [entry.message_id for entry in event.instruction.conversation_history if entry.message_id is not None]
