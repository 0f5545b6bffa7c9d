"""Running conversations, and how the last speaker of each channel was chosen.

A running conversation is stored so that the next leader can resume it; a room is stored together with its conversation.
Only the process that holds the channel and leads (by the lease's epoch) may write: a coordinator that doesn't know yet
that it lost its lease must neither overwrite nor delete its successor's state.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from agentic.state.conversation_state import ConversationState
from agentic.state.leases import FENCE
from agentic.state.rooms import ROOM_SECONDS, WRITE_ROOM, Room, room_args, room_keys
from agentic.state.schedule import ONLY_TEXT, hold_of
from agentic.state.turn_records import TurnRecord
from agentic.wire import keys
from agentic.wire.connection import Store, or_default
from agentic.wire.entries import StoredValue

KEEP_SECONDS = 3600  # far longer than anything that would be resumed; a room's state lives as long as the room
CHOICE_SECONDS = 86_400
MAX_CHOICES = 200  # kept for each channel
_EPOCH = keys.epoch(keys.COORDINATOR_OWNER)

# KEYS: the channel's hold, the state, the coordinator's epoch; in a room also `room_keys`. ARGV: the hold, the state
# ("" if nothing runs), seconds to keep it, the conversation, the writer's epoch, ms to hold the channel from now on (0:
# it is held already); in a room also `room_args`
KEEP = f"""{ONLY_TEXT}{FENCE}{WRITE_ROOM}
if overtaken(KEYS[3], ARGV[5]) then return 0 end
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] and (holder or ARGV[6] == '0') then return 0 end
if ARGV[6] ~= '0' then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[6]) end
redis.call('DEL', KEYS[2])
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[2], 'id', ARGV[4], 'epoch', ARGV[5], 'state', ARGV[2])
  redis.call('EXPIRE', KEYS[2], ARGV[3])
end
if KEYS[4] then write_room(4, 7) end
return 1
"""
DROP = f"""{FENCE}
if overtaken(KEYS[2], ARGV[2]) or redis.call('HGET', KEYS[1], 'id') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""

log = logging.getLogger(__name__)


class ConversationStore(Store):
    """At most one conversation per channel."""

    async def keep(
        self,
        channel_id: int,
        conversation_id: str,
        state: str | None,
        epoch: int = 0,
        room: Room | None = None,
        hold: float = 0.0,
    ) -> bool:
        """Store the state for an hour, a room's for 90 days together with the room; None if there is nothing to keep.
        `hold`: seconds to hold the channel from now on, even if nobody holds it (0: store only if it is held).

        Returns False if another conversation holds the channel, or another process has led since `epoch` (0: no lease).
        """
        places = [keys.conversation(channel_id), keys.conversation_state(channel_id), _EPOCH]
        seconds = KEEP_SECONDS if room is None else ROOM_SECONDS
        args = [hold_of(conversation_id, epoch), state or "", seconds, conversation_id, epoch, round(hold * 1000)]
        if room is not None:
            places, args = [*places, *room_keys(room)], [*args, *room_args(room)]
        return bool(await self._link.script(KEEP, places, args))

    async def drop(self, channel_id: int, conversation_id: str, epoch: int = 0) -> None:
        """Delete the conversation, unless another one is stored there, or another process has led since `epoch`."""
        await self._link.script(DROP, [keys.conversation_state(channel_id), _EPOCH], [conversation_id, epoch])

    async def read(self, channel_id: int, *, at_rest: bool = False) -> ConversationState | None:
        """Return the channel's conversation, `at_rest` also that of a room that doesn't run; None if there is none, or
        it can't be read."""
        return (await self.read_all([channel_id], at_rest=at_rest)).get(channel_id)

    async def read_all(self, channel_ids: Sequence[int], *, at_rest: bool = False) -> dict[int, ConversationState]:
        names = map(keys.conversation_state, channel_ids)
        texts = await self._link.batch(lambda pipe: [pipe.hget(name, "state") for name in names])
        found = zip(channel_ids, texts, strict=True)
        states = ((channel_id, read_state(str(text))) for channel_id, text in found if text is not None)
        return {number: state for number, state in states if state is not None and (at_rest or not state.is_at_rest)}

    async def kept(self) -> list[ConversationState]:
        """Return all that did not end. Unreadable ones are logged, and expire."""
        names = [name async for page in self._link.scan(keys.conversation_state("*"), "hash") for name in page]
        states = await self._link.batch(lambda pipe: [pipe.hget(name, "state") for name in names])
        return read_states([str(state) for state in states if state is not None])


def read_state(text: str) -> ConversationState | None:
    """Return the stored conversation; None if another version wrote it."""
    try:
        return ConversationState.from_json(text)
    except ValueError as error:
        log.debug("ignoring a stored conversation: %s", error)
        return None


def read_states(texts: Sequence[str]) -> list[ConversationState]:
    """Return the stored conversations that this version can read, and log a warning about the others."""
    found = [state for text in texts if (state := read_state(text)) is not None]
    if len(found) < len(texts):
        unreadable = len(texts) - len(found)
        log.warning("%d stored conversations can't be resumed: another version wrote them", unreadable)
    return found


class ScorePart(StoredValue):
    """A part of a score, with its cause in plain words."""

    why: str
    amount: float


class SpeakerScore(StoredValue):
    """How strongly the conversation calls for an agent: the sum of the parts times `channel`, the channel's score,
    which begins at 1 and drops with each turn without a post."""

    agent: str
    strength: float
    parts: tuple[ScorePart, ...] = ()
    channel: float = 1.0


class SpeakerChoice(StoredValue):
    """The choice of a speaker, at `at` (unix seconds). `pulls`: the candidates' scores, the strongest first."""

    channel_id: int
    conversation_id: str
    at: float
    chosen: str
    because: str | None = None
    pulls: tuple[SpeakerScore, ...] = ()

    def of(self, agent: str) -> SpeakerScore | None:
        return next((score for score in self.pulls if score.agent == agent), None)


class SpeakerChoices(Store):
    """The newest choices of each channel."""

    @or_default(None, "the choice of a speaker is not stored")
    async def keep(self, choice: SpeakerChoice) -> None:
        text, last, past = choice.model_dump_json(), keys.pulls(choice.channel_id), keys.past_pulls(choice.channel_id)
        await self._link.batch(
            lambda pipe: (
                pipe.set(last, text, ex=CHOICE_SECONDS),
                pipe.lpush(past, text),
                pipe.ltrim(past, 0, MAX_CHOICES - 1),
                pipe.expire(past, CHOICE_SECONDS),
            )
        )

    async def last(self, channel_id: int) -> SpeakerChoice | None:
        """Return the newest choice; None if there is none, or another version wrote it."""
        return SpeakerChoice.parse(await self._text(keys.pulls(channel_id)))

    async def of_turn(self, turn: TurnRecord) -> SpeakerChoice | None:
        """Return the choice that led to a turn; None if it wasn't made by scores, or isn't stored anymore."""
        past, because = keys.past_pulls(turn.channel_id), turn.chosen_because
        if because is None:
            return None
        for text in await self._link.redis.lrange(past, 0, -1):  # the newest first
            choice = SpeakerChoice.parse(text)
            if choice is not None and choice.chosen == turn.agent and choice.at <= turn.at:
                is_its_own = choice.conversation_id == turn.conversation_id
                return choice if is_its_own and (choice.because or "").startswith(because) else None
        return None
