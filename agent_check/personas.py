"""Check the personas without a bot: which can sit in rooms, and why the others cannot. Reads their folders alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from agent_check.findings import Findings
from agent_check.forecast import room_cost, tariff_in
from agent_cogs.persona.roster import PersonaFolders, RosterEntry, listed
from agent_config import Settings
from agent_protocol.coordination.rooms import DEFAULT_TURNS


def check_personas(settings: Settings, found: Findings) -> None:
    """One line for all that can speak, and one for each reason why others cannot."""
    agents = listed(settings, PersonaFolders(settings.personas_dir).refresh())
    personas = [one for one in agents if one.key not in settings.agents]
    if able := [one for one in personas if one.why_not is None]:
        found.ok("personas", f"{_names(able)} can sit in rooms, without a bot; {_costs(able)}")
    refused: dict[str, list[RosterEntry]] = defaultdict(list)
    for persona in personas:
        if persona.why_not is not None:
            refused[persona.why_not].append(persona)
    for why, those in refused.items():
        advice = f"correct identity.md in {settings.personas_dir / those[0].key}, or the setting"
        found.note("personas", f"{_names(those)} cannot sit in rooms: {why}", advice)


def _costs(personas: Iterable[RosterEntry]) -> str:
    dollars = room_cost([tariff_in(None, one.settings) for one in personas if one.settings is not None])
    return f"a room of {DEFAULT_TURNS} turns costs about ${dollars:.2g}" if dollars else "their models cost nothing"


def _names(personas: Iterable[RosterEntry]) -> str:
    return ", ".join(one.shown for one in personas)
