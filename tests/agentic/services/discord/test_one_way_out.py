"""Nothing but the gate speaks to Discord, so nothing leaves without what the gate adds and takes away."""

from __future__ import annotations

import ast
from pathlib import Path

import discord
import pytest

from agentic.process.root import ROOT
from agentic.services.discord.gate import pings
from tests.support.flow import flow

SPEAKING = {
    *("send", "reply", "respond", "send_message", "send_modal", "followup", "edit_message", "edit_original_response"),
    *(
        "add_reaction",
        "trigger_typing",
        "create_thread",
        "create_webhook",
        "edit",
        "publish_message",
        "pin",
        "crosspost",
    ),
}
# These have methods of the same names, and end in the gate.
NOT_DISCORD = ("gate", "listener", "transcript", "writer")
GATE = ROOT / "agentic.services.discord" / "rest" / "gate.py"
LISTENED_TO = (
    "agentic.services.discord",
    "agent_cogs",
    "agentic/runtime/bot.py",
    "agentic/runtime/bot.py",
    "agentic/runtime/services.py",
    "agentic/runtime/runtime.py",
)


def speaking_in(source: str) -> list[str]:
    """Every call of a method by which py-cord sends something, as "name, line"."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        f"{call.func.attr}, line {call.lineno}"
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in SPEAKING
        and not ast.unparse(call.func.value).endswith(NOT_DISCORD)
    ]


def files() -> list[Path]:
    places = [ROOT / name for name in LISTENED_TO]
    found = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*.py")))]
    return [file for file in found if file != GATE and "import discord" in file.read_text(encoding="utf-8")]


@pytest.mark.promise(1)
@pytest.mark.parametrize("file", files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_no_other_module_sends_anything(file: Path) -> None:
    assert speaking_in(file.read_text(encoding="utf-8")) == []


def test_a_module_that_sends_is_found() -> None:
    assert speaking_in("async def x(c):\n    await c.send('hi')") == ["send, line 2"]


@pytest.mark.promise(1)
@pytest.mark.parametrize("person", [None, 5])
def test_what_leaves_may_ping_one_person_at_most_and_no_role(person: int | None) -> None:
    said = pings(person).to_dict()
    assert said["parse"] == []
    assert "roles" not in said
    assert [int(user) for user in said.get("users", ())] == ([person] if person else [])
    assert not said.get("replied_user")


@pytest.mark.promise(1)
async def test_a_post_that_says_nothing_of_mentions_would_ping_nobody(tmp_path: Path) -> None:
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        default = runtime.bots["claude"].client.allowed_mentions
        assert default is not None
        assert default.to_dict() == discord.AllowedMentions.none().to_dict()
