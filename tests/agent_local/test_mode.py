"""What local mode itself says."""

from agent_local.discord.interactions import EPHEMERAL
from agent_local.discord.world.world import Attachment
from agent_local.mode import told_by


def test_of_an_answer_to_one_person_the_files_are_shown_too():
    soul = Attachment(5, "soul.md", b"Dry humour.", "text/markdown", 1)
    answer = {"content": "soul.md of Claude:", "flags": EPHEMERAL, "attachments": [{"id": "5"}]}
    assert told_by(answer, {5: soul}) == "soul.md of Claude:\nDry humour."
    assert told_by({**answer, "flags": 0}, {5: soul}) == "", "it stands in the channel already"
    assert told_by({"content": "Done.", "flags": EPHEMERAL}, {}) == "Done."
