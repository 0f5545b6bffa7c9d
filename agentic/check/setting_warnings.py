"""Warn of settings that are valid but name something that does not exist.

Each warning is one line, logged at the start and shown by --check. None stops a start; the network is not used.
"""

from __future__ import annotations

import difflib
import errno
import socket
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_config import Settings
from agentic.check.bots import options_in
from agentic.context.options import MAX_MESSAGES
from agentic.llm.pricing import at_home
from agentic.process.root import ROOT
from agentic.tools.builtin_files import FILE_TOOLS
from agentic.tools.memory import NAME as MEMORY
from agentic.tools.recall import NAME as RECALL
from agentic.tools.web_tools import NAMES

TOOLS = (*NAMES, MEMORY, RECALL, *FILE_TOOLS)
CONFIG_FILES = ("shared.yaml", "endpoints.yaml", "mcp.yaml")
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class SettingWarning:
    """A problem with a setting, and the advice against it."""

    subject: str
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}; {self.advice}"


def setting_warnings_here(settings: Settings, folder: Path | None = None) -> list[SettingWarning]:
    """All warnings for a start in `folder` (default: the working folder). Call it before the start creates files."""
    found = [*_folders(settings, folder or Path.cwd()), *_files(settings.config_files_dir, settings.agents)]
    found += [*_window(settings), *_tools(settings), *_models(settings), *_memory(settings)]
    return list(dict.fromkeys(found))


def _folders(settings: Settings, folder: Path) -> Iterator[SettingWarning]:
    named = settings.model_fields_set
    if "personas_dir" in named and not settings.personas_dir.is_dir():
        text = f"{settings.personas_dir} does not exist, so every bot starts with new files"
        yield SettingWarning("PERSONAS_DIR", text, "correct it if your bots' files are elsewhere")
    if "config_files_dir" in named and not settings.config_files_dir.is_dir():
        text = f"{settings.config_files_dir} does not exist, so no options, endpoints or MCP servers are read"
        yield SettingWarning("CONFIG_FILES_DIR", text, "correct it, or create the folder")
    used = (".env", str(settings.personas_dir), str(settings.config_files_dir))
    if "personas_dir" not in named and folder != ROOT and not any((folder / name).exists() for name in used):
        text = f"{folder} has no .env, personas/ or config/, so the bots start with new files there"
        yield SettingWarning("working folder", text, f"start it in {ROOT}, or set PERSONAS_DIR")


def _files(folder: Path, agents: Collection[str]) -> Iterator[SettingWarning]:
    """Files of the owner's that nothing reads. Wrong names among those of guilds and bots are reported with their
    contents (option_files.py)."""
    for path in sorted((*folder.glob("*.y*ml"), *folder.glob("*/*.y*ml"))):
        name = path.relative_to(folder).as_posix()
        of_options = name.startswith(("guilds/", "bots/")) and path.suffix == ".yaml"
        if of_options or name in CONFIG_FILES or name.endswith(".example.yaml"):
            continue
        meant = path.with_suffix(".yaml").relative_to(folder).as_posix()
        known = (*CONFIG_FILES, *(f"bots/{agent}.yaml" for agent in agents))
        close = (
            [f"bots/{path.stem}.yaml"]
            if path.stem in agents
            else difflib.get_close_matches(meant, known, n=1, cutoff=0.8)
        )
        advice = f"did you mean {close[0]}?" if close else "config/README.md lists the names"
        yield SettingWarning(str(path), "is not used", advice)


def _window(settings: Settings) -> Iterator[SettingWarning]:
    if settings.context_window_size > MAX_MESSAGES:
        text = f"{settings.context_window_size} counts as {MAX_MESSAGES}, since no more messages are kept"
        yield SettingWarning("CONTEXT_WINDOW_SIZE", text, f"set {MAX_MESSAGES} or less")


def _tools(settings: Settings) -> Iterator[SettingWarning]:
    """Names of no tool. Names with two underscores or a wildcard may belong to an MCP server."""
    lists = {"ALLOWED_TOOLS": settings.allowed_tools if "allowed_tools" in settings.model_fields_set else ()}
    lists |= {agent.spec.tools_setting: agent.allowed_tools or () for agent in settings.agents.values()}
    for key, patterns in lists.items():
        for name in (pattern.removeprefix("!") for pattern in patterns):
            if name in (*TOOLS, "none") or "__" in name or not _WILDCARDS.isdisjoint(name):
                continue
            if name[:1].isupper():
                if settings.agent_runtime is None:
                    text = f"{name} is a tool of coding agents, and no coding agent is set"
                    yield SettingWarning(key, text, "set AGENT_RUNTIME, or remove the tool")
                continue
            close = difflib.get_close_matches(name.lower(), TOOLS, n=1)
            advice = (
                f"did you mean {close[0]}?" if close else f"use {', '.join(TOOLS)}, or server__tool of an MCP server"
            )
            yield SettingWarning(key, f"there is no tool {name}", advice)


def _models(settings: Settings) -> Iterator[SettingWarning]:
    """A server of the owner's needs no key, but the providers' SDKs want one."""
    for agent in settings.agents.values():
        model = agent.models[0]
        if not agent.usable and model.lacks == model.key_setting and at_home(model.base_url):
            text = f"it names your own server, but {model.key_setting} is not set, so {agent.display_name} has no model"
            yield SettingWarning(
                model.base_url_setting, text, f"set {model.key_setting}, to any word if that server needs no key"
            )


def _memory(settings: Settings) -> Iterator[SettingWarning]:
    """Options that need the record, where nothing is recorded."""
    if settings.records:
        return
    speaking = {agent.name: agent.display_name for agent in settings.agents.values() if agent.token is not None}
    for key, shown in {**{name: name.title() for name in settings.signal_numbers}, **speaking}.items():
        options = options_in(key, settings)
        for name in ("message_log", "recall"):
            if any(getattr(options(server), name) for server in (None, *settings.guild_ids)):
                text = f"{shown} has the option {name}, and nothing is recorded, so it does nothing"
                yield SettingWarning("RECORD_DAYS", text, "set RECORD_DAYS to more than 0, or the option to false")


def taken_ports(settings: Settings) -> Iterator[SettingWarning]:
    """Ports that are in use already, so that a start could not serve them."""
    ports = {
        "HEALTH_PORT": ("127.0.0.1", settings.health_port),
        "EVENTS_PORT": (settings.events_host, settings.events_port),
        "CONSOLE_PORT": (settings.console_host, settings.console_port if settings.console else 0),
    }
    for key, (host, port) in ports.items():
        if port and _taken(host, port):
            text = f"{port} on {host} is in use, by these bots if they are running, otherwise by another program"
            yield SettingWarning(key, text, "choose another port if the bots are not running")


def _taken(host: str, port: int) -> bool:
    try:
        with socket.create_server((host, port)):
            return False
    except OSError as error:
        return error.errno == errno.EADDRINUSE
