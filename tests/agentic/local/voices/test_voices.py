"""The scripted voices, asked through the Model interface."""

from __future__ import annotations

import io
import json
import random
import re
from collections import Counter
from typing import Any

import pytest
from PIL import Image

from agentic.formats import FORMATS
from agentic.llm.pricing import tokens_of
from agentic.llm.types import Message, Prompt
from agentic.local.voices.answering import NOTE, understand
from agentic.local.voices.scenes import DEBATES, PERSONAS, Heard, all_phase_lines, answers_of, scenes_of
from agentic.local.voices.voice import STATE, ScriptedVoice
from agentic.themes import THEMES
from agentic.turn.decision import parse_decision

NAMES = {"chatgpt": "ChatGPT", "claude": "Claude", "gemini": "Gemini", "grok": "Grok"}
ROOM = ("Historian", "Engineer", "Sceptic", "Claude")


def voice(agent: str = "claude", seed: int = 1, heard: Heard | None = None) -> ScriptedVoice:
    return ScriptedVoice(agent, rng=random.Random(seed), heard=heard)


async def decision(speaker: ScriptedVoice, **labels: str) -> dict[str, Any]:
    agent = speaker.name.partition("/")[2]
    known = {
        "agent": agent,
        "display_name": NAMES.get(agent, agent),
        "others": ", ".join(name for key, name in NAMES.items() if key != agent),
        "theme": "debate",
        "round": "2",
    }
    reply = await speaker.complete(Prompt(text="decide", labels=known | labels))
    answer: dict[str, Any] = json.loads(reply.text)
    assert parse_decision(reply.text).skip == answer["skip"]
    return answer


async def ask(text: str, agent: str = "claude", seed: int = 1) -> str:
    answer = await decision(voice(agent, seed), trigger="mention", asked=text, asker="Ada")
    assert not answer["skip"]
    return str(answer["text"])


def four_voices(seed: int) -> dict[str, ScriptedVoice]:
    heard = Heard()
    return {agent: voice(agent, seed + number, heard) for number, agent in enumerate(NAMES)}


async def converse(
    theme: str, seed: int, topic: str = "", voices: dict[str, ScriptedVoice] | None = None
) -> list[tuple[str, dict[str, Any]]]:
    """(agent, decision) of each turn, in any order, until two in a row asked for the end or ten rounds are over."""
    rng = random.Random(seed)
    voices = voices or four_voices(seed)
    turns: list[tuple[str, dict[str, Any]]] = []
    last, streak = "", 0
    for number in range(1, 11):
        for agent in sorted(NAMES, key=lambda _: rng.random()):
            labels = {"topic": topic, "round": str(number), "last_speaker": last, "last_message_id": "77"}
            answer = await decision(voices[agent], theme=theme, trigger="round" if turns else "starter", **labels)
            turns.append((agent, answer))
            topic = topic or answer["topic"] or ""
            last = NAMES[agent] if answer["text"] else last
            streak = streak if answer["skip"] else (streak + 1) * bool(answer["end_conversation"])
            if streak == 2:
                return turns
    return turns


def texts(turns: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [turn["text"] for _, turn in turns if turn["text"]]


@pytest.mark.parametrize("theme", sorted(THEMES))
async def test_four_conversations_play_four_scenes_whole_and_then_ask_to_end(theme: str) -> None:
    voices = four_voices(7)
    heard: list[str] = []
    topics = set()
    for seed in range(4):
        turns = await converse(theme, seed, voices=voices)
        topics.add(turns[0][1]["topic"])
        scene = next(scene for scene in scenes_of(theme) if scene.topic == turns[0][1]["topic"])
        assert turns[0][1]["text"] == scene.opening
        assert len(texts(turns)) >= len(scene.lines) - 1, "the scene is played, perhaps without its very last line"
        assert [turn["end_conversation"] for _, turn in turns if turn["text"]][-2:] == [True, True]
        heard += texts(turns)
    assert len(topics) == 4
    assert max(Counter(heard).values()) == 1
    again = await converse(theme, 9, voices=voices)
    assert texts(again)[0] in heard, "once all were heard, one of them is played again"
    assert len(texts(again)) > 6


async def test_lines_come_nearly_in_their_order_though_voices_are_asked_in_any() -> None:
    scene = scenes_of("casual")[0]
    places = []
    for seed in range(20):
        turns = await converse("casual", seed, topic=scene.topic)
        said = [line.format_map(NAMES) for _, line in scene.lines]
        order = [said.index(text) for text in texts(turns)]
        places += [abs(place - at) for at, place in enumerate(order)]
    assert sum(distance <= 1 for distance in places) / len(places) > 0.8


async def test_a_topic_that_no_theme_has_is_debated_without_being_put_into_a_sentence() -> None:
    turns = await converse("casual", 3, topic="the price of tea")
    said = texts(turns)
    assert len(said) > 8
    assert max(Counter(said).values()) == 1
    openings = {scene.opening for scene in scenes_of(DEBATES)}
    assert said[0] in openings


async def test_the_same_seed_says_the_same() -> None:
    assert await converse("trivia", 9) == await converse("trivia", 9)


async def test_nobody_skips_when_asked_when_starting_or_when_a_person_wrote() -> None:
    speaker = voice("chatgpt", 2)
    for _ in range(40):
        assert (await decision(speaker, trigger="mention", asked="hello", asker="Ada"))["text"]
        assert (await decision(speaker, trigger="starter"))["text"]
        assert (await decision(speaker, trigger="round", human_said="I disagree", human_name="Ada"))["text"]


async def test_a_person_who_breaks_in_is_answered_from_what_they_said_and_the_scene_continues() -> None:
    voices = four_voices(3)
    topic = scenes_of("casual")[0].topic
    await decision(voices["claude"], theme="casual", trigger="starter", topic=topic)
    person = {"human_said": "Toast is overrated.", "human_name": "Ada"}
    answer = await decision(voices["grok"], theme="casual", trigger="round", topic=topic, **person)
    assert "Ada" in answer["text"]
    assert "Toast is overrated" in answer["text"]
    following = [await decision(voices[agent], theme="casual", trigger="round", topic=topic) for agent in NAMES]
    lines = {line.format_map(NAMES) for _, line in scenes_of("casual")[0].lines}
    assert any(turn["text"] in lines for turn in following)


async def test_in_gentle_themes_a_persons_words_are_not_quoted_back() -> None:
    for theme, quoted in (("vent", False), ("spiritual", False), ("casual", True)):
        said = {"trigger": "round", "human_said": "Then a dragon comes in.", "human_name": "Ada"}
        assert ("dragon" in (await decision(voice("grok"), theme=theme, **said))["text"]) is quoted


@pytest.mark.parametrize("agent", PERSONAS)
async def test_a_question_gets_what_this_is_and_a_thing_to_try(agent: str) -> None:
    for question in (
        "what time is it?",
        "why is the sky blue?",
        "write me a poem",
        "are you happy?",
        "hello " * 200 + "?",
    ):
        for seed in range(6):
            answer = (await ask(question, agent, seed)).partition("\n-# ")[0].lower()
            assert re.search(r"script|demo|model", answer), answer
            assert re.search(
                r"`/fire|draw|joke|two (?:options|things)|or (?:coffee|dogs)|add an? (?:api )?key", answer
            ), answer


@pytest.mark.parametrize("agent", PERSONAS)
async def test_each_voice_answers_what_a_script_can(agent: str) -> None:
    assert re.search(r"script|understudy", (await ask("Who are you?", agent)).lower())
    assert re.search("tea|coffee", (await ask("tea or coffee?", agent)).lower())
    assert "Ada" in await ask("tell me a joke", agent)
    assert "/fire" in await ask("help", agent) + await ask("what can I do here?", agent)
    assert "findahelpline.com" in await ask("I want to die", agent)


async def test_the_first_answer_to_each_person_and_some_later_ones_say_how_to_get_real_ones() -> None:
    speaker = ScriptedVoice(
        "claude", rng=random.Random(1), remedy="for real answers from Claude, set ANTHROPIC_API_KEY"
    )
    note = f"\n-# {NOTE}; for real answers from Claude, set ANTHROPIC_API_KEY"
    said = [await decision(speaker, trigger="mention", asked="hello", asker="Ada") for _ in range(7)]
    assert [answer["text"].endswith(note) for answer in said] == [True, False, False, False, False, False, True]
    joined = await decision(speaker, trigger="round", human_said="I like tea", human_name="Bob")
    assert joined["text"].endswith(note)
    assert NOTE not in (await decision(speaker, trigger="starter"))["text"]


async def test_in_an_arena_nothing_says_who_answers() -> None:
    speaker = ScriptedVoice(
        "claude", rng=random.Random(1), remedy="for real answers from Claude, set ANTHROPIC_API_KEY"
    )
    answer = await decision(speaker, trigger="mention", asked="Is tea better than coffee?", arena="7")
    assert answer["text"]
    assert "Claude" not in answer["text"]


@pytest.mark.parametrize("agent", PERSONAS)
async def test_an_instruction_of_automation_is_read_out(agent: str) -> None:
    for labels in (
        {"task": "Remind everybody to drink tea. Be kind."},
        {"task": "Tea is out", "task_from_outside": "1"},
    ):
        for seed in range(4):
            text = (await decision(voice(agent, seed), trigger="errand", **labels))["text"]
            assert labels["task"].partition(".")[0] in text
    assert (await decision(voice(agent), trigger="errand", task="Note it", task_unheard="1"))["skip"]


async def test_a_second_bot_joins_only_to_take_a_side() -> None:
    asked = {"trigger": "reactive", "asker": "Ada", "last_speaker": "Claude"}
    assert (await decision(voice("grok"), **asked, asked="what time is it?"))["skip"]
    assert (await decision(voice("grok"), **asked, asked="tea or coffee?"))["text"]


async def test_a_drawing_that_is_asked_for_is_drawn() -> None:
    answer = await decision(voice("gemini"), trigger="mention", asked="draw me a sleepy fox, please", asker="Ada")
    assert answer["generate_image"]
    assert answer["image_prompt"] == "a sleepy fox"


async def test_memes_always_come_with_a_picture() -> None:
    for _, turn in await converse("memes", 1):
        assert turn["generate_image"] == (turn["text"] is not None)


async def test_a_reaction_goes_to_the_message_before_and_never_to_the_voices_own() -> None:
    asked = {"trigger": "reactive", "asked": "tea or coffee?", "asker": "Ada"}
    speaker = voice("gemini", 6)
    others = [await decision(speaker, **asked, last_speaker="Grok", last_message_id="41") for _ in range(60)]
    own = [await decision(speaker, **asked, last_speaker="Gemini", last_message_id="42") for _ in range(60)]
    assert {turn["react_to_message_id"] for turn in others if turn["react_emoji"]} == {"41"}
    assert not any(turn["react_emoji"] for turn in own)


class Room:
    """A room of scripted voices with a topic; each turn is asked as an agent asks it."""

    def __init__(self, topic: str, members: tuple[str, ...] = ROOM, turns: int = 20, seed: int = 1) -> None:
        heard = Heard()
        self.topic, self.members, self.turns = topic, members, turns
        self.voices = {name: voice(name.lower(), seed + place, heard) for place, name in enumerate(members)}
        self.number, self.last = 1, ""

    def labels(self, speaker: str, **more: str) -> dict[str, str]:
        return {
            "display_name": speaker,
            "theme": "debate",
            "trigger": "round" if self.last else "starter",
            "topic": self.topic,
            "room": str(self.number),
            "room_turns": str(self.turns),
            "members": ", ".join(self.members),
            "last_speaker": self.last,
            **more,
        }

    async def turn(self, speaker: str, **more: str) -> dict[str, Any]:
        reply = await self.voices[speaker].complete(Prompt(text="", labels=self.labels(speaker, **more)))
        answer: dict[str, Any] = json.loads(reply.text)
        if answer["text"]:
            self.number, self.last = self.number + 1, speaker
        return answer

    async def whole(self) -> list[str]:
        said = []
        for number in range(200):
            answer = await self.turn(self.members[number % len(self.members)])
            said += [answer["text"]] if answer["text"] else []
            if self.number > self.turns:
                break
        return said


@pytest.mark.parametrize("topic", ["Is P equal to NP?", "remote work", "Robots will take our jobs", "?"])
async def test_a_debate_on_any_topic_reaches_its_end_and_says_nothing_twice(topic: str) -> None:
    for members in (ROOM, ("Poet", "Nurse", "Judge"), ("Claude", "Grok"), (*ROOM, "Poet", "Nurse")):
        said = await Room(topic, members, turns=20).whole()
        assert len(said) == 20 == len(set(said))
        assert not any(re.search(r"[{}]|None", text) for text in said)


async def test_two_rooms_at_once_do_not_take_each_others_lines() -> None:
    alone = await Room("tea").whole()
    tea, coffee = Room("tea"), Room("coffee")
    coffee.voices = tea.voices
    for speaker in ROOM:
        await coffee.turn(speaker)
    together = await tea.whole()
    assert len(together) == len(alone)
    assert together[0] == alone[0]


async def test_in_a_room_a_person_is_answered_by_name_and_the_last_turn_is_a_last_word() -> None:
    room = Room("remote work")
    await room.turn("Historian")
    taken = await room.turn("Engineer", take_up="The office is cold.", take_up_by="Ada")
    assert "Ada" in taken["text"]
    assert "The office is cold" in taken["text"]
    lines = {line for scene in scenes_of(DEBATES) for _, line in scene.lines}
    closing = (await room.turn("Sceptic", closing="1"))["text"]
    assert closing
    assert closing not in lines


@pytest.mark.parametrize("agent", [*PERSONAS, "historian", "sceptic"])
async def test_a_member_of_a_room_takes_up_a_question_without_a_word_about_keys_or_scripts(agent: str) -> None:
    questions = {
        "I cycle. Who pays for the buses?": "Who pays for the buses?",
        "@Grok, but how much does it cost?": "But how much does it cost?",
        "is it free?": "Is it free?",
        "tell me why. It matters": "Tell me why.",
        "and what about " + "very " * 30 + "old people?": "",
    }
    labels = {"room": "3", "trigger": "round", "display_name": agent.capitalize(), "topic": "cars"}
    for seed in range(6):
        for sides in ("", f"{agent.capitalize()}=moderator"):
            room = labels | ({"format": "debate", "phase": "rebuttals", "sides": sides} if sides else {})
            for question, quoted in questions.items():
                text = (await decision(voice(agent, seed), **room, take_up=question, take_up_by="Ada"))["text"]
                assert "Ada" in text
                assert f"“{quoted}”" in text or (not quoted and "“" not in text)
                assert not re.search(r"script|demo|model|api key|-#|/fire", text, re.IGNORECASE)


async def test_in_the_thread_of_a_paused_room_an_answer_has_no_word_about_keys_either() -> None:
    asked = {"trigger": "mention", "asked": "are you sure?", "asker": "Ada", "theme": "debate"}
    text = (await decision(voice("grok"), **asked, thread="1"))["text"]
    assert "“Are you sure?”" in text
    assert not re.search(r"script|model|api key|-#", text, re.IGNORECASE)
    assert NOTE in (await decision(voice("grok"), **asked))["text"]


async def test_a_moderator_who_is_asked_leaves_the_answer_to_the_members() -> None:
    moderates = {
        "room": "3",
        "trigger": "round",
        "display_name": "Claude",
        "sides": "Claude=moderator",
        "topic": "cars",
    }
    text = (await decision(voice("claude"), **moderates, take_up="Who pays?", take_up_by="Ada"))["text"]
    lines = {line.format(asker="Ada", x="Who pays?") for line in answers_of("claude")["asked to moderate"]}
    assert text in lines


async def test_a_moderator_names_another_member_and_nobody_else_does() -> None:
    room = Room("tea")
    named = (await room.turn("Historian", names_next="1"))["next_speaker"]
    assert named in ROOM[1:]
    assert "next_speaker" not in await room.turn(named)


async def test_no_label_at_all_is_still_an_answer() -> None:
    reply = await voice("grok").complete("hello")
    assert json.loads(reply.text)["text"]


async def test_usage_is_estimated_and_costs_nothing() -> None:
    reply = await voice().complete(Prompt(text="a" * 40, system="b" * 40), [Message("user", "c" * 40)])
    assert reply.usage.input_tokens == tokens_of(120)
    assert reply.usage.output_tokens == tokens_of(len(reply.text))
    assert reply.usage.calls == 1
    assert reply.usage.cost_usd == 0
    assert reply.model == "scripted/claude"


async def test_what_people_write_never_becomes_a_template_or_a_mention() -> None:
    text = await ask("I like {last} and @everyone <@123>")
    assert "{last}" in text
    assert "@" not in text


async def test_an_unknown_agent_borrows_a_persona() -> None:
    assert (await decision(voice("mistral"), trigger="mention", asked="hello", asker="Ada"))["text"]
    assert texts(await converse("casual", 1, voices=four_voices(1) | {"grok": voice("mistral")}))


@pytest.mark.parametrize(
    ("text", "kind", "x"),
    [
        ("", "empty", ""),
        ("@claude ???", "empty", ""),
        ("@claude 🙂", "empty", ""),
        ("@claude https://example.com/a", "unseen", ""),
        ("have a look at https://example.com/a", "unseen", ""),
        ("tell me about tide pools", "question", ""),
        ("what time is it?", "question", ""),
        ("is it Monday or Tuesday?", "question", ""),
        ("should I stay or go?", "question", ""),
        ("I have a cat. What does it eat?", "question", ""),
        ("write me a poem", "question", ""),
        ("could you fix my code?", "question", ""),
        ("my dog died yesterday", "sad", ""),
        ("I want to die", "crisis", ""),
        ("wie geht es dir?", "question", ""),
        ("the die is cast", "statement", "the die is cast"),
        pytest.param("words " * 100, "statement", "", id="long"),
        ("lol", "nod", ""),
        ("I disagree with all of you", "statement", "I disagree with all of you"),
        ("Good morning @Claude!", "greet", ""),
        ("hey, how are you?", "how", ""),
        ("are you a bot?", "who", ""),
        ("can you help me?", "help", ""),
        ("what is this?", "what", ""),
        ("how much does this cost?", "cost", ""),
        ("can I use ollama?", "key", ""),
        ("I use OpenAI at work", "statement", "I use OpenAI at work"),
        ("who made you", "maker", ""),
        ("is this private?", "private", ""),
        ("how do I add you to my server?", "server", ""),
        ("2+2?", "sum", "4"),
        ("what is 7 x 8", "sum", "56"),
        ("1/0", "sum", "infinity, give or take"),
        ("stop", "stop", ""),
        ("how do I quit", "stop", ""),
        ("hello??", "greet", ""),
        ("ok cool", "nod", ""),
        ("thanks, that was great", "thanks", ""),
        ("tell me a joke", "joke", ""),
        ("draw a cat in a hat!", "draw", "a cat in a hat"),
        ("I never said that", "statement", "I never said that"),
    ],
)
def test_a_message_is_understood(text: str, kind: str, x: str) -> None:
    asked = understand(text, ["Claude"])
    assert (asked.kind, asked.x) == (kind, x)


def test_a_choice_has_its_two_options() -> None:
    assert understand("would you rather fly or swim?").options == ("fly", "swim")
    assert understand("which is better, cats or dogs?").options == ("cats", "dogs")
    assert understand("tea or coffee").options == ("tea", "coffee")
    assert understand("do you prefer tea or coffee?").options == ("tea", "coffee")


def test_a_picture_without_words_is_noticed() -> None:
    assert understand("", files=True).kind == "unseen"


async def test_a_drawing_is_a_valid_png_that_depends_on_the_words() -> None:
    first, again, other = [(await voice().draw(words)).picture for words in ("a fox", "a fox", "a hen")]
    assert first.data == again.data != other.data
    assert first.media_type == "image/png"
    assert Image.open(io.BytesIO(first.data)).size == (256, 256)


async def test_an_answer_is_given_again_from_its_labels_alone_and_changes_nothing_in_the_voice() -> None:
    speaker, other = voice(seed=3), voice(seed=4)
    room = {"room": "3", "topic": "tea", "members": "Claude, Grok", "trigger": "round", "display_name": "Claude"}
    turns = [
        {"trigger": "starter", "theme": "casual", "others": "Grok, Gemini, ChatGPT"},
        {"trigger": "mention", "asked": "tea or coffee?", "asker": "Ada"},
        *({"topic": "what counts as breakfast", "theme": "casual", "trigger": "round"} for _ in range(4)),
        room,
        {"trigger": "mention", "asked": "tea or coffee?", "asker": "Ada"},
    ]
    replies = [await speaker.complete(Prompt(text="", labels=labels)) for labels in turns]
    assert NOTE in replies[1].text
    assert NOTE not in replies[-1].text, "it has answered Ada before"

    async def again(by: ScriptedVoice) -> list[str]:
        prompts = [
            Prompt(text="", labels=turn | {STATE: reply.labels[STATE]})
            for turn, reply in zip(turns, replies, strict=True)
        ]
        return [(await by.complete(prompt)).text for prompt in reversed(prompts)][::-1]

    said = [reply.text for reply in replies]
    assert await again(other) == said
    assert await again(speaker) == said
    unchanged = await speaker.complete(Prompt(text="", labels=turns[1]))
    twin = voice(seed=3)
    for labels in turns:
        await twin.complete(Prompt(text="", labels=labels))
    assert (await twin.complete(Prompt(text="", labels=turns[1]))).text == unchanged.text


# rooms with a format


async def played(room_format: str, sides: dict[str, str], speakers: list[tuple[str, str]]) -> list[str]:
    """What each speaker says in its phase."""
    heard, texts, last = Heard(), [], ""
    shared = {
        "theme": "debate",
        "topic": "Is tea soup?",
        "members": ", ".join(sides),
        "format": room_format,
        "sides": ", ".join(f"{name}={side}" for name, side in sides.items()),
    }
    for number, (name, phase) in enumerate(speakers, 1):
        labels = {"display_name": name, "phase": phase, "room": str(number), "last_speaker": last, "trigger": "round"}
        answer = await decision(voice(name.lower(), number, heard), **shared, **labels)
        texts.append(str(answer["text"]))
        last = name
    return texts


async def test_in_a_debate_each_side_says_its_lines_in_each_phase_and_names_its_opponent() -> None:
    sides = {"Gemini": "moderator", "Claude": "for", "Grok": "against"}
    phases = [phase.name for phase in FORMATS["debate"].phases]
    texts = await played("debate", sides, [(name, phase) for phase in phases for name in sides])
    assert len(set(texts)) == len(texts)
    assert "Is tea soup?" in texts[0]
    assert "I'm for it" in texts[1]
    assert "I'm against it" in texts[2]
    assert texts[4].startswith("Grok, ")
    assert texts[5].startswith("Claude, ")


async def test_a_third_debater_has_lines_of_its_side_until_the_end() -> None:
    sides = {"ChatGPT": "for", "Claude": "against", "Gemini": "for"}
    phases = [phase.name for phase in FORMATS["debate"].phases]
    texts = await played("debate", sides, [(name, phase) for phase in phases for name in sides])
    assert len(set(texts)) == len(texts)
    written = {
        line.text.format(topic="Is tea soup?", **{"for": "ChatGPT", "against": "Claude", "for2": "Gemini"})
        for line in all_phase_lines("debate")
        if "{against2}" not in line.text
    }
    assert set(texts[:-1]) <= written, "its own last word may end the debate"


async def test_a_guest_answers_the_question_that_was_asked_last() -> None:
    sides = {"Claude": "guest", "Grok": ""}
    introduction, questions = ("introduction", "questions")
    texts = await played(
        "interview",
        sides,
        [(name, phase) for phase in (introduction, questions, questions) for name in ("Grok", "Claude")],
    )
    lines = [line.text.format(guest="Claude", topic="Is tea soup?") for line in all_phase_lines("interview")]
    places = [lines.index(text) for text in texts]
    assert all(answer == question + 1 for question, answer in zip(places[::2], places[1::2], strict=True))
    assert len(set(places)) == 6


async def test_a_member_without_lines_left_repeats_its_oldest() -> None:
    sides = {"Claude": "for", "Grok": "against"}
    texts = await played("debate", sides, [("Claude", "closing words")] * 3)
    assert len(set(texts)) == 1
