"""Make docs/room.svg and docs/pictures/room-page.webp: .venv/bin/python -m tests.pictures.rooms

Runs the program on the Discord stand-in, with models whose answers are written below, and opens a room with the format
`debate`. A person asks something when the audience may, people vote, and a judge decides. One picture shows the thread
(without the phases in the middle), one the page that `/room export` saves (without the posts in the middle). Needs what
`make test-browser` needs, and a font with emojis.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.async_api import async_playwright

from agent_config import AGENTS
from agentic.local.discord.world import PUBLIC_THREAD, Channel
from agentic.rooms.judge import CRITERIA
from agentic.runtime.services import cheap_model
from tests.flows.test_commands_flow import ready, told
from tests.pictures.channel import Drawn, draw
from tests.support.flow import Flow, decision, flow
from tests.support.models.wire.values import Answer, ModelRequest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (900, 1000)
POSTS = 2  # at the beginning of the page; the picture has the last one, too
TOPIC = "Should cities ban cars?"
QUESTION = "Grok, how does my grandmother get to her doctor?"
PEOPLE = {"Alice": "#e0709a", "Bob": "#6cc08b", "Carol": "#8fb8de", "Sam": "#f0b232"}
ASKER = "Sam"
OPTIONS = {
    "topic": TOPIC,
    "personas": "Claude: for, Grok: against",
    "format": "debate",
    "turns": 10,
    "judge": "Gemini",
}
LEFT_OUT = ("rebuttals", "cross-questions")
SAID: Mapping[str, tuple[str, ...]] = {
    "anthropic": (
        "Yes, in their centers. A parked car fills ten square meters that nobody can sit, play, or sell on, and it's"
        " parked 23 hours a day. Pontevedra closed its center to cars in 1999: traffic deaths there all but stopped,"
        " and families moved back.",
        "Grok says shops die without parking. Pontevedra's didn't: people on foot spend less per visit, but they come"
        " more often. A street full of parked cars has no more customers than it has spaces.",
        "The plumber gets a permit, as he does in Pontevedra. Grok, which of your arguments is about the commuter who"
        " sits alone in a car?",
        "Grok is right that some people need a car, Sam. So let them through: your grandmother's trip gets shorter"
        " when the 200 cars that didn't have to be there are gone.",
        "Grok's best point was the night nurse, and a ban that forgets her is a bad ban. My case holds, since it's"
        " about the center and not the car. I'd change my mind if the shops there closed.",
    ),
    "xai": (
        "No. A ban hits whoever can't choose: the night nurse whose bus stops at midnight, the plumber with 40 kilos of"
        " tools. Charge for the space instead. London did, traffic fell by a sixth, and the nurse still gets home.",
        "“Families moved back” is Claude's strongest claim, and it leaves out the rents. They rose, and whoever had to"
        " leave now drives in from further out. The ban moved the cars, and their drivers with them.",
        "The commuter alone in a car is whom a price is for. Claude, if every nurse, plumber, and patient gets a"
        " permit, what's left of your ban?",
        "By car, Sam, and to the door. Under a ban she first needs a form, an office, and a date. A price that she"
        " doesn't have to pay needs one line in a database.",
        "Claude's best point was the parked car: 23 hours of free space are a gift that nobody voted for. So put a"
        " price on it. Show me a city whose permits reach the poor first, and I'll switch sides.",
    ),
}
VOTES = {("anthropic", 0): ("Alice", "Bob", "Sam"), ("xai", 3): ("Carol", "Sam"), ("xai", 4): ("Bob",)}
REPORT = {
    "positions": {
        "claude": "Centers belong to people on foot; whoever needs a car gets a permit.",
        "grok": "A price on space is fairer than a ban with a thousand exceptions.",
    },
    "arguments": ["Claude: parked cars waste space", "Grok: a ban hits people who can't choose"],
    "agreed": ["Free parking in the center has to end."],
    "unsettled": ["Do permits reach people who need them most?"],
}
ARGUMENTS = [
    {"by": "Claude", "claim": "parked cars waste a center's space", "answered_by": ""},
    {"by": "Grok", "claim": "a ban hits people who have no choice", "answered_by": "Claude"},
]
SCORES = {"for": (8, 8, 7, 8), "against": (8, 7, 9, 8)}
VERDICT = "Close. Grok answered the audience better, and Claude never said how many permits are too many."


def answers() -> Any:
    """Return what the models answer: each bot's posts in order, the list of arguments, the card, the verdict."""
    posts: Mapping[str, Iterator[str]] = {provider: iter(texts) for provider, texts in SAID.items()}

    def answer(request: ModelRequest) -> Answer | str:
        if "You report on a debate" in request.system:
            return json.dumps(REPORT)
        if "You judge a debate" in request.system:
            scores = {side: dict(zip(CRITERIA, points, strict=True)) for side, points in SCORES.items()}
            return json.dumps({"scores": scores, "verdict": VERDICT})
        if "You keep the list of arguments" in request.system:
            return json.dumps({"arguments": ARGUMENTS})
        return Answer(text=decision(next(posts[request.provider])), delay=1.0)  # the thread's lines come first

    return answer


async def debate(f: Flow) -> Channel:
    """Hold the debate, and return its thread."""
    await ready(f)
    f.models.answer = answers()
    for person in ("Carol", ASKER):  # the others are in the world
        await f.discord.add_person(person)
    opened = await told(f, await f.discord.interact("Alice", "debate", "chatgpt", "room create", dict(OPTIONS)))
    assert "The room is open" in opened, opened
    thread = next(place for place in f.world.guild.channels.values() if place.type == PUBLIC_THREAD)

    def message(words: str) -> dict[str, Any] | None:
        return next((each for each in f.discord.messages(thread.id) if words in each["content"]), None)

    await f.discord.wait_for(lambda: message("The floor is yours"), 60)
    await f.discord.say(ASKER, thread.id, QUESTION)
    await f.discord.interact("Alice", thread.id, "chatgpt", "room next", {})
    await f.discord.wait_for(lambda: message("That was the last post"), 60)
    for (provider, number), people in VOTES.items():
        post = message(SAID[provider][number][:40])
        assert post is not None, "it was posted before"
        for person in people:
            await f.discord.react(person, thread.id, int(post["id"]), "👍")
    await f.discord.interact("Alice", thread.id, "chatgpt", "room next", {})
    await f.discord.wait_for(lambda: message("This room is closed"), 60)
    return thread


def drawn(f: Flow, thread: Channel) -> Iterator[Drawn]:
    """Yield the thread's messages, without those of the phases that are left out."""
    shown = {spec.display_name: f"#{spec.color:06x}" for spec in AGENTS.values()}
    messages = f.discord.messages(thread.id)
    names = {each["author"]["id"]: each["author"].get("global_name") or each["author"]["username"] for each in messages}
    left_out = 0
    for number, message in enumerate(each for each in messages if each["content"]):
        name = names[message["author"]["id"]]
        text = re.sub(r"<@!?(\d+)>", lambda found: f"@{names[found[1]]}", message["content"]).partition("\n-# ")[0]
        phase = re.match(r"🫥 \*\*([\w -]+)\*\*, until turn", text)
        is_left_out = phase[1].lower() in LEFT_OUT if phase else left_out and not text.startswith("🫥")
        if is_left_out:
            left_out += 1
            continue
        if left_out:
            yield Drawn(text=f"{' and '.join(LEFT_OUT)}: {left_out - len(LEFT_OUT)} posts")
            left_out = 0
        votes = next((each["count"] for each in message.get("reactions", ()) if each["emoji"]["name"] == "👍"), 0)
        yield Drawn(
            name=name,
            text=text,
            color=shown.get(name) or PEOPLE[name],
            is_app=name in shown,
            time=f"8:{20 + number} PM",
            votes=votes,
        )


async def exported(f: Flow, thread: Channel) -> str:
    """Return the thread's page, as a person saves it."""
    used = await f.discord.interact("Alice", thread.id, "chatgpt", "room export", {})
    await f.discord.wait_for(lambda: used.answers)
    (file,) = used.answers[0]["attachments"]
    return f.world.attachments[int(file["id"])].content.decode()


async def save_page(html: str, path: Path) -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": PAGE[0], "height": PAGE[1]})
        await page.set_content(html)
        await page.locator("article").evaluate_all(
            """(all, shown) => all.slice(shown, -1).forEach((each, number) => {
                number ? each.remove() : each.outerHTML = `<p style="margin: 1.5rem 0; text-align: center">⋯</p>`
            })""",
            POSTS,
        )
        picture = Image.open(io.BytesIO(await page.screenshot(full_page=True))).convert("RGB")
        picture.save(path, quality=80, method=6)
        await browser.close()


async def make() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cheap = partial(cheap_model, free_at_home=False)
        async with flow(Path(folder), CHEAP_MODEL="google/gemini-3.8-flash") as f, f.running(make_cheap=cheap):
            thread = await debate(f)
            (DOCS / "room.svg").write_text(draw(TOPIC, list(drawn(f, thread))), encoding="utf-8")
            await save_page(await exported(f, thread), DOCS / "pictures" / "room-page.webp")


def main() -> int:
    asyncio.run(make())
    return 0


if __name__ == "__main__":
    sys.exit(main())
