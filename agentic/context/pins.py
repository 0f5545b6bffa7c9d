"""Pinned `.config` messages as layers of options.

Only pinned messages by people with permission count. Invalid parts of a pin are skipped and reported to its author once
(the caller that posts remembers `Pin.message_id`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentic.context.commands import CommandProblem, Config, History, is_for, parse_command
from agentic.context.entries import Entry
from agentic.context.options import PINNABLE, read_options


@dataclass(frozen=True, slots=True)
class Pin:
    """A pinned `.config` for this agent. `layer`: its valid options. `problems`: one line for each of the others."""

    message_id: int
    author_id: int
    layer: Mapping[str, Any]
    problems: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[CommandProblem, ...]:
        if not self.problems:
            return ()
        return (CommandProblem(self.message_id, "config", self.problems, tuple(self.layer)),)


def may_command(entry: Entry, roles: Collection[int]) -> bool:
    """Whether it is by a person with one of `roles`; without roles, by one who may manage messages."""
    if entry.speaker.kind != "person":
        return False
    return not entry.author_roles.isdisjoint(roles) if roles else entry.may_manage


def may_configure(entry: Entry, roles: Collection[int]) -> bool:
    """Whether it is by a person who may manage messages or has one of `roles`."""
    return entry.speaker.kind == "person" and (entry.may_manage or not entry.author_roles.isdisjoint(roles))


def read_pins(entries: Iterable[Entry], config_roles: Collection[int], names: Collection[str]) -> tuple[Pin, ...]:
    """Return the pins for a bot that goes by `names`, older first. For a thread: the parent's, then its own."""
    pins = []
    for entry in sorted(entries, key=lambda entry: entry.id):
        if not entry.pinned or not may_configure(entry, config_roles):
            continue
        command = parse_command(entry.text)
        if command is None or isinstance(command, History) or not is_for(command, names):
            continue
        if isinstance(command, Config):
            layer, problems = read_options(command.layer, PINNABLE)
            pins.append(Pin(entry.id, entry.speaker.id, layer, tuple(problems)))
        elif command.command == "config":
            pins.append(Pin(entry.id, entry.speaker.id, {}, (command.reason,)))
    return tuple(pins)
