"""Warn about odd settings: they are valid but name something that doesn't exist.

Each warning is one line, logged at the start and shown by --check. No warning stops a start. This module doesn't use
the network, and imports nothing that a start without --check doesn't need.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection
from pathlib import Path

from agent_config import Settings
from agentic.agent.options import LookupScope, load_options
from agentic.agent.persona import Personas
from agentic.context.options import MAX_MESSAGES, Options
from agentic.findings import Finding, Findings
from agentic.llm.pricing import is_local
from agentic.process.root import ROOT
from agentic.tools.own_tools import FILE_TOOLS, MEMORY, RECALL, THREAD_READ
from agentic.tools.toolset import NAMES

OptionsIn = Callable[[int | None], Options]  # by server id; None: any other server

TOOLS = (*NAMES, MEMORY, RECALL, THREAD_READ, *FILE_TOOLS)
CONFIG_FILES = ("shared.yaml", "endpoints.yaml", "mcp.yaml")
_WILDCARDS = frozenset("*?[")


def setting_warnings_here(settings: Settings, folder: Path | None = None) -> list[Finding]:
    """All warnings for a start in `folder` (default: the working folder). Call it before the start creates files."""
    found = Findings()
    _warn_of_folders(settings, folder or Path.cwd(), found)
    _warn_of_files(settings.config_files_dir, settings.agents, found)
    if settings.context_window_size > MAX_MESSAGES:
        text = f"{settings.context_window_size} is above the maximum, so the bots use {MAX_MESSAGES}"
        found.warn("CONTEXT_WINDOW_SIZE", text, f"set {MAX_MESSAGES} or less")
    _warn_of_tools(settings, found)
    _warn_of_models(settings, found)
    _warn_of_memory(settings, found)
    _warn_of_lone_bot(settings, found)
    return list(dict.fromkeys(found))


def _warn_of_folders(settings: Settings, folder: Path, found: Findings) -> None:
    named = settings.model_fields_set
    if "personas_dir" in named and not settings.personas_dir.is_dir():
        text = f"{settings.personas_dir} doesn't exist, so every bot starts with new files"
        found.warn("PERSONAS_DIR", text, "correct it if your bots' files are elsewhere")
    if "config_files_dir" in named and not settings.config_files_dir.is_dir():
        text = f"{settings.config_files_dir} doesn't exist, so the bots have no options, endpoints, or MCP servers"
        found.warn("CONFIG_FILES_DIR", text, "correct it, or create the folder")
    used = (".env", str(settings.personas_dir), str(settings.config_files_dir))
    if "personas_dir" not in named and folder != ROOT and not any((folder / name).exists() for name in used):
        text = f"{folder} has no .env, personas/ or config/, so the bots start with new files there"
        found.warn("working folder", text, f"start the program in {ROOT}, or set PERSONAS_DIR")


def _warn_of_files(folder: Path, agents: Collection[str], found: Findings) -> None:
    """Warn about files that nothing reads. Wrong names in guilds/ and bots/ are reported when the options are read."""
    for path in sorted((*folder.glob("*.y*ml"), *folder.glob("*/*.y*ml"))):
        name = path.relative_to(folder).as_posix()
        of_options = name.startswith(("guilds/", "bots/")) and path.suffix == ".yaml"
        if of_options or name in CONFIG_FILES or name.endswith(".example.yaml"):
            continue
        meant = path.with_suffix(".yaml").relative_to(folder).as_posix()
        known = (*CONFIG_FILES, *(f"bots/{agent}.yaml" for agent in agents))
        close = difflib.get_close_matches(meant, known, n=1, cutoff=0.8)
        if path.stem in agents:
            close = [f"bots/{path.stem}.yaml"]
        advice = f"did you mean {close[0]}?" if close else "config/README.md lists the names"
        found.warn(str(path), "isn't used: nothing reads a file with this name", advice)


def _warn_of_tools(settings: Settings, found: Findings) -> None:
    """Warn about unknown tools. Names with two underscores or a wildcard may belong to an MCP server."""
    lists = {"ALLOWED_TOOLS": settings.allowed_tools if "allowed_tools" in settings.model_fields_set else ()}
    lists |= {agent.spec.tools_setting: agent.allowed_tools or () for agent in settings.agents.values()}
    for key, patterns in lists.items():
        for name in (pattern.removeprefix("!") for pattern in patterns):
            if name in (*TOOLS, "none") or "__" in name or not _WILDCARDS.isdisjoint(name):
                continue
            if name[:1].isupper():
                if settings.agent_runtime is None:
                    text = f"{name} is a tool for coding agents, and there isn't one, so it has no effect"
                    found.warn(key, text, "set AGENT_RUNTIME, or remove the tool")
                continue
            close = difflib.get_close_matches(name.lower(), TOOLS, n=1)
            known = f"use {', '.join(TOOLS)}, or server__tool for a tool of an MCP server"
            found.warn(key, f"{name} isn't a tool", f"did you mean {close[0]}?" if close else known)


def _warn_of_models(settings: Settings, found: Findings) -> None:
    """Warn about the owner's own servers without a key: they need none, but the providers' SDKs do."""
    for agent in settings.agents.values():
        model = agent.models[0]
        if not agent.usable and model.lacks == model.key_setting and is_local(model.base_url):
            text = f"{agent.display_name} has no model: this is your own server, but {model.key_setting} isn't set"
            advice = f"set {model.key_setting} (any word will do if that server needs no key)"
            found.warn(model.base_url_setting, text, advice)


def _warn_of_memory(settings: Settings, found: Findings) -> None:
    if settings.records:
        return
    speaking = {agent.name: agent.display_name for agent in settings.agents.values() if agent.token is not None}
    for key, shown in {**{name: name.title() for name in settings.account_agents}, **speaking}.items():
        options = options_in(key, settings)
        for name in ("message_log", "recall"):
            if any(getattr(options(server), name) for server in (None, *settings.guild_ids)):
                text = f"nothing is recorded, so {shown}'s option {name} has no effect"
                found.warn("RECORD_DAYS", text, "set RECORD_DAYS to more than 0, or the option to false")


def _warn_of_lone_bot(settings: Settings, found: Findings) -> None:
    """Warn that a bot alone can't converse. In a process with AGENT_NAME the others may run elsewhere."""
    bots = [agent.display_name for agent in settings.agents.values() if agent.token is not None and agent.usable]
    if len(bots) == 1 and settings.schedule_max and settings.channels and settings.agent_name is None:
        text = f"{bots[0]} is the only bot, so each conversation ends after its first message"
        found.warn("conversations", text, "add a second bot, or set COORDINATOR_SCHEDULE_MAX=0 for answers only")


def options_in(agent: str, settings: Settings) -> OptionsIn:
    """Return a function that gives the agent's or persona's options in a server, from the owner's files."""
    names = {name: one.display_name for name, one in settings.agents.items()}
    book = load_options(settings, names, Personas(settings).layer)
    return lambda guild_id: book.options(agent, LookupScope(guild_id))
