"""What a person does in Discord as plain values, and the answers as what Discord shows: against the stand-in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from agent_cogs import slash as cog
from agent_cogs.slash import Slash
from agentic.actions.base import ActionRequest, Choice, File, Form, FormField, Menu, Outcome, report
from agentic.actions.texts import TEXTS
from agentic.local.discord import messages
from agentic.local.discord.dialogs import DEFERRED_MESSAGE, DEFERRED_UPDATE, EPHEMERAL, UPDATE
from agentic.process.redaction import Redactor
from agentic.services.discord.gate import Gate, OutboundShared
from agentic.state.leases import ALWAYS_HELD
from tests.support.discord.gateway_scene import Scene, scene

COMMANDS = [
    {"id": "1", "name": "order", "type": 1, "options": [{"name": "dish", "type": 3, "autocomplete": True}]},
]


def shows(reply: Form | Menu | File, text: str = "") -> Outcome:
    return Outcome(code="report", fields={"text": text}, reply=reply)


FORM_OF_TABLE = Form(
    id="table:7",
    title="A table",
    fields=(
        FormField(id="name", label="Name", required=True, most=32),
        FormField(id="wishes", label="Wishes", text="by the window", hint="quiet, a chair for a child", long=True),
    ),
)
FORM = shows(FORM_OF_TABLE)
MENU_OF_DISHES = Menu(
    id="dishes:7",
    text="Which dishes?",
    hint="two or three",
    fewest=2,
    most=3,
    choices=(Choice("soup", "Soup", "of the day"), Choice("fish", "Fish"), Choice("cake", "Cake")),
)

MENU = shows(MENU_OF_DISHES)


class Kitchen:
    """Answers each command with the next of `answers`, and keeps what it was asked."""

    def __init__(self, *answers: Outcome | str) -> None:
        self.answers, self.asked, self.typed = list(answers), list[ActionRequest](), list[tuple[str, str]]()
        self.open = asyncio.Event()
        self.open.set()

    async def perform(self, command: ActionRequest) -> Outcome:
        self.asked.append(command)
        await self.open.wait()
        answer = self.answers.pop(0)
        return report(answer) if isinstance(answer, str) else answer

    async def complete(self, request: ActionRequest, option: str, typed: str) -> Sequence[Choice]:
        self.typed.append((request.name, option))
        if typed == "!":
            raise RuntimeError("no such dish")
        return [choice for choice in MENU_OF_DISHES.choices if choice.value.startswith(typed)]


@asynccontextmanager
async def a_kitchen(*answers: Outcome | str, secret: str = "") -> AsyncIterator[tuple[Scene, Kitchen]]:
    kitchen = Kitchen(*answers)
    async with scene() as s:
        s.server.world.app("claude").commands[s.server.world.guild.id] = COMMANDS
        gate = Gate(shared=OutboundShared(Redactor([secret] if secret else [])))
        s.bot.add_cog(Slash(s.bot, gate, cast(Any, kitchen), ALWAYS_HELD))
        yield s, kitchen


async def order(s: Scene, until: str = "answers"):
    used = await s.server.interact("Alice", "lounge", "claude", "order", {"dish": "soup"})
    await s.server.wait_for(lambda: getattr(used, until))
    return used


async def test_a_form_shows_its_fields_and_comes_back_as_a_command_with_their_texts():
    async with a_kitchen(FORM, "Thank you.") as (s, kitchen):
        used = await order(s, "form")
        name, wishes = (row["components"][0] for row in used.form["components"])
        assert (used.form["title"], used.form["custom_id"]) == ("A table", "table:7")
        assert (name["label"], name["style"], name["max_length"]) == ("Name", 1, 32)
        assert (name.get("required", True), wishes["required"]) == (True, False)
        assert (wishes["value"], wishes["placeholder"], wishes["style"]) == (
            "by the window",
            "quiet, a chair for a child",
            2,
        )
        sent = await s.server.fill_in(used, "Ann", "by the\ndoor")
        await s.server.wait_for(lambda: sent.answers)
        assert sent.answers[0]["content"] == "Thank you."
        back = kitchen.asked[1]
        assert (back.name, back.who.user_id) == ("form table", kitchen.asked[0].who.user_id)
        assert back.values == {"id": "table:7", "name": "Ann", "wishes": "by the\ndoor"}


@pytest.mark.parametrize("slow", [False, True])
async def test_an_answer_whose_file_is_refused_comes_without_it_and_says_so(monkeypatch, slow: bool):
    monkeypatch.setattr(messages, "MAX_FILE_BYTES", 10)
    monkeypatch.setattr(cog, "DEFER_AFTER", 0.05 if slow else 5.0)
    async with a_kitchen(shows(File("export.txt", "line\n" * 100), "Your export:")) as (s, kitchen):
        if slow:
            kitchen.open.clear()
        used = await s.server.interact("Alice", "lounge", "claude", "order", {"dish": "soup"})
        if slow:
            await s.server.wait_for(lambda: used.callback)
            kitchen.open.set()
        await s.server.wait_for(lambda: used.answers)
        assert used.answers[-1]["content"].startswith("Your export:\n-# The file was too large")
        assert used.answers[-1]["attachments"] == []


async def test_a_menu_is_replaced_by_the_answer_to_the_choice():
    async with a_kitchen(MENU, "Coming.") as (s, kitchen):
        used = await order(s)
        (shown,) = used.answers
        assert shown["flags"] & EPHEMERAL
        assert (shown["content"], used.menu["placeholder"]) == ("Which dishes?", "two or three")
        assert (used.menu["min_values"], used.menu["max_values"]) == (2, 3)
        assert used.menu["options"][0]["description"] == "of the day"
        with pytest.raises(ValueError, match="choose 2 to 3"):
            await s.server.choose(used, "soup")
        chosen = await s.server.choose(used, "soup", "cake")
        await s.server.wait_for(lambda: chosen.answers)
        assert chosen.callback["type"] == UPDATE
        assert (chosen.answers[0]["content"], chosen.answers[0]["components"]) == ("Coming.", [])
        assert (kitchen.asked[1].name, kitchen.asked[1].chosen) == ("menu dishes", ("soup", "cake"))
        assert kitchen.asked[1].values == {"id": "dishes:7"}


async def test_a_menu_may_be_followed_by_another_one():
    async with a_kitchen(MENU, shows(Menu(id="drinks:7", text="And?", choices=(Choice("tea", "Tea"),))), "Coming.") as (
        s,
        _,
    ):
        chosen = await s.server.choose(await order(s), "soup", "cake")
        await s.server.wait_for(lambda: chosen.answers)
        last = await s.server.choose(chosen, "tea")
        await s.server.wait_for(lambda: last.answers)
        assert last.answers[0]["content"] == "Coming."


@pytest.mark.parametrize(
    ("shown", "send", "deferral"),
    [
        (FORM, lambda s, used: s.server.fill_in(used, "Ann", ""), DEFERRED_MESSAGE),
        (MENU, lambda s, used: s.server.choose(used, "soup", "fish"), DEFERRED_UPDATE),
    ],
    ids=["form", "menu"],
)
async def test_a_slow_answer_to_what_came_back_is_announced(monkeypatch, shown: Outcome, send: Callable, deferral: int):
    monkeypatch.setattr(cog, "DEFER_AFTER", 0.05)
    async with a_kitchen(shown, "Coming.") as (s, kitchen):
        used = await s.server.interact("Alice", "lounge", "claude", "order", {"dish": "soup"})
        await s.server.wait_for(lambda: used.answers or used.form)
        kitchen.open.clear()
        sent = await send(s, used)
        await s.server.wait_for(lambda: sent.callback)
        assert sent.callback["type"] == deferral
        kitchen.open.set()
        await s.server.wait_for(lambda: sent.answers)
        assert sent.answers[0]["content"] == "Coming."
        assert sent.answers[0]["flags"] & EPHEMERAL


async def test_a_form_that_comes_too_late_is_not_shown(monkeypatch):
    monkeypatch.setattr(cog, "DEFER_AFTER", 0.05)
    async with a_kitchen(FORM) as (s, kitchen):
        kitchen.open.clear()
        used = await s.server.interact("Alice", "lounge", "claude", "order", {"dish": "soup"})
        await s.server.wait_for(lambda: used.deferred)
        kitchen.open.set()
        await s.server.wait_for(lambda: used.answers)
        assert used.answers[0]["content"] == TEXTS["too_slow"]


async def test_no_form_shows_a_secret_in_any_of_its_fields():
    async with a_kitchen(FORM, secret="by the window") as (s, _):
        used = await order(s)
        assert (used.form, used.answers[0]["content"]) == (None, TEXTS["form_has_secret"])


async def test_choices_are_offered_for_an_option_while_it_is_typed_and_a_fault_offers_none(caplog):
    async with a_kitchen() as (s, kitchen):
        for typed, offered in (("so", ["soup"]), ("", ["soup", "fish", "cake"]), ("!", [])):
            used = await s.server.type_option("Alice", "lounge", "claude", "order", "dish", typed)
            await s.server.wait_for(lambda used=used: used.callback)
            assert [choice["value"] for choice in used.callback["data"]["choices"]] == offered
        assert kitchen.typed[0] == ("order", "dish")
        assert "reading choices for dish failed: RuntimeError" in caplog.text
