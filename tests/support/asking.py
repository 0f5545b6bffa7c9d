"""People who ask a bot in a flow, and what its model was shown then."""

from __future__ import annotations

import base64
import io
import re
import time

from PIL import Image

from agentic.actions.explain import find_turn, why_text


def link(f, channel, message):
    return f"https://discord.com/channels/{f.world.guild.id}/{f.channel(channel)}/{message['id']}"


def shown(request):
    return "\n".join(request.texts)


def config(folder, **files):
    """Option files: "shared" or "bots/claude" → their YAML."""
    for name, text in files.items():
        path = folder / "config" / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {"CONFIG_FILES_DIR": str(folder / "config")}


def picture(name, color, size=(3000, 2000)):
    found = io.BytesIO()
    Image.new("RGB", size, color).save(found, "PNG")
    return name, found.getvalue(), "image/png"


def pictures_in(request):
    """Their bytes, as Anthropic is sent them."""
    parts = (part for message in request.raw["messages"] for part in message["content"])
    return [base64.b64decode(part["source"]["data"]) for part in parts if part["type"] == "image"]


async def ask(f, channel="debate", text="what now?", bot="claude", **more):
    """Alice asks a bot; what its model was shown, when the answer is there."""
    before, said = len(f.models.requests), len(f.said(channel, bot))
    await f.discord.say("Alice", channel, f"<@{f.user_id(bot)}> {text}", **more)
    await f.models.wait_for(before + 1)
    await f.discord.wait_for(lambda: len(f.said(channel, bot)) > said)
    return f.models.requests[before]


async def explained(services, message):
    """Why a bot posted a message, as /why says it; None if no turn is known that did."""
    record = await find_turn(services.state, services.agents.names, int(message["id"]), time.time())
    return None if record is None else why_text(record, services.agents.names)


async def context_file(f, channel="debate"):
    """What `m context` hands out."""
    before = [a for m in f.discord.messages(channel) for a in m["attachments"]]
    await f.discord.say("Alice", channel, "m context")
    files = await f.discord.wait_for(
        lambda: [a for m in f.discord.messages(channel) for a in m["attachments"] if a not in before]
    )
    return f.discord.world.attachments[int(files[0]["id"])].content.decode()


def parts_of(content):
    """The parts of that file: what each is, and its text."""
    return re.findall(r"^-{20} ([^\n]*)\n(.*?)(?=\n\n-{20} |\Z)", content, re.DOTALL | re.MULTILINE)
