"""The person of local mode, as they write in the console's page."""

import pytest

from agentic.console.parts import Upload
from agentic.console.requests import Refused
from agentic.local.discord.channels import small_world
from agentic.local.discord.server import DiscordStandIn
from agentic.local.person import BrowserPerson


async def test_what_is_written_in_the_page_is_posted_or_refused_in_one_line():
    world = small_world({"claude": ("Claude", "t")}, ("casual",), ("Sam",))
    people = DiscordStandIn(world)  # without a server
    claude, here = world.app("claude").user.id, world.channel("casual").id
    sam = BrowserPerson(people, "Sam", ("Claude",), {"claude": claude, "Claude": claude}, {"bots": 5})
    assert sam.mentions() == ["Claude", "bots"]

    first = await sam.say(here, "@Claude and @BOTS, hello")
    await sam.say(here, "//fire", reply_to=first, upload=Upload("../odd\\name.png", b"x"))
    said = people.messages("casual")
    assert [one["content"] for one in said] == [f"<@{claude}> and <@&5>, hello", "/fire"]
    assert (said[1]["attachments"][0]["filename"], said[1]["attachments"][0]["content_type"]) == (
        "name.png",
        "image/png",
    )

    await sam.react(here, first, "🔥", given=True)
    await sam.react(here, first, "🔥", given=False)
    assert not people.messages("casual")[0].get("reactions")

    for text, reply_to, why in (
        ("/fire", None, "terminal"),
        ("@claude" * 285, None, "characters"),
        ("hello", 99, "gone"),
    ):
        with pytest.raises(Refused, match=why):
            await sam.say(here, text, reply_to)
    for emoji, message in (("not an emoji", first), ("🔥", 99)):
        with pytest.raises(Refused):
            await sam.react(here, message, emoji, given=True)
