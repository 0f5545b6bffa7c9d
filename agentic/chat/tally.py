"""The reactions with one emoji to one message, counted over events that come more than once."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """`base` counts the reactions that were there when the message was read, by people without known names."""

    base: int = 0
    named: dict[int, str] = field(default_factory=dict)  # given since
    bots: set[int] = field(default_factory=set)  # of the named
    gone: set[int] = field(default_factory=set)  # of the base, removed since

    def add(self, user_id: int, name: str, *, bot: bool) -> bool:
        """Whether that changed something."""
        if bot:
            self.bots.add(user_id)
        if user_id in self.gone:
            self.gone.discard(user_id)
            return True
        known = self.named.get(user_id)
        self.named[user_id] = name
        return known != name

    def remove(self, user_id: int) -> bool:
        """Whether that changed something."""
        if self.named.pop(user_id, None) is not None:
            return True
        if user_id in self.gone or self.base <= len(self.gone):
            return False
        self.gone.add(user_id)
        return True

    @property
    def count(self) -> int:
        return self.base - len(self.gone) + len(self.named)

    @property
    def by_person(self) -> bool:
        return self.base > len(self.gone) or not self.named.keys() <= self.bots
