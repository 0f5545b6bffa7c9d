"""Runs one conversation step by step; stores it.

Backs off after timeouts in a row. One is a slow model; many mean that the bots are down.

A turn as the coordinator sees it: an instruction out, a result back or none.

An absent agent and a timeout are outcomes, not errors. While Redis is away the same instruction, by its id, is sent
again: an agent that has done it already answers with the kept result, so nothing is posted twice.

Give a conversation that repeats itself a new angle for its next speakers, and then its end.

Stores running conversations, so that the next leader can resume each at its turn.

Takes a conversation from step to step until it ends: choose, wait, ask, record, store.

All of a conversation is in its ConversationState, which each step replaces and which is stored before and after each
turn, so that a next leader can continue it at its step. People may change it at any moment (an agent that is to speak
next, a message to take up, a room that is paused): that takes effect at once, and again on the outcome of the step that
was under way.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent_coordinator import room_rules as rooms
from agent_coordinator.channels import ChannelBusy, ChannelHolds
from agent_coordinator.config import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS, WAIT_STEP_SECONDS
from agent_coordinator.events import Event, RoomChanged, SpeakerChosen, TurnMissed, TurnTaken
from agent_coordinator.policies.policy import Choice, PolicyBook, Wait
from agent_coordinator.room_rules import ROOM_TURN_SECONDS, brief_for, may_end_early
from agent_coordinator.state import ConversationState, Missed
from agent_coordinator.text_signals import ANGLES, repetition_in
from agentic.process.tasks import Clock, Sleep, sleep_unless
from agentic.state.conversations import ConversationStore
from agentic.state.leases import Leadership
from agentic.state.rooms import Room
from agentic.state.silence import BackoffStore, Stops
from agentic.wire.bus import AgentAbsent, AgentTimedOut, Bus
from agentic.wire.connection import REDIS_RETRY_SECONDS, RedisAway, until_back
from agentic.wire.messages import Instruction, Result

log = logging.getLogger(__name__)


MOST_DOUBLINGS = 32  # beyond BACKOFF_MAX_SECONDS, and far from overflowing a float


class TimeoutWatch:
    """From `threshold` timeouts in a row on, log each further one and ask for ever longer pauses."""

    def __init__(self, threshold: int) -> None:
        self._threshold = max(1, threshold)
        self._in_a_row = 0

    @property
    def pause(self) -> float:
        """Seconds to wait before the next instruction."""
        beyond = self._in_a_row - self._threshold
        if beyond < 0:
            return 0.0
        return min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(beyond, MOST_DOUBLINGS))

    def answered(self) -> None:
        if self.pause:
            log.warning("agents answer again, after %d timeouts in a row", self._in_a_row)
        self._in_a_row = 0

    def timed_out(self, agent: str) -> None:
        self._in_a_row += 1
        if self.pause:
            log.error(
                "%d INSTRUCTIONS IN A ROW TIMED OUT, the last one for %s: are the bots running? "
                "The next one is sent in %.0f s",
                self._in_a_row,
                agent,
                self.pause,
            )


class Asker:
    """Asks agents to take turns, each with `turn_seconds` to answer, in a room with 60 s at most."""

    def __init__(self, bus: Bus, watch: TimeoutWatch, *, turn_seconds: float, clock: Clock, sleep: Sleep) -> None:
        self._bus = bus
        self._watch = watch
        self._turn_seconds = turn_seconds
        self._clock = clock
        self._sleep = sleep

    @property
    def pause(self) -> float:
        """Seconds to wait before the next turn, after too many timeouts in a row."""
        return self._watch.pause

    async def ask(self, state: ConversationState, agent: str, *, again: bool = False) -> Result | Missed:
        """Send the instruction and wait for the outcome. `again`: an earlier leader has sent it. In a room its agent
        may have posted, so it is no sooner absent than the time is up."""
        instruction = instruction_for(state)
        seconds = self._turn_seconds if state.room is None else min(self._turn_seconds, ROOM_TURN_SECONDS)
        while True:
            timed = instruction.model_copy(update={"deadline": self._clock() + seconds})
            try:
                result = await self._bus.ask(agent, timed, absent_grace=seconds if again and state.room else None)
            except AgentAbsent:
                log.debug("%s is absent, its turn is skipped", agent)
                return "absent"
            except (AgentTimedOut, RedisAway) as error:
                if isinstance(error, AgentTimedOut) and self._bus.ready.is_set():
                    return self._timed_out(agent, seconds)
                await self._sleep(REDIS_RETRY_SECONDS)  # the agent may not have received it
            else:
                self._watch.answered()
                return result

    def _timed_out(self, agent: str, seconds: float) -> Missed:
        log.warning("%s timed out: no result within %.0f s", agent, seconds)
        self._watch.timed_out(agent)
        return "timed_out"


def instruction_for(state: ConversationState) -> Instruction:
    """The turn's instruction, without its deadline. Raises ValueError where no turn was begun."""
    if state.asking is None:
        raise ValueError("no turn was begun")
    return Instruction(
        instruction_id=state.asking,
        channel_id=state.channel_id,
        channel_theme=state.theme,
        round_number=state.round_number,
        conversation_id=state.conversation_id,
        conversation_history=state.wire_history(),
        is_conversation_starter=not state.brief and not state.opened,
        topic=state.topic,
        trigger_message_id=state.joining,
        requested=state.granted,
        room=brief_for(state.room, state.pending[0]) if state.room is not None else None,
        angle=state.angle or state.lead,
        take_up=state.take_up,
        chosen_because=state.chosen_because,
    )


MOST_ANGLES = 2  # turns; one more than that, and nothing new came


def judged(before: ConversationState, state: ConversationState) -> ConversationState:
    """The state after a turn, with an angle for the next one if the talk repeats itself, or ended. A turn that left no
    message in spite of an angle brought nothing new either. A room goes on until all members had a fair chance."""
    if state.brief:
        return state
    angles = before.angles + (before.angle is not None)
    if state.messages == before.messages:
        kept = replace(state, angles=angles)
        is_over = before.angle is not None and angles >= MOST_ANGLES and may_end_early(state)
        return kept.ended("repeating") if is_over else kept
    repetition = repetition_in(_posts_since_a_person(state))
    if repetition is None:
        return replace(state, angle=None, angles=0)
    if angles >= MOST_ANGLES and may_end_early(state):
        return state.ended("repeating")
    return replace(state, angle=ANGLES[repetition], angles=angles)


def _posts_since_a_person(state: ConversationState) -> tuple[str, ...]:
    posts = state.messages - state.heard[-1].after if state.heard else len(state.history)
    return tuple(said.text for said in state.history[-posts:]) if posts else ()


class Unfinished:
    """Waits while Redis is away: a step that is not stored would be repeated after a restart."""

    def __init__(self, conversations: ConversationStore, *, leadership: Leadership, clock: Clock, sleep: Sleep) -> None:
        self._conversations = conversations
        self._leadership = leadership
        self._clock = clock
        self._sleep = sleep

    async def keep(self, state: ConversationState) -> bool:
        """False, and not stored, where the channel is no longer held or another process leads. Of a room in which
        nothing runs only the room is stored."""
        over = state.room is not None and state.room.status != "active" and state.asking is None
        text = None if over else state.touched(self._clock()).to_json()
        record = (state.channel_id, state.conversation_id, text, self._leadership.epoch, state.room)
        if await until_back(lambda: self._conversations.keep(*record), self._sleep):
            return True
        log.debug("channel %d is no longer held, its conversation is not stored", state.channel_id)
        return False

    async def drop(self, state: ConversationState) -> None:
        """Delete the conversation, unless another process leads: that one continues it."""
        place = (state.channel_id, state.conversation_id, self._leadership.epoch)
        await until_back(lambda: self._conversations.drop(*place), self._sleep)

    async def of(self, channel_id: int) -> ConversationState | None:
        """The channel's conversation that did not end; None for none, or one that cannot be read."""
        text = await until_back(lambda: self._conversations.read(channel_id), self._sleep)
        return None if text is None else self._read(text)

    async def all(self) -> list[ConversationState]:
        """All that did not end. One that cannot be read is logged, and expires by itself."""
        states = [self._read(text) for text in await until_back(self._conversations.kept, self._sleep)]
        return [state for state in states if state is not None]

    @staticmethod
    def _read(text: str) -> ConversationState | None:
        try:
            return ConversationState.from_json(text)
        except ValueError as error:
            log.warning("a stored conversation cannot be resumed: %s", error)
            return None


ABSENT = frozenset({"benched", "muted", "unknown_channel"})
"""Reasons of results after which an agent counts as absent: its provider or a person silences it for a while, or it
does not speak in the channel, as a persona does not outside of rooms."""

Change = Callable[[ConversationState], ConversationState]
"""A change by a person. It may be made a second time, on what a step led to, and must then do nothing more."""


@dataclass(slots=True)
class Running:
    """A conversation's newest state, and the timeout that a stop triggers. `woken` ends a wait; `storing` is held while
    the state is stored, so that an older one never replaces a newer one; `noted` is the room as it was stored."""

    state: ConversationState
    scope: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    storing: asyncio.Lock = field(default_factory=asyncio.Lock)
    changes: list[Change] = field(default_factory=list)
    noted: Room | None = None

    def become(self, state: ConversationState) -> ConversationState:
        """Take the state that a step led to; what people changed, asked for and wrote during the step stays."""
        if state.ended_because is None:
            state = replace(state, requested=self.state.requested, called=self.state.called)
            for heard in self.state.heard:  # those that it has are no news to it
                state = state.hearing(heard)
        state = rooms.with_lines_of(state, self.state)
        for change in self.changes:
            state = change(state)
        self.changes.clear()
        self.state = state
        return state

    def change(self, change: Change) -> None:
        self.changes.append(change)
        self.state = change(self.state)
        self.woken.set()

    def dated(self, now: float) -> ConversationState:
        """The state with the time of its room's last change."""
        room = self.state.room
        if room is not None and room != self.noted:
            self.state = replace(self.state, room=room.model_copy(update={"changed_at": now}))
        return self.state


class Runner:
    """Runs conversations side by side; `running` has them by channel. `notify` reports an event."""

    def __init__(
        self,
        policies: PolicyBook,
        asker: Asker,
        holds: ChannelHolds,
        unfinished: Unfinished,
        *,
        backoffs: BackoffStore,
        leadership: Leadership,
        stops: Stops | None,
        notify: Callable[[Event], None],
        clock: Clock,
        rng: random.Random,
        sleep: Sleep,
    ) -> None:
        self.running: dict[int, Running] = {}
        self._policies, self._asker, self._holds, self._unfinished = policies, asker, holds, unfinished
        self._backoffs, self._leadership, self._stops = backoffs, leadership, stops
        self._notify, self._clock, self._rng, self._sleep = notify, clock, rng, sleep

    async def run(self, running: Running) -> ConversationState:
        """Take steps until the conversation ends or a person ends it, in a channel that the caller holds. Raises
        ChannelBusy where a room's thread was taken by another conversation: the room is as active as it was."""
        state = running.state
        try:
            async with running.scope:
                self.running[state.channel_id] = running
                if self._stopped(state):
                    running.state = stopped(state)
                while running.state.ended_because is None:
                    running.become(await self._step(running))
        except TimeoutError:
            if not running.scope.expired():
                raise
            running.state = running.state.ended("stopped")
        finally:
            self.running.pop(state.channel_id, None)
        if running.state.room is None:
            await self._unfinished.drop(running.state)
        else:
            await self.stored(running)
        return running.state

    async def keep(self, running: Running) -> bool:
        """Store the newest state; False where the channel is no longer held."""
        async with running.storing:
            state = running.dated(self._clock())
            kept = await self._unfinished.keep(state)
        if kept and state.room is not None and state.room != running.noted:
            running.noted = state.room
            self._notify(RoomChanged(state.room))
        return kept

    def chosen(self, state: ConversationState, choice: Choice) -> ConversationState:
        if choice.pulls:
            place = (state.conversation_id, state.channel_id)
            self._notify(SpeakerChosen(*place, self._clock(), choice.speakers[0], choice.because, choice.pulls))
        return state.choosing(choice.speakers, choice.because, choice.lead, new_round=choice.new_round)

    def _stopped(self, state: ConversationState) -> bool:
        """Whether a person stopped the channel; a room's also where the channel above is stopped."""
        places = (state.channel_id,) if state.room is None else (state.channel_id, state.room.channel_id)
        return self._stops is not None and any(map(self._stops.holds, places))

    # one step

    async def _step(self, running: Running) -> ConversationState:
        """One turn, one wait, or the choice of the next speakers. A turn that is under way, or that an owner asked for,
        is taken before anything may end. A reactive round has no next one, whatever the policy."""
        await self._leadership.until_held()
        running.become(running.state)  # what people changed until now has taken effect
        if not running.state.asking:
            running.state = rooms.with_called(rooms.without_strangers(running.state)).granting()
        state = running.state
        if state.asking:
            return await self._give_turn(running, state.pending[0])
        if state.room is not None and (reason := rooms.ending(state, state.room)) is not None:
            return state.ended(reason)
        if state.granted:
            return await self._give_turn(running, state.pending[0])
        if state.brief and not state.pending:
            return state.ended("joined")
        if state.room is None and (reason := self._policies.of(state).ending(state, self._rng)) is not None:
            return state.ended(reason)
        if state.room is not None and rooms.slot_is_due(state.room):
            return await self._wait_for_audience(running, state.room)
        if state.pending:
            return await self._give_turn(running, state.pending[0])
        choice = self._policies.of(state).choose(state, self._rng)
        if isinstance(choice, Wait):
            return await self._wait_for_a_person(running, choice)
        return self.chosen(state, choice)

    # a turn

    async def _give_turn(self, running: Running, agent: str) -> ConversationState:
        """Wait for the pause, ask the agent, record the outcome. Nobody is asked where a person wants something else
        in the pause.

        An agent in back-off is skipped, but a turn that was under way is asked for again: its result may exist.
        """
        state = running.state
        if not state.asking and await until_back(lambda: self._backoffs.until(agent), self._sleep) is not None:
            return self._recorded(state, agent, "absent", because="benched")
        if not (state.asking or state.granted) and not await self._paused(running, state):
            return running.state
        again = running.state.asking is not None
        state = running.become(running.state.begin_turn(str(uuid.uuid4())))
        if not await self.stored(running):
            return taken(state)
        state = running.become(self._recorded(state, agent, await self._asker.ask(state, agent, again=again)))
        await self.keep(running)
        return running.state

    def _recorded(
        self, state: ConversationState, agent: str, outcome: Result | Missed, because: str | None = None
    ) -> ConversationState:
        """The state after a turn. `because`: why nobody was asked, as a reason of results."""
        place = (state.conversation_id, state.channel_id, state.round_number, agent)
        if isinstance(outcome, str) or outcome.reason in ABSENT:
            missed: Missed = outcome if isinstance(outcome, str) else "absent"
            self._notify(TurnMissed(*place, missed))
            after = judged(state, state.missed(agent, missed))
        else:
            self._notify(TurnTaken(*place, outcome))
            after = judged(state, state.took_turn(agent, outcome))
        if after.room is not None:
            return rooms.after_turn(after, after.room, agent, outcome, because)
        # "budget" comes with the last turn that could be paid, or with none; an agent may know of a stop before us.
        if not isinstance(outcome, str) and outcome.reason == "budget":
            return after.ended("budget")
        heard_of_stop = not isinstance(outcome, str) and outcome.skipped and outcome.reason == "stopped"
        return after.ended("stopped") if heard_of_stop else after

    # waits

    async def _paused(self, running: Running, before: ConversationState) -> bool:
        """Wait before the turn; False where a person wants something else meanwhile."""
        pause = self._policies.of(before).pause(before, self._rng) + self._asker.pause + rooms.retry_pause(before)
        if pause and running.state is before:
            running.woken.clear()
            await sleep_unless(running.woken, pause, self._sleep)
        return running.state is before

    async def _wait_for_a_person(self, running: Running, wait: Wait) -> ConversationState:
        """Wait for a while, or until a person asks for an agent or writes. The end of the wait is stored."""
        state = running.state
        until = state.waits_until or self._clock() + wait.seconds
        if self._clock() >= until:
            return state.ended(wait.otherwise)
        running.become(rooms.waiting(replace(state, waits_until=until)))
        return await self._wait(running, until)

    async def _wait_for_audience(self, running: Running, room: Room) -> ConversationState:
        """Leave the thread to its audience until the slot is over. Its begin and its end are stored as they come, since
        others open and lock the thread by them."""
        until = room.slot_until
        if until is None:
            until = self._clock() + room.audience_seconds
            running.become(replace(running.state, room=rooms.with_slot(room, until)))
        elif until <= self._clock():
            running.become(replace(running.state, room=rooms.after_slot(room)))
            await self.keep(running)
            return running.state
        return await self._wait(running, until)

    async def _wait(self, running: Running, until: float) -> ConversationState:
        """Wait until that time at most, or until a person changes something. The wait is stored, and the channel held
        again, by steps of some seconds."""
        running.woken.clear()
        if not await self.stored(running):
            return taken(running.state)
        left = min(until - self._clock(), WAIT_STEP_SECONDS)
        if left > 0:
            await sleep_unless(running.woken, left, self._sleep)
        return running.state

    async def stored(self, running: Running) -> bool:
        """Whether the next step may be taken: the channel is held, and a next leader will find the state. If Redis was
        emptied in between, the channel is held again."""
        state = running.state
        while await self._holds.renew(state.channel_id, state.conversation_id):
            if await self.keep(running):
                await self._leadership.until_held()
                return True
        await self._leadership.until_held()  # without the lease it ends nothing: the conversation is the next leader's
        return False


def stopped(state: ConversationState) -> ConversationState:
    """The state once a person stopped it. A room first waits for the outcome of the turn that is under way, which is
    soon: the agent heard of the stop too."""
    return state.ended("stopped") if state.room is None else rooms.paused(state, "stopped")


def taken(state: ConversationState) -> ConversationState:
    """The state once another conversation holds the channel. Raises ChannelBusy in a room."""
    if state.room is not None:
        raise ChannelBusy(state.channel_id)
    return state.ended("channel_taken")
