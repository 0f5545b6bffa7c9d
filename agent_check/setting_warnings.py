"""What a start would pass over in silence: settings that are right by themselves and name something that is not there.

Each is one line, told at the start and by --check. Nothing here stops a start, opens anything or asks the network.
"""

from __future__ import annotations

import difflib
import errno
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_config import Settings
from agent_llm.pricing import at_home
from agent_tools.builtin.files import FILE_TOOLS
from agent_tools.builtin.memory import NAME as MEMORY
from agent_tools.builtin.web_tools import NAMES

PROGRAM = Path(__file__).parents[1]
TOOLS = (*NAMES, MEMORY, *FILE_TOOLS)
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class SettingWarning:
    """What was found about a setting, and what to do about it."""

    subject: str
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}; {self.advice}"


def setting_warnings_here(settings: Settings, folder: Path | None = None) -> list[SettingWarning]:
    """All of them, for a start in `folder` (the working folder). Before the start has made anything."""
    found = [*_folders(settings, folder or Path.cwd()), *_tools(settings), *_models(settings)]
    return list(dict.fromkeys(found))


def _folders(settings: Settings, folder: Path) -> Iterator[SettingWarning]:
    named = settings.model_fields_set
    if "personas_dir" in named and not settings.personas_dir.is_dir():
        text = f"{settings.personas_dir} is not there and is made, with new files for every bot"
        yield SettingWarning("PERSONAS_DIR", text, "mend it if your bots' files are elsewhere")
    if "config_files_dir" in named and not settings.config_files_dir.is_dir():
        text = f"{settings.config_files_dir} is not there, so no options, endpoints and MCP servers are read"
        yield SettingWarning("CONFIG_FILES_DIR", text, "mend it, or make the folder")
    used = (".env", str(settings.personas_dir), str(settings.config_files_dir))
    if "personas_dir" not in named and folder != PROGRAM and not any((folder / name).exists() for name in used):
        text = f"{folder} has neither .env nor personas/ nor config/, so the bots begin with new files there"
        yield SettingWarning("the folder of this start", text, f"start it in {PROGRAM}, or set PERSONAS_DIR")


def _tools(settings: Settings) -> Iterator[SettingWarning]:
    """Names that no tool has. Servers of tools may have any that two underscores or a wildcard stand in."""
    lists = {"ALLOWED_TOOLS": settings.allowed_tools if "allowed_tools" in settings.model_fields_set else ()}
    lists |= {agent.spec.tools_setting: agent.allowed_tools or () for agent in settings.agents.values()}
    for key, patterns in lists.items():
        for name in (pattern.removeprefix("!") for pattern in patterns):
            if name in (*TOOLS, "none") or "__" in name or not _WILDCARDS.isdisjoint(name):
                continue
            if name[:1].isupper():
                if settings.agent_runtime is None:
                    text = f"{name} is a tool of a coding agent, and there is none"
                    yield SettingWarning(key, text, "set AGENT_RUNTIME, or take it out")
                continue
            close = difflib.get_close_matches(name.lower(), TOOLS, n=1)
            advice = f"{close[0]} is one" if close else f"there are {', '.join(TOOLS)}, and server__tool of MCP servers"
            yield SettingWarning(key, f"{name} is no tool and does nothing", advice)


def _models(settings: Settings) -> Iterator[SettingWarning]:
    """Servers at home ask for no key; the SDKs of the makers do."""
    for agent in settings.agents.values():
        model = agent.models[0]
        if not agent.usable and model.lacks == model.key_setting and at_home(model.base_url):
            text = (
                f"it names a machine of yours, and {model.key_setting} is not set, so {agent.display_name} has no model"
            )
            yield SettingWarning(
                model.base_url_setting, text, f"set {model.key_setting}, to any word if that server wants none"
            )


def taken_ports(settings: Settings) -> Iterator[SettingWarning]:
    """Ports that somebody listens on already, which a start would not serve."""
    ports = {
        "HEALTH_PORT": ("127.0.0.1", settings.health_port),
        "EVENTS_PORT": (settings.events_host, settings.events_port),
    }
    for key, (host, port) in ports.items():
        if port and _taken(host, port):
            text = f"{port} is in use on {host}, by these bots if they run, else by another program"
            yield SettingWarning(key, text, "choose another port if they do not run")


def _taken(host: str, port: int) -> bool:
    try:
        with socket.create_server((host, port)):
            return False
    except OSError as error:
        return error.errno == errno.EADDRINUSE
