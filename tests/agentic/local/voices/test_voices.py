"""The scripted voices, asked through the Model interface."""

from __future__ import annotations

import json
import random
import re
import struct
import zlib
from collections import Counter
from typing import Any

import pytest

from agentic.llm.pricing import tokens_of
from agentic.llm.types import Message, Prompt
from agentic.local.voices.answering import NOTE, understand
from agentic.local.voices.scene import PERSONAS, known_themes, persona, theme_lines, topic_in
from agentic.local.voices.voice import ScriptedVoice, wish_to_end
from agentic.themes import THEMES
from agentic.turn.decision import parse_decision

NAMES = {"chatgpt": "ChatGPT", "claude": "Claude", "gemini": "Gemini", "grok": "Grok"}


def voice(agent: str = "claude", seed: int = 1) -> ScriptedVoice:
    return ScriptedVoice(agent, rng=random.Random(seed), delay=None)


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
    return answer


async def ask(text: str, agent: str = "claude", seed: int = 1) -> str:
    answer = await decision(voice(agent, seed), trigger="mention", asked=text, asker="Ada")
    assert not answer["skip"]
    return str(answer["text"])


def four_voices(rng: random.Random) -> dict[str, ScriptedVoice]:
    return {agent: voice(agent, rng.randrange(1 << 30)) for agent in NAMES}


async def converse(
    theme: str, seed: int, rounds: int, topic: str = "", voices: dict[str, ScriptedVoice] | None = None
) -> list[tuple[str, str, dict[str, Any]]]:
    """(agent, name of who spoke before, decision) of each turn."""
    rng = random.Random(seed)
    voices = voices or four_voices(rng)
    turns: list[tuple[str, str, dict[str, Any]]] = []
    last, last_text = "", ""
    for number in range(1, rounds + 1):
        for agent in sorted(NAMES, key=lambda _: rng.random()):
            trigger = "round" if turns else "starter"
            answer = await decision(
                voices[agent],
                theme=theme,
                trigger=trigger,
                topic=topic,
                round=str(number),
                last_speaker=last,
                last_text=last_text,
                last_message_id="77" if last else "",
            )
            turns.append((agent, last, answer))
            topic = topic or answer["topic"] or ""
            if answer["text"]:
                last, last_text = NAMES[agent], answer["text"]
    return turns


def sentences(text: str) -> list[str]:
    return [part.strip(" -") for part in re.split(r"(?<=[.!?])\s+|\n", text) if part.strip(" -")]


@pytest.mark.parametrize("theme", sorted(THEMES))
async def test_a_conversation_of_eight_rounds_repeats_no_sentence(theme: str) -> None:
    for seed in range(4):
        turns = await converse(theme, seed, rounds=8)
        said = Counter(sentence for _, _, turn in turns if turn["text"] for sentence in sentences(turn["text"]))
        assert [sentence for sentence, times in said.items() if times > 1] == []


BROKEN = re.compile(r"[{}]|[^\n]  |\.\.|,,|!!|\?\?|::|[?!,;]\.|:$|\b(\w+) \1\b")


@pytest.mark.parametrize("theme", sorted(THEMES))
async def test_no_turn_has_doubled_or_loose_pieces(theme: str) -> None:
    for seed in range(10, 14):
        for _, _, turn in await converse(theme, seed, rounds=8):
            assert not BROKEN.search(turn["text"] or ""), turn["text"]
            asks = [name for name in NAMES.values() if re.search(rf"\b{name}\b[^.]*\?$", turn["text"] or "")]
            assert not (turn["end_conversation"] and asks), "a farewell and a question"


@pytest.mark.parametrize("agent", PERSONAS)
def test_an_answer_that_names_its_subject_has_a_line_for_no_subject_too(agent: str) -> None:
    for section in ("about", "opinion", "task", "news"):
        assert {"{x}" in line for line in persona(agent)[section]} == {True, False}
    for section, lines in persona(agent).items():
        fields = {field for line in lines for field in re.findall(r"\{(\w*)\}", line)}
        assert fields <= {"asker", "x", "pick", "topic", "me", "last", "other", "human", "quote"}, section


@pytest.mark.parametrize("theme", sorted(THEMES))
async def test_six_conversations_in_a_channel_are_on_six_topics(theme: str) -> None:
    voices = four_voices(random.Random(theme))
    conversations = [await converse(theme, seed, rounds=5, voices=voices) for seed in range(6)]
    assert len({turns[0][2]["topic"] for turns in conversations}) == 6


async def test_a_topic_that_no_script_knows_repeats_no_sentence_either() -> None:
    turns = await converse("casual", 3, rounds=8, topic="the price of tea")
    texts = [turn["text"] for _, _, turn in turns if turn["text"]]
    said = Counter(sentence for text in texts for sentence in sentences(text))
    assert max(said.values()) == 1
    assert sum("the price of tea" in text.lower() for text in texts) > len(texts) / 3


@pytest.mark.parametrize("theme", sorted(THEMES))
async def test_every_decision_is_valid_and_later_turns_name_the_previous_speaker(theme: str) -> None:
    for agent, last, turn in await converse(theme, 5, rounds=6):
        parsed = parse_decision(json.dumps(turn))
        assert parsed.skip == turn["skip"]
        assert set(turn) == {
            "skip", "text", "generate_image", "image_prompt", "react_emoji", "react_to_message_id",
            "end_conversation", "topic",
        }  # fmt: skip
        assert "{" not in (turn["text"] or "")
        if turn["text"] and last and last != NAMES[agent]:
            assert last in turn["text"]


async def test_a_starter_opens_with_a_topic_of_its_theme() -> None:
    answer = await decision(voice("gemini"), trigger="starter", theme="science")
    assert theme_lines("science").topic(answer["topic"]) is not None
    assert answer["text"]
    assert not answer["skip"]


async def test_the_same_seed_says_the_same() -> None:
    assert await converse("trivia", 9, 4) == await converse("trivia", 9, 4)


async def test_skips_are_a_part_of_the_rounds_and_hold_nothing_else() -> None:
    speaker = voice("grok", 4)
    turns = [await decision(speaker, trigger="round", last_speaker="Claude", last_text="x") for _ in range(400)]
    skipped = [turn for turn in turns if turn["skip"]]
    assert 0.06 < len(skipped) / len(turns) < 0.18
    assert not any(value for turn in skipped for key, value in turn.items() if key != "skip")


async def test_nobody_skips_when_asked_when_starting_or_when_a_person_wrote() -> None:
    speaker = voice("chatgpt", 2)
    for _ in range(80):
        assert (await decision(speaker, trigger="mention", asked="hello", asker="Ada"))["text"]
        assert (await decision(speaker, trigger="starter"))["text"]
        assert (await decision(speaker, trigger="round", human_said="I disagree", human_name="Ada"))["text"]


async def test_a_person_who_wrote_meanwhile_is_answered_by_name() -> None:
    for said in ("what do you think about my garden?", "I disagree with all of you", "ok"):
        answer = await decision(
            voice("claude"),
            trigger="round",
            last_speaker="Grok",
            last_text="Nonsense.",
            human_said=said,
            human_name="Ada",
        )
        assert "Ada" in answer["text"]


SCRIPTED = re.compile(r"script|prepared|prewritten|model|written|english")


@pytest.mark.parametrize("agent", PERSONAS)
async def test_each_voice_answers_what_a_script_can(agent: str) -> None:
    assert "42" in await ask("what is 17 + 25?", agent)
    assert all(["script" in (await ask("Who are you?", agent, seed)).lower() for seed in range(9)])
    assert re.search("tea|coffee", (await ask("tea or coffee?", agent)).lower())
    assert "your bicycle is blue" in (await ask("my bicycle is blue", agent)).lower()


@pytest.mark.parametrize("agent", PERSONAS)
@pytest.mark.parametrize(
    "question",
    [
        "what time is it?", "is the Earth flat?", "who won the election?", "why is the sky blue?",
        "what did I say before?",
        "what do you think about tide pools?", "tell me about tide pools", "what is a quine?", "write me a poem",
        "are you happy?", "https://example.com/a", "wie geht es dir?", pytest.param("hello " * 200, id="long"),
    ],
)  # fmt: skip
async def test_what_needs_a_model_is_said_to_need_one_and_not_made_up(agent: str, question: str) -> None:
    for seed in range(8):
        answer = (await ask(question, agent, seed)).partition("\n-# ")[0]
        assert SCRIPTED.search(answer.lower()), answer


async def test_a_subject_that_a_theme_has_lines_on_gets_one_of_them() -> None:
    topic = theme_lines("debate").topics[0]
    answer = await ask(f"what do you think about {topic.name}?", "grok")
    assert any(line in answer for line in topic.of("grok"))
    assert topic_in("breakfasts", "breakfasts") == theme_lines("casual").topic("weekend breakfasts")
    assert topic_in("people", "people") is None, "a word of a topic that is about something else"


async def test_the_first_answer_to_each_person_and_some_later_ones_say_that_they_are_prepared() -> None:
    speaker = ScriptedVoice("claude", rng=random.Random(1), remedy="set ANTHROPIC_API_KEY and Claude answers itself")
    note = "\n-# prepared line; set ANTHROPIC_API_KEY and Claude answers itself"
    said = [await decision(speaker, trigger="mention", asked="hello", asker="Ada") for _ in range(7)]
    assert [answer["text"].endswith(note) for answer in said] == [True, False, False, False, False, False, True]
    joined = await decision(speaker, trigger="round", human_said="I like tea", human_name="Bob")
    assert joined["text"].endswith(note)
    assert not (await decision(speaker, trigger="round"))["text"].endswith(note)


async def test_in_an_arena_nothing_says_who_answers() -> None:
    speaker = ScriptedVoice("claude", rng=random.Random(1), remedy="set ANTHROPIC_API_KEY and Claude answers itself")
    answer = await decision(speaker, trigger="mention", asked="Is tea better than coffee?", arena="7")
    assert answer["text"]
    assert "Claude" not in answer["text"]


@pytest.mark.parametrize("agent", PERSONAS)
async def test_an_instruction_of_automation_is_taken_up_as_a_prepared_line(agent: str) -> None:
    for labels in (
        {"task": "Remind everybody to drink tea. Be kind."},
        {"task": "Tea is out", "task_from_outside": "1"},
    ):
        for seed in range(4):
            text = (await decision(voice(agent, seed), trigger="errand", **labels))["text"]
            assert labels["task"].partition(".")[0] in text
            assert SCRIPTED.search(text.lower())
    assert (await decision(voice(agent), trigger="errand", task="Note it", task_unheard="1"))["skip"]


async def test_after_an_aside_with_a_person_the_conversation_goes_on_with_its_topic() -> None:
    for seed in range(20):
        answer = await decision(
            voice("grok", seed),
            trigger="round",
            topic="the price of tea",
            last_speaker="Claude",
            last_text="I am scripted and cannot know that, Ada.",
            aside="1",
        )
        assert answer["skip"] or "Claude" not in answer["text"].split(":")[0]


async def test_a_second_bot_joins_only_where_it_has_more_than_an_excuse() -> None:
    asked = {"trigger": "reactive", "asker": "Ada", "last_speaker": "Claude"}
    assert (await decision(voice("grok"), **asked, asked="what time is it?"))["skip"]
    assert (await decision(voice("grok"), **asked, asked="tea or coffee?"))["text"]


async def test_in_a_theme_with_a_tone_of_its_own_a_persons_words_are_not_quoted_back() -> None:
    for theme, quoted in (("story", False), ("vent", False), ("casual", True)):
        said = {"trigger": "round", "human_said": "Then a dragon comes in.", "human_name": "Ada"}
        assert ("dragon" in (await decision(voice("grok"), theme=theme, **said))["text"]) is quoted


async def test_a_drawing_that_is_asked_for_is_drawn() -> None:
    answer = await decision(voice("gemini"), trigger="mention", asked="draw me a sleepy fox", asker="Ada")
    assert answer["generate_image"]
    assert answer["image_prompt"] == "a sleepy fox"


async def test_memes_always_come_with_a_picture() -> None:
    for _, _, turn in await converse("memes", 1, rounds=3):
        assert turn["generate_image"] == (turn["text"] is not None)


async def test_a_reaction_goes_to_the_message_before_and_never_to_the_voices_own() -> None:
    speaker = voice("gemini", 6)
    others = [
        await decision(speaker, trigger="round", last_speaker="Grok", last_text="x", last_message_id="41")
        for _ in range(60)
    ]
    own = [await decision(speaker, trigger="round", last_speaker="Gemini", last_message_id="42") for _ in range(60)]
    assert {turn["react_to_message_id"] for turn in others if turn["react_emoji"]} == {"41"}
    assert not any(turn["react_emoji"] for turn in own)


async def test_the_wish_to_end_begins_in_the_fourth_round_and_grows() -> None:
    wishes = [wish_to_end(number) for number in range(1, 40)]
    assert wishes[:3] == [0, 0, 0]
    assert wishes[3] > 0
    assert wishes == sorted(wishes)
    assert max(wishes) < 1


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
    text = await ask("what do you think about {last} and @everyone <@123>?")
    assert "{last}" in text
    assert "@" not in text


async def test_an_unknown_agent_borrows_a_persona() -> None:
    answer = await decision(voice("mistral"), trigger="mention", asked="hello", asker="Ada")
    assert answer["text"]


def test_every_theme_has_lines_of_every_agent() -> None:
    assert known_themes() == set(THEMES)
    for theme in known_themes():
        lines = theme_lines(theme)
        assert len(lines.topics) >= 3
        for topic in lines.topics:
            assert topic.of("open")
            assert all(len(topic.of(agent)) >= 3 for agent in PERSONAS)


def test_no_line_stands_twice_and_all_personas_have_the_same_sections() -> None:
    lines = Counter(line for agent in PERSONAS for section in persona(agent).values() for line in section)
    for theme in known_themes():
        for topic in (*theme_lines(theme).topics, theme_lines(theme).any):
            lines.update(line for name, said in topic.lines.items() if not name.endswith("emoji") for line in said)
    assert [line for line, times in lines.items() if times > 1] == []
    assert len({frozenset(persona(agent)) - {"pair"} for agent in PERSONAS}) == 1


@pytest.mark.parametrize(
    ("text", "kind", "x"),
    [
        ("", "empty", ""),
        ("@Claude", "empty", ""),
        ("@claude ???", "empty", ""),
        ("@claude 🙂", "empty", ""),
        ("@claude https://example.com/a", "unseen", ""),
        ("have a look at https://example.com/a", "unseen", ""),
        ("tell me about my boat", "request", ""),
        ("tell me about tide pools", "about", "tide pools"),
        ("what is a tide pool?", "about", "a tide pool"),
        ("explain quantum physics to me", "about", "quantum physics"),
        ("define irony", "about", "irony"),
        ("what time is it?", "unknown", ""),
        ("what's the weather like?", "unknown", ""),
        ("do you know what time it is?", "unknown", ""),
        ("what did I say before?", "unknown", ""),
        ("is it Monday or Tuesday?", "unknown", ""),
        ("which is bigger, the sun or the moon?", "unknown", ""),
        ("I have a cat. What does it eat?", "unknown", ""),
        ("write me a poem", "request", ""),
        ("could you fix my code?", "request", ""),
        ("are you happy?", "self", ""),
        ("what are you doing?", "self", ""),
        ("my dog died yesterday", "sad", ""),
        ("I want to die", "crisis", ""),
        ("wie geht es dir?", "language", ""),
        ("¿cómo estás?", "language", ""),
        ("привет, как дела?", "language", ""),
        ("the die is cast", "reflect", "the die is cast"),
        pytest.param("words " * 100, "long", "", id="long"),
        ("lol", "nod", ""),
        ("who is your favourite bot?", "self", ""),
        ("I disagree with all of you", "reflect", "you disagree with all of us"),
        ("I disagree with you", "heard", ""),
        ("you never listen", "heard", ""),
        ("Good morning @Claude!", "greet", ""),
        ("hey, how are you?", "how", ""),
        ("are you a bot?", "who", ""),
        ("can you help me?", "help", ""),
        ("thanks, that was great", "thanks", ""),
        ("tell me a joke", "joke", ""),
        ("Hello, what's your opinion on my boat?", "opinion", "your boat"),
        ("do you like rain? I do.", "opinion", "rain"),
        ("draw a cat in a hat!", "draw", "a cat in a hat"),
        ("why is the sky blue?", "unknown", ""),
        ("is this the best of worlds?", "unknown", ""),
        ("I never said that", "reflect", "you never said that"),
    ],
)
def test_a_message_is_understood(text: str, kind: str, x: str) -> None:
    asked = understand(text, ["Claude"])
    assert (asked.kind, asked.x) == (kind, x)


def test_a_choice_has_its_two_options() -> None:
    assert understand("would you rather fly or swim?").options == ("fly", "swim")
    assert understand("which is better, cats or dogs?").options == ("cats", "dogs")
    assert understand("I never know whether it is good or bad").kind == "reflect"


def test_a_picture_without_words_is_noticed() -> None:
    assert understand("", files=True).kind == "unseen"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("@Claude what is 12*12?", "144"),
        ("how much is 15% of 80?", "12"),
        ("10 / 4 =", "2.5"),
        ("what is 10 divided by 3?", "about 3.3333"),
        ("(2 + 3) × -4", "-20"),
        ("what is 1,000 + 1?", "1,001"),
        ("2^10", "1,024"),
        ("1 / 0", None),
        ("9^99", None),
        pytest.param("(" * 90 + "1" + ")" * 5, "", id="open"),
        ("what is 42?", ""),
        ("is 2024 a leap year?", ""),
        ("2024-11-20", ""),
    ],
)
def test_a_small_sum_is_worked_out(text: str, result: str | None) -> None:
    asked = understand(text, ["Claude"])
    assert (asked.kind == "sum", asked.kind == "math") == (bool(result), result is None)
    assert asked.result == (result or "")


async def test_a_drawing_is_a_valid_png_that_depends_on_the_words() -> None:
    first, again, other = [(await voice().draw(words)).picture for words in ("a fox", "a fox", "a hen")]
    assert first.data == again.data != other.data
    assert first.data.startswith(b"\x89PNG\r\n\x1a\n")
    assert first.media_type == "image/png"
    kinds, at, pixels = [], 8, b""
    while at < len(first.data):
        length, kind = struct.unpack(">I4s", first.data[at : at + 8])
        body = first.data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", first.data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        kinds.append(kind)
        pixels += body if kind == b"IDAT" else b""
        at += 12 + length
    assert kinds == [b"IHDR", b"IDAT", b"IEND"]
    assert len(zlib.decompress(pixels)) == 256 * (1 + 256 * 3)


async def test_an_answer_is_given_again_from_its_labels_alone_and_changes_nothing_in_the_voice() -> None:
    speaker, other = voice(seed=3), voice(seed=4)
    scenes = [
        {"trigger": "starter"},
        {"trigger": "mention", "asked": "tea or coffee?", "asker": "Ada"},
        *({"topic": "pineapple on pizza", "last_speaker": "Grok", "round": str(n)} for n in range(2, 9)),
        {"trigger": "mention", "asked": "tea or coffee?", "asker": "Ada"},
    ]
    replies = [await speaker.complete(Prompt(text="", labels=labels)) for labels in scenes]
    assert NOTE in replies[1].text
    assert NOTE not in replies[-1].text, "it has answered Ada before"

    async def again(by: ScriptedVoice) -> list[str]:
        prompts = [
            Prompt(text="", labels=scene | dict(reply.labels)) for scene, reply in zip(scenes, replies, strict=True)
        ]
        return [(await by.complete(prompt)).text for prompt in reversed(prompts)][::-1]

    said = [reply.text for reply in replies]
    assert await again(other) == said
    assert await again(speaker) == said
    unchanged = await speaker.complete(Prompt(text="", labels=scenes[1]))
    twin = voice(seed=3)
    for labels in scenes:
        await twin.complete(Prompt(text="", labels=labels))
    assert (await twin.complete(Prompt(text="", labels=scenes[1]))).text == unchanged.text
