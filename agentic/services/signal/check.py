"""Signal's part of --check."""

from __future__ import annotations

from urllib.parse import urlsplit

from agent_config import Settings
from agentic.agent.roster import PersonaFolders, list_agents
from agentic.findings import Findings
from agentic.services.signal.client import SignalClient, SignalError, Unreachable
from agentic.services.signal.envelopes import mask_address
from agentic.services.signal.settings import SignalSettings
from agentic.text import counted


async def check_signal(settings: Settings, found: Findings) -> None:
    """Check that agents can work on Signal: who may write to them, their models, the server, and their accounts."""
    own = SignalSettings.of(settings)
    if not own.signal_allowed:
        found.wrong("Signal", "nobody may write to the bots: SIGNAL_ALLOWED is empty", "set SIGNAL_ALLOWED")
    elif "all" in own.signal_allowed:
        found.warn("Signal", "anyone who knows a number gets answers, at your cost", "list people in SIGNAL_ALLOWED")
    else:
        found.ok("Signal", f"{counted(len(own.signal_allowed), 'person', 'people')} may write to the bots")
    by_key = {one.key: one for one in list_agents(settings, PersonaFolders(settings.personas_dir).refresh())}
    for key in own.signal_numbers:
        agent = by_key.get(key)
        if agent is None or agent.settings is None:  # a missing API key is reported with the agent
            why = agent.why_not if agent is not None else f"{settings.personas_dir / key} can't be read"
            found.wrong("Signal", f"{key} can't answer: {why}", f"fix {key}'s identity.md or the setting")
    place = urlsplit(own.signal_api_url).netloc.rpartition("@")[2]
    async with SignalClient(own.signal_api_url) as client:
        try:
            mode = await client.identify(next(iter(own.signal_numbers.values())))
        except SignalError:
            advice = "start it (docker compose --profile signal up -d signal), or fix SIGNAL_API_URL"
            found.wrong("Signal", f"signal-cli-rest-api doesn't answer at {place}", advice)
            return
        if mode is None:
            advice = "fix SIGNAL_API_URL; llama.cpp's server uses the same default port, 8080"
            found.wrong("Signal", f"the web server at {place} isn't signal-cli-rest-api", advice)
            return
        found.ok("Signal", f"signal-cli-rest-api answers at {place}")
        if mode and not mode.startswith("json-rpc"):
            wrong = f"signal-cli-rest-api runs with MODE={mode[:20]}, which doesn't deliver messages"
            found.wrong("Signal", wrong, "start it with MODE=json-rpc, as compose.yaml does")
        for key, number in own.signal_numbers.items():
            try:
                await client.groups(number)  # refused if the server doesn't know the number
            except Unreachable as error:
                found.warn("Signal", f"{key}: couldn't check the account {mask_address(number)}: {error}", "try again")
            except SignalError as error:
                advice = "register the number, or fix SIGNAL_NUMBERS; docs/signal.md has the steps"
                found.wrong("Signal", f"{key}: the server has no account {mask_address(number)}: {error}", advice)
            else:
                found.ok("Signal", f"{key} has the account {mask_address(number)}")
