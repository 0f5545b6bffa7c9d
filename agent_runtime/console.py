"""Builds the console's parts from what runs in this process, and serves it in the same loop."""

from __future__ import annotations

from contextlib import AsyncExitStack

from agent_console.app import console_app
from agent_console.parts import ConsoleParts
from agent_console.record_file import RecordFile
from agent_console.serving import serving_console
from agent_process.version import program_version
from agent_runtime.live_channels import TranscriptChannels
from agent_runtime.process import Runtime


async def serve_console(runtime: Runtime, stack: AsyncExitStack) -> None:
    """Serve it until the stack is closed, and note its address where that worked."""
    settings = runtime.setup.settings
    store = RecordFile(settings.record_file if settings.records else None)
    stack.push_async_callback(store.aclose)
    app = console_app(_parts(runtime, store))
    if await stack.enter_async_context(serving_console(app, settings)):
        runtime.console = settings.console_link


def _parts(runtime: Runtime, store: RecordFile) -> ConsoleParts:
    setup, services = runtime.setup, runtime.services
    return ConsoleParts(
        settings=setup.settings,
        names=services.names,
        colours={name: agent.spec.colour for name, agent in setup.settings.agents.items()},
        ledger=services.ledger,
        bus=services.bus,
        orders=services.orders,
        stops=services.stops,
        live=TranscriptChannels(services, runtime.bots.values),
        store=store,
        notes=services.record,
        people=setup.people,
        version=program_version(),
        clock=setup.clock,
    )
