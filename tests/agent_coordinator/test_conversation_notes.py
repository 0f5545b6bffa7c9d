"""What the record hears of conversations."""

from agent_coordinator.events import ConversationNotes, ConversationStarted, TurnTaken
from agentic.wire.messages import Result
from tests.support.coordinator_doubles import conversation


class Heard:
    def __init__(self):
        self.topics = []

    def note(self, entry):
        self.topics.append(entry.topic)


def taken(topic):
    return TurnTaken(conversation(5), "claude", Result(instruction_id="i", agent_name="claude", topic=topic))


def test_the_topic_is_noted_once_as_soon_as_an_agent_names_it():
    heard = Heard()
    notes = ConversationNotes(heard)
    for event in (ConversationStarted(conversation(5), "claude"), taken(None), taken("tea"), taken("coffee")):
        notes(event)
    assert heard.topics == [None, "tea"]


def test_a_topic_that_an_owner_named_stays():
    heard = Heard()
    notes = ConversationNotes(heard)
    for event in (ConversationStarted(conversation(5, topic="rain"), "claude"), taken("tea")):
        notes(event)
    assert heard.topics == ["rain"]
