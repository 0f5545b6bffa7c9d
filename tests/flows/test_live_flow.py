"""The console's Live page beside two bots: what is said in Discord, as it comes to the page."""

from __future__ import annotations

import json

import aiohttp

from agentic.local.person import BrowserPerson
from tests.support.flow import decision, flow
from tests.support.models.wire.values import SMALL_PNG
from tests.support.ports import free_port


async def events(response: aiohttp.ClientResponse, wanted):
    """The data of the stream's events of one kind."""
    kind = ""
    async for raw in response.content:
        name, _, value = raw.decode().rstrip("\n").partition(": ")
        kind = value if name == "event" else kind
        if name == "data" and kind == wanted:
            yield json.loads(value)


async def test_a_page_in_the_browser_shows_a_conversation_and_takes_part_in_it(tmp_path):
    port = str(free_port())
    async with flow(tmp_path, CONSOLE="true", CONSOLE_PORT=port, COORDINATOR_REACTIVE_PROBABILITY="0") as f:
        f.models.answer = lambda r: decision(f"{r.provider} says hello")
        sam = BrowserPerson(f.discord, "Alice", ("Claude",), {"claude": f.user_id("claude")}, {})
        async with (
            f.running(agents=("claude", "grok"), people=sam) as runtime,
            aiohttp.ClientSession(runtime.console) as session,
        ):
            page = await (await session.get("/api/live/channels")).json()
            channels = {channel["name"]: channel["id"] for channel in page["items"]}
            assert (list(channels), page["items"][0]["guild"]) == (["casual", "debate"], f.world.guild.name)
            me = await (await session.get("/api/me")).json()
            headers, here = {"X-CSRF-Token": me["csrf"]}, f"/api/live/channels/{channels['debate']}"
            stream = await session.get("/api/live/events")
            heard = events(stream, "message")

            body = {"text": "@claude hello"}
            said = await (await session.post(f"{here}/messages", json=body, headers=headers)).json()
            first, answer = await anext(heard), await anext(heard)
            assert (first["id"], first["text"]) == (said["id"], "@Claude hello")
            assert (answer["author"]["agent"], answer["text"]) == ("claude", "anthropic says hello")

            for given in (True, False):  # both bots deliver it, the page hears of it once
                body = {"emoji": "🔥", "given": given}
                await session.post(f"{here}/messages/{answer['id']}/reactions", json=body, headers=headers)
                reacted = await anext(heard)
                assert reacted["reactions"] == [{"emoji": "🔥", "count": 1, "by": ["Alice"]}][: int(given)]
            shown = await f.discord.say("Bob", "debate", "look", attachments=[("cat.png", SMALL_PNG, "image/png")])
            picture = await anext(heard)
            assert picture["id"] == shown["id"]
            file = await session.get(f"/api/files/{picture['id']}/{picture['files'][0]['id']}")
            assert (await file.read(), file.content_type) == (SMALL_PNG, "image/png")
            assert (await session.get(f"/api/files/{picture['id']}/{answer['id']}")).status == 404
            turn = await (await session.get(f"/api/live/why/{answer['id']}")).json()
            assert (turn["agent"], turn["id"], turn["trigger"]) == ("claude", f"m{first['id']}", "mention")
            listed = await (await session.get(here)).json()
            assert [one["id"] for one in listed["items"]] == [first["id"], answer["id"], picture["id"]]
