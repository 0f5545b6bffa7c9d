"""The owner's files below CONFIG_FILES_DIR: are the options right, do the servers of tools start? What may be used?"""

from __future__ import annotations

from collections.abc import Mapping

from agent_check.findings import Findings
from agent_cogs.persona.option_files import OptionFiles
from agent_config import Settings
from agent_tools.builtin.files import FILE_TOOLS
from agent_tools.builtin.memory import NAME as MEMORY
from agent_tools.builtin.web_tools import NAMES
from agent_tools.mcp.client import McpServers
from agent_tools.mcp.config import read_servers
from agent_tools.toolbox import WEB_SEARCH, is_allowed


def check_options(settings: Settings, found: Findings) -> None:
    """A wrong option is left out at a start, so it is a warning."""
    files = OptionFiles(settings.config_files_dir, tuple(settings.agents))
    files.look()
    for problem in files.problems():
        found.warn("options", problem, "mend it; docs/context.md lists the options")


async def check_tools(settings: Settings, found: Findings, environment: Mapping[str, str]) -> None:
    """Starts the servers of config/mcp.yaml as a start would, lists their tools, and stops them."""
    built_in = [name for name in (*NAMES, MEMORY, *FILE_TOOLS) if is_allowed(name, settings.allowed_tools)]
    if WEB_SEARCH in built_in and not (settings.web_search or settings.search_keys):
        built_in.remove(WEB_SEARCH)
    found.ok("tools", ", ".join(built_in) or "none that is built in")
    servers, problems = read_servers(settings.config_files_dir / "mcp.yaml", settings.named_texts)
    for problem in problems:
        found.wrong("MCP servers", problem, "mend that line")
    async with McpServers(servers, environment=environment) as running:
        await running.tried()
        states, reasons = running.status(), running.reasons()
        for server in servers:
            if states[server.name] != "running":
                advice = "LOG_LEVEL=DEBUG shows what it says; mend it, or set enabled: false"
                told = f": {reasons[server.name]}" if reasons[server.name] else ""
                found.wrong(f"MCP server {server.name}", f"does not start{told}", advice)
            else:
                _tell(server.name, _names(running, settings, server.name), found)


def _names(running: McpServers, settings: Settings, server: str) -> list[str]:
    """The server's tools that any of the bots may use."""
    tools = {tool.spec.name for agent in settings.agents for tool in running.tools_for(agent)}
    prefix = f"{server}__"
    allowed = sorted(name for name in tools if name.startswith(prefix) and is_allowed(name, settings.allowed_tools))
    return [name.removeprefix(prefix) for name in allowed]


def _tell(server: str, tools: list[str], found: Findings) -> None:
    subject = f"MCP server {server}"
    if tools:
        found.ok(subject, ", ".join(tools))
    else:
        found.warn(subject, "runs, and no bot may use a tool of it", "look at ALLOWED_TOOLS, and its tools and agents")
