"""How the runtime opens a chat service.

    load ── open ── listen ─── what people say reaches the agents' hosts ─── stop_listening ── aclose

A service is a package below agentic.services and a row in agentic.settings.services.SERVICES.
docs/dev/extending/chat-service.md shows how to add one.
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
    """What a service may use: agentic.runtime.process.Runtime. `accounts` are the agents of this process that have an
    account of their own on a service, with a bot or without one."""

    services: Services

    @property
    def accounts(self) -> tuple[str, ...]: ...
    def host_of(self, agent: str) -> AgentHost | None:
        """Return the host of an agent in this process; None while there is none. The process that acts for the agent
        answers what is heard meanwhile."""

    def lease_of(self, agent: str) -> AnyLease:
        """Return the lease that says whether this process acts for an agent."""

    def start(self, work: Coroutine[Any, Any, None], name: str, *, essential: bool = ...) -> asyncio.Task[None]:
        """Start a task of this process. An essential one that ends stops the process."""


class HostedService(ChatService):
    """A chat service with its beginning and its end."""

    async def check(self, settings: Settings, found: Findings) -> None:
        """Check what the service needs, for --check. It is not open."""

    @abstractmethod
    async def open(self, context: ServiceContext) -> None:
        """Make the agents' channels known, before any host exists. Nothing is heard yet."""

    def listen(self) -> None:
        """Hear what people say from now on; the bots' hosts exist."""

    async def stop_listening(self) -> None:
        """Hear nothing more: the last turns have ended."""

    async def aclose(self) -> None:
        """Close what `open` opened."""


def load_services(settings: Settings) -> Iterator[HostedService]:
    """Make the chat services that the settings use."""
    yield from (service() for service in services_in_use(settings))
