"""What models write that people must never see, and what only looks like it."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentic.llm.markup import KnownSources, strip_markup, strip_reasoning
from agentic.llm.types import Source
from agentic.turn.cleaning import clean_prose, clean_text
from agentic.turn.decision import parse_decision
from agentic.turn.streaming import certain_part

SECRET = "Alice is rude."
REASONING = [
    "<think>{}</think>",
    "<THINK>{}</THINK>",
    '<think type="long" n=3>{}</think>',
    "<thinking>\n{}\n\nmore\n</thinking>",
    "<thought>{}</thought>",
    "<reasoning>{}</reasoning>",
    "<antThinking>{}</antThinking>",
    "<seed:think>{}<seed:cot_budget_reflect>x</seed:cot_budget_reflect></seed:think>",
    "<mm:think>{}</mm:think>",
    "<longcat_think>{}</longcat_think>",
    "<think>a <think>b {}</think> c</think>",
    "<think>{}</thinking>",
    "<think>{} They ask what </think> means, and `</think>`. Hm.</think>",
    "<think>\n{}\n</think>\n<answer>",
    "<scratch_pad>{}</scratch_pad>",
    "<search_quality_reflection>{}</search_quality_reflection>",
    "<think_faster>{}</think_faster>",
    '<details type="reasoning" done="true">{}</details>',
    "```thinking\n{}\n```\n",
    "<|thought_start|>{}<|thought_end|>",
    "<|im_start|>think\n{}\n<|im_start|>answer\n",
    "[THINK]{}[/THINK]",
    "[think]{}[/think]",
    "◁think▷{}◁/think▷",
    "<|START_THINKING|>{}<|END_THINKING|>",
    "<|begin_of_thought|>{}<|end_of_thought|>",
    "<|inner_prefix|>{}<|inner_suffix|>",
    "<|channel>thought\n{}<channel|>",
    "<|open|>think<|sep|>{}<|close|>think<|sep|>",
    "<|think|>{}<|end|>",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>commentary to=functions.x"
    " <|constrain|>json<|message|>{{}}<|call|><|start|>assistant<|channel|>final<|message|>",
    "analysis{}assistantfinal",
    "Here is my thought process: {} Here is my response:",
    "Thought: {}\nAction: search\nAction Input: x\nObservation: y\nThought: done\nFinal Answer:",
]
OPENED_IN_THE_PROMPT = ["{}</think>\n", "{}\n</think>", "{}[/THINK]", "{}◁/think▷", "{}</seed:think>", "{}<channel|>"]
CALLS = [
    '<tool_call>{{"name": "search", "arguments": {{"q": "{}"}}}}</tool_call>',
    "<tool_call>search\n<arg_key>q</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>",
    '<function_calls><invoke name="x"><parameter name="q">{}</parameter></invoke></function_calls>',
    '<function_calls>\n<invoke name="x">{}</invoke>\n</function_calls>',
    '<minimax:tool_call><invoke name="x">{}</invoke></minimax:tool_call>',
    ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="x">{}]<]minimax[>[</invoke>]<]minimax[>[</tool_call>',
    '<xai:function_call name="x"><parameter name="q">{}</parameter></xai:function_call>',
    "<seed:tool_call><function=x><parameter=q>{}</parameter></function></seed:tool_call>",
    '<function=x>{{"q": "{}"}}</function>',
    "<TOOLCALL>[{}]</TOOLCALL>",
    '<tool_calls>[{{"name": "{}"}}]</tool_calls>',
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="x">{}</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>x\n{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<|tool_calls_section_begin|><|tool_call_begin|>x:0{}<|tool_call_end|><|tool_calls_section_end|>",
    "<|tool_call_start|>[x(q='{}')]<|tool_call_end|>",
    "<|tool_call|>[{}]<|/tool_call|>",
    "<|tool_call>call:x{{q:{}}}<tool_call|>",
    "<start_function_call>call:x{{q:{}}}<end_function_call>",
    '<|START_ACTION|>[{{"tool_name": "{}"}}]<|END_ACTION|>',
    "<|action_start|><|plugin|>{}<|action_end|>",
    "<|tools_prefix|>[{}]<|tools_suffix|>",
    '<|python_tag|>{{"name": "{}"}}<|eom_id|>',
    "[TOOL_CALL]{{tool => {}}}[/TOOL_CALL]",
    "[TOOL_REQUEST]{}[END_TOOL_REQUEST]",
    "\n```tool_code\nprint(search('{}'))\n```\n",
    '\n```tool_call\n{{"q": "{}"}}\n```\n',
    "<|python_start|>[x(q='{}')]<|python_end|>",
    "<|tool_calls|><|tool_call:begin|>a<|tool_call:name|>x<|tool_call:args|>{}<|tool_call:end|><|calls|>",
    "✿FUNCTION✿: x\n✿ARGS✿: {}\n✿RETURN✿:",
    '\n<call name="x">\n{{"q": "{}"}}\n</call>\n',
]
TO_THE_END = [
    '[TOOL_CALLS][{{"name": "x", "arguments": {{"q": "{}"}}}}]',
    '[TOOL_CALLS]search[ARGS]{{"q": "{}"}}',
    '\nfunctools[{{"name": "{}"}}]',
    "\nThought: I must search\nAction: search\nAction Input: {}",
    '\ntool_code\nprint(default_api.x("{}"))',
    "<|im_end|>\n<|im_start|>user\n{}",
    "<end_of_turn>\n<start_of_turn>user\n{}",
    "</s>[INST] {}",
    "<think>{}",
    "<think>{} They ask what </think> means.",
    "<seed:think>{0}<seed:cot_budget_reflect>x</seed:cot_budget_reflect>{0}",
    'commentary to=functions.x json{{"q": "{}"}}',
    "[THINK]{}",
    '<tool_call>{{"name": "{}"',
    "<function_calls>{}",
]
TOKENS = ["</s>", "<end_of_turn>", "<｜end▁of▁sentence｜>", "<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<turn|>"]
TOKENS += ["<|end|>", "[EOS]", "<eos>", "[|endofturn|]", "<|end_of_text|>", "<|END_OF_TURN_TOKEN|>", "<ctrl42>"]
TOKENS += ["[e~[", "]~b]ai", "<seed:eos>", "<eoa>", "<EOS_TOKEN>", "<SPECIAL_12>", "<role>HUMAN</role>"]
CITATIONS = [
    ' {render_inline_citation citation_id="17"}',
    '<grok:render card_id="1" card_type="citation_card">\n<argument name="citation_id">3</argument>\n</grok:render>',
    '<grok-card data-id="9" data-type="citation_card" ></grok-card>',
    "\ue200cite\ue202turn0search1\ue202turn0news2\ue201",
    "citeturn0search1turn0news12",
    "【4:0†source】",
    "[cite: 1, 2]",
    "[cite_end]",
    ":contentReference[oaicite:0]{index=0}",
    "[citation:3]",
    "[^1^]",
]
INNOCENT = [
    "a < b",
    "a <b> and c </b>",
    "if a < b and b > c, then a<b>c",
    "[1]",
    "as [1] and [2, 3] say",
    "`<think>` opens it",
    "Use [THINK] tags?",
    "I like <think> tags, and </i> too",
    "The <think> and </think> tags mark it.",
    "Wrap it in <think>...</think>.",
    'The mark is "<tool_call>", he said.',
    "```html\n<think>hm</think>\n<tool_call>x</tool_call></s>\n```",
    "Use `</s>` or `<|im_end|>` at the end, and `[TOOL_CALLS]`.",
    "a [TOOL] for it, [INFO] and [tool_x]",
    "f = lambda x: {x: 1}",
    "$\\frac{1}{2} < \\sqrt{x}$ and {a, b} ⊂ C",
    "(╯°□°)╯︵ ┻━┻ ◁ ▷ ◕‿◕ <3 >:( <_< >_>",
    "【注意】本日休業",
    "Action: run! Thought: none.",
    "Thought: I think so.",
    "analysis of the data",
    "Analysis: it works",
    "<s>old</s> new",
    "x |> f and f <| x",
    "I cite Smith [cite] here",
    "functools is a module",
    ">>> print(1)",
    "!important [a](https://example.org) ![",
    "a ^[note] and ^2",
    "```python\nprint('hi')\n```\nand `x`",
    "Here is my plan: go.",
    "A `tool_code` block",
    "<result>5</result>",
    "{a} {b: 1} {",
    "Mistral: [THINK] ... [/THINK]",
    "I'd use three tags: <thinking>, <reflection>, <answer>.",
    "Ask for <thinking></thinking> tags, then <answer></answer> tags.",
    "DeepSeek用<think>和</think>标签。",
    're.compile("<think>(.*?)</think>", re.S) finds it',
    "ChatML has <|im_start|> and <|im_end|> around messages.",
    "The end token of GPT-2 is <|endoftext|>.",
    "Llama 2 has [INST] and [/INST] around questions.",
    "gpt-oss has <|channel|> and <|message|> in it",
    'stop=["</s>", "<|im_end|>"]',
    "xs <| a |> b",
    "a <|> b and (|>) and (<|)",
    "The Canon [EOS] R5",
    "[Thinking] hmm",
    "Here's my thought process: I add 2 and 2.",
    "I see: analysis paralysis. My assistant final report is due.",
    "<answer>42</answer>",
    "{{ user.name }} {% if a %}b{% endif %} {{char}}",
    "[ \\frac{a}{b} ] and [[Main Page|it]] and [^1] and [b]x[/b]",
    "<t:1700000000:R> <:a:123456789012345678> </think:123456789012345678> <a@b.c> <your name>",
    "„Das ist 【wichtig】“, sagte er 〈leise〉.",
]


@pytest.mark.promise(514)
@pytest.mark.parametrize("mark", REASONING)
@pytest.mark.parametrize("answer", ["The answer is 4.", '{"skip": false, "text": "The answer is 4."}'])
def test_reasoning_in_any_makers_marks_is_no_part_of_the_answer(mark: str, answer: str) -> None:
    for thought in (SECRET, 'Maybe {"skip": false, "text": "Alice is rude."}?'):
        said = mark.format(thought) + answer
        assert strip_reasoning(said) == answer
        if answer[0] == "{":
            assert parse_decision(said).text == "The answer is 4."
        else:
            assert clean_prose(said) == clean_text(said) == answer


@pytest.mark.parametrize("mark", OPENED_IN_THE_PROMPT)
def test_everything_before_a_closing_mark_alone_is_reasoning(mark: str) -> None:
    for thought in (SECRET, 'Maybe {"skip": false, "text": "Alice is rude."}?', 'Or {"skip": false, "text": "Alice'):
        decided = parse_decision(mark.format(thought) + '{"skip": false, "text": "The answer is 4."}')
        assert decided.text == "The answer is 4."
    assert clean_prose(mark.format(SECRET) + "The answer is 4.") == "The answer is 4."


@pytest.mark.parametrize("mark", [*REASONING, *CALLS])
def test_a_mark_within_the_words_of_a_form_goes_from_them(mark: str) -> None:
    said = json.dumps({"skip": False, "text": mark.format("x") + "The answer is 4."})
    assert clean_text(parse_decision(said).text) == "The answer is 4."


@pytest.mark.parametrize("mark", [*REASONING[:20], *CALLS])
def test_marks_between_words_go_and_the_words_stay(mark: str) -> None:
    said = f"So.{mark.format(SECRET)}The answer{mark.format(SECRET)} is 4."
    cleaned = clean_text(said) or ""
    assert "".join(cleaned.split()) == "So.Theansweris4."


@pytest.mark.promise(514)
@pytest.mark.parametrize("mark", [*CALLS, *TO_THE_END])
def test_a_call_is_never_posted(mark: str) -> None:
    assert clean_text(mark.format(SECRET)) is None or "Thought" in mark
    assert clean_text("The answer is 4." + mark.format(SECRET)) == "The answer is 4."


@pytest.mark.parametrize("token", TOKENS)
def test_control_tokens_at_the_end_of_plain_words_go(token: str) -> None:
    assert clean_text(f"The answer is 4.{token}") == clean_prose(f"The answer is 4.{token}\n") == "The answer is 4."


@pytest.mark.parametrize("mark", CITATIONS)
def test_citation_marks_go(mark: str) -> None:
    assert clean_text(f"It rains{mark}. And{mark} so on.") == "It rains. And so on."
    assert clean_text(f"It rains.{mark}\nIt snows.") == "It rains.\nIt snows."


def test_words_within_citation_marks_stay() -> None:
    assert clean_text('[cite_start]The <cite index="1-2">sky</cite> is <co: 0>blue</co: 0>.') == "The sky is blue."
    assert clean_text('in \ue200entity\ue202["city","Oslo"]\ue201.') == "in Oslo."


def test_a_citation_of_a_known_source_is_a_link() -> None:
    known = KnownSources([Source("17", "https://a.example/x"), Source("News", "https://www.b.example/y")])
    said = 'Yes {render_inline_citation citation_id="17"}, no【3†b.example】.'
    assert (
        clean_text(said, known=known) == "Yes [17](<https://a.example/x>), no [b.example](<https://www.b.example/y>)."
    )
    assert clean_prose(said, known=known) == clean_text(said, known=known)


@pytest.mark.promise(515)
@pytest.mark.parametrize(
    ("picture", "shown"),
    [
        ("![a cat](https://evil.example/p.png?secret)", "a cat"),
        ("![a cat](<https://evil.example/p.png?secret> 'title')", "a cat"),
        ("![](https://evil.example/p.png?secret)", ""),
        ("![a [big] cat](https://evil.example/p(1).png)", "a [big] cat"),
        ("![a cat](data:image/png;base64,AAAA)", "a cat"),
        ('![a cat](https://evil.example/p.png "a (big) cat")', "a cat"),
        ("![a \\] cat](https://evil.example/p.png)", "a \\] cat"),
        ("![a cat](https://evil.example\\@known.example/p.png)", "a cat"),
        ("![a cat][ref]", "a cat"),
        ("![a cat](https://known.example@evil.example/p.png)", "a cat"),
        ("![a cat](https://known.example.evil.example/p.png)", "a cat"),
        ("![a cat](https://known.example/p.png)", "[a cat](<https://known.example/p.png>)"),
        ("![](https://said.example/p.png)", "[said.example](<https://said.example/p.png>)"),
        ("`![a](https://evil.example/p)`", "`![a](https://evil.example/p)`"),
    ],
)
def test_a_picture_by_address_is_a_link_only_to_a_known_site(picture: str, shown: str) -> None:
    known = KnownSources([Source("K", "https://www.known.example/page")], ["look at https://said.example/a, please"])
    assert clean_text(f"Look: {picture}!", known=known) == f"Look: {shown}!"
    assert clean_prose(f"Look: {picture}!", known=known) == f"Look: {shown}!"
    assert "evil" in picture or "evil" not in certain_part(f"Look: {picture}!")


@pytest.mark.promise(514)
@pytest.mark.parametrize("text", INNOCENT)
def test_innocent_text_stays_byte_for_byte(text: str) -> None:
    for said in (text, f"Well. {text}\n\nSo it is.", f"Well, {text} is it"):
        assert strip_markup(said) == said
        assert strip_reasoning(said) == said


@pytest.mark.parametrize(
    "text",
    [
        "- <think>: opens it\n- </think>: closes it",
        "1. <think> opens it\n2. </think> ends it",
        "**<think>** starts it and **</think>** ends it.",
        "<think> is the opening tag.",
        "</s> is the end token.",
        "List<Thought> thoughts = new ArrayList<>();",
    ],
)
def test_marks_that_lines_are_about_stay(text: str) -> None:
    for said in (text, f"Well.\n\n{text}\n\nSo it is."):
        assert clean_text(said) == clean_prose(said) == strip_reasoning(said) == said


@given(st.lists(st.sampled_from(INNOCENT), min_size=1, max_size=6))
@example(["[Thinking] hmm", "Mistral: [THINK] ... [/THINK]"])
def test_innocent_texts_together_stay_byte_for_byte(texts: list[str]) -> None:
    said = "Well.\n\n" + "\n\n".join(text for text in texts if not text.startswith((">", "!", "{", "<s>")))
    assert strip_markup(said) == said


@pytest.mark.parametrize("text", ["I </3 you", "xs <| a |> b", "x < 3 €", "`x |> f`", "bra <x|y>", "<t:1:R> <3"])
def test_innocent_text_is_not_held_back(text: str) -> None:
    said = f"Well. {text}\n\nSo it is, and there is more to say."
    assert certain_part(said) == said


def test_the_tags_around_an_answer_go_with_its_reasoning() -> None:
    said = "<think>\nAlice is rude.\n</think>\n<answer>\nThe answer is 4.\n</answer>"
    assert clean_text(said) == clean_prose(strip_reasoning(said)) == "The answer is 4."


@pytest.mark.parametrize(
    "tokens",
    [
        "<|begin|>assistant<|content|>",
        "<|START_RESPONSE|>",
        "<|im_end|>\n<|im_start|>assistant\n",
        "<|begin_of_solution|>\n",
        "]~b]ai\n",
    ],
)
def test_control_tokens_before_plain_words_go(tokens: str) -> None:
    assert clean_text(f"{tokens}The answer is 4.") == clean_prose(f"{tokens}The answer is 4.") == "The answer is 4."


MARKS = [*REASONING, *CALLS, *TO_THE_END, *TOKENS, *CITATIONS]
LEAK = re.compile(
    r"<\|[^|<>\n]{1,60}\|>|</?(?:\w+:)?think|\[/?THINK|◁|tool_call|<invoke|<function|turn0|render_inline|†|oaicite|Alice",
    re.IGNORECASE,
)


@pytest.mark.promise(514)
@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("before", ["", "Hello there.\n", "A < b, and [so on]. "])
def test_nothing_of_a_mark_is_shown_while_the_answer_grows(mark: str, before: str) -> None:
    if before and mark in REASONING[-4:]:
        return  # these begin an answer
    said = before + (mark.format(SECRET) if mark not in CITATIONS else mark) + " The end."
    whole = clean_text(said) or ""
    for end in range(len(said) + 1):
        shown = certain_part(said[:end])
        assert not LEAK.search(shown), said[:end]
        assert whole.startswith(shown.rstrip(" .")), said[:end]


PIECES = st.sampled_from([*(mark.format("x") for mark in [*REASONING, *CALLS, *TO_THE_END]), *TOKENS, *CITATIONS])
BROKEN = st.sampled_from(["<think", ">", "</think>", "[THINK]", "[/", "<|", "|>", "`", "```", "\n", "<tool_call>", " "])
TEXTS = st.lists(PIECES | BROKEN | st.sampled_from(INNOCENT) | st.text(max_size=8), max_size=8).map("".join)


@given(TEXTS)
@example("<tool_" + "<|x|>" * 30 + "call>")
def test_a_second_cleaning_finds_nothing(text: str) -> None:
    once = strip_markup(text)
    assert strip_markup(once) == once
    cleaned = clean_text(text)
    assert clean_text(cleaned) == cleaned


@given(TEXTS)
@example("<think>x</think>```Use `</s>` or `<|im_end|>` at the end, and `[TOOL_CALLS]`.")
@example("<|x |> f and f <| x```html\n<think>hm</think>\n```")
def test_a_growing_text_shows_no_control_token_between_sentences(text: str) -> None:
    """In code, also in a block without an end, and with a space within, it is no control token."""
    for end in range(0, len(text) + 1, 5):
        shown = re.sub(r"(?s)```.*?(?:```|\Z)|`[^`\n]+`", "\n", certain_part(text[:end]))
        assert not re.search(r"(?:^|[.!?>])<\|[^|<>\s]{1,60}\|>(?! (?:is|and|to)\b)", shown)
