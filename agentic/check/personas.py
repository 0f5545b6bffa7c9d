"""Check the agents without a bot: which personas can sit in rooms, and why the others cannot, from their folders alone;
and those on Signal: whether its server answers and knows their numbers, and whether they have a model and people.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from urllib.parse import urlsplit

from agent_config import Settings
from agentic.agent.roster import PersonaFolders, RosterEntry, listed
from agentic.check.findings import Findings
from agentic.check.forecast import room_cost, tariff_in
from agentic.services.signal.client import SignalClient
from agentic.services.signal.errors import SignalError, Unreachable
from agentic.services.signal.ids import masked
from agentic.state.rooms import DEFAULT_TURNS


def check_personas(settings: Settings, found: Findings) -> list[RosterEntry]:
    """One line for all that can speak, and one for each reason why others cannot; on Signal alone there are no rooms.
    Returns them all."""
    agents = listed(settings, PersonaFolders(settings.personas_dir).refresh())
    personas = [one for one in agents if one.key not in settings.agents]
    if not settings.on_discord:
        return personas
    if able := [one for one in personas if one.why_not is None]:
        found.ok("personas", f"{_names(able)} can sit in rooms, without a bot; {_costs(able)}")
    refused: dict[str, list[RosterEntry]] = defaultdict(list)
    for persona in personas:
        if persona.why_not is not None:
            refused[persona.why_not].append(persona)
    for why, those in refused.items():
        file = f"identity.md in {settings.personas_dir / those[0].key}"
        has_model = those[0].settings is not None
        advice = f"set that key, or name another model in {file}" if has_model else f"correct {file}, or the setting"
        found.note("personas", f"{_names(those)} cannot sit in rooms: {why}", advice)
    return personas


def _costs(personas: Iterable[RosterEntry]) -> str:
    dollars = room_cost([tariff_in(None, one.settings) for one in personas if one.settings is not None])
    return f"a room of {DEFAULT_TURNS} turns costs about ${dollars:.2g}" if dollars else "their models cost nothing"


def _names(personas: Iterable[RosterEntry]) -> str:
    return ", ".join(one.shown for one in personas)


async def check_signal(settings: Settings, found: Findings) -> None:
    """Check what agents need to be on Signal: people to answer, a model each, the server, and an account each there."""
    if not settings.numbers:
        return
    _check_allowed(settings, found)
    by_key = {one.key: one for one in listed(settings, PersonaFolders(settings.personas_dir).refresh())}
    for key in settings.numbers:
        agent = by_key.get(key)
        if agent is None or agent.settings is None:  # a key that is missing is reported with the agent
            why = agent.why_not if agent is not None else f"{settings.personas_dir / key} cannot be read"
            found.wrong("Signal", f"{key} cannot answer: {why}", f"correct identity.md of {key}, or the setting")
    place = urlsplit(settings.signal_api_url).netloc.rpartition("@")[2]
    async with SignalClient(settings.signal_api_url) as client:
        try:
            mode = await client.identify(next(iter(settings.numbers.values())))
        except SignalError:
            advice = "start it (docker compose --profile signal up -d signal), or correct SIGNAL_API_URL"
            found.wrong("Signal", f"no answer of signal-cli-rest-api at {place}", advice)
            return
        if mode is None:
            advice = "correct SIGNAL_API_URL; llama.cpp's server has the same port by default, 8080"
            found.wrong("Signal", f"what answers at {place} is another web server, not signal-cli-rest-api", advice)
            return
        found.ok("Signal", f"signal-cli-rest-api answers at {place}")
        if mode and not mode.startswith("json-rpc"):
            wrong = f"signal-cli-rest-api runs with MODE={mode[:20]}, in which it hands over no messages"
            found.wrong("Signal", wrong, "start it with MODE=json-rpc, as compose.yaml does")
        for key, number in settings.numbers.items():
            await _check_account(client, key, number, found)


def _check_allowed(settings: Settings, found: Findings) -> None:
    if not settings.signal_allowed:
        found.wrong("Signal", "no person is heard: nobody is named", "set SIGNAL_ALLOWED")
    elif "all" in settings.signal_allowed:
        found.warn("Signal", "everybody who knows a number is answered, at your cost", "name people in SIGNAL_ALLOWED")
    else:
        count = len(settings.signal_allowed)
        found.ok("Signal", f"{count} {'person or account is' if count == 1 else 'people or accounts are'} answered")


async def _check_account(client: SignalClient, key: str, number: str, found: Findings) -> None:
    """An account is there where the server lists its groups; for a number that it does not know it says no."""
    try:
        await client.groups(number)
    except Unreachable as error:
        found.warn("Signal", f"{key}: the account {masked(number)} was not looked at: {error}", "check again")
    except SignalError as error:
        advice = "register the number, or correct SIGNAL_NUMBERS; docs/signal.md has the steps"
        found.wrong("Signal", f"{key}: the server has no account {masked(number)}: {error}", advice)
    else:
        found.ok("Signal", f"{key} has the account {masked(number)}")
