"""The model providers in a process of their own: records each request's arrival and answers after a set delay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from tests.benchmarks.sides.lines import arguments, serve
from tests.benchmarks.texts import Chat, tag_in, tagged
from tests.support.models.model_server import PREFIXES, ModelServer
from tests.support.models.wire.values import Answer, ModelRequest

SPEECH = (
    "I would begin with the part that nobody disputes and see how far it carries. Most of the heat is about the "
    "wording, and the rest can be tried out in an afternoon; if it fails we have lost an afternoon."
)


class Models:
    """Answer every request with the same decision: to post, or to stay silent."""

    def __init__(self) -> None:
        self._delay = 0.0
        self._silent = False
        self._chat: Chat | None = None
        self.server = ModelServer(self._answer)

    def _answer(self, request: ModelRequest) -> Answer:
        if self._silent:
            return Answer(text=json.dumps({"skip": True}), delay=self._delay)
        tag = tag_in(request.tail)
        speech = SPEECH if self._chat is None else self._chat.text(len(SPEECH))
        text = speech if tag is None else f"{tagged(tag)}: {speech}"
        return Answer(text=json.dumps({"skip": False, "text": text}), delay=self._delay)

    async def behave(self, delay: float = 0.0, silent: bool = False, varied: bool = False) -> None:
        """`varied`: each answer has a text of its own."""
        self._delay, self._silent, self._chat = delay, silent, Chat(1) if varied else None

    async def requests(self) -> list[dict[str, Any]]:
        """Return [{tag, provider, at, characters}] in the order of arrival, since the last call."""
        seen = [_seen(request) for request in self.server.requests]
        self.server.requests.clear()
        return seen


def _seen(request: ModelRequest) -> dict[str, Any]:
    """`characters`: those of all text in the request."""
    characters = len(request.system) + sum(map(len, request.texts))
    return {
        "tag": tag_in(request.tail),
        "provider": request.provider,
        "at": request.received_at,
        "characters": characters,
    }


async def run(given: Mapping[str, Any]) -> None:
    models = Models()
    await models.behave(**given)
    async with models.server as server:
        hello = {"base_urls": {provider: server.base_url(provider) for provider in PREFIXES}}
        await serve({"behave": models.behave, "requests": models.requests}, hello)


if __name__ == "__main__":
    asyncio.run(run(arguments()))
