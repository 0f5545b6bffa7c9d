"""What a prompt says of the service that a channel lies on."""

from __future__ import annotations

import pytest

from agentic.chat.outlet import ServiceInfo
from agentic.context.commands import order_in
from agentic.context.prompt import build_persona, build_system
from agentic.context.window import Window
from agentic.services.discord.view import DISCORD
from agentic.services.signal.channels import SIGNAL
from agentic.turn.decide import skip_prompt
from agentic.turn.form import FORM, MARKUP, form_of
from tests.support.said import CLAUDE, context, said

WINDOW = Window((said(10), said(11, CLAUDE)), 20.0)


def test_a_channel_of_discord_reads_as_it_always_did() -> None:
    """To the byte: a provider's cache begins with these words."""
    turn = context(WINDOW)
    assert build_persona(turn).startswith(
        "You are Claude, an AI member of a Discord server of AIs and people. The other AI members are ChatGPT and Grok."
        " Never write lines for others.\n\n# Personality\n\nYou are thoughtful.\n\n# The channel #debate\n\nIts theme"
        " is debate. "
    )
    assert (
        "\n- text: your post in Discord's markdown, as people chat: short, no headings, no sign-off; @Name addresses"
        " somebody.\n"
    ) in FORM.on(DISCORD)
    assert str(skip_prompt(turn, 5.0, DISCORD.members).system).startswith(
        "Claude is one of several AI members of a Discord server who converse. You decide whether Claude speaks now:"
    )


def test_a_chat_of_signal_hears_of_no_server_and_no_channel_of_discord() -> None:
    heading = SIGNAL.heading.format("Anna")
    turn = context(WINDOW, membership=SIGNAL.membership, heading=heading, contract=FORM.on(SIGNAL))
    shown = build_system(turn) + str(skip_prompt(turn, 5.0, SIGNAL.members).system)
    assert "You are Claude, an AI that people write with on Signal." in shown
    assert "# The chat Anna\n" in shown
    assert "Discord" not in shown
    assert "#Anna" not in shown


@pytest.mark.parametrize("service", [DISCORD, SIGNAL])
def test_a_form_is_whole_on_every_service(service: ServiceInfo) -> None:
    for form in (FORM, form_of(in_room=True, names_next=True), form_of(in_room=True, names_next=False, reacts=False)):
        assert service.markup in form.on(service)
        assert MARKUP not in form.on(service)


@pytest.mark.parametrize("service", [DISCORD, SIGNAL])
def test_the_words_by_which_people_stop_the_bots_are_an_order(service: ServiceInfo) -> None:
    assert "STOP" in service.stopping
    assert order_in("STOP") is not None
