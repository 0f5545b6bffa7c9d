"""Running conversations, and how the last speaker of each channel was chosen.

A running conversation is stored so that the next leader can resume it, a room together with its own. The state is the
coordinator's own JSON object; only `running` reads a few of its fields. Only the process that holds the channel and
leads (by the lease's epoch) may write: a coordinator that lost its lease without knowing it yet must neither overwrite
nor delete its successor's state.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentic.state.leases import FENCE
from agentic.state.rooms import ROOM_SECONDS, WRITE_ROOM, Room, room_args, room_keys
from agentic.state.schedule import hold_of
from agentic.wire import keys
from agentic.wire.connection import Store, or_default
from agentic.wire.entries import StoredValue

KEEP_SECONDS = 3600  # much longer than anything that would be resumed; a room's is kept as long as the room
CHOICE_SECONDS = 86_400
_EPOCH = keys.epoch(keys.COORDINATOR_OWNER)

# KEYS: the channel's hold, the state, the coordinator's epoch; in a room those of `room_keys`. ARGV: the hold, its
# state ("" if nothing runs), seconds, the conversation, the writer's epoch; in a room those of `room_args`
KEEP = f"""{FENCE}{WRITE_ROOM}
if overtaken(KEYS[3], ARGV[5]) or redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[2])
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[2], 'id', ARGV[4], 'epoch', ARGV[5], 'state', ARGV[2])
  redis.call('EXPIRE', KEYS[2], ARGV[3])
end
if KEYS[4] then write_room(4, 6) end
return 1
"""
DROP = f"""{FENCE}
if overtaken(KEYS[2], ARGV[2]) or redis.call('HGET', KEYS[1], 'id') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


@dataclass(frozen=True, slots=True)
class Running:
    """A running conversation: its round, the agent whose turn it is, None between two rounds, and those who come after
    it in this round, the one that an owner asked for first. `joins` says that bots join a person's talk, for one round;
    `single` that it is one turn, which an owner asked for. `waits_until`: when a room stops waiting for a person to
    name the next speaker, in unix seconds; None if it doesn't wait."""

    round_number: int
    speaker: str | None
    theme: str = ""
    conversation_id: str = ""
    topic: str | None = None
    started_at: float = 0.0  # unix seconds
    coming: tuple[str, ...] = ()
    joins: bool = False
    single: bool = False
    waits_until: float | None = None


class ConversationStore(Store):
    """One conversation a channel at most."""

    async def keep(
        self, channel_id: int, conversation_id: str, state: str | None, epoch: int = 0, room: Room | None = None
    ) -> bool:
        """Store the state for an hour, a room's for 90 days and with the room; None: nothing runs in the room.

        False if another conversation holds the channel, or another process has led since `epoch` (0: no lease).
        """
        places = [keys.conversation(channel_id), keys.conversation_state(channel_id), _EPOCH]
        seconds = KEEP_SECONDS if room is None else ROOM_SECONDS
        args = [hold_of(conversation_id, epoch), state or "", seconds, conversation_id, epoch]
        if room is not None:
            places, args = [*places, *room_keys(room)], [*args, *room_args(room)]
        return bool(await self._link.script(KEEP, places, args))

    async def drop(self, channel_id: int, conversation_id: str, epoch: int = 0) -> None:
        """Delete the conversation, unless another one is stored there, or another process has led since `epoch`."""
        await self._link.script(DROP, [keys.conversation_state(channel_id), _EPOCH], [conversation_id, epoch])

    async def read(self, channel_id: int) -> str | None:
        """The state of the channel's conversation; None if there is none."""
        state = await self._link.call(lambda redis: redis.hget(keys.conversation_state(channel_id), "state"))
        return None if state is None else str(state)

    async def running(self, channel_id: int) -> Running | None:
        """The channel's conversation, for people to read; None if there is none."""
        state = await self.read(channel_id)
        return None if state is None else read_running(state)

    async def running_in(self, channel_ids: Sequence[int]) -> dict[int, Running]:
        """The conversations of these channels, for people to read."""
        fields = await self._link.batch(
            lambda pipe: [pipe.hget(keys.conversation_state(channel_id), "state") for channel_id in channel_ids]
        )
        states = zip(channel_ids, fields, strict=True)
        found = {channel_id: read_running(str(state)) for channel_id, state in states if state is not None}
        return {channel_id: running for channel_id, running in found.items() if running is not None}

    async def kept(self) -> list[str]:
        """The states of all conversations that did not end."""
        names = [name async for page in self._link.scan(keys.conversation_state("*"), "hash") for name in page]
        states = await self._link.batch(lambda pipe: [pipe.hget(name, "state") for name in names])
        return [str(state) for state in states if state is not None]


def read_state(text: str) -> dict[str, Any]:
    """Return the JSON of a conversation's state. One of an earlier version, which had no parts, is brought into today's
    form. Raises ValueError for text that is no JSON object."""
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("no JSON object")
    if "queue" in data:
        return data
    state: dict[str, Any] = {"queue": {}, "talk": {}, "counts": {}}
    for name, value in data.items():
        part, new_name = _PARTS.get(name, ("", name))
        (state[part] if part else state)[new_name] = value
    return state


# The fields of an earlier version's state → the part that has each now, and its name there.
_PARTS = {
    "conversation_id": ("", "id"),
    **{name: ("queue", name) for name in ("pending", "asking", "joining", "single", "requested", "granted", "called")},
    **{name: ("queue", name) for name in ("last_in_order", "named", "named_by", "waits_until")},
    **{name: ("talk", name) for name in ("history", "heard", "topic", "last_speaker", "chosen_because")},
    "taken_up": ("talk", "answered"),
    "lead": ("talk", "suggested_topic"),
    "angle": ("talk", "perspective"),
    "angles": ("talk", "perspectives"),
    "round_number": ("counts", "round"),
    "tallies": ("counts", "agents"),
    **{name: ("counts", name) for name in ("spoke", "skipped", "unheard", "missing", "silent", "last_turn_showed")},
    **{name: ("counts", name) for name in ("end_streak", "idle_turns", "away", "unseen")},
}


def read_running(state: str) -> Running | None:
    try:
        read = read_state(state)
        queue, topic = read["queue"], read["talk"].get("topic")
        pending, requested = [str(agent) for agent in queue.get("pending") or ()], queue.get("requested")
        coming = [agent for agent in pending[1:] if agent != requested]
        return Running(
            round_number=int(read["counts"]["round"]),
            speaker=pending[0] if pending else None,
            theme=str(read.get("theme") or ""),
            conversation_id=str(read.get("id") or ""),
            topic=str(topic) if topic else None,
            started_at=float(read.get("started_at") or 0.0),
            coming=tuple([str(requested), *coming] if requested else coming),
            joins=queue.get("joining") is not None,
            single=bool(queue.get("single")),
            waits_until=float(queue["waits_until"]) if queue.get("waits_until") else None,
        )
    except (ValueError, TypeError, KeyError, AttributeError):  # written by another version
        return None


class ScorePart(StoredValue):
    """A part of a score: `why` in plain words, for people."""

    why: str
    amount: float


class SpeakerScore(StoredValue):
    """How strongly the conversation calls for an agent: the sum of its parts times `channel`, the channel's own score,
    which each turn without a message lowers (1 at most)."""

    agent: str
    strength: float
    parts: tuple[ScorePart, ...] = ()
    channel: float = 1.0


class SpeakerChoice(StoredValue):
    """The choice of a speaker. `pulls`: the scores, the strongest first, without those who could not be asked.
    `at` in unix seconds."""

    channel_id: int
    conversation_id: str
    at: float
    chosen: str
    because: str | None = None
    pulls: tuple[SpeakerScore, ...] = ()

    def of(self, agent: str) -> SpeakerScore | None:
        return next((score for score in self.pulls if score.agent == agent), None)


class SpeakerChoices(Store):
    """The newest choice of each channel."""

    @or_default(None, "the choice of a speaker is not stored")
    async def keep(self, choice: SpeakerChoice) -> None:
        text = choice.model_dump_json()
        await self._link.call(lambda redis: redis.set(keys.pulls(choice.channel_id), text, ex=CHOICE_SECONDS))

    async def last(self, channel_id: int) -> SpeakerChoice | None:
        """None if there is none, or another version wrote it."""
        return SpeakerChoice.parse(await self._link.call(lambda redis: redis.get(keys.pulls(channel_id))))
