"""What can go wrong when an agent changes its files. Each text is one line for the agent, without paths.

PersonaError
├── OutOfBounds    a name that leads out of the folder, or to something that is no plain file
├── NotFound       no such file, section or entry
├── Ambiguous      what was named is there more than once
├── TooLarge       more than a file, a folder or an entry may hold
└── NotStored      the disk or another process did not let us
"""

from __future__ import annotations


class PersonaError(Exception):
    """Something about a persona's files."""


class OutOfBounds(PersonaError):
    """The name leads out of the folder, through a link, or to what is no plain file of text."""


class NotFound(PersonaError):
    """There is no such file, section or entry."""


class Ambiguous(PersonaError):
    """What was named is there more than once."""


class TooLarge(PersonaError):
    """It would not fit."""


class NotStored(PersonaError):
    """It could not be read or written: a full or read-only disk, a lock that nobody gives back."""
