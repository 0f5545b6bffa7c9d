"""Errors of changing an agent's files. Each text is one line for the agent, without paths.

PersonaError
├── OutOfBounds    a name that leads out of the folder, or not to a regular file
├── NotFound       no such file, section or entry
├── Ambiguous      the name matches more than once
├── TooLarge       more than a file, a folder or an entry may hold
└── NotStored      the disk or another process prevented it
"""

from __future__ import annotations


class PersonaError(Exception):
    """An error about a persona's files."""


class OutOfBounds(PersonaError):
    """The name leads out of the folder, through a link, or not to a regular text file."""


class NotFound(PersonaError):
    """There is no such file, section or entry."""


class Ambiguous(PersonaError):
    """The name matches more than once."""


class TooLarge(PersonaError):
    """It would exceed a limit."""


class NotStored(PersonaError):
    """It could not be read or written: a full or read-only disk, or a lock that is not released."""
