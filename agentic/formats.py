"""The formats of rooms, one for each table in formats.toml: phases with a length and an instruction for each role.

`open` has no phases. A phase lasts a number of rounds: `turns` for each member, or a `share` of the rounds that phases
with fixed turns leave. A room with fewer rounds than a phase's `rounds` leaves that phase out. `rules` are in the
prompts of all turns, a phase's instruction only in the prompts of its own turns. Moderators and guests have rules and
instructions of their own. Nothing here knows Discord, models, or Redis.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

FormatName = Literal["open", "debate", "panel", "interview"]
DEFAULT_FORMAT: FormatName = "open"
SIDES = ("for", "against", "undecided")
"""The sides of members. A member's `side` may also be GUEST, or "" if it has none, as moderators do."""
GUEST = "guest"
Role = Literal["member", "moderator", "guest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of a room. `about` says for people what happens in it; `member`, `moderator`, and `guest` say it to those
    who speak. Guests and moderators without an instruction of their own do what members do."""

    name: str
    about: str
    length: str
    member: str
    moderator: str = ""
    guest: str = ""
    turns: int = 0  # of each member
    share: int = 0  # of the other rounds, in proportion to the other phases' shares
    rounds: int = 1  # that the room needs for this phase
    openers: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def task(self, role: Role) -> str:
        return getattr(self, role) or self.member


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """`has_sides`: members without a side get one. `has_guest`: one member answers, and the others ask."""

    name: str
    summary: str
    rules: str = ""
    moderator: str = ""
    guest: str = ""
    has_sides: bool = False
    has_guest: bool = False
    phases: tuple[Phase, ...] = ()

    def rules_for(self, role: Role, guest: str = "") -> str:
        """Return the rules for that role. `guest`: the guest's shown name."""
        text = {"member": self.rules, "moderator": self.moderator, "guest": self.guest}[role] or self.rules
        return text.strip().replace("{guest}", guest)

    def schedule(self, turns: int, round_size: int) -> tuple[tuple[Phase, int], ...]:
        """Return the phases of a room with that many turns, each with its last turn. A round is `round_size` turns.
        Turns that fill no round belong to the longest phase; if each phase has fixed turns, nobody has them."""
        rounds = max(1, turns // max(1, round_size))
        phases = [phase for phase in self.phases if phase.rounds <= rounds]
        shared = [phase for phase in phases if phase.share]
        free = rounds - sum(phase.turns or 1 for phase in phases)  # each phase with a share has a round
        total = sum(phase.share for phase in shared)
        lengths = {phase.name: phase.turns or 1 + free * phase.share // total for phase in phases}
        longest = max(shared, key=lambda phase: phase.share, default=None)
        ends, last = list[tuple[Phase, int]](), 0
        for phase in phases:
            last += lengths[phase.name] * round_size
            if phase is longest:
                last += turns - sum(lengths.values()) * round_size
            ends.append((phase, min(last, turns)))
        return tuple(ends)


def _format(name: str, table: dict[str, object]) -> Format:
    phases = table.pop("phases", [])
    return Format(name=name, phases=tuple(Phase(**each) for each in phases), **table)  # type: ignore[attr-defined, arg-type]


_TABLES = tomllib.loads(Path(__file__).with_name("formats.toml").read_text(encoding="utf-8"))
FORMATS: Mapping[FormatName, Format] = MappingProxyType(
    {name: _format(name, _TABLES[name]) for name in get_args(FormatName)}
)
FORMAT_TEXTS: Mapping[str, str] = {name: each.summary for name, each in FORMATS.items()}
