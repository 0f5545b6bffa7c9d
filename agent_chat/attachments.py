"""Pictures that a model is shown with a transcript; text_files.py has the texts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_chat.text_files import Fetcher, TextReader
from agent_context.entries import Attachment, Entry
from agent_llm.types import Picture
from agent_net.addresses import FetchRefused
from agent_net.picture_fetcher import as_picture
from agent_net.picture_scaling import Fit, Scaler

MAX_PICTURES = 4  # newest first
ANY_MODEL = Fit()
READ_TIMEOUT = 4.0  # seconds for all pictures of a turn together

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """The number of pictures that a model is shown, the newest first, and the size and format of each."""

    most: int = MAX_PICTURES
    fit: Fit = ANY_MODEL


DEFAULT_LIMITS = PictureLimits()


class PictureReader:
    """Reads attached pictures through its service's fetcher; an unreadable one is left out and logged."""

    def __init__(self, fetcher: Fetcher, scaler: Scaler | None = None) -> None:
        self._fetcher, self._scaler = fetcher, scaler or Scaler()
        self.texts = TextReader(fetcher)

    async def read(
        self, entries: Sequence[Entry], limits: PictureLimits = DEFAULT_LIMITS
    ) -> Mapping[int, tuple[Picture, ...]]:
        """Pictures by message id: the newest `limits.most` among the entries."""
        wanted = [
            (entry.id, attachment)
            for entry in reversed(entries)
            for attachment in entry.attachments
            if attachment.is_picture
        ][: max(0, limits.most)]
        if not wanted:
            return {}
        pictures = await asyncio.gather(*(self._read_one(attachment, limits.fit) for _, attachment in wanted))
        found: dict[int, tuple[Picture, ...]] = {}
        for (message_id, _), picture in zip(wanted, pictures, strict=True):
            if picture is not None:
                found[message_id] = (*found.get(message_id, ()), picture)
        return found

    async def original(self, attachment: Attachment) -> Picture | None:
        """The picture as it was posted; None where it cannot be read."""
        try:
            fetched = await self._fetcher.fetch(attachment.url)
        except FetchRefused as error:
            log.info("picture %d could not be read (%s), it is not shown", attachment.id, error)
            return None
        return Picture(fetched.data, fetched.media_type)

    async def fitted(self, picture: Picture, fit: Fit) -> Picture | None:
        """A tool's picture scaled and converted to `fit`; None where that fails."""
        try:
            made = await self._scaler.fit(as_picture(picture.data), fit)
        except FetchRefused as error:
            log.info("a tool's picture cannot be converted (%s), it is left out", error)
            return None
        return Picture(made.data, made.media_type)

    async def _read_one(self, attachment: Attachment, fit: Fit) -> Picture | None:
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                fetched = await self._scaler.fit(await self._fetcher.fetch(attachment.url), fit)
        except (FetchRefused, TimeoutError) as error:
            log.info("picture %d could not be read (%s), it is left out", attachment.id, error or "too slow")
            return None
        return Picture(fetched.data, fetched.media_type)
