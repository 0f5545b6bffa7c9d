"""Signal's part of --check."""

from __future__ import annotations

from urllib.parse import urlsplit

from agent_config import Settings
from agentic.agent.roster import PersonaFolders, listed
from agentic.findings import Findings
from agentic.services.signal.client import SignalClient, SignalError, Unreachable
from agentic.services.signal.envelopes import masked
from agentic.services.signal.settings import SignalSettings


async def check_signal(settings: Settings, found: Findings) -> None:
    """Check what agents need to be on Signal: people to answer, a model each, the server, and an account each there."""
    own = SignalSettings.of(settings)
    if not own.signal_allowed:
        found.wrong("Signal", "no person is heard: nobody is named", "set SIGNAL_ALLOWED")
    elif "all" in own.signal_allowed:
        found.warn("Signal", "everybody who knows a number is answered, at your cost", "name people in SIGNAL_ALLOWED")
    else:
        count = len(own.signal_allowed)
        found.ok("Signal", f"{count} {'person or account is' if count == 1 else 'people or accounts are'} answered")
    by_key = {one.key: one for one in listed(settings, PersonaFolders(settings.personas_dir).refresh())}
    for key in own.signal_numbers:
        agent = by_key.get(key)
        if agent is None or agent.settings is None:  # a key that is missing is reported with the agent
            why = agent.why_not if agent is not None else f"{settings.personas_dir / key} cannot be read"
            found.wrong("Signal", f"{key} cannot answer: {why}", f"correct identity.md of {key}, or the setting")
    place = urlsplit(own.signal_api_url).netloc.rpartition("@")[2]
    async with SignalClient(own.signal_api_url) as client:
        try:
            mode = await client.identify(next(iter(own.signal_numbers.values())))
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
        for key, number in own.signal_numbers.items():
            # The server lists an account's groups; for a number that it does not know it says no.
            try:
                await client.groups(number)
            except Unreachable as error:
                found.warn("Signal", f"{key}: the account {masked(number)} was not looked at: {error}", "check again")
            except SignalError as error:
                advice = "register the number, or correct SIGNAL_NUMBERS; docs/signal.md has the steps"
                found.wrong("Signal", f"{key}: the server has no account {masked(number)}: {error}", advice)
            else:
                found.ok("Signal", f"{key} has the account {masked(number)}")
