"""Answers to commands that the person at the terminal uses."""

from agent_local.command_use import answer_text
from agent_local.discord.interactions import EPHEMERAL
from agent_local.discord.world.world import Attachment


def test_of_an_answer_to_one_person_the_files_are_shown_too():
    soul = Attachment(5, "soul.md", b"Dry humour.", "text/markdown", 1)
    answer = {"content": "soul.md of Claude:", "flags": EPHEMERAL, "attachments": [{"id": "5"}]}
    assert answer_text(answer, {5: soul}) == "soul.md of Claude:\nDry humour."
    assert answer_text({**answer, "flags": 0}, {5: soul}) == "", "it is in the channel already"
    assert answer_text({"content": "Done.", "flags": EPHEMERAL}, {}) == "Done."
