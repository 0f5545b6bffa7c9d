"""What the console shows of an agent on Signal: that it is there, who called it, and where."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.ports import free_port
from tests.support.redis_server import until
from tests.support.signal_flow import GROUP, signal_flow
from tests.support.signal_server import ACCOUNT


async def test_an_agent_on_signal_is_there_and_its_chats_and_people_have_names(tmp_path: Path) -> None:
    port = str(free_port())
    async with signal_flow(tmp_path, CONSOLE="true", CONSOLE_PORT=port) as f, aiohttp.ClientSession() as http:

        async def read(path: str) -> Any:
            while True:
                async with http.get(f"http://127.0.0.1:{port}/api/{path}") as answer:
                    if answer.status == 200:
                        return (await answer.json())["items"]
                await asyncio.sleep(0.02)  # the record gets its tables

        async def agent() -> Any:
            return next(card for card in await read("agents") if card["agent"] == "claude")

        async with f.running() as runtime:
            await f.say("hello")
            await f.answered()
            await f.say("@Claude hello", group=GROUP)
            await f.signal.until(lambda: len(f.signal.sent) == 2)
            assert (await agent())["accounts"] == {"Signal": True}
            await f.signal.close_sockets(ACCOUNT)
            await until(lambda: runtime.health().accounts == {"signal": {"claude": False}}, 30)
            assert (await agent())["accounts"] == {"Signal": False}

            shown: list[Any] = []
            async with asyncio.timeout(30):
                while shown != [("The group", "Anna"), ("Anna", "Anna")]:  # names are looked up every other second
                    shown = [(turn["channel"]["name"], turn["asked_by_name"]) for turn in await read("turns")]
