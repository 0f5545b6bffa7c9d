"""What a turn asks of the Claude Agent SDK, as plain values: the arguments of its `query()`, and how a channel's
conversation is told to a session that goes on. Pure; nothing of the SDK is needed here.

Claude Code, which the SDK runs, allows a tool that is named in `allowed_tools` everywhere: with a plain "Read" it reads
any file of the machine, this program's `.env` among them. So the tools that are configured say which tools there are
(`tools`), and those for files are allowed in the working folder only (`rules`), links out of it included.
https://code.claude.com/docs/en/permissions
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent_llm.types import Message

IN_FOLDER: Mapping[str, str] = {
    **dict.fromkeys(("Read", "Glob", "Grep"), "Read(./**)"),
    **dict.fromkeys(("Write", "Edit", "NotebookEdit"), "Edit(./**)"),
}
"""A tool for files → the rule that allows it below the working folder."""

# Claude Code reads these. Nothing but the model's own calls leaves the machine, and a provider that refuses is not
# asked for minutes.
QUIET: Mapping[str, str] = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",
    "DISABLE_AUTOUPDATER": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConfig:
    """How an agent's turns are run. `workspace` is the working folder, `home` where sessions are kept (outside of it).

    `hidden`: variables of this process's environment that the program gets empty; it inherits all others. `base_url`
    None is Anthropic's own. At most `max_turns` model calls and `max_usd` US dollars a query.
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
    """One `query()`. `resume` is None for a session that begins."""

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
        """The names of the tools that there are: "Bash(git log:*)" is Bash."""
        return tuple(dict.fromkeys(name.partition("(")[0] for name in self.allowed_tools))

    @property
    def rules(self) -> tuple[str, ...]:
        """What is allowed without asking anybody; everything else is refused, unless the mode says otherwise."""
        return tuple(dict.fromkeys(IN_FOLDER.get(name, name) for name in self.allowed_tools))


def query_arguments(prompt: str, config: QueryConfig, system_prompt: str, session_id: str | None) -> QueryArguments:
    """The arguments for a prompt, in the session with that id, or in a new one."""
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


# -- what a session has read ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session of a channel, and how much of the channel's history it has read: that many characters, whose digest is
    `digest`. It began after the message `since`."""

    session_id: str
    read: int = 0
    digest: str = ""
    since: int = 0


class Conversations(Protocol):
    """Where the sessions of an agent are kept, by channel."""

    async def of(self, channel_id: int) -> Conversation | None: ...

    async def keep(self, channel_id: int, conversation: Conversation) -> None: ...

    async def drop(self, channel_id: int) -> None: ...


def told(history: Sequence[Message]) -> str:
    """The history as one text; the agent's own words are among it where they stand in the channel."""
    return "\n\n".join(message.text for message in history if message.text)


def unread(text: str, conversation: Conversation | None) -> str:
    """What of a history a session has not read. Between two cuts of the window a history only grows; after a cut it is
    told as it stands then, as to a session that begins."""
    if conversation is None or digest_of(text[: conversation.read]) != conversation.digest:
        return text
    return text[conversation.read :].lstrip("\n")


def after_reading(session_id: str, text: str, since: int = 0) -> Conversation:
    """The conversation once its session has read this history, which begins after the message `since`."""
    return Conversation(session_id, len(text), digest_of(text), since)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
