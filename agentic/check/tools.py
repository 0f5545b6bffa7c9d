"""Check the owner's option files, the tools that bots may use, their searches, and that MCP servers start."""

from __future__ import annotations

from collections.abc import Mapping

from agent_config import AgentSettings, Settings
from agentic.agent.options import OptionFiles
from agentic.agent.roster import answering
from agentic.check.bots import options_in
from agentic.check.findings import Findings
from agentic.context.options import Options
from agentic.tools.builtin_files import FILE_TOOLS
from agentic.tools.mcp.client import McpServers
from agentic.tools.mcp.config import read_servers
from agentic.tools.memory import NAME as MEMORY
from agentic.tools.recall import NAME as RECALL
from agentic.tools.toolbox import WEB_SEARCH, is_allowed
from agentic.tools.web_tools import NAMES


def check_options(settings: Settings, found: Findings) -> None:
    """Report wrong options as warnings: a start skips them."""
    files = OptionFiles(settings.config_files_dir, tuple(settings.agents))
    files.refresh()
    for problem in files.problems():
        found.warn("options", problem, "correct it; docs/context.md lists the options")


def everywhere(agent: AgentSettings, settings: Settings) -> list[Options]:
    """The agent's options in each server of GUILD_IDS, and in any other place."""
    options = options_in(agent.name, settings)
    return [options(server) for server in (None, *settings.guild_ids)]


def searches_always(agent: AgentSettings, settings: Settings) -> bool:
    """Whether the agent searches before each answer to a person, in one place at least."""
    wanting = [one for one in everywhere(agent, settings) if one.always_search]
    return any(_may(WEB_SEARCH, agent, settings, one) for one in wanting)


def check_always_search(agent: AgentSettings, settings: Settings, found: Findings) -> None:
    """Report whether the agent searches before each answer to a person, and where its tools do not allow that."""
    wanting = [one for one in everywhere(agent, settings) if one.always_search]
    if not wanting:
        return
    if not all(_may(WEB_SEARCH, agent, settings, one) for one in wanting):
        advice = f"add {WEB_SEARCH} to ALLOWED_TOOLS and to the option tools, or set always_search: false"
        found.warn("always_search", f"has no effect where the tool {WEB_SEARCH} is not allowed", advice)
    else:
        found.ok("always_search", "one web search before each answer to a person; docs/costs.md says what it costs")


def _may(tool: str, agent: AgentSettings, settings: Settings, options: Options) -> bool:
    allowed = settings.allowed_tools if agent.allowed_tools is None else agent.allowed_tools
    return is_allowed(tool, allowed) and is_allowed(tool, options.tools)


def _recalls(agent: AgentSettings, settings: Settings) -> bool:
    return any(one.recall and _may(RECALL, agent, settings, one) for one in everywhere(agent, settings))


async def check_tools(settings: Settings, found: Findings, environment: Mapping[str, str]) -> None:
    """Start the servers of config/mcp.yaml as a start would, list their tools, and stop them."""
    built_in = [name for name in (*NAMES, MEMORY, *FILE_TOOLS) if is_allowed(name, settings.allowed_tools)]
    if WEB_SEARCH in built_in and not (settings.web_search or settings.search_keys):
        built_in.remove(WEB_SEARCH)
    if any(_recalls(agent, settings) for agent in answering(settings).values()):
        built_in.append(RECALL)
    found.ok("tools", ", ".join(built_in) or "no built-in tool")
    servers, problems = read_servers(settings.config_files_dir / "mcp.yaml", settings.named_texts)
    for problem in problems:
        found.wrong("MCP servers", problem, "correct that line")
    async with McpServers(servers, environment=environment) as running:
        await running.tried()
        states, reasons = running.status(), running.reasons()
        for server in servers:
            if states[server.name] != "running":
                advice = "LOG_LEVEL=DEBUG shows its output; fix it, or set enabled: false"
                reason = f": {reasons[server.name]}" if reasons[server.name] else ""
                found.wrong(f"MCP server {server.name}", f"does not start{reason}", advice)
            else:
                _report(server.name, _names(running, settings, server.name), found)


def _names(running: McpServers, settings: Settings, server: str) -> list[str]:
    """The server's tools that at least one bot may use."""
    tools = {tool.spec.name for agent in settings.agents for tool in running.tools_for(agent)}
    prefix = f"{server}__"
    allowed = sorted(name for name in tools if name.startswith(prefix) and is_allowed(name, settings.allowed_tools))
    return [name.removeprefix(prefix) for name in allowed]


def _report(server: str, tools: list[str], found: Findings) -> None:
    subject = f"MCP server {server}"
    if tools:
        found.ok(subject, ", ".join(tools))
    else:
        found.warn(
            subject,
            "runs, but no bot may use any of its tools",
            "check ALLOWED_TOOLS, and `tools` and `agents` of the server",
        )
