"""The libraries without the program: four py-cord bots that pass each mention to an SDK and post the answer.

No history, no limits, no Redis traffic, no decision: the lower bound that the program is compared with. py-cord and the
SDKs keep their own defaults. All third-party imports of the program are imported here too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import discord

from tests.benchmarks.sides.lines import arguments, serve

Ask = Callable[[str], Awaitable[str]]


class Libraries:
    """The SDKs' clients, one for each agent."""

    def __init__(self, base_urls: Mapping[str, str]) -> None:
        import anthropic
        import openai
        import pydantic_settings  # noqa: F401  (the program imports it too)
        import redis.asyncio
        from google import genai
        from google.genai import types

        self._openai = openai.AsyncOpenAI(api_key="k", base_url=base_urls["openai"])
        self._xai = openai.AsyncOpenAI(api_key="k", base_url=base_urls["xai"])
        self._anthropic = anthropic.AsyncAnthropic(api_key="k", base_url=base_urls["anthropic"])
        options = types.HttpOptions(base_url=base_urls["google"])
        self._google = genai.Client(api_key="k", http_options=options)
        self.redis = redis.asyncio.Redis()  # connects to nothing before it is used

    def ask_of(self, agent: str) -> Ask:
        asks = {"chatgpt": self.chatgpt, "claude": self.claude, "gemini": self.gemini, "grok": self.grok}
        return asks[agent]

    async def chatgpt(self, text: str) -> str:
        return str((await self._openai.responses.create(model="gpt-6-luna", input=text)).output_text)

    async def grok(self, text: str) -> str:
        return str((await self._xai.responses.create(model="grok-4.7", input=text)).output_text)

    async def claude(self, text: str) -> str:
        answer = await self._anthropic.messages.create(
            model="claude-haiku-5-5", max_tokens=500, messages=[{"role": "user", "content": text}]
        )
        return next(block.text for block in answer.content if block.type == "text")

    async def gemini(self, text: str) -> str:
        answer = await self._google.aio.models.generate_content(model="gemini-3.8-flash", contents=text)
        return str(answer.text)


class BareBot:
    """One bot: on_message → SDK → send."""

    def __init__(self, ask: Ask) -> None:
        intents = discord.Intents(guilds=True, guild_messages=True, guild_reactions=True, message_content=True)
        self.client: discord.Bot = discord.Bot(intents=intents)  # type: ignore[no-untyped-call]
        self.ready = asyncio.Event()
        self._ask = ask
        self.client.event(self.on_ready)
        self.client.event(self.on_message)

    async def on_ready(self) -> None:
        self.ready.set()

    async def on_message(self, message: Any) -> None:
        if not message.author.bot and self.client.user in message.mentions:
            await message.channel.send(await self._ask(message.content))


async def run(given: Mapping[str, Any]) -> None:
    """`given`: tokens by agent, api_base (Discord's), base_urls of the models by provider."""
    discord.http.Route.API_BASE_URL = given["api_base"]
    libraries = Libraries(given["base_urls"])
    bots = {agent: BareBot(libraries.ask_of(agent)) for agent in given["tokens"]}
    running = [asyncio.create_task(bot.client.start(given["tokens"][agent])) for agent, bot in bots.items()]
    await asyncio.gather(*(bot.ready.wait() for bot in bots.values()))
    try:
        await serve({}, {"online": sorted(bots)})
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for bot in bots.values():
            await bot.client.close()


if __name__ == "__main__":
    asyncio.run(run(arguments()))
