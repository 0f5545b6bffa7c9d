"""Claude Agent SDK.

The arguments of the Claude Agent SDK's `query()`, and how a channel's history reaches a session that continues.
Pure.

A tool named in Claude Code's `allowed_tools` is allowed everywhere: a plain "Read" reads any file of the machine, this
program's `.env` included. So the configured tools become the list of available ones (`tools`), and tools for files are
allowed in the working folder only (`rules`), which also covers links out of it. https://code.claude.com/docs/en/permissions

A model whose turns are run by the Claude Agent SDK's `query()`: an agent with tools and sessions of its own.

Each call starts the SDK's command-line program (a second, about 200 MiB). Its system prompt is the persona, its prompt
the part of the channel that it has not read yet, and its last words are the reply. The program keeps sessions on the
disk; an `AgentSessionStore` maps channels to sessions. Tools of ours (memory) are an MCP server of the SDK's in this
process. If a session cannot be resumed it is dropped and the call fails with SessionLost; the next call starts a new
one.

The SDK is an extra (requirements-agent-sdk.txt), imported in a thread at the first call. Nothing is retried here: the
program retries its own requests, and a query that was cut off may have written files.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, Protocol

from agentic.llm import pricing
from agentic.llm.errors import (
    BadAnswer,
    BadKey,
    BadRequest,
    CannotDraw,
    ConnectionFailed,
    ModelError,
    NotInstalled,
    PrefillRefused,
    RateLimited,
    ServerFailed,
    SessionLost,
    TimedOut,
)
from agentic.llm.types import Drawing, Message, Prompt, Reply, Tool, ToolCall, ToolResult, Usage

log = logging.getLogger(__name__)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConfig:
    """How an agent's turns are run. `workspace` is the working folder; `home`, outside of it, keeps the sessions.

    `hidden`: variables of this process's environment that the program gets as empty; it inherits all others.
    `base_url`: None for Anthropic's own. At most `max_turns` model calls and `max_usd` US dollars a query.
    """

    model: str
    workspace: Path
    home: Path
    api_key: str = field(default="", repr=False)
    base_url: str | None = field(default=None, repr=False)
    allowed_tools: tuple[str, ...] = ()
    permission_mode: str = "dontAsk"
    max_turns: int = 20
    max_usd: float = 0.5
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryArguments:
    """The arguments of one `query()`. `resume`: None for a new session."""

    prompt: str
    system_prompt: str
    allowed_tools: tuple[str, ...]
    permission_mode: str
    resume: str | None
    cwd: Path
    model: str
    max_turns: int
    max_usd: float
    env: Mapping[str, str] = field(repr=False)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the available tools: "Bash(git log:*)" is Bash."""
        return tuple(dict.fromkeys(name.partition("(")[0] for name in self.allowed_tools))

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules of what is allowed without asking. Everything else is refused, unless the permission mode says
        otherwise."""
        return tuple(dict.fromkeys(IN_FOLDER.get(name, name) for name in self.allowed_tools))


def query_arguments(prompt: str, config: QueryConfig, system_prompt: str, session_id: str | None) -> QueryArguments:
    """Return the arguments for a prompt, in the session with that id or in a new one."""
    own = {"ANTHROPIC_API_KEY": config.api_key, "CLAUDE_CONFIG_DIR": str(config.home)}
    if config.base_url:
        own["ANTHROPIC_BASE_URL"] = config.base_url
    return QueryArguments(
        prompt=prompt,
        system_prompt=system_prompt,
        allowed_tools=config.allowed_tools,
        permission_mode=config.permission_mode,
        resume=session_id,
        cwd=config.workspace,
        model=config.model,
        max_turns=config.max_turns,
        max_usd=config.max_usd,
        env={**dict.fromkeys(config.hidden, ""), **QUIET, **own},
    )


# -- sessions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentSession:
    """A channel's session, and how much of the channel's history it has read: `read` characters, whose digest is
    `digest`.

    It began after the message `since`.
    """

    session_id: str
    read: int = 0
    digest: str = ""
    since: int = 0


class AgentSessionStore(Protocol):
    """The sessions of an agent, by channel."""

    async def of(self, channel_id: int) -> AgentSession | None: ...

    async def keep(self, channel_id: int, session: AgentSession) -> None: ...

    async def drop(self, channel_id: int) -> None: ...


def history_text(history: Sequence[Message]) -> str:
    """Return the history as one text, with the agent's own messages at their places."""
    return "\n\n".join(message.text for message in history if message.text)


def unread(text: str, session: AgentSession | None) -> str:
    """Return the part of a history that the session has not read. Between two cuts of the window the history only
    grows; after a cut the session gets all of it, as a new one does."""
    if session is None or digest_of(text[: session.read]) != session.digest:
        return text
    return text[session.read :].lstrip("\n")


def after_reading(session_id: str, text: str, since: int = 0) -> AgentSession:
    """Return the session after it has read this history, which begins after the message `since`."""
    return AgentSession(session_id, len(text), digest_of(text), since)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


SDK = "claude_agent_sdk"
PROVIDER = "anthropic"
OURS = "agent"  # the MCP server of our tools: mcp__agent__memory
FOLDER_MODE = 0o700
_LOST = ("no conversation found", "resume rejected", "session id")
_BY_STATUS: Mapping[int, type[ModelError]] = {401: BadKey, 403: BadKey, 429: RateLimited}

RunCall = Callable[[ToolCall], Awaitable[ToolResult]]


class AgentSdkModel:
    """The model of one agent. `free`: its address costs nothing. Without `sessions` every query is a session of its
    own."""

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
            os.makedirs(folder, mode=FOLDER_MODE, exist_ok=True)
        try:
            return import_module(SDK)
        except ImportError:
            hint = "pip install -r requirements-agent-sdk.txt"
            raise NotInstalled(hint, provider=PROVIDER, model=self.config.model) from None

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        """Run one query within `prompt.timeout` seconds. Raises ModelError only, with the cost so far in `usage` if the
        SDK reported it."""
        if prompt.prefill is not None:
            raise PrefillRefused(provider=PROVIDER, model=self.config.model)
        sdk = await self.get_ready()
        try:
            async with asyncio.timeout(prompt.timeout):
                reply = await self._converse(sdk, prompt, history_text(history))
        except TimeoutError:
            raise self._cut_off(TimedOut(provider=PROVIDER, model=self.config.model)) from None
        if prompt.on_text is not None:
            prompt.on_text(reply.text)
        return reply

    async def _converse(self, sdk: ModuleType, prompt: Prompt, text: str) -> Reply:
        session = await self._session(prompt)
        asked = "\n\n".join(part for part in (unread(text, session), prompt.text) if part)
        session_id = session.session_id if session else None
        arguments = query_arguments(asked, self.config, prompt.system, session_id)
        try:
            return await self._query(sdk, arguments, prompt, text)
        except SessionLost:
            await self._drop(prompt.conversation)
            raise

    async def _session(self, prompt: Prompt) -> AgentSession | None:
        """Return the channel's session. One from before the conversation was restarted does not count: a query that was
        running at that moment stores its session afterwards."""
        if self.sessions is None or prompt.conversation is None:
            return None
        kept = await self.sessions.of(prompt.conversation)
        return kept if kept is not None and kept.since >= prompt.since else None

    async def _drop(self, channel_id: int | None) -> None:
        if self.sessions is not None and channel_id is not None:
            await self.sessions.drop(channel_id)

    async def _query(self, sdk: ModuleType, arguments: QueryArguments, prompt: Prompt, text: str) -> Reply:
        result, began = None, False  # read to the end: the program saves its session before it ends
        try:
            async with aclosing(
                sdk.query(prompt=arguments.prompt, options=options_of(sdk, arguments, prompt.tools, prompt.call))
            ) as stream:
                async for message in stream:
                    if isinstance(message, sdk.SystemMessage) and message.subtype == "init":
                        began = True
                        await self._began(message.data.get("session_id"), prompt, text)
                    elif isinstance(message, sdk.ResultMessage) and not message.is_error:
                        result = message
        except (sdk.ClaudeSDKError, OSError, ValueError) as error:
            if result is None:
                self._explain(error, resumed=arguments.resume is not None, began=began)
        if result is None:
            ended = "the query ended without a result"
            raise self._cut_off(BadAnswer(ended, provider=PROVIDER, model=self.config.model))
        return self._reply(result)

    async def _began(self, session_id: object, prompt: Prompt, text: str) -> None:
        """Store the session as soon as it starts: a query that is cut off has read the history all the same."""
        channel_id = prompt.conversation
        if isinstance(session_id, str) and session_id and self.sessions is not None and channel_id is not None:
            await self.sessions.keep(channel_id, after_reading(session_id, text, prompt.since))

    def _reply(self, result: Any) -> Reply:
        usage = self._priced(result.usage or {}, result.num_turns)
        said = (result.result or "").strip()
        if not said:
            error = BadAnswer("empty", provider=PROVIDER, model=self.config.model)
            error.usage = usage
            raise error
        return Reply(text=said, usage=usage, model=self.name)

    def _priced(self, counts: Mapping[str, Any], steps: int) -> Usage:
        """Price the usage with our own table: the SDK's sum includes earlier queries of the session."""
        priced = pricing.price(PROVIDER, self.config.model, usage_of(counts, steps), free=self.free)
        return replace(priced, model=self.name)

    def most(self) -> Usage:
        """The most that a query costs, charged when it was cut off and nothing better is known."""
        return Usage(model=self.name, calls=1, text_cost_usd=0.0 if self.free else self.config.max_usd)

    def _cut_off(self, error: ModelError) -> ModelError:
        error.usage = self.most()
        return error

    def _explain(self, error: Exception, *, resumed: bool, began: bool) -> NoReturn:
        """Raise our error, without its cause or text, which may quote the prompt, a path or a key."""
        kind = kind_of(error, resumed=resumed)
        ours = kind(
            type(error).__name__,
            provider=PROVIDER,
            model=self.config.model,
            status=getattr(error, "api_error_status", None),
        )
        ours.origin = type(error).__name__
        data = getattr(error, "data", None)
        if isinstance(data, Mapping) and isinstance(data.get("usage"), Mapping):
            ours.usage = self._priced(data["usage"], int(data.get("num_turns") or 0))
        elif began and ours.status is None:
            ours = self._cut_off(ours)
        log.warning("Claude Agent SDK: query failed: %s", ours)
        raise ours from None

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - the Model protocol's
        raise CannotDraw(provider=PROVIDER, model=self.config.model)

    async def aclose(self) -> None:
        """Do nothing: between two queries nothing is open."""


def options_of(
    sdk: ModuleType, arguments: QueryArguments, tools: Sequence[Tool] = (), call: RunCall | None = None
) -> Any:
    """Return the SDK's ClaudeAgentOptions.

    No configuration of the owner or the folder is read, and the prompt is taken verbatim: an `@path` in a message opens
    no file, a `/word` is not a command. Tools run by `call` are an MCP server in this process, and allowed.
    """
    ours = tools if call is not None else ()
    return sdk.ClaudeAgentOptions(
        tools=list(arguments.tools),
        allowed_tools=[*arguments.rules, *(f"mcp__{OURS}__{tool.name}" for tool in ours)],
        mcp_servers={OURS: server_of(sdk, ours, call)} if ours and call else {},
        permission_mode=arguments.permission_mode,
        system_prompt=arguments.system_prompt,
        resume=arguments.resume,
        cwd=arguments.cwd,
        model=arguments.model,
        max_turns=arguments.max_turns,
        max_budget_usd=arguments.max_usd,
        env=dict(arguments.env),
        setting_sources=[],
        strict_mcp_config=True,
        skills=[],
        verbatim_prompts=True,
        stderr=_from_program,
    )


def server_of(sdk: ModuleType, tools: Sequence[Tool], call: RunCall) -> Any:
    """Return the tools as an MCP server of the SDK's in this process."""

    def sdk_tool(spec: Tool) -> Any:
        async def run(arguments: Mapping[str, Any]) -> dict[str, Any]:
            result = await call(ToolCall(f"{OURS}_{spec.name}", spec.name, arguments))
            return {"content": [{"type": "text", "text": result.text}], "is_error": result.is_error}

        return sdk.tool(spec.name, spec.description, dict(spec.parameters))(run)

    return sdk.create_sdk_mcp_server(OURS, tools=[sdk_tool(tool) for tool in tools])


def _from_program(line: str) -> None:
    """Log a line that the program prints, such as why it could not start."""
    log.warning("Claude Agent SDK: its program printed: %.300s", line.strip())


def kind_of(error: Exception, *, resumed: bool) -> type[ModelError]:
    """Return the class of our error for one of the SDK's."""
    name, said = type(error).__name__, str(error).lower()
    if resumed and any(words in said for words in _LOST):
        return SessionLost
    if name == "CLINotFoundError":
        return NotInstalled
    if name == "CLIConnectionError" or isinstance(error, OSError):
        return ConnectionFailed
    if getattr(error, "subtype", None) in ("error_max_turns", "error_max_budget_usd"):
        return BadAnswer
    status = getattr(error, "api_error_status", None)
    if isinstance(status, int):
        return _BY_STATUS.get(status, BadRequest if 400 <= status < 500 else ServerFailed)
    return ServerFailed


def usage_of(usage: Mapping[str, Any], steps: int) -> Usage:
    """Return the usage of one query. Anthropic counts cached tokens beside the others."""
    cached, written = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
    return Usage(
        calls=max(steps, 1),
        input_tokens=_count(usage, "input_tokens") + cached + written,
        cached_tokens=cached,
        cache_write_tokens=written,
        hour_write_tokens=_count(usage.get("cache_creation"), "ephemeral_1h_input_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        reasoning_tokens=_count(usage.get("output_tokens_details"), "thinking_tokens"),
        searches=_count(usage.get("server_tool_use"), "web_search_requests"),
    )


def _count(counts: object, name: str) -> int:
    value = counts.get(name) if isinstance(counts, Mapping) else None
    return value if isinstance(value, int) and value > 0 else 0
