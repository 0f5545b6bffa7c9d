"""Run the checks, each with a time limit. A check that fails becomes a finding; the other checks still run."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import discord
from rich.console import Console

from agent_config import AgentSettings, Settings, process_environment
from agentic.agent.roster import agents_outside_rooms
from agentic.check import costs, machine, report
from agentic.check import discord as bots
from agentic.check.agents import check_key, check_personas, check_pulled
from agentic.check.discord import BotView
from agentic.check.odd_settings import setting_warnings_here
from agentic.check.report import ReportSection
from agentic.findings import Findings, Level
from agentic.process.logs import version_line
from agentic.services.context import load_services
from agentic.settings.services import account_setting_of, services_in_use
from agentic.settings.settings import DISCORD
from agentic.text import explain_failure, listed

T = TypeVar("T")

log = logging.getLogger(__name__)

SECONDS = 30.0  # for each check; py-cord would retry longer


async def run_check(settings: Settings, *, console: Console | None = None, **how: Any) -> int:
    """Print the report. Returns 1 if something is wrong, else 0. `how` is passed to `check_all`."""
    with quiet():
        sections = await check_all(settings, **how)
    report.show(sections, console or Console(), settings)
    return int(any(finding.level is Level.WRONG for section in sections for finding in section.findings))


async def check_all(
    settings: Settings,
    *,
    seconds: float = SECONDS,
    use_default_redis: bool = True,
    clock: Callable[[], float] = time.time,
    environment: Mapping[str, str] | None = None,
    env_file: Path = Path(".env"),
) -> Sequence[ReportSection]:
    """Run the checks, each for at most `seconds`. Returns a section for each agent and one that they share. MCP servers
    see a part of `environment` (default: this process's environment)."""
    environment = process_environment() if environment is None else environment
    agents = {**settings.agents, **agents_outside_rooms(settings)}
    sections = {name: ReportSection(agent.display_name) for name, agent in agents.items()}
    shared = ReportSection("Shared")
    shared.findings.ok("version", version_line())  # for bug reports
    _check_discord(settings, shared.findings)
    machine.check_clock(settings, shared.findings, clock)
    shared.findings += [*setting_warnings_here(settings), *machine.taken_ports(settings)]
    machine.check_env_file(env_file, shared.findings)
    machine.check_data_folder(settings, shared.findings)
    machine.check_record(settings, shared.findings)
    costs.check_options(settings, shared.findings)
    # First: Redis has as little time to answer as in a turn, and importing SDKs would delay it.
    redis = machine.check_redis(settings, shared.findings, use_default_redis=use_default_redis)
    await _guarded(redis, shared.findings, "Redis", seconds)
    await _guarded(costs.check_tools(settings, shared.findings, environment), shared.findings, "MCP servers", seconds)
    looks = [_check_agent(agent, settings, sections[name], seconds) for name, agent in agents.items()]
    seen = await asyncio.gather(*looks)
    views = {name: view for name, view in zip(agents, seen, strict=True) if view is not None}
    if views:
        await _guarded(bots.check_clock_by_discord(shared.findings, clock), shared.findings, "clock", seconds)
    servers = {channel.id: channel.guild_id for view in views.values() for channel in view.channels.values()}
    costs.check_costs(settings, shared.findings, clock(), servers)
    costs.check_cheap(settings, shared.findings)
    personas = check_personas(settings, shared.findings)
    for service in load_services(settings):
        await _guarded(service.check(settings, shared.findings), shared.findings, service.info.name, seconds)
    await _guarded(check_pulled(settings, personas, shared.findings), shared.findings, "Ollama", seconds)
    bots.check_identities(views, sections)
    strays = bots.check_bot_ids(views, settings, sections)
    if strays and len(views) == sum(agent.token is not None for agent in settings.agents.values()):
        text = f"these ids don't belong to any of your bots: {', '.join(map(str, strays))}"
        shared.findings.warn("BOT_IDS", text, "remove them from BOT_IDS")
    if settings.bots_role_id is not None and views:
        bots.check_role(views, settings.bots_role_id, shared.findings)
    return [*(section for section in sections.values() if section.findings), shared]


def _check_discord(settings: Settings, shared: Findings) -> None:
    if not settings.on_discord:
        text = f"not used: the bots are only on {_other_services(settings)}"
        shared.note("Discord", text, "to use Discord too, set CHANNEL=both and a bot's token")
        return
    if not any(agent.token for agent in settings.agents.values()):
        names = ", ".join(agent.spec.token_setting for agent in settings.agents.values())
        shared.wrong("tokens", "no bot has a token, so none can start", f"set at least one of {names}")
    if not settings.channels:
        shared.wrong("channels", "no channel is set, so the bots won't speak", "set CHANNEL_THEME_MAP")


def _other_services(settings: Settings) -> str:
    infos = (service.info for service in services_in_use(settings))
    return listed([info.name for info in infos if info.key != DISCORD])


async def _check_agent(
    agent: AgentSettings, settings: Settings, section: ReportSection, seconds: float
) -> BotView | None:
    if agent.token is None and agent.name not in settings.account_agents:
        if settings.on_discord:
            section.findings.note("token", "not set, so this bot is off", f"set {agent.spec.token_setting} to run it")
        return None
    key, view = Findings(), None
    checking_key = _guarded(check_key(agent, key, account_setting_of(agent.name, settings)), key, "key", seconds)
    if agent.token is None:
        section.findings.note("token", f"none needed: this agent is only on {_other_services(settings)}")
        await checking_key
    else:
        checking_bot = _guarded(bots.check_bot(agent, settings, section), section.findings, "Discord", seconds)
        view, _ = await asyncio.gather(checking_bot, checking_key)
    section.findings.extend(key)
    machine.check_persona(settings.persona_folder(agent.name), section.findings)
    costs.check_always_search(agent, settings, section.findings)
    return view


async def _guarded(check: Awaitable[T], found: Findings, subject: str, seconds: float) -> T | None:
    try:
        async with asyncio.timeout(seconds):
            return await check
    except TimeoutError:
        found.wrong(subject, f"no answer within {seconds:g} seconds", "check your network, then run this check again")
    except discord.HTTPException as error:
        found.wrong(subject, f"answered with HTTP error {error.status}", "run this check again in a few minutes")
    except (aiohttp.ClientError, OSError) as error:
        found.wrong(
            subject, f"can't be reached ({explain_failure(error)})", "check your network, then run this check again"
        )
    except Exception as error:
        log.debug("%s: the check failed", subject, exc_info=error)
        reason = str(error) or f"no reason given ({type(error).__name__})"
        found.wrong(subject, f"the check failed: {reason}"[:200], "LOG_LEVEL=DEBUG shows the details")
    return None


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the log unless LOG_LEVEL=DEBUG: the report says the same."""
    before = logging.root.manager.disable
    if not logging.getLogger().isEnabledFor(logging.DEBUG):
        logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)
