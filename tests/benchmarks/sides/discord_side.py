"""The Discord stand-in in a process of its own, with people who write to the bots and a record of the answers.

Times are `time.perf_counter()`, taken here: just before a message enters the stand-in, and when an answer has.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import cycle, islice
from typing import Any

from agentic.local.discord import channels, messages
from agentic.local.discord.channels import small_world
from tests.benchmarks.sides.lines import DrivenClock, arguments, serve
from tests.benchmarks.texts import Chat, tag_in, tagged
from tests.support.discord.rate_limits import RateLimits
from tests.support.discord.stand_in import DiscordStandIn

NAMES = {"chatgpt": "ChatGPT", "claude": "Claude", "gemini": "Gemini", "grok": "Grok"}
CHATTER = (
    "I read the whole thread again last night and I still think the second half contradicts the first.",
    "Fair point, though I would like to see where that number comes from before I repeat it to anybody.",
    "My neighbour does exactly that every Sunday and swears that it works, so there is one data point for you.",
    "Can we go back to what was said at the start? I have the feeling that we lost the actual question on the way.",
    "Nobody asked me, but I would take the slow train, bring a book and call it a holiday.",
)
LONGEST_WAIT = 240.0  # seconds
CROWD = ("say", "answers", "posts", "react", "take_back", "use", "wait_for_posts", "open_threads")


class Crowd:
    """People who write, and a record of the bots' answers by tag."""

    def __init__(self, server: DiscordStandIn, varied: bool) -> None:
        self._server = server
        self._chat = Chat(2) if varied else None
        self._sent: dict[int, float] = {}
        self._answers: dict[int, list[dict[str, Any]]] = defaultdict(list)
        self._missing: set[int] = set()
        self._posts = 0
        server.subscribe(self._on_event)

    def _on_event(self, name: str, data: Mapping[str, Any]) -> None:
        if name != "MESSAGE_CREATE" or not data["author"].get("bot"):
            return
        self._posts += 1
        tag = tag_in(data["content"])
        if tag is not None:
            answer = {
                "at": time.perf_counter(),
                "author": int(data["author"]["id"]),
                "channel": int(data["channel_id"]),
            }
            self._answers[tag].append(answer)
            self._missing.discard(tag)

    def line(self, number: int) -> str:
        return CHATTER[number % len(CHATTER)] if self._chat is None else self._chat.text(len(CHATTER[0]))

    async def say(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Post lines: {person, channel}, with {bot, tag} for a mention."""
        for number, line in enumerate(lines):
            text = self.line(line.get("tag", 0) + number)
            if "bot" in line:
                bot = self._server.world.app(line["bot"]).user.id
                text = f"<@{bot}> {tagged(line['tag'])}: {text}"
                self._sent[line["tag"]] = time.perf_counter()
            await self._server.say(line["person"], line["channel"], text)
            await asyncio.sleep(0)  # each is sent before the next is written, as from separate people

    async def answers(self, tags: Sequence[int], within: float) -> dict[int, Any]:
        """Wait until all are answered, or `within` seconds: {tag: {sent_at, answers: [{at, author, channel}]}}."""
        self._missing = {tag for tag in tags if tag not in self._answers}
        with suppress(TimeoutError):  # what is missing shows in what is returned
            await self._server.wait_for(lambda: not self._missing, within)
        return {tag: {"sent_at": self._sent[tag], "answers": self._answers[tag]} for tag in tags}

    async def react(self, person: str, channel: str, emoji: str) -> None:
        """React to the channel's newest message."""
        await self._server.react(person, channel, self._server.messages(channel)[-1], emoji)

    async def take_back(self, person: str, channel: str) -> None:
        """Delete the person's newest message in the channel, if there is one."""
        place, user = self._server.world.channel(channel), self._server.world.user(person)
        own = [number for number, message in place.messages.items() if message.author.id == user.id]
        if own:
            messages.delete(self._server.world, place, own[-1])

    async def use(self, person: str, channel: str, command: str) -> str:
        """Use a slash command and return the answer."""
        world = self._server.world
        bot = next(app.key for app in world.apps.values() if app.commands.get(world.guild.id))
        used = await self._server.interact(person, channel, bot, command)
        await self._server.wait_for(lambda: used.answers)
        return str(used.answers[-1]["content"])

    async def posts(self) -> int:
        """The number of messages so far by bots and webhooks."""
        return self._posts

    async def wait_for_posts(self, count: int) -> None:
        """Wait until there are so many."""
        await self._server.wait_for(lambda: self._posts >= count, LONGEST_WAIT)

    async def open_threads(self, count: int) -> dict[int, int]:
        """Begin so many threads, in the channels in turn: {thread: channel}."""
        world, guild = self._server.world, self._server.world.guild
        places = [channel for channel in guild.channels.values() if not channel.is_thread]
        owner = next(iter(world.apps.values())).user
        chosen = islice(cycle(places), count)
        begun = [
            channels.create_thread(self._server.world, place, f"room {n}", owner) for n, place in enumerate(chosen)
        ]
        return {thread.id: thread.parent_id or 0 for thread in begun}


class Switches:
    """Changes to the stand-in while it runs."""

    def __init__(self, server: DiscordStandIn) -> None:
        self._server = server

    async def rest_delay(self, seconds: float) -> None:
        self._server.faults.rest_delay = seconds

    async def limits(self, real: bool) -> None:
        self._server.limiter.limits = RateLimits() if real else None

    async def counts(self) -> dict[str, int]:
        """Requests by status and by route, see DiscordStandIn.counts."""
        return dict(self._server.counts)

    async def wait_for_requests(self, route: str, count: int) -> None:
        """Wait until "METHOD route" was requested that often."""
        await self._server.wait_for(lambda: self._server.counts[route] >= count, 60)


async def run(given: Mapping[str, Any]) -> None:
    """`given`: channels, people, history (messages in each channel before the start), varied (texts)."""
    clock = DrivenClock()
    world = small_world(
        {key: (name, f"token-{key}") for key, name in NAMES.items()},
        channels=[f"channel-{n}" for n in range(given["channels"])],
        people=[f"person-{n}" for n in range(given["people"])],
        clock=clock,
    )
    async with DiscordStandIn(world) as server:
        crowd, switches = Crowd(server, given["varied"]), Switches(server)
        for channel in world.guild.channels.values():
            for number in range(given["history"]):
                person = f"person-{number % given['people']}"
                await server.say(person, channel.id, crowd.line(number))
        hello = {
            "api_base": server.api_base,
            "channels": {channel.name: channel.id for channel in world.guild.channels.values()},
            "bots": {app.key: app.user.id for app in world.apps.values()},
        }
        commands = {name: getattr(crowd, name) for name in CROWD}
        commands |= {name: getattr(switches, name) for name in ("rest_delay", "limits", "counts", "wait_for_requests")}
        await serve(commands | {"move_on": clock.move_on}, hello)


if __name__ == "__main__":
    asyncio.run(run(arguments()))
