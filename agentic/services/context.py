"""How the runtime opens a chat service.

    load ── open ── listen ─── what people say reaches the agents' hosts ─── stop_listening ── aclose

A service is a package below agentic.services and a row in agentic.settings.services.SERVICES.
docs/dev/extending.md shows how to add one.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Coroutine, Iterator
from typing import Any, Protocol

from agent_config import Settings, services_in_use
from agentic.agent.services import Services
from agentic.chat.service import ChatService
from agentic.findings import Findings
from agentic.inbox.host import AgentHost
from agentic.state.leases import AnyLease


class ServiceContext(Protocol):
    """What a service may use; agentic.runtime.process.Runtime implements it. `accounts` are this process's agents with
    an account on a service, whether or not they have a Discord bot."""

    services: Services

    @property
    def accounts(self) -> tuple[str, ...]: ...
    def host_of(self, agent: str) -> AgentHost | None:
        """Return the agent's host in this process, or None if there isn't one; then the process that acts for the
        agent answers its messages."""

    def lease_of(self, agent: str) -> AnyLease:
        """Return the lease that says whether this process acts for an agent."""

    def start(self, work: Coroutine[Any, Any, None], name: str, *, essential: bool = ...) -> asyncio.Task[None]:
        """Start a task of this process. If an essential task ends, the process stops."""


class HostedService(ChatService):
    """A chat service with its lifecycle."""

    async def check(self, settings: Settings, found: Findings) -> None:
        """Add findings for --check. The service isn't open."""

    @abstractmethod
    async def open(self, context: ServiceContext) -> None:
        """Make the agents' channels known. Called before any host exists; no messages are received yet."""

    def listen(self) -> None:
        """Start to receive messages. Called when the bots' hosts exist."""

    async def stop_listening(self) -> None:
        """Stop receiving messages. Called when the last turns have ended."""

    async def aclose(self) -> None:
        """Close what `open` opened."""


def load_services(settings: Settings) -> Iterator[HostedService]:
    yield from (service() for service in services_in_use(settings))
