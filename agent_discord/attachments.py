"""The pictures that a model is shown with a transcript."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from agent_context.entries import Attachment, Entry
from agent_llm.types import Picture
from agent_net.fetch import FetchRefused, PictureFetcher

MAX_PICTURES = 4  # newest first
READ_TIMEOUT = 4.0  # seconds for all pictures of a turn together

log = logging.getLogger(__name__)


class PictureReader:
    """Reads attached pictures through the one fetcher; what cannot be read is left out with a log line."""

    def __init__(self, fetcher: PictureFetcher) -> None:
        self._fetcher = fetcher

    async def read(self, entries: Sequence[Entry]) -> Mapping[int, tuple[Picture, ...]]:
        """Pictures by message id: the newest `MAX_PICTURES` among the entries."""
        wanted = [
            (entry.id, attachment)
            for entry in reversed(entries)
            for attachment in entry.attachments
            if attachment.is_picture
        ][:MAX_PICTURES]
        if not wanted:
            return {}
        pictures = await asyncio.gather(*(self._read_one(attachment) for _, attachment in wanted))
        found: dict[int, tuple[Picture, ...]] = {}
        for (message_id, _), picture in zip(wanted, pictures, strict=True):
            if picture is not None:
                found[message_id] = (*found.get(message_id, ()), picture)
        return found

    async def _read_one(self, attachment: Attachment) -> Picture | None:
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                fetched = await self._fetcher.fetch(attachment.url)
        except (FetchRefused, TimeoutError) as error:
            log.info("picture %d is not shown to the model: %s", attachment.id, error or "too slow")
            return None
        return Picture(fetched.data, fetched.media_type)
