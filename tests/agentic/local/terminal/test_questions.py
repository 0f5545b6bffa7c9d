"""Menus and forms in the terminal: what is asked, what may be typed, what is sent."""

from __future__ import annotations

import pytest

from agentic.local.discord.dialogs import MENU
from agentic.local.terminal.commands import Answer, Dialog, Json, Values, read_value, render_question

WHO = {
    "type": MENU,
    "label": "Who takes part?",
    "min_values": 2,
    "max_values": 3,
    "options": [
        {"value": "hist", "label": "Historian", "description": "reads the present"},
        {"value": "eng", "label": "Engineer"},
        {"value": "sc", "label": "The Sceptic"},
    ],
}
TOPIC = {"type": 4, "label": "Topic", "max_length": 20, "placeholder": "what it's about"}
RULES = {"type": 4, "label": "Rules", "max_length": 100, "required": False, "value": "Be brief."}
NOTE = {"type": 4, "label": "Note", "max_length": 100, "required": False}


class Sender:
    """Keeps what was sent."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.sent = answer, list[Values]()

    async def __call__(self, values: Values) -> Answer:
        self.sent.append(values)
        return self.answer


def dialog(notes: list[str], sender: Sender, *fields: Json, text: str = "") -> Dialog:
    opened = Dialog(notes.append, str.strip)
    opened.show(Answer(text, "A room", fields, sender))
    return opened


def test_the_choices_of_a_menu_are_numbered() -> None:
    assert render_question(WHO).splitlines() == [
        "Who takes part?: type 2 to all of these numbers",
        " 1 Historian    reads the present",
        " 2 Engineer",
        " 3 The Sceptic",
    ]


@pytest.mark.parametrize(
    ("line", "chosen"),
    [
        ("1 3", ["hist", "sc"]),
        ("3, 1", ["sc", "hist"]),
        ("Historian, the sceptic", ["hist", "sc"]),
        ("@eng, 1", ["eng", "hist"]),
        ("all", ["hist", "eng", "sc"]),
        ("1 1 2", ["hist", "eng"]),
    ],
)
def test_a_choice_is_made_by_number_or_name(line: str, chosen: list[str]) -> None:
    assert read_value(line, WHO) == chosen


@pytest.mark.parametrize(
    ("line", "hint"),
    [("1", "choose 2 to 3"), ("", "choose 2 to 3"), ("1 4", "4 isn't"), ("1, poet", "poet isn't")],
)
def test_a_choice_that_a_menu_does_not_take_is_asked_again(line: str, hint: str) -> None:
    notes: list[str] = []
    opened = dialog(notes, Sender(Answer()), WHO)
    assert opened.take(line) is None
    assert hint in notes[-1]
    assert opened.label == WHO["label"]


async def test_a_form_is_asked_field_after_field_and_an_empty_line_keeps_or_skips() -> None:
    notes: list[str] = []
    sender = Sender(Answer())
    form = dialog(notes, sender, TOPIC, RULES, NOTE)
    assert notes[-1] == "Topic (required; what it's about)"
    assert form.take("") is None
    assert "Topic is required" in notes[-1]
    assert form.take("x" * 21) is None
    assert "has at most 20" in notes[-1]
    assert form.take("P and NP") is None
    assert notes[-1] == "Rules (an empty line keeps it):\nBe brief."
    assert form.take("") is None
    assert notes[-1] == "Note (an empty line skips it)"
    sending = form.take("")
    assert sending is not None
    await sending
    assert (form.label, sender.sent) == ("", [["P and NP", "Be brief.", ""]])


async def test_what_was_filled_in_is_sent_once_all_is_there_and_its_answer_shown() -> None:
    notes: list[str] = []
    sender = Sender(Answer("The room is open."))
    opened = dialog(notes, sender, TOPIC, WHO, text="Fill this in.")
    assert notes[:2] == ["Fill this in.", "A room (/cancel to leave)"]
    assert opened.label == "Topic"
    assert opened.take("//etc is a topic") is None
    sending = opened.take("1 2")
    assert sending is not None
    assert (opened.label, opened.takes("more")) == ("", False)
    opened.show(await sending)
    assert sender.sent == [["/etc is a topic", ["hist", "eng"]]]
    assert notes[-1] == "The room is open."


def test_a_person_leaves_questions_and_may_use_commands_meanwhile() -> None:
    notes: list[str] = []
    sender = Sender(Answer())
    opened = dialog(notes, sender, TOPIC)
    assert [opened.takes(line) for line in ("/who", "#a /room list", "a topic", "//x", "/cancel")] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert opened.take("/cancel") is None
    assert (opened.label, sender.sent, notes[-1]) == ("", [], "canceled; nothing was sent")
