"""One connection for what an account receives, made again whenever it is lost.

Each envelope comes once, to the connections that are open at that moment. So there is one connection an account in a
process, and it is never closed to be opened elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import aiohttp

from agentic.services.signal.client import SignalClient
from agentic.services.signal.errors import Refused, SignalError, broken
from agentic.services.signal.ids import masked

FIRST_PAUSE = 1.0  # seconds before a lost connection is made again; doubled each time
LONGEST_PAUSE = 4.0  # what people write while nobody is connected may be lost
NEVER_THERE = "the server at SIGNAL_API_URL cannot be reached for the account %s, does its container run?"
REFUSED = (
    "the server at SIGNAL_API_URL hands over no messages of the account %s, is the number registered there, and is its"
    " mode json-rpc?"
)
STABLE = 10.0  # seconds after which a connection counts as stable, so the next pause is the first one again

log = logging.getLogger(__name__)


class Receiver:
    """`hear` is given each frame, in order, and must not raise. `connected` is called whenever a connection stands."""

    def __init__(
        self,
        client: SignalClient,
        number: str,
        hear: Callable[[str], None],
        *,
        connected: Callable[[], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client, self._number, self._hear, self._connected, self._sleep = client, number, hear, connected, sleep
        self._lost_at: float | None = None
        self._was_connected = self.is_connected = False

    async def run(self) -> None:
        """Receives until cancelled."""
        pause = FIRST_PAUSE
        while True:
            began = asyncio.get_running_loop().time()
            why, advice = await self._receive()
            if asyncio.get_running_loop().time() - began >= STABLE:
                pause = FIRST_PAUSE
            self._client.note_lost()
            self._report_lost(why, advice)
            await self._sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _receive(self) -> tuple[str, str]:
        """Receives until the connection ends, and returns why it did, and what the log says of a first one."""
        try:
            socket = await self._client.receive(self._number)
        except SignalError as error:
            return str(error), REFUSED if isinstance(error, Refused) else NEVER_THERE
        try:
            self._report_back()
            await self._connected()
            return await self._read(socket), NEVER_THERE
        finally:
            self.is_connected = False
            await socket.close()

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> str:
        async for frame in socket:
            if frame.type is aiohttp.WSMsgType.TEXT:
                self._hear(frame.data)
            elif frame.type is aiohttp.WSMsgType.ERROR:
                break
        error = socket.exception()
        return str(broken(error)) if isinstance(error, Exception) else f"closed with code {socket.close_code}"

    def _report_lost(self, why: str, never_there: str) -> None:
        if self._lost_at is None:
            self._lost_at = asyncio.get_running_loop().time()
            what = "the connection of the account %s is lost" if self._was_connected else never_there
            log.warning(
                f"Signal: {what} (%s), it is tried again every %.0f to %.0f s",
                masked(self._number),
                why,
                FIRST_PAUSE,
                LONGEST_PAUSE,
            )

    def _report_back(self) -> None:
        if self._was_connected and self._lost_at is not None:
            away = asyncio.get_running_loop().time() - self._lost_at
            log.info("Signal: the connection of the account %s is back after %.0f s", masked(self._number), away)
        elif not self._was_connected:
            log.info("Signal: the account %s is connected", masked(self._number))
        self._lost_at, self._was_connected, self.is_connected = None, True, True
