"""Mistakes that somebody could make in the core, by what they are made in.

`python -m tests.mutants` makes one at a time in a copy of the tree and runs the tests that are to see it. That takes
long, so it is no part of `make test`; tests/mutants/test_mutants.py holds that the list fits the code.
"""

from __future__ import annotations

from tests.mutants.in_agents import IN_AGENTS
from tests.mutants.in_console import IN_CONSOLE
from tests.mutants.in_coordinator import IN_COORDINATOR
from tests.mutants.in_discord import IN_DISCORD
from tests.mutants.in_idle import IN_IDLE
from tests.mutants.in_local import IN_LOCAL
from tests.mutants.in_models import IN_MODELS
from tests.mutants.in_prompts import IN_PROMPTS
from tests.mutants.in_protocol import IN_PROTOCOL
from tests.mutants.in_record import IN_RECORD
from tests.mutants.in_rooms import IN_ROOMS
from tests.mutants.in_settings import IN_SETTINGS
from tests.mutants.in_setup import IN_SETUP
from tests.mutants.in_signal import IN_SIGNAL

MUTANTS = (
    *(*IN_PROTOCOL, *IN_COORDINATOR, *IN_AGENTS, *IN_DISCORD, *IN_PROMPTS, *IN_MODELS),
    *(*IN_SETTINGS, *IN_SETUP, *IN_LOCAL, *IN_RECORD, *IN_CONSOLE, *IN_ROOMS),
    *(*IN_SIGNAL, *IN_IDLE),
)
