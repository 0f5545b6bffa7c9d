"""A model whose turns are run by the Claude Agent SDK's `query()`: an agent with its own tools and sessions.

Each call starts the SDK's command-line program (a second, about 200 MiB). Its system prompt is the persona, its prompt
is the unread part of the channel, and its last text is the reply. The program stores sessions on disk; an
`AgentSessionStore` maps channels to sessions. If a session can't be resumed, it is dropped and the call fails with
SessionLost; the next call starts a new session. Nothing is retried here: the program retries its own requests, and a
query that was cut off may have written files.

A tool in Claude Code's `allowed_tools` is allowed everywhere: a plain "Read" reads any file on the machine, including
this program's `.env`. So the configured tools become the list of available tools, and tools for files are allowed only
in the working folder, which also covers links out of it. https://code.claude.com/docs/en/permissions
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

from agentic.llm import errors, pricing
from agentic.llm.errors import ModelError
from agentic.llm.profiles import QueryConfig
from agentic.llm.provider_table import profile_of
from agentic.llm.providers.anthropic import usage_of
from agentic.llm.types import Drawing, Message, Prompt, Reply, Tool, ToolCall, ToolResult, Usage

SDK = "claude_agent_sdk"
PROVIDER = "anthropic"
OURS = "agent"  # the MCP server of our tools: mcp__agent__memory
IN_FOLDER: Mapping[str, str] = {
    **dict.fromkeys(("Read", "Glob", "Grep"), "Read(./**)"),
    **dict.fromkeys(("Write", "Edit", "NotebookEdit"), "Edit(./**)"),
}
"""A tool for files → the rule that allows it below the working folder."""

# Variables of Claude Code: nothing but the model's own calls leaves the machine, and retries end soon.
QUIET: Mapping[str, str] = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",
    "DISABLE_AUTOUPDATER": "1",
}
_LOST = ("no conversation found", "resume rejected", "session id")
_BY_STATUS: Mapping[int, type[ModelError]] = {401: errors.BadKey, 403: errors.BadKey, 429: errors.RateLimited}

RunCall = Callable[[ToolCall], Awaitable[ToolResult]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentSession:
    """A channel's session, begun after the message `since`. It has read `read` characters of the channel's history,
    whose digest is `digest`."""

    session_id: str
    read: int = 0
    digest: str = ""
    since: int = 0


class AgentSessionStore(Protocol):
    """An agent's sessions by channel."""

    async def of(self, channel_id: int) -> AgentSession | None: ...

    async def keep(self, channel_id: int, session: AgentSession) -> None: ...

    async def drop(self, channel_id: int) -> None: ...


class AgentSdkModel:
    """The model of one agent. `free`: its calls cost nothing. Without `sessions`, every query has its own session."""

    can_draw = False

    def __init__(self, config: QueryConfig, *, free: bool = False, sessions: AgentSessionStore | None = None) -> None:
        self.config, self.free, self.sessions = config, free, sessions
        self.name = f"{PROVIDER}/{config.model}"
        self._sdk: ModuleType | None = None
        self._loading = asyncio.Lock()

    async def get_ready(self) -> ModuleType:
        """Return the SDK, imported off the event loop. Raises NotInstalled."""
        async with self._loading:
            if self._sdk is None:
                self._sdk = await asyncio.to_thread(self._load)
            return self._sdk

    def _load(self) -> ModuleType:
        for folder in (self.config.workspace, self.config.home):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        try:
            return import_module(SDK)
        except ImportError:
            hint = "pip install -r requirements-agent-sdk.txt"
            raise errors.NotInstalled(hint, provider=PROVIDER, model=self.config.model) from None

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        """Run one query within `prompt.timeout` seconds. Raises only ModelError, with the cost so far in `usage` if the
        SDK reported it."""
        if prompt.prefill is not None:
            raise errors.PrefillRefused(provider=PROVIDER, model=self.config.model)
        sdk = await self.get_ready()
        try:
            async with asyncio.timeout(prompt.timeout):
                # The agent's own messages are in the history, too.
                text = "\n\n".join(message.text for message in history if message.text)
                reply = await self._converse(sdk, prompt, text)
        except TimeoutError:
            raise self._cut_off(errors.TimedOut) from None
        if prompt.on_text is not None:
            prompt.on_text(reply.text)
        return reply

    async def _converse(self, sdk: ModuleType, prompt: Prompt, text: str) -> Reply:
        session = None
        channel_id = prompt.conversation if self.sessions is not None else None
        if self.sessions is not None and channel_id is not None:
            session = await self.sessions.of(channel_id)
            # One from before the conversation was restarted does not count: a query that was running at that moment
            # stores its session afterwards.
            session = session if session is not None and session.since >= prompt.since else None
        asked = "\n\n".join(part for part in (unread(text, session), prompt.text) if part)
        session_id = session.session_id if session else None
        options = options_of(sdk, self.config, prompt, session_id)
        result, began = None, False
        try:
            async with aclosing(sdk.query(prompt=asked, options=options)) as stream:
                async for message in stream:  # to the end: the program saves its session before it ends
                    if isinstance(message, sdk.SystemMessage) and message.subtype == "init":
                        began = True
                        new_id = message.data.get("session_id")
                        # Stored as soon as it starts: a query that is cut off has read the history all the same.
                        if self.sessions is not None and channel_id is not None and isinstance(new_id, str) and new_id:
                            await self.sessions.keep(channel_id, after_reading(new_id, text, prompt.since))
                    elif isinstance(message, sdk.ResultMessage) and not message.is_error:
                        result = message
        except (sdk.ClaudeSDKError, OSError, ValueError) as error:
            if result is None:
                failure = self._explain(error, resumed=session_id is not None, began=began)
                if isinstance(failure, errors.SessionLost) and self.sessions is not None and channel_id is not None:
                    await self.sessions.drop(channel_id)
                # Without its cause or text, which may quote the prompt, a path or a key.
                raise failure from None
        if result is None:
            raise self._cut_off(errors.BadAnswer, "the query ended without a result")
        usage = self._priced(result.usage or {}, result.num_turns)
        said = (result.result or "").strip()
        if not said:
            empty = errors.BadAnswer("empty", provider=PROVIDER, model=self.config.model)
            empty.usage = usage
            raise empty
        return Reply(text=said, usage=usage, model=self.name)

    def _priced(self, counts: Mapping[str, Any], steps: int) -> Usage:
        """Price the usage with our own table, because the SDK's sum includes the session's earlier queries."""
        usage = usage_of({"usage": counts}, max(steps, 1))
        return replace(pricing.price(PROVIDER, self.config.model, usage, free=self.free), model=self.name)

    def worst_case(self) -> Usage:
        """Return a query's highest cost, which is charged if it is cut off and its cost is unknown."""
        return Usage(model=self.name, calls=1, text_cost_usd=0.0 if self.free else self.config.max_usd)

    def _cut_off(self, kind: type[ModelError], detail: str = "") -> ModelError:
        error = kind(detail, provider=PROVIDER, model=self.config.model)
        error.usage = self.worst_case()
        return error

    def _explain(self, error: Exception, *, resumed: bool, began: bool) -> ModelError:
        name, status = type(error).__name__, getattr(error, "api_error_status", None)
        ours = _kind_of(error, resumed=resumed)(name, provider=PROVIDER, model=self.config.model, status=status)
        ours.origin = name
        data = getattr(error, "data", None)
        if isinstance(data, Mapping) and isinstance(data.get("usage"), Mapping):
            ours.usage = self._priced(data["usage"], int(data.get("num_turns") or 0))
        elif began and status is None:
            ours.usage = self.worst_case()
        log.warning("Claude Agent SDK: query failed: %s", ours)
        return ours

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - the Model protocol's
        raise errors.CannotDraw(provider=PROVIDER, model=self.config.model)

    async def aclose(self) -> None:
        """Do nothing: nothing is open between two queries."""


def options_of(
    sdk: ModuleType,
    config: QueryConfig,
    prompt: Prompt,
    session_id: str | None = None,
) -> Any:
    """Return the SDK's ClaudeAgentOptions. `session_id`: the session to resume, or None to start a session.

    The owner's and the folder's configurations aren't read, and the prompt is used verbatim: an `@path` in a message
    opens no file, and a `/word` isn't a command. The prompt's tools are an MCP server in this process, and allowed. A
    thinking level that the model lacks is left out.
    """
    call = prompt.call
    ours = prompt.tools if call is not None else ()
    level = prompt.thinking if prompt.thinking in profile_of(PROVIDER, config.model).thinking else None
    thinking: dict[str, Any] = {}
    if level is not None:
        off = level == "none"
        thinking = {"thinking": {"type": "disabled"}} if off else {"thinking": {"type": "adaptive"}, "effort": level}
    env = {**dict.fromkeys(config.hidden, ""), **QUIET}
    env |= {"ANTHROPIC_API_KEY": config.api_key, "CLAUDE_CONFIG_DIR": str(config.home)}
    if config.base_url:
        env["ANTHROPIC_BASE_URL"] = config.base_url
    # Everything that no rule allows is refused, unless the permission mode says otherwise.
    rules = dict.fromkeys(IN_FOLDER.get(name, name) for name in config.allowed_tools)
    return sdk.ClaudeAgentOptions(
        tools=list(dict.fromkeys(name.partition("(")[0] for name in config.allowed_tools)),  # "Bash(git log:*)" is Bash
        allowed_tools=[*rules, *(f"mcp__{OURS}__{tool.name}" for tool in ours)],
        mcp_servers={OURS: _tool_server(sdk, ours, call)} if ours and call else {},
        permission_mode=config.permission_mode,
        system_prompt=prompt.system,
        resume=session_id,
        cwd=config.workspace,
        model=config.model,
        max_turns=config.max_turns,
        max_budget_usd=config.max_usd,
        env=env,
        setting_sources=[],
        strict_mcp_config=True,
        skills=[],
        verbatim_prompts=True,
        stderr=lambda line: log.warning("Claude Agent SDK: its program printed: %.300s", line.strip()),
        **thinking,
    )


def _tool_server(sdk: ModuleType, tools: Sequence[Tool], call: RunCall) -> Any:
    """Return the tools as one of the SDK's MCP servers, in this process."""

    def sdk_tool(spec: Tool) -> Any:
        async def run(arguments: Mapping[str, Any]) -> dict[str, Any]:
            result = await call(ToolCall(f"{OURS}_{spec.name}", spec.name, arguments))
            return {"content": [{"type": "text", "text": result.text}], "is_error": result.is_error}

        return sdk.tool(spec.name, spec.description, dict(spec.parameters))(run)

    return sdk.create_sdk_mcp_server(OURS, tools=[sdk_tool(tool) for tool in tools])


def _kind_of(error: Exception, *, resumed: bool) -> type[ModelError]:
    """Return the class of our error for an SDK error."""
    name, said = type(error).__name__, str(error).lower()
    if resumed and any(words in said for words in _LOST):
        return errors.SessionLost
    if name == "CLINotFoundError":
        return errors.NotInstalled
    if name == "CLIConnectionError" or isinstance(error, OSError):
        return errors.ConnectionFailed
    if getattr(error, "subtype", None) in ("error_max_turns", "error_max_budget_usd"):
        return errors.BadAnswer
    status = getattr(error, "api_error_status", None)
    if isinstance(status, int):
        return _BY_STATUS.get(status, errors.BadRequest if 400 <= status < 500 else errors.ServerFailed)
    return errors.ServerFailed


def unread(text: str, session: AgentSession | None) -> str:
    """Return the part of a history that the session hasn't read. Between two cuts of the window the history only grows;
    after a cut the session gets all of it, like a new session."""
    if session is None or digest_of(text[: session.read]) != session.digest:
        return text
    return text[session.read :].lstrip("\n")


def after_reading(session_id: str, text: str, since: int = 0) -> AgentSession:
    """Return the session after it has read this history, which begins after the message `since`."""
    return AgentSession(session_id, len(text), digest_of(text), since)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
