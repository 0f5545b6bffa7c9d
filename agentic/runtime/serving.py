"""Builds the console's parts from what runs in this process, and serves it in the same loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

from agentic.console.app import console_app, serving_console
from agentic.console.parts import BotState, ConsoleParts, ModelPrice, RecordFile
from agentic.runtime.console_rooms import AgentColours, ConsoleRooms
from agentic.runtime.from_console import ConsoleReplayer
from agentic.runtime.live_channels import TranscriptChannels
from agentic.runtime.model_prices import model_prices
from agentic.runtime.process import Runtime
from agentic.runtime.watching import metrics_routes
from agentic.wire.endings import ENDINGS
from agentic.wire.reasons import REASONS


async def serve_console(runtime: Runtime, stack: AsyncExitStack) -> None:
    """Serve it until the stack is closed, and note its address where that worked."""
    settings = runtime.setup.settings
    store = RecordFile(settings.record_file if settings.records else None)
    stack.push_async_callback(store.aclose)
    app = console_app(_parts(runtime, store))
    if await stack.enter_async_context(serving_console(app, settings, runtime.connections)):
        runtime.console = settings.console_link


def _parts(runtime: Runtime, store: RecordFile) -> ConsoleParts:
    setup, services = runtime.setup, runtime.services
    return ConsoleParts(
        settings=setup.settings,
        names=services.roster.names,
        colours=AgentColours(services),
        ledger=services.ledger,
        bus=services.bus,
        orders=services.orders,
        stops=services.stops,
        live=TranscriptChannels(services, runtime.bots.values),
        store=store,
        replayer=ConsoleReplayer(setup.settings, services.ledger, make_model=setup.make_model, clock=setup.clock),
        notes=services.record,
        people=setup.people,
        rooms=ConsoleRooms(services, runtime.bots.values),
        reasons=REASONS,
        endings={str(because): text for because, text in ENDINGS.items()},
        prices=partial(_prices, runtime),
        bot=partial(_bot, runtime),
        recorder=lambda: runtime.read_record(),  # which is set when the recorder starts
        routes=metrics_routes(runtime),
        clock=setup.clock,
    )


def _prices(runtime: Runtime, agent: str) -> Sequence[ModelPrice]:
    bot, settings = runtime.bots.get(agent), runtime.setup.settings.agents.get(agent)
    if bot is not None and bot.model.free:  # local mode's models are not those of the settings
        return (ModelPrice(bot.model.name),)
    return () if settings is None else model_prices(settings)


def _bot(runtime: Runtime, agent: str) -> BotState:
    """Unknown for a bot of another process. py-cord gives no number before the first heartbeat."""
    bot = runtime.bots.get(agent)
    signal = runtime.signal.connected.get(agent) if runtime.signal is not None else None
    if bot is None:
        return BotState(signal=signal)
    latency = bot.client.latency
    return BotState(latency if math.isfinite(latency) else None, bot.failure, signal)
