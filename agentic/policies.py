"""The policies that decide who speaks next, in words for people. To add a policy, start with a row here.

Its class is in agent_coordinator/policies/, where by_name.py makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

PolicyName = Literal["rounds", "round-robin", "moderated", "pull"]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
POLICY_TEXTS: Mapping[str, str] = {
    "round-robin": "in turn, in the order given",
    "pull": "the member the conversation concerns most",
    "moderated": "the moderator names the next speaker (without one, the room waits for you to name it)",
    "rounds": "in rounds, each in a different order",
}
