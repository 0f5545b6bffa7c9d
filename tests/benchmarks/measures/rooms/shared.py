"""The rooms that both measurements open, and the table of what their turns cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentic.state.rooms import Room, RoomMember
from agentic.wire.messages import Command, RoomOrder
from tests.benchmarks.table import Row, median, milliseconds

MEMBERS = ("ada", "ben", "cleo", "dan")
SIZES = (1, 10, 100)  # rooms at once
MOST_GROWTH = 1.25  # of a turn's cost, from one room to a hundred
WITHIN = 240.0  # seconds


@dataclass(frozen=True)
class Cost:
    """`processor` in seconds a turn."""

    turns_a_second: float
    processor: float


def opening(thread: int, channel: int, turns: int) -> Command:
    """The order to open a room of the four in that thread of the channel."""
    room = Room(
        thread_id=thread,
        channel_id=channel,
        conversation_id=f"room-{thread}",
        topic="Is P equal to NP?",
        members=tuple(RoomMember(name=name, shown=name.title()) for name in MEMBERS),
        turns=turns,
    )
    return Command(command="room-open", channel_id=thread, room=RoomOrder(room=room.model_dump_json()))


def cost_rows(title: str, costs: Mapping[int, Sequence[Cost]]) -> list[Row]:
    """A row for each number of rooms, and one for the growth of the cost."""
    processor = {size: median([cost.processor for cost in found]) for size, found in costs.items()}
    rows = [
        Row(
            metric=f"{title}: {size} at once",
            value=median([cost.turns_a_second for cost in found]),
            unit="turns/s",
            note=f"{milliseconds(processor[size]):.1f} ms of processor a turn",
        )
        for size, found in costs.items()
    ]
    note = f"processor time a turn with {max(costs)} rooms, as a multiple of that with one"
    growth = processor[max(costs)] / processor[min(costs)]
    return [*rows, Row(metric=f"{title}: growth", value=growth, target=MOST_GROWTH, note=note)]
