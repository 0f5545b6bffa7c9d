"""The files that a model is shown with a transcript: pictures here, texts in text_files.py."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_chat.text_files import TextReader
from agent_context.entries import Attachment, Entry
from agent_llm.types import Picture
from agent_net.addresses import FetchRefused
from agent_net.picture_fetcher import PictureFetcher, as_picture
from agent_net.picture_scaling import Fit, Scaler

MAX_PICTURES = 4  # newest first
ANY_MODEL = Fit()
READ_TIMEOUT = 4.0  # seconds for all pictures of a turn together

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """How many pictures a model is shown, the newest first, and how each must be."""

    most: int = MAX_PICTURES
    fit: Fit = ANY_MODEL


DEFAULT_LIMITS = PictureLimits()


class PictureReader:
    """Reads attached pictures through the one fetcher; what cannot be read is left out with a log line."""

    def __init__(self, fetcher: PictureFetcher, scaler: Scaler | None = None) -> None:
        self._fetcher, self._scaler = fetcher, scaler or Scaler()
        self.texts = TextReader(fetcher)

    async def read(
        self, entries: Sequence[Entry], look: PictureLimits = DEFAULT_LIMITS
    ) -> Mapping[int, tuple[Picture, ...]]:
        """Pictures by message id: the newest `look.most` among the entries."""
        wanted = [
            (entry.id, attachment)
            for entry in reversed(entries)
            for attachment in entry.attachments
            if attachment.is_picture
        ][: max(0, look.most)]
        if not wanted:
            return {}
        pictures = await asyncio.gather(*(self._read_one(attachment, look.fit) for _, attachment in wanted))
        found: dict[int, tuple[Picture, ...]] = {}
        for (message_id, _), picture in zip(wanted, pictures, strict=True):
            if picture is not None:
                found[message_id] = (*found.get(message_id, ()), picture)
        return found

    async def fitted(self, picture: Picture, fit: Fit) -> Picture | None:
        """A picture from elsewhere as `fit` wants it; None where it cannot be made so."""
        try:
            made = await self._scaler.fit(as_picture(picture.data), fit)
        except FetchRefused as error:
            log.info("a picture of a tool cannot be made fit: %s", error)
            return None
        return Picture(made.data, made.media_type)

    async def _read_one(self, attachment: Attachment, fit: Fit) -> Picture | None:
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                fetched = await self._scaler.fit(await self._fetcher.fetch(attachment.url), fit)
        except (FetchRefused, TimeoutError) as error:
            log.info("picture %d is not shown to the model: %s", attachment.id, error or "too slow")
            return None
        return Picture(fetched.data, fetched.media_type)
