"""Whose words a command's question is."""

import pytest

from agentic.chat.directory import Directory
from agentic.services.discord.messages import command_question, incoming_message, to_entry
from tests.support.doubles import ALICE, Client, TextChannel, message, user, user_payload

CLAUDE, GROK, FOREIGN = 21, 22, 99


@pytest.fixture
def directory():
    made = Directory({"claude": "Claude", "grok": "Grok"})
    made.learn("claude", CLAUDE)
    made.learn("grok", GROK)
    return made


def shown(text, *, author=GROK, asked_by=ALICE, by_bot=False, by_command=True):
    client = Client(user(GROK, "Grok", bot=True))
    channel = TextChannel(10, client.guild, "lounge", iter(range(1, 9)).__next__)
    used = {
        **{"id": "7", "type": 2, "authorizing_integration_owners": {}},
        "user": user_payload(asked_by, "Alice", bot=by_bot),
    }
    fields = {"webhook_id": "555", **({"interaction_metadata": used} if by_command else {})}
    return message(channel, 1, text, author=author, name="Grok", bot=True, **fields)


def test_a_question_by_command_is_its_users_message_to_the_named_agent(directory):
    made = shown(f"<@{CLAUDE}>  .why *me*? <@{GROK}>")
    question = command_question(made, directory)
    assert (question.by.id, question.agent) == (ALICE, CLAUDE)
    entry = to_entry(made, directory)
    assert (entry.speaker.id, entry.speaker.kind, entry.speaker.agent) == (ALICE, "person", None)
    assert entry.text.startswith("@claude  .why *me*?")
    assert not entry.hidden
    facts = incoming_message(made, question)
    assert (facts.author_id, facts.by_person, facts.mentioned_users) == (ALICE, True, {CLAUDE})


@pytest.mark.parametrize(
    "made",
    [
        shown(f"<@{CLAUDE}> hello", author=FOREIGN),
        shown(f"<@{CLAUDE}> hello", by_command=False),
        shown(f"<@{CLAUDE}> hello", asked_by=FOREIGN, by_bot=True),
        shown(f"<@{FOREIGN}> hello"),
        shown(f"hello <@{CLAUDE}>"),
    ],
    ids=["another bot's command", "no command", "used by a bot", "to nobody of ours", "no question"],
)
def test_everything_else_stays_what_it_is(directory, made):
    assert command_question(made, directory) is None
    entry = to_entry(made, directory)
    assert entry.speaker.kind != "person"
    assert not incoming_message(made).by_person
