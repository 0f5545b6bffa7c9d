"""Tab completion: what is offered for a line as far as it is typed."""

from __future__ import annotations

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from agent_cogs.slash_definitions import command_list
from agentic.local.terminal.commands import Vocabulary
from agentic.local.terminal.typed_lines import EMOJI, completer_of, completions
from agentic.themes import THEMES

COMMANDS = command_list({"claude": "Claude", "grok": "Grok"})
KNOWN = Vocabulary(
    {"casual": 10, "debate": 11}, {"Claude": 1, "claude": 1, "Sam": 9}, {"bots": 5}, ("debate", "story"), COMMANDS
)


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("/fo", ["/forget"]),
        ("/Re", ["/reply", "/react", "/resume", "/reset"]),
        ("/bots ", ["status", "start", "next", "end", "pause", "resume", "mute", "unmute", "ignore", "unignore"]),
        ("/bots m", ["mute"]),
        ("/bots mute ", ["claude", "grok"]),
        ("/bots mute g", ["grok"]),
        ("/bots mute grok ", []),
        ("/bots start ", ["#casual", "#debate", *THEMES, "claude", "grok"]),
        ("/bots start casual sto", ["story"]),
        ("/bots ignore s", ["@sam"]),
        ("/agent-file show claude so", ["soul.md"]),
        ("/reset ", ["claude", "grok"]),
        ("/ask cl", ["claude"]),
        ("/ask claude what does @sa", ["@Sam"]),
        ("/arena tea or coffee? m", ["minutes:"]),
        ("/room create tea? turns: 4 p", ["personas:", "policy:", "pace:", "poll:"]),
        ("/why-not ", ["claude", "grok"]),
        ("/why ", []),
        ("/fire ", ["#casual", "#debate", "debate", "story"]),
        ("/fire casual d", ["debate"]),
        ("/react 12 ", list(EMOJI)),
        ("/react 12 st", ["stop"]),
        ("#d", ["#debate"]),
        ("#debate /fo", ["/forget"]),
        ("#Debate /bots m", ["mute"]),
        ("#debate /react 12 st", ["stop"]),
        ("#debate and c", []),
        ("@c", ["@Claude", "@claude"]),
        ("what do @B", ["@bots"]),
        ("what do ", []),
        ("/nonsense ", []),
    ],
)
def test_the_words_that_may_follow_are_offered(text: str, offered: list[str]) -> None:
    assert completions(text, KNOWN) == offered


def test_a_completion_replaces_the_word_before_the_cursor() -> None:
    completer = completer_of(lambda text: completions(text, KNOWN))
    found = completer.get_completions(Document("/bots mute gr"), CompleteEvent())
    assert [(one.text, one.start_position) for one in found] == [("grok", -2)]
