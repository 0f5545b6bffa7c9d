"""The arguments of the Claude Agent SDK's `query()`, and how a channel's history reaches a session that continues.
Pure.

A tool named in Claude Code's `allowed_tools` is allowed everywhere: a plain "Read" reads any file of the machine, this
program's `.env` included. So the configured tools become the list of available ones (`tools`), and tools for files are
allowed in the working folder only (`rules`), which also covers links out of it. https://code.claude.com/docs/en/permissions
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agentic.llm.types import Message

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
