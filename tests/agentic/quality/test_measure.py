"""The measure of a good turn, on good posts and on the bad ones that small models write."""

import pytest

from agentic.quality.measure import Post, faults_of

TOPIC = "Is a night train better than a short flight?"
EARLIER = (
    "I'd take the night train every time: you board after dinner, sleep through the border, and wake up downtown.",
    "Sleeping on a train is a generous word for it. A flight takes an hour, and I sleep in my own bed.",
    "Count the whole trip, though. The airport is an hour out of town, and you queue twice before you sit down.",
)
OTHERS = ("ChatGPT", "Gemini", "Grok")


def faults(text, **changes):
    return faults_of(
        Post(**{"speaker": "Claude", "text": text, "topic": TOPIC, "earlier": EARLIER, "others": OTHERS, **changes})
    )


@pytest.mark.parametrize(
    "text",
    [
        "Nobody has mentioned the price. A sleeper ticket replaces a hotel night, so even a dear one may be cheaper.",
        "@Grok you sleep in your own bed only if the flight isn't at six in the morning 😄",
        "> The airport is an hour out of town\n\nIn Berlin, yes. In Geneva it is six minutes from the station.",
        "Trains, and I'd pay for it.",
        "Three things decide it:\n- **Noise**: ear plugs help on a train.\n- **Time**: the flight wins below 600 km.\n"
        "- **Carbon**: no contest, the train.",
        "As Grok says, nobody sleeps well in a couchette; I'd still trade a bad night for a morning without security.",
        "Claude Shannon once timed trips like this and picked the train.",
    ],
)
def test_a_good_post_has_no_fault(text):
    assert faults(text) == ()


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("wrong speaker", "ChatGPT: A train has a dining car, which no plane at that price has."),
        ("wrong speaker", "The train wins.\nGrok: No, the flight wins, because it is shorter."),
        ("wrong speaker", "The train wins for me. Grok: No, the flight wins, because it is shorter."),
        ("wrong speaker", "I'm Gemini, and I think the train is better for the climate."),
        ("wrong speaker", "Claude, I agree with you that the train is the calmer choice."),
        ("wrong speaker", "I agree with Claude that a train is calmer than a flight."),
        ("wrong speaker", "The train saves a night. Claude's reasoning is about comfort and price."),
        ("wrong speaker", "Claude starts by saying that a night train is the better choice."),
        ("form or label", "Claude: The train saves a hotel night."),
        ("form or label", "**Claude (you):** The train saves a hotel night."),
        ("form or label", '{"text": "The train saves a hotel night."}'),
        ("form or label", "text: The train saves a hotel night."),
        ("form or label", "Response: The train saves a hotel night."),
        ("form or label", "Sure! Here's my reply:\n\nThe train saves a hotel night."),
        ("form or label", "Here is a new point about night trains:\nthey save a hotel night."),
        ("form or label", "# Night trains\nThey save a hotel night."),
        ("form or label", "[msg:123 2m ago] The train saves a hotel night."),
        ("form or label", "The train saves a hotel night.<|im_end|>"),
        ("form or label", "message or null"),
        ("repeats", EARLIER[1]),
        ("repeats", f"{EARLIER[0]} I think so too."),
        (
            "repeats",
            "Good point, the airport is an hour out of town, and you queue twice before you sit down on the plane.",
        ),
        ("repeats", "The train is calm and cheap. The train is calm and cheap. The train is calm and cheap. Really."),
        ("incomplete", "A night train saves the hotel, and on top of that it"),
        ("incomplete", "A night train saves the hotel and then there's…"),
        ("incomplete", "A night train saves:"),
        ("incomplete", "train"),
        ("incomplete", "A train is fine. " + " ".join(f"Night number {n} passed on the train." for n in range(80))),
        ("off topic", "Photosynthesis turns sunlight into sugar inside the leaves of green plants."),
        ("off topic", "Hello! How can I help you today?"),
        ("language", "Ich finde den Zug besser, weil man in der Nacht schlafen kann und nicht am Flughafen wartet."),
        ("language", "夜班火车更好，因为你可以在车上睡觉，早上直接到市中心，train 很方便。"),
    ],
)
def test_a_fault_is_found(fault, text):
    assert fault in faults(text)


def test_text_from_the_prompt_is_a_repeat():
    rules = "You are Claude. You weigh both sides of an argument before you take one, and you name your own doubts."
    post = "I weigh both sides of an argument before you take one, and you name your own doubts about trains."
    assert faults(post, instructions=rules) == ("repeats",)


def test_a_line_of_the_task_in_a_post_is_a_repeat():
    """As a model of 1.5 billion parameters does."""
    task = "Write what keeps the conversation going, such as a question to one of the others or a subject of your own."
    post = (
        "I'm glad you brought up the night train. It's important to find what works best. Let's discuss"
        " something else, such as a question to one of the others or a subject of your own."
    )
    assert faults(post, instructions=task) == ("repeats",)


def test_a_clause_of_an_earlier_message_is_a_repeat():
    """As a model of 1.5 billion parameters does."""
    before = (
        "As a night train can arrive at any time, it often offers a more flexible option, especially if you're going to"
        " a destination with multiple options.",
    )
    post = (
        "I agree with Gemini. It's always better to have more flexibility when traveling, especially if you're going to"
        " a destination with multiple options. I would choose a night train for this purpose, even if it doesn't arrive"
        " at your destination immediately."
    )
    assert faults(post, earlier=before) == ("repeats",)


def test_a_short_quotation_of_an_earlier_message_is_no_repeat():
    assert (
        faults('"A generous word for it" is right, but ear plugs cost two dollars and the border guards knock once.')
        == ()
    )


def test_a_post_that_only_takes_up_the_last_messages_is_on_topic():
    assert faults("A queue at the airport is where I read, so an hour out of town doesn't bother me.", topic="") == ()


@pytest.mark.parametrize("text", ["One car costs forty bicycles.", "A city without noise is worth a walk."])
def test_a_form_of_a_word_of_the_topic_is_on_topic(text):
    assert faults(text, topic="Should cities ban cars from their centers?", earlier=()) == ()


def test_a_near_meaning_is_on_topic_without_a_shared_word():
    text = "Wheels on steel let you wake up rested, while wings only save you minutes."
    assert faults(text, meaning=0.2, earlier=()) == ("off topic",)
    assert faults(text, meaning=0.7, earlier=()) == ()


def test_the_first_post_of_a_conversation_without_a_topic_is_on_topic():
    assert faults("Let's talk about bees: they count to four.", topic="", earlier=()) == ()


def test_a_german_conversation_may_be_german():
    german = ("Ich fahre lieber mit dem Zug, weil ich da schlafen kann.",)
    text = "Der Flug ist schneller, aber am Flughafen wartet man lange auf den Koffer, und das ist nicht schön."
    assert faults(text, topic="Zug oder Flug in der Nacht: was ist besser für die Reise?", earlier=german) == ()
