"""The program with a record of some weeks, rooms, and texts that are hard to place: long words, marks that stack.

python -m tests.browser.busy FOLDER      prints the console's address; ends with its standard input
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.pictures.console import PLACE, program
from tests.support import records

LONG_WORD = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenverleihungsordnung"
STACKED = "Z\u0351\u036b\u0343\u036a\u0302\u036b" * 2 + "a\u0321\u0334\u0316\u0317\u0318\u0319\u031c\u031d" * 30
LINES = (LONG_WORD * 4, STACKED, f"https://example.com/{LONG_WORD}/{LONG_WORD}?x=1", "```\n" + "wide " * 60 + "\n```")


async def main(folder: Path) -> None:
    async with program(folder) as runtime:
        runtime.stopping.on_signals()
        people = runtime.setup.people
        assert people is not None
        place = next(channel_id for channel_id, name in records.CHANNELS.items() if name == PLACE)
        for line in LINES:
            await people.say(place, line)
        print(runtime.console, flush=True)
        await runtime.stop.wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
