"""A Claude Agent SDK that never starts a program: its `query()` plays what a test gave it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

from agentic.llm.profiles import QueryConfig
from agentic.llm.providers.agent_sdk import AgentSdkModel, AgentSession


class ClaudeSDKError(Exception):
    """As the SDK's own."""


class CLIConnectionError(ClaudeSDKError):
    pass


class CLINotFoundError(CLIConnectionError):
    pass


class ProcessError(ClaudeSDKError):
    pass


class ResultError(ProcessError):
    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.subtype, self.api_error_status, self.data = None, None, {}
        self.__dict__.update(facts)


@dataclass
class SystemMessage:
    subtype: str
    data: dict[str, Any]


@dataclass
class ResultMessage:
    result: str | None
    is_error: bool = False
    num_turns: int = 1
    usage: dict[str, Any] | None = field(default_factory=lambda: {"input_tokens": 10, "output_tokens": 5})


def init(session_id: str) -> SystemMessage:
    return SystemMessage("init", {"session_id": session_id})


class FakeSdk(ModuleType):
    """`played` are the messages, or errors, of the next queries, one list each; `asked` what was asked."""

    def __init__(self, *played: Sequence[Any]) -> None:
        super().__init__("claude_agent_sdk")
        self.played, self.asked = list(played), []
        self.closed = 0
        self.ClaudeSDKError, self.SystemMessage, self.ResultMessage = ClaudeSDKError, SystemMessage, ResultMessage
        self.ClaudeAgentOptions = SimpleNamespace

    def tool(self, name: str, description: str, input_schema: Any) -> Any:
        def made(handler: Any) -> SimpleNamespace:
            return SimpleNamespace(name=name, description=description, input_schema=input_schema, handler=handler)

        return made

    def create_sdk_mcp_server(self, name: str, *, tools: Any) -> SimpleNamespace:
        return SimpleNamespace(name=name, tools={tool.name: tool for tool in tools})

    async def query(self, *, prompt: str, options: Any) -> Any:
        self.asked.append((prompt, options))
        try:
            for step in self.played.pop(0) if self.played else [init("s0"), ResultMessage("Hello.")]:
                if isinstance(step, BaseException):
                    raise step
                if callable(step):
                    await step()
                else:
                    yield step
        finally:
            self.closed += 1


class MemoryConversations:
    def __init__(self) -> None:
        self.kept: dict[int, AgentSession] = {}

    async def of(self, channel_id: int) -> AgentSession | None:
        return self.kept.get(channel_id)

    async def keep(self, channel_id: int, conversation: AgentSession) -> None:
        self.kept[channel_id] = conversation

    async def drop(self, channel_id: int) -> None:
        self.kept.pop(channel_id, None)


def config_in(folder: Any, **more: Any) -> QueryConfig:
    fields = {"model": "claude-haiku-5-5", "api_key": "a-key", "allowed_tools": ("Read", "Glob", "Grep"), **more}
    return QueryConfig(workspace=folder / "workspace", home=folder / "home", **fields)


def model_with(sdk: FakeSdk, folder: Any, **more: Any) -> AgentSdkModel:
    model = AgentSdkModel(config_in(folder, **more), sessions=MemoryConversations())
    model._sdk = sdk
    return model
