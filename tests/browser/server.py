"""The program as on a server, with a record of some weeks and a running conversation.

python -m tests.browser.server FOLDER      prints the console's address; ends with its standard input
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.pictures.console import PLACE, program
from tests.support import records

TOPIC = "is a tomato a fruit?"


async def main(folder: Path) -> None:
    async with program(folder, is_local=False) as runtime:
        assert runtime.coordinator is not None
        runtime.stopping.on_signals()
        place = next(channel_id for channel_id, name in records.CHANNELS.items() if name == PLACE)
        await runtime.coordinator.start_conversation(place, topic=TOPIC)
        print(runtime.console, flush=True)
        await runtime.stop.wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
