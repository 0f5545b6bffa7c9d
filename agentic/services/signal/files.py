"""Pictures and files of Signal: what people attach, from the owner's own server, and what our accounts posted."""

from __future__ import annotations

import hashlib
from contextlib import suppress

from cachetools import LRUCache

from agentic.llm.types import Picture
from agentic.net.addresses import FetchRefused
from agentic.net.images import MAX_BYTES, FetchedPicture, as_picture
from agentic.services.signal.client import SignalClient

CACHE_BYTES = 24_000_000

_OWN = "signal:posted/"


class SignalFetcher:
    """An agentic.chat.text_files.Fetcher. It reads the server's attachments and nothing else; the kind of a picture is
    taken from its bytes. The server has no address for what was sent, so posted pictures are kept here for a while."""

    def __init__(self, client: SignalClient) -> None:
        self._client = client
        self._posted: LRUCache[str, bytes] = LRUCache(CACHE_BYTES, len)

    def keep(self, picture: Picture) -> str:
        """Keeps a posted picture, and returns the address by which it is read again."""
        url = _OWN + hashlib.sha256(picture.data).hexdigest()[:32]
        with suppress(ValueError):  # larger than all that is kept
            self._posted[url] = picture.data
        return url

    async def fetch(self, url: str) -> FetchedPicture:
        """The picture at this address. Raises FetchRefused."""
        return as_picture(await self.fetch_bytes(url, MAX_BYTES))

    async def fetch_bytes(self, url: str, max_bytes: int) -> bytes:
        """The file at this address. Raises FetchRefused, also for more than `max_bytes`."""
        if not url.startswith(_OWN):
            return await self._client.file(url, max_bytes)
        if (kept := self._posted.get(url)) is None:
            raise FetchRefused("no longer kept")
        return kept
