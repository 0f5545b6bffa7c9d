"""What a prompt says of the service that a channel lies on."""

from __future__ import annotations

import pytest

from agentic.chat.outlet import ServiceInfo
from agentic.context.prompt import build_persona, build_system
from agentic.context.window import Window
from agentic.services.discord.view import DISCORD
from agentic.services.signal.channels import SIGNAL
from agentic.turn.decide import skip_prompt
from agentic.turn.form import FIELDS, MARKUP, form_of
from tests.support.said import CLAUDE, context, said

WINDOW = Window((said(10), said(11, CLAUDE)), 20.0)


FORM = form_of(frozenset(field.where for field in FIELDS))


def test_a_channel_of_discord_is_one_of_a_server() -> None:
    turn = context(WINDOW)
    assert build_persona(turn).startswith("You are Claude, an AI member of a Discord server. ")
    assert "# The channel #debate\n" in build_persona(turn)
    assert "Discord's markdown" in FORM.on(DISCORD)
    assert "Discord server" in str(skip_prompt(turn, 5.0, DISCORD.members).system)


def test_a_chat_of_signal_hears_of_no_server_and_no_channel_of_discord() -> None:
    heading = SIGNAL.heading.format("Anna")
    turn = context(WINDOW, membership=SIGNAL.membership, heading=heading, contract=FORM.on(SIGNAL))
    shown = build_system(turn) + str(skip_prompt(turn, 5.0, SIGNAL.members).system)
    assert "You are Claude, an AI that people chat with on Signal." in shown
    assert "# The chat Anna\n" in shown
    assert "Discord" not in shown
    assert "#Anna" not in shown


@pytest.mark.parametrize("service", [DISCORD, SIGNAL])
def test_a_form_is_whole_on_every_service(service: ServiceInfo) -> None:
    for form in (FORM, form_of(frozenset({"everywhere"}))):
        assert service.markup in form.on(service)
        assert MARKUP not in form.on(service)
