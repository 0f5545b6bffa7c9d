"""Numbers of the messages in the terminal, from 1: short enough to be typed, as in `/why 12`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NumberedMessage:
    """A message and its number."""

    number: int
    id: int
    channel_id: int
    by_bot: bool


class MessageNumbers:
    """Every message that the terminal has shown."""

    def __init__(self) -> None:
        self._all: list[NumberedMessage] = []
        self._number_of: dict[int, int] = {}
        self._deleted: set[int] = set()

    def add(self, message_id: int, channel_id: int, *, by_bot: bool) -> int:
        """Give a message the next number."""
        number = len(self._all) + 1
        self._all.append(NumberedMessage(number, message_id, channel_id, by_bot))
        self._number_of[message_id] = number
        return number

    def delete(self, message_id: int) -> None:
        """Forget a deleted message; its number is not given again."""
        self._deleted.add(message_id)

    def number_of(self, message_id: int) -> int | None:
        return self._number_of.get(message_id)

    def get(self, number: int) -> NumberedMessage | None:
        """The message with this number; None for a deleted or unknown one."""
        found = self._all[number - 1] if 0 < number <= len(self._all) else None
        return None if found is None or found.id in self._deleted else found

    def newest(self, channel_id: int, *, by_bot: bool) -> NumberedMessage | None:
        """The newest message of a channel, or its newest by a bot."""
        fitting = (
            one
            for one in reversed(self._all)
            if one.channel_id == channel_id and (one.by_bot or not by_bot) and one.id not in self._deleted
        )
        return next(fitting, None)
