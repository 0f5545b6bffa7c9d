"""Whether this process leads, and in which epoch.

Between two renewals of its lease a coordinator only believes that it leads: a process that was paused for longer wakes
up in the middle of a step while another one leads. So each step checks `held` first, and each write carries the epoch,
by which Redis refuses writes of an earlier leader.
"""

from __future__ import annotations

from agent_coordinator.ports import Lease, Sleep

POLL_SECONDS = 0.2


class Leadership:
    """The leadership of this process. Without a lease it is held forever, in epoch 0."""

    def __init__(self, lease: Lease | None, sleep: Sleep) -> None:
        self.epoch = 0
        self._lease, self._sleep = lease, sleep

    def begin(self) -> None:
        """Take over the epoch of the lease that was just acquired."""
        self.epoch = 0 if self._lease is None else self._lease.epoch

    @property
    def held(self) -> bool:
        """Whether this process leads now, still in the same epoch."""
        return self._lease is None or (self._lease.held and self._lease.epoch == self.epoch)

    async def until_held(self) -> None:
        """Wait until this process leads for certain. A process that lost the lease is cancelled while it waits."""
        while not self.held:
            await self._sleep(POLL_SECONDS)
