"""Commands of the bots as they are typed."""

from __future__ import annotations

import re

import pytest

from agent_cogs.slash_definitions import command_list
from agentic.local.terminal.commands import TypedCommand, Unclear, Vocabulary, read_use

COMMANDS = command_list({"claude": "Claude", "grok": "Grok", "hal": "Klaus"})
KNOWN = Vocabulary({"debate": 10, "casual": 11, "room-1": 12}, {"claude": 1, "you": 9}, {}, commands=COMMANDS)


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("/bots status", TypedCommand("bots status")),
        ("/BOTS Status", TypedCommand("bots status")),
        ("/bots mute grok 5", TypedCommand("bots mute", {"bot": "grok", "minutes": 5})),
        ("/bots mute @Grok", TypedCommand("bots mute", {"bot": "grok"})),
        ("/bots mute @klaus", TypedCommand("bots mute", {"bot": "hal"})),
        ("/bots start", TypedCommand("bots start")),
        ("/bots start #debate story", TypedCommand("bots start", {"channel": 10, "theme": "story"})),
        ("/bots start story", TypedCommand("bots start", {"theme": "story"})),
        ("/bots start debate debate", TypedCommand("bots start", {"channel": 10, "theme": "debate"})),
        ("/bots ignore @you", TypedCommand("bots ignore", {"user": 9})),
        ("/stop 30", TypedCommand("stop", {"minutes": 30})),
        ("/forget me", TypedCommand("forget me")),
        ("/ask @Claude what is up, grok?", TypedCommand("ask", {"agent": "claude", "prompt": "what is up, grok?"})),
        ("/reset", TypedCommand("reset")),
        ("/reset grok", TypedCommand("reset", {"agent": "grok"})),
        (
            "/agent-file show grok soul.md 2",
            TypedCommand("agent-file show", {"agent": "grok", "file": "soul.md", "back": 2}),
        ),
        ("/agent-file show grok soul.md", TypedCommand("agent-file show", {"agent": "grok", "file": "soul.md"})),
        ("/why 123456789012345678", TypedCommand("why", {"message": "123456789012345678"})),
        ("/why-not claude", TypedCommand("why-not", {"bot": "claude"})),
        ("/room next sceptic #room-1", TypedCommand("room next", {"agent": "sceptic", "room": "12"})),
        ("/room stop is P equal", TypedCommand("room stop", {"room": "is P equal"})),
        ("/room resume 4", TypedCommand("room resume", {"turns": 4})),
        ("/room resume #room-1 4", TypedCommand("room resume", {"room": "12", "turns": 4})),
        ("/room resume turns: 4 room: #room-1", TypedCommand("room resume", {"room": "12", "turns": 4})),
        ("/arena Is tea better than 2 coffees?", TypedCommand("arena", {"prompt": "Is tea better than 2 coffees?"})),
        ("/arena Tea or coffee? minutes: 3", TypedCommand("arena", {"prompt": "Tea or coffee?", "minutes": 3})),
        (
            "/ask claude What is a prompt: this?",
            TypedCommand("ask", {"agent": "claude", "prompt": "What is a prompt: this?"}),
        ),
        ("/room create Is P equal to NP?", TypedCommand("room create", {"topic": "Is P equal to NP?"})),
        (
            "/room create Tea? personas: Ada, the sceptic channel: #debate Turns:4 goodbye-ends: yes",
            TypedCommand(
                "room create",
                {"topic": "Tea?", "personas": "Ada, the sceptic", "channel": 10, "turns": 4, "goodbye-ends": True},
            ),
        ),
        ("/privacy export", TypedCommand("privacy", {"export": "file"})),
        ("/room add ada tea", TypedCommand("room add", {"agent": "ada", "room": "tea"})),
        ("/room next agent: the sceptic", TypedCommand("room next", {"agent": "the sceptic"})),
    ],
)
def test_words_stand_for_the_options_in_their_order(line: str, use: TypedCommand) -> None:
    assert read_use(line.split(), 10, KNOWN) == use


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("/bots", "/bots needs one of status, start"),
        ("/bots dance", "/bots needs one of"),
        ("/bots mute", "/bots mute needs bot: one of claude, grok, hal"),
        (
            "/bots mute eve",
            "eve does not fit /bots mute: bot is one of claude, grok, hal; minutes is a whole number from 1 to",
        ),
        ("/room create Tea? turns: many", "many does not fit /room create: turns is a whole number from 2 to 200"),
        ("/room create Tea? goodbye-ends: perhaps", "goodbye-ends is yes or no"),
        ("/bots ignore @nobody", "@nobody does not fit /bots ignore: user is a person or bot, as /who lists them"),
        ("/ask claude", "/ask needs prompt: a text (Your question)"),
        pytest.param(
            f"/room create {'tea ' * 1001} turns: 4", "topic is 4003 characters long; 4000 is", id="a long topic"
        ),
        ("/why abc", "abc does not fit /why: message is the number before a message, or its id"),
        ("/why", "no bot has written in this channel yet"),
        ("/stop 0", "0 does not fit"),
        pytest.param(f"/stop {'9' * 5_000}", "9 does not fit", id="a number of 5,000 digits"),
        ("/stop 30 40", "40 does not fit /stop: it takes no more options"),
        ("/agent-file show claude soul", "soul does not fit /agent-file show: file is one of soul.md"),
    ],
)
def test_what_discord_would_not_send_gets_a_hint(line: str, hint: str) -> None:
    with pytest.raises(Unclear, match=re.escape(hint)):
        read_use(line.split(), 10, KNOWN)


def test_other_words_are_no_command_of_the_bots() -> None:
    assert read_use(["/fire"], 10, KNOWN) is None
    assert read_use(["/Why?"], 10, KNOWN) is None


def test_a_command_that_was_renamed_is_known_by_its_old_name() -> None:
    known = Vocabulary({}, {}, {}, commands=command_list({"claude": "Claude"}))
    assert read_use(["/bots", "go-on"], 10, known) == TypedCommand("bots resume", {})
    assert read_use(["/bots", "resume"], 10, known) == TypedCommand("bots resume", {})
