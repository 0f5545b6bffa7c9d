"""The time for which this process leads, and its number.

Between two renewals a coordinator only believes that it leads: a process that was paused for longer than its lease
wakes up in the middle of a step, while another one leads. So it asks `led` before each step, and what it writes bears
its epoch, by which Redis refuses what comes from an earlier one.
"""

from __future__ import annotations

from agent_coordinator.ports import Lease, Sleep

ASK_AGAIN_SECONDS = 0.2


class Term:
    """Without a lease it leads for ever, in no epoch (0)."""

    def __init__(self, lease: Lease | None, sleep: Sleep) -> None:
        self.epoch = 0
        self._lease, self._sleep = lease, sleep

    def begin(self) -> None:
        """From now on it leads, in the epoch of its lease."""
        self.epoch = 0 if self._lease is None else self._lease.epoch

    @property
    def led(self) -> bool:
        """Whether it leads at this moment, in the same epoch."""
        return self._lease is None or (self._lease.held and self._lease.epoch == self.epoch)

    async def until_led(self) -> None:
        """Returns when it certainly leads; whoever has lost the lease is cancelled meanwhile."""
        while not self.led:
            await self._sleep(ASK_AGAIN_SECONDS)
