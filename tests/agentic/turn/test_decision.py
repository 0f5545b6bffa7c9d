from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentic.turn.cleaning import clean_emoji, clean_text
from agentic.turn.decision import UnreadableDecision, apply_turn_rules, parse_decision
from agentic.turn.form import FIELDS, Decision, form_of
from agentic.turn.loose_json import objects

WHOLE = {
    "skip": False,
    "text": 'He said "hi"\n\\o/ 🍕',
    "generate_image": True,
    "image_prompt": "a pizza",
    "react_emoji": "🍕",
    "react_to_message_id": "1234567890123456789",
    "end_conversation": True,
    "topic": "pizza",
}
READ = Decision(**{**WHOLE, "react_to_message_id": 1234567890123456789})  # type: ignore[arg-type]


def final(decision: Decision, **rules: bool) -> Decision:
    return apply_turn_rules(decision, **{"forced": False, "always_draw": False, "can_draw": True, **rules})


# -- well-formed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [json.dumps(WHOLE), json.dumps(WHOLE, ensure_ascii=False, indent=2)])
def test_a_valid_object_is_read_exactly(raw: str) -> None:
    assert parse_decision(raw) == READ


def test_missing_fields_have_their_defaults() -> None:
    assert parse_decision('{"text": "hi"}') == Decision(text="hi")


OTHER_FIELDS = {"leave", "next_speaker", "sources"}  # of rooms, and the pages that the words rest on


def test_the_schema_is_strict_and_names_every_field() -> None:
    schema = form_of(frozenset(field.where for field in FIELDS)).schema
    assert schema["required"] == list(schema["properties"]) == [*WHOLE, "leave", "next_speaker"]
    assert schema["additionalProperties"] is False
    assert json.loads(json.dumps(schema)) == schema
    assert set(Decision.__dataclass_fields__) == {*WHOLE, *OTHER_FIELDS}


KEYS = st.sampled_from([*WHOLE, "other", "a b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=8,
)
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.text('"\\,:{}[]\n `', max_size=30)


@given(st.dictionaries(KEYS, VALUES | STRINGS | st.lists(STRINGS, max_size=3), max_size=6), st.booleans())
@example({"text": "\b0"}, False)  # the end of a string is not the middle of an escape
def test_valid_json_is_read_as_json_says(value: dict[str, object], ascii_only: bool) -> None:
    fields, _ = next(objects(json.dumps(value, ensure_ascii=ascii_only)))
    assert fields == value


@pytest.mark.promise(33)
@given(st.text(max_size=300) | st.text("{}[]\"\\,:' \n`sktipex0-", max_size=120))
def test_nothing_but_unreadable_decision_is_ever_raised(raw: str) -> None:
    with contextlib.suppress(UnreadableDecision):
        assert isinstance(parse_decision(raw), Decision)


@pytest.mark.promise(33)
def test_an_answer_cut_anywhere_never_yields_a_wrong_value() -> None:
    whole = json.dumps(WHOLE)
    for length in range(len(whole)):
        cut = Decision()
        with contextlib.suppress(UnreadableDecision):
            cut = parse_decision(whole[:length])
        for name in WHOLE:
            assert getattr(cut, name) in (getattr(READ, name), getattr(Decision(), name)), whole[:length]


# -- what models make of it --------------------------------------------------------------------------------------------


@pytest.mark.promise(33)
@pytest.mark.parametrize(
    "raw",
    [
        '```json\n{"skip": false, "text": "hi"}\n```',
        '```\n{"skip": false, "text": "hi"}',
        'Sure! Here is my decision:\n{"skip": false, "text": "hi"}\nHope that helps {smile}.',
        'I will use {curly} words. {"skip": false, "text": "hi"}',
        "{'skip': False, 'text': 'hi', 'topic': None}",
        '{"skip": false, "text": "hi",}',
        '{"skip": false "text": "hi"}',
        '{"skip": false,\n"text": "hi"\n"topic": null}',
        '{skip: false, text: "hi", react_emoji: null}',
        '{"skip": false, // no reason to\n "text": "hi" /* short */}',
        "{“skip”: false, “text”: “hi”}",
        '{"Skip": "false", "Text": ["hi"], "reactEmoji": "null"}',
        '[{"skip": false, "text": "hi"}]',
        '{"decision": {"skip": false, "text": "hi"}}',
        '{"name": "decide", "arguments": {"skip": false, "text": "hi"}}',
        '{"decision": "{\\"skip\\": false, \\"text\\": \\"hi\\"}"}',
        '"{\\"skip\\": false, \\"text\\": \\"hi\\"}"',
        '{"skip": false, "text": "hi"} {"skip": true}',
        '{"thoughts": "..."}\n{"skip": false, "text": "hi"}',
        '<think>{"skip": true}, or rather {"text": "draft"}</think>{"skip": false, "text": "hi"}',
        '{"skip": false, "text": "hi", "end_conversation": NaN, "react_to_message_id": Infinity}',
        '{"skip": false, "text": "hi", "react_to_message_id": 12345678901234567890123, "image_prompt": {"a": [1]}}',
        '{"skip": 0, "text": "hi", "generate_image": "maybe"}',
        '{"skip": false, "text": "hi", "react_emoji": "🔥',
        '{"skip": false, "text": "hi", "react_to_message_id": 12345',
        '{"skip": false, "text": "hi", "image_prompt": "a dog in a ver',
        '\ufeff  {"skip": false, "text": "hi"}',
    ],
)
def test_a_broken_form_still_yields_its_decision(raw: str) -> None:
    assert parse_decision(raw) == Decision(text="hi")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ('{"skip": false, "text": "He said "hello" to me, "twice"."}', 'He said "hello" to me, "twice".'),
        ('{"text": "one\n\ntwo", "skip": false}', "one\n\ntwo"),
        ('{"text": "a \\"b\\" \\\\ c\\/d \\u00e9 \\ud83c\\udf55 \\d"}', 'a "b" \\ c/d é 🍕 \\d'),
        ("{'text': 'it's fine, isn\\'t it', 'skip': False}", "it's fine, isn't it"),
        ('{"text": "lone \\ud83c half"}', "lone \ufffd half"),
        ('{"skip": false, "text": "lone \\ud83c half of \\ud83c\\udf55"}', "lone \ufffd half of 🍕"),
        ('{"text": ["one", "two"]}', "one\n\ntwo"),
        ('{"text": 42}', "42"),
        ('{"text": "see ```js\\nf({a: 1})\\n```, ok?"}', "see ```js\nf({a: 1})\n```, ok?"),
        ('{"text": "use {\\"skip\\": true} here"}', 'use {"skip": true} here'),
        ('{"text": "no end to this,\n "react_emoji": "🔥"}', "no end to this"),
        ('{"text": "I like <think> tags"}', "I like <think> tags"),
        ('{"skip": false, "text": "{\\"skip\\": false, \\"text\\": \\"hi\\"}"}', "hi"),
        ('{"skip": false, "text": "{\\"name\\": \\"a\\"}"}', '{"name": "a"}'),
    ],
)
def test_the_text_arrives_as_it_was_meant(raw: str, text: str) -> None:
    assert parse_decision(raw).text == text


@pytest.mark.promise(5)
@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("", "empty"),
        ("  \n ", "empty"),
        ("I think we should all have pizza.", "no JSON object"),
        ("<think>I could say {nothing}", "empty"),
        ("{}", "no decision in the answer"),
        ("{", "no decision in the answer"),
        ('{"skip": tr', "no decision in the answer"),
        ('{"query": "pizza"}', "no decision in the answer"),
        ('{"name": "remember", "arguments": {"text": "a note"}}', "no decision in the answer"),
        ('{"type": "object", "properties": {"text": {"type": "string"}}}', "no decision in the answer"),
        ("null", "no JSON object"),
        ("[[[[1]]]]", "no JSON object"),
    ],
)
def test_what_is_no_decision_is_unreadable(raw: str, reason: str) -> None:
    with pytest.raises(UnreadableDecision) as caught:
        parse_decision(raw)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("value", "id_"),
    [
        ("1234567890123456789", 1234567890123456789),
        ('"1234567890123456789"', 1234567890123456789),
        ('"msg:790"', 790),
        ('"[msg:790]"', 790),
        ("790.0", 790),
        ("1.2345678901234567e18", None),
        ('"1.2e18"', None),
        ("true", None),
        ("-5", None),
        ("0", None),
        ("[790]", 790),
        ('"the last one"', None),
        ("99999999999999999999", None),
    ],
)
def test_an_id_is_exact_or_dropped(value: str, id_: int | None) -> None:
    assert parse_decision(f'{{"skip": false, "react_to_message_id": {value}}}').react_to_message_id == id_


@pytest.mark.promise(33)
@pytest.mark.parametrize(
    "raw",
    [
        '{"a":' * 20_000,
        "{" * 100_000,
        "[" * 100_000 + "{",
        '{"text":"' * 10_000,
        '{"a' * 30_000,
        "{" + " \n" * 200_000,
        '{"text": "' + '", ' * 30_000,
        '{"text": "' + "\n" * 60_000 + "x",
        '{"x": ' + "9" * 50_000 + "}",
        "{/*" * 20_000,
    ],
    ids=lambda raw: raw[:12],
)
def test_a_bomb_costs_little(raw: str) -> None:
    begun = time.process_time()
    with contextlib.suppress(UnreadableDecision):
        parse_decision(raw)
    assert time.process_time() - begun < 2


# -- cut off -----------------------------------------------------------------------------------------------------------


@pytest.mark.promise(96)
def test_a_cut_text_is_kept_up_to_its_last_sentence() -> None:
    raw = '{"skip": false, "text": "Pizza is the best food there is. I could eat it every day. And then'
    assert parse_decision(raw).text == "Pizza is the best food there is. I could eat it every day."


def test_a_cut_text_without_sentences_ends_in_an_ellipsis_after_a_whole_word() -> None:
    raw = '{"text": "well the thing about pizza is that nobody really agrees on what belongs on it beca'
    assert parse_decision(raw).text == "well the thing about pizza is that nobody really agrees on what belongs on it …"


def test_a_cut_text_keeps_the_words_after_its_last_sentence_where_they_are_most_of_it() -> None:
    raw = '{"text": "Well. The thing about pizza is that nobody really agrees on what belongs on it beca'
    kept = "Well. The thing about pizza is that nobody really agrees on what belongs on it …"
    assert parse_decision(raw).text == kept


def test_a_short_cut_text_is_dropped() -> None:
    assert parse_decision('{"skip": false, "text": "Well, I') == Decision()


# -- the rules of the turn ---------------------------------------------------------------------------------------------


def test_on_a_skip_every_other_field_is_ignored() -> None:
    skip = parse_decision('{"skip": true, "text": "psst", "react_emoji": "🔥", "end_conversation": true}')
    assert skip.is_empty
    assert final(skip, always_draw=True) == Decision(skip=True)


def test_a_forced_turn_does_not_honour_a_skip() -> None:
    skip = Decision(skip=True, text="fine, hello", react_emoji="🔥", end_conversation=True)
    assert final(skip, forced=True) == Decision(text="fine, hello")


@pytest.mark.promise(12)
@pytest.mark.parametrize("decision", [Decision(skip=True), Decision(), Decision(text=" "), Decision(react_emoji="👍")])
def test_a_forced_turn_without_an_answer_is_unreadable(decision: Decision) -> None:
    with pytest.raises(UnreadableDecision, match="empty"):
        final(decision, forced=True)


def test_a_theme_of_pictures_always_draws_where_it_can() -> None:
    text = Decision(text="me on monday")
    assert final(text, always_draw=True) == Decision(
        text="me on monday", generate_image=True, image_prompt="me on monday"
    )
    assert final(text, always_draw=True, can_draw=False) == text
    assert not final(Decision(react_emoji="🔥"), always_draw=True).generate_image


def test_who_cannot_draw_needs_words() -> None:
    picture = Decision(generate_image=True, image_prompt="a cat")
    assert final(picture, can_draw=False).is_empty
    with pytest.raises(UnreadableDecision):
        final(picture, can_draw=False, forced=True)
    assert final(picture, forced=True) == picture


def test_a_picture_without_a_prompt_shows_the_text() -> None:
    assert final(Decision(text="a cat", generate_image=True)).image_prompt == "a cat"
    assert final(Decision(generate_image=True)).is_empty


def test_a_prompt_for_no_picture_and_an_id_for_no_emoji_are_dropped() -> None:
    assert final(Decision(text="hi", image_prompt="a cat", react_to_message_id=5)) == Decision(text="hi")


@pytest.mark.promise(12)
def test_empty_words_are_none() -> None:
    assert final(Decision(text=" \n", react_emoji="fire")) == Decision()


@pytest.mark.promise(4, 7)
@pytest.mark.parametrize(
    ("leaked", "clean"),
    [
        ("[msg:123] hello", "hello"),
        ("[msg:123 3h ago] Claude: hello", "hello"),
        ("[msg:123 just now] Claude (you) (reply to msg:12): hello", "hello"),
        ("claude: hello", "hello"),
        ("**Claude:** hello", "hello"),
        ("**Claude**: Claude: hello", "hello"),
        ("hello  [reactions: 🔥 (Grok) 💯 (Gemini)]", "hello"),
        ('hello [posted image: "a cat" → https://cdn.discordapp.com/a.png]', "hello"),
        ("one\n[msg:5 +4m] Grok: two", "one\ntwo"),
        ("as in [msg:123 3h ago], yes", "as in, yes"),
        ("Claude, are you there?", "Claude, are you there?"),
        ("Grok: you are wrong", "Grok: you are wrong"),
        ("Claude:", "Claude:"),
        ("[reactions: 👍]", None),
        ("a\x00b\r\nc", "ab\nc"),
        ("<think>a plan</think>Hello", "Hello"),
        ("Hello <Thinking>a plan,\n\nof two parts</Thinking>there", "Hello there"),
        ("<think>a plan without an end", None),
        ("a plan\n</think>\n\nHello", "Hello"),
        ("I like <think> tags, and </i> too", "I like <think> tags, and </i> too"),
        ("\u200b\u2800 \ufeff", None),
        ("👍", "👍"),
        ("[note: msg:5 by Grok now reads] two", None),
        ("one\n[note: Bob changed a message, it now reads] two\n  and more\nthree", "one\nthree"),
        ("[tool] claude>[web_search]: query: tea\n  claude<[web_search]: hot\nIt is hot.", "It is hot."),
        ("[note: this is a joke] hello", "[note: this is a joke] hello"),
        ("a [tool] for it", "a [tool] for it"),
        ("a list [1] of [links](https://example.org)", "a list [1] of [links](https://example.org)"),
    ],
)
def test_marks_of_the_prompt_do_not_leave_with_the_text(leaked: str, clean: str | None) -> None:
    assert clean_text(leaked, names=("Claude", "claude")) == clean


@pytest.mark.promise(35)
@pytest.mark.parametrize(
    ("given_", "emoji"),
    [
        ("🔥", "🔥"),
        (" 👍🏽 ", "👍🏽"),
        ("👩‍👩‍👧‍👦", "👩‍👩‍👧‍👦"),
        ("🇩🇪", "🇩🇪"),
        ("🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"),
        ("1️⃣", "1️⃣"),
        ("❤", "❤️"),
        ("❤️‍🔥", "❤️‍🔥"),
        ("❤\u200d🔥", "❤\ufe0f\u200d🔥"),
        ("🎃\ufe0f", "🎃"),
        ("1\u20e3", "1\ufe0f\u20e3"),
        ("*\u20e3", "*\ufe0f\u20e3"),
        ("🏳\u200d🌈", "🏳\ufe0f\u200d🌈"),
        ("🏃\u200d♂", "🏃\u200d♂\ufe0f"),
        ("☝\ufe0f🏽", "☝🏽"),
        ("👨\u200d❤\u200d👨", "👨\u200d❤\ufe0f\u200d👨"),
        ("❤\ufe0e", "❤\ufe0f"),
        ("🔥🏽", "🔥"),
        ("👩\u200d🚀\u200d🔥", "👩\u200d🚀"),
        ("🇩🇪🇫🇷", "🇩🇪"),
        ("🇦", "🇦"),
        ("👍 👎", "👍"),
        (":thumbsup:", "👍"),
        (":slight_smile:", "🙂"),
        (":cat:", "🐱"),
        (":thumbsup_tone3:", "👍🏽"),
        (":wave::skin-tone-2:", "👋🏻"),
        (":flag_de:", "🇩🇪"),
        (":heart_on_fire:", "❤\ufe0f\u200d🔥"),
        ("🏽", None),
        ("⚡", "⚡"),
        ("🔥💯", "🔥"),
        (":fire:", "🔥"),
        (":Thinking:", "🤔"),
        ("<:party:123456789012345678>", "<:party:123456789012345678>"),
        ("<a:party:123456789012345678>", "<a:party:123456789012345678>"),
        ("<:party:1>", None),
        (":no_such_thing:", None),
        ("👨🏽\u200d👩🏽\u200d👧🏽\u200d👦🏽", "👨\u200d👩\u200d👧\u200d👦"),
        ("`🔥`", "🔥"),
        ("“🔥!”", "🔥"),
        ("**❤**", "❤\ufe0f"),
        ("*\ufe0f\u20e3", "*\ufe0f\u20e3"),
        ("\ufeff\u200f🔥", "🔥"),
        ("`:fire:`", "🔥"),
        (":flag-de:", "🇩🇪"),
        (":flag-england:", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"),
        (":heart-hands:", "🫶"),
        ("🫩", "🫩"),
        ("\U0001fafb", None),
        ('"5"', None),
        ("fire", None),
        ("🔥 so hot", None),
        ("5", None),
        ("→", None),
        ("", None),
        (None, None),
    ],
)
def test_one_emoji_or_none_is_left(given_: str | None, emoji: str | None) -> None:
    assert clean_emoji(given_) == emoji


@settings(max_examples=50)
@given(st.text(max_size=200))
def test_cleaning_settles_after_one_pass(text: str) -> None:
    once = clean_text(text, names=("Claude",))
    assert clean_text(once, names=("Claude",)) == once
