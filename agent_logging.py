"""How the log looks, and whose words are in it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
QUIET = ("discord", "aiohttp", "httpx", "httpx2", "openai", "anthropic", "google_genai")  # their INFO is not ours


def set_up_logging(level: str, handlers: Sequence[logging.Handler] = ()) -> None:
    """One line an event, to the handlers given, else to standard error. Replaces an earlier set-up."""
    handlers = handlers or (logging.StreamHandler(),)
    for handler in handlers:
        handler.setFormatter(logging.Formatter(FORMAT))
    logging.basicConfig(level=level, handlers=handlers, force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level)))
    logging.getLogger("discord.utils").setLevel(logging.ERROR)  # it warns that voice, which is not used, is missing
