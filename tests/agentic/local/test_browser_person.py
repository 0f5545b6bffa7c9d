"""The person of local mode, as they write in the console's page."""

import pytest

from agent_cogs.slash_definitions import SLASH, TEXT
from agentic.console.parts import Upload
from agentic.console.requests import Refused
from agentic.local.discord.channels import create_thread, small_world
from agentic.local.discord.polls import poll_of
from agentic.local.discord.server import DiscordStandIn
from agentic.local.person import BrowserPerson
from agentic.local.terminal.commands import Answer, TypedCommand


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
        ("/fire", None, "begin with //"),
        ("@claude" * 285, None, "characters"),
        ("hello", 99, "gone"),
    ):
        with pytest.raises(Refused, match=why):
            await sam.say(here, text, reply_to)
    for emoji, message in (("not an emoji", first), ("🔥", 99)):
        with pytest.raises(Refused):
            await sam.react(here, message, emoji, given=True)


@pytest.mark.promise(606)
async def test_a_poll_is_answered_once_changed_taken_back_and_closed_when_it_is_over() -> None:
    world = small_world({"claude": ("Claude", "t")}, ("casual",), ("Sam", "Ada"))
    people, here = DiscordStandIn(world), world.channel("casual")
    sam = BrowserPerson(people, "Sam", ("Claude",), {}, {})
    texts = ("For", "Against")
    body = {"question": {"text": "Is P NP?"}, "answers": [{"poll_media": {"text": text}} for text in texts]}
    said = await people.say("claude", here.id, "Where do you stand?")
    asked = here.messages[int(said["id"])]
    assert sam.poll(here.id, asked.id) is None
    asked.poll = poll_of(world, body)

    def answers() -> list[tuple[str, int, bool]]:
        shown = sam.poll(here.id, asked.id)
        assert shown is not None
        return [(each.text, each.votes, each.mine) for each in shown.answers]

    await people.vote("Ada", here.id, asked.id, "For")
    await sam.vote(here.id, asked.id, "For", given=True)
    assert answers() == [("For", 2, True), ("Against", 0, False)]
    await sam.vote(here.id, asked.id, "Against", given=True)
    assert answers() == [("For", 1, False), ("Against", 1, True)]
    await sam.vote(here.id, asked.id, "Against", given=False)
    assert answers() == [("For", 1, False), ("Against", 0, False)]
    for answer, message in (("Maybe", asked.id), ("For", int(said["id"]) + 1)):
        with pytest.raises(Refused, match="gone"):
            await sam.vote(here.id, message, answer, given=True)
    asked.poll.ended = True
    with pytest.raises(Refused, match="expired"):
        await sam.vote(here.id, asked.id, "For", given=True)
    shown = sam.poll(here.id, asked.id)
    assert shown is not None
    assert shown.is_over


async def test_a_command_without_a_message_is_about_a_bots_newest_words_not_about_a_notice() -> None:
    world = small_world({"claude": ("Claude", "t")}, ("casual",), ("Sam",))
    people, used, why = DiscordStandIn(world), list[TypedCommand](), {"name": "message", "type": TEXT, "required": True}
    casual, claude = world.channel("casual"), world.app("claude").user
    asked = casual.messages[int((await people.say("claude", casual.id, "Tea or coffee?"))["id"])]
    thread = create_thread(world, casual, "Tea or coffee?", claude, message=asked)
    command = {"name": "why", "type": SLASH, "description": "Why?", "options": [why]}

    async def use(channel_id: int, typed: TypedCommand) -> Answer:
        used.append(typed)
        return Answer("Because.")

    sam = BrowserPerson(people, "Sam", ("Claude",), {}, {}, [command], use)
    with pytest.raises(Refused, match="no bot has written"):
        await sam.use(thread.id, "/why")
    said = await people.say("claude", thread.id, "Tea, because it keeps me awake.")
    await people.say("Sam", thread.id, "Coffee!")
    await people.say("claude", thread.id, "🫥 The floor is yours for 60 seconds.")
    assert (await sam.use(thread.id, "/why")).text == "Because."
    assert used == [TypedCommand("why", {"message": said["id"]})]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/wy", "there's no command /wy; did you mean /why? To post it as text, begin with //"),
        ("/xyz", "there's no command /xyz; /help shows what you can type. To post it as text, begin with //"),
        ("/quit", "/quit works only in the terminal. Here, use the buttons beside a message"),
    ],
)
async def test_an_unknown_command_says_what_can_be_typed(line: str, said: str) -> None:
    world = small_world({"claude": ("Claude", "t")}, ("casual",), ("Sam",))
    commands = [{"name": "why", "type": SLASH, "description": "Why?"}]
    sam = BrowserPerson(DiscordStandIn(world), "Sam", ("Claude",), {}, {}, commands)
    with pytest.raises(Refused) as refused:
        await sam.use(world.channel("casual").id, line)
    assert refused.value.text == said
