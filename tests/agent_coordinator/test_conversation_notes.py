"""What the record hears of conversations."""

from agent_coordinator.events import ConversationNotes, ConversationStarted, TurnTaken
from agentic.wire.messages import Result


class Heard:
    def __init__(self):
        self.topics = []

    def note(self, entry):
        self.topics.append(entry.topic)


def taken(topic):
    return TurnTaken("c1", 5, 1, "claude", Result(instruction_id="i", agent_name="claude", topic=topic))


def test_the_topic_is_noted_once_as_soon_as_an_agent_names_it():
    heard = Heard()
    notes = ConversationNotes(heard)
    for event in (ConversationStarted("c1", 5, "casual", "claude", 100.0), taken(None), taken("tea"), taken("coffee")):
        notes(event)
    assert heard.topics == [None, "tea"]


def test_a_topic_that_an_owner_named_stays():
    heard = Heard()
    notes = ConversationNotes(heard)
    for event in (ConversationStarted("c1", 5, "casual", "claude", 100.0, "rain"), taken("tea")):
        notes(event)
    assert heard.topics == ["rain"]
