"""Removes marks that people must never see: reasoning, tool calls, control tokens, citation marks.

    strip_reasoning   for a model's raw answer, before its form is parsed: removes only reasoning, and nothing inside a
                      JSON object
    split_reasoning   the same, and returns the reasoning, too
    strip_markup      for text that people read: removes everything in the tables below

The tables are collected from the chat templates of open models and from the parsers of vLLM and SGLang. To support
another format, add a line. One scanner applies them in linear time. It keeps code, and marks that the text talks about
in the middle of a sentence ("Use [THINK] tags?").

`growing`: the text is still being written, so the result ends before any incomplete mark.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from urllib.parse import urlsplit

from agentic.llm.types import Source

MAX_NESTING = 16  # marks within reasoning
MAX_HEADER = 24  # characters that may belong to a control token before them
MAX_ROUNDS = 10  # a removal may join the halves of another mark

_FLAGS = re.IGNORECASE | re.MULTILINE

# --- the tables -----------------------------------------------------------------------------------------------------

# Names of XML-like tags, with or without a namespace ("seed:think", "antml:invoke", "｜DSML｜invoke") and attributes.
_REASONING_TAGS = (
    r"(?:[a-z]{1,12}_?)?think(?:ing)?(?:[_-][a-z]{1,12})?|thoughts?(?:_process)?|reasoning(?:_[a-z]{1,12})?|reflection"
    r"|scratch_?pad|analysis|(?:inner|internal)_(?:monologue|thoughts?|reasoning)|cot|chain_of_thoughts?"
    r"|search_quality_(?:reflection|score)"
)
_CALL_TAGS = (
    r"(?:[a-z]{1,12}_)?tool_?calls?|tool_(?:use|code|requests?|responses?|results?|outputs?)|tool(?=\s+name\b)"
    r"|function_?calls?|function_(?:results?|responses?|outputs?)|function(?==)|parameter(?==)|invoke|use_mcp_tool"
    r"|call_tool|execute_tool|arg_(?:key|value)|cot_budget_reflect|oai-mem-citation|grok:render|grok-card"
)
# Tags of the answer itself, behind reasoning.
_ANSWER_TAGS = r"(?:final_)?answer|response|output|solution"
# Formats that aren't tags: opening and closing mark. A closing mark of None: everything up to the end.
_REASONING_PAIRS: tuple[tuple[str, str], ...] = (
    (r"\[(?:thinking|thought|reasoning|think)\]", r"\[/(?:thinking|thought|reasoning|think)\]"),  # Mistral, Magistral
    (r"◁think▷", r"◁/think▷"),  # Kimi
    (
        r"<[|｜](?:start|begin)[_▁]?(?:of[_▁]?)?(?:think(?:ing)?|thought|reasoning)[|｜]>",  # Command, OpenThinker
        r"<[|｜]end[_▁]?(?:of[_▁]?)?(?:think(?:ing)?|thought|reasoning)[|｜]>",
    ),
    (r"<\|(?:think|thought)_(?:start|begin)\|>", r"<\|(?:think|thought)_end\|>"),  # MiniCPM
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus
    (r"<\|channel>(?:thought|analysis)?", r"<channel\|>"),  # Gemma 4
    (r"<\|open\|>think<\|sep\|>", r"<\|close\|>think<\|sep\|>"),  # Kimi K3
    (r"\[unused16\]", r"\[unused17\]"),  # Pangu
    # The closing marks of the rest have other uses, so they mean nothing by themselves.
    (r"<\|(?:think(?:ing)?|thought|reasoning)\|>", r"<\|/(?:think(?:ing)?|thought|reasoning)\|>|<\|end\|>"),  # Solar
    (r"<\|content_thinking\|>", r"<\|(?:end_message|content_text)\|>"),  # Inkling
    (
        r"<\|im_start\|>(?:assistant/)?(?:think|reasoning|analysis)\b",  # HyperCLOVA, s1
        r"<\|im_end\|>|<\|im_start\|>(?:answer|assistant)\b",
    ),
    (r"<details\s{1,9}type=\"reasoning\"[^<>]{0,200}>", r"</details>"),  # Open WebUI
    (r"<\|channel\|>(?:analysis|commentary)", r"<\|channel\|>final(?:<\|message\|>)?"),  # gpt-oss, a part missing
    (
        r"\Aanalysis(?:(?=(?-i:[A-Z\"'“]))|(?=[\s\S]*?(?<![a-z,] )assistant\s?final))",
        r"(?<![a-z,] )assistant\s?final(?::)?",
    ),  # gpt-oss, without its special tokens
    (r"\AHere(?:'s| is) my thought process:", r"Here(?:'s| is) my response:"),  # Granite
)
_LONE = 8  # of these pairs, the first ones that chat templates may open in the prompt
_CALL_PAIRS: tuple[tuple[str, str | None], ...] = (
    (r"^[ \t]{0,40}<(?:call|result|error)\s{1,9}name\s{0,9}=[^<>\n]{0,100}>", r"^[ \t]*+</(?:call|result|error)>"),
    (r"<[|｜]tool[_▁]calls[_▁](?:section[_▁])?begin[|｜]>", r"<[|｜]tool[_▁]calls[_▁](?:section[_▁])?end[|｜]>"),
    (
        r"<[|｜]tool[_▁](?:call|outputs?|sep)[_▁](?:begin|start)[|｜]>",  # DeepSeek, Kimi K2, LFM2
        r"<[|｜]tool[_▁](?:call|outputs?|sep)[_▁]end[|｜]>",
    ),
    (r"<\|(?:start|begin)_(?:of_)?(?:action|tool\w{0,20}|function\w{0,20}|plugin)\|>", r"<\|end_(?:of_)?\w{1,30}\|>"),
    (r"<\|action_start\|>", r"<\|action_end\|>"),  # InternLM
    (r"<\|tools_prefix\|>", r"<\|tools_suffix\|>"),  # Apertus
    (r"<\|python_start\|>", r"<\|python_end\|>"),  # Llama 4
    (r"<\|tool_calls\|>", r"<\|calls\|>"),  # Solar
    (r"<\|tool_call:begin\|>", r"<\|tool_call:end\|>"),
    (r"<\|tool_(?:call|response)\|>", r"<\|/tool_(?:call|response)\|>|<\|end\|>"),  # Phi, Granite
    (r"<\|tool_(?:call|response)>", r"<tool_(?:call|response)\|>"),  # Gemma 4
    (r"<start_function_(?:call|response|declaration)>", r"<end_function_(?:call|response|declaration)>"),
    (r"<\|open\|>tools<\|sep\|>", r"<\|close\|>tools<\|sep\|>"),  # Kimi K3
    (r"<\|content_invoke_tool_\w{1,10}\|>", r"<\|end_message\|>"),  # Inkling
    (r"<\|(?:function_call|python_tag)\|>", r"<\|(?:eom_id|eot_id|message_sep)\|>"),  # Llama, GigaChat
    (r"<\|recipient\|>\s{0,9}(?!all\b)[\w.]{1,64}", r"<\|(?:from|stop)\|>"),  # Functionary
    (r"\[TOOL_CALLS\](?=\s{0,9}(?:[\[{]|[\w.-]{1,64}\s{0,9}[\[{]))", r"\[/TOOL_CALLS\]|</s>"),  # Mistral
    (r"\[TOOL_CALL\]", r"\[/TOOL_CALL\]"),
    (r"\[TOOL_(?:REQUEST|RESULT)\]", r"\[END_TOOL_(?:REQUEST|RESULT)\]"),  # LM Studio
    (r"\[(?:TOOL_RESULTS|AVAILABLE_TOOLS|TOOL_CONTENT)\]", r"\[/(?:TOOL_RESULTS|AVAILABLE_TOOLS|TOOL_CONTENT)\]"),
    (r"\bfunctools(?=\[\{)", None),  # Phi
    (r"(?:\bcommentary )?\bto=functions\.[\w.]{1,64}[^\n{]{0,40}(?=\s?\{)", None),  # gpt-oss, without special tokens
    (r"✿FUNCTION✿\s?:", r"✿RETURN✿\s?:"),  # Qwen-Agent
    (r"^Action:\s{0,3}```json\n(?=[\s\[{]{1,20}\"tool_name\")", r"```"),  # Command R
    (r"^>>>[a-z_]\w{0,63}(?=\n\s{0,9}\{)", r"^>>>all\n"),  # Functionary
    (r"^tool_(?:code|call)\n(?=\S)", r"\n\n"),  # Gemini
    (r"^(?:print\()?default_api[.:]\w{1,64}(?=[({])", r"\n"),
    (r"^call:[\w.:-]{1,80}(?=\{)", r"\n"),
    (r"^(?:\*\*)?Action:(?:\*\*)?[^\n]{1,100}\n{1,3}(?:\*\*)?Action Input:", None),  # ReAct
)
_CALL_FENCES = frozenset({"tool_code", "tool_call", "tool_calls", "tool_use", "tool", "function_call", "tool_outputs"})

_REASONING_FENCES = frozenset({"think", "thinking", "thought", "thoughts", "reasoning"})
# Ordinary words, too, so they mean nothing as long as no closing mark follows.
_ONLY_IF_CLOSED = re.compile(
    r"\[(?:thinking|thought|reasoning)\]|here|<(?:analysis|reflection)\b|<details", re.IGNORECASE
)

# Control tokens, removed by themselves, with the role that follows the beginning of a turn.
_ROLE = r"(?:(?:system|user|assistant|model|tool|developer)\b(?:\n|(?=<)))?"
_TOKENS = (
    r"<\|(?:open|close)\|>[a-z]{1,20}(?:\s[^<>\n]{0,100})?<\|sep\|>",  # Kimi K3
    rf"<[|｜](?!\s)[^|｜<>\n]{{1,60}}(?<!\s)[|｜]>{_ROLE}",
    rf"<\|turn>{_ROLE}|<turn\|>|<\|\"\|>",  # Gemma 4
    rf"<(?:start_of_turn|start_of_role)>{_ROLE}",
    r"</?(?:end_of_(?:turn|text|utterance|sentence|role)|(?:seed:)?(?:bos|eos|pad)|eoa|eop|eom|sop|im_(?:start|end))>"
    r"|<(?:EOT|EOD|[BE]OS_TOKEN|end_code|mask:\d|TOKENS_UNUSED_\d{1,4})>|<role>(?:human|assistant|system|observation)</role>",
    r"</s>|\A\s{0,9}<s>(?![^<]*+</s>\s*+\S)",  # between words they strike the words out
    r"<(?:unused|reserved_|extra_id_|ctrl\d)\d{1,4}>|<SPECIAL_\d{1,4}>|\[unused\d{1,4}\]",
    r"\[/?INST\]|<</?SYS>>|\[/?SYSTEM_PROMPT\]|\[(?:EOS|EOT)\](?=\s*+(?:\Z|[<\[]))|\A\[BOS\]|\[gMASK\]|\[\|[a-z]{3,20}\|\]",
    r"\]<\]minimax\[>\[|\]~!?b[\[\]](?:ai|user|system|tool)?|\[e~\[",
    rf"</(?:{_ANSWER_TAGS})>(?=\s*+\Z)",
)
_OTHERS_TURN = (  # what follows is not the model's own turn any more
    r"<\|im_start\|>(?:user|system|tool)\b|<\|start_header_id\|>(?:user|system|ipython)\b|<start_of_turn>user\b"
    r"|<\|turn>user\b|<\|start_of_role\|>(?:user|system)\b|<[|｜](?:user|human)[|｜]>|\[INST\]|<\|start\|>user\b"
)
_HEADERS = (  # a role between two tokens
    r"<\|(start_header_id|start_of_role|from|recipient|im_assistant)\|>\s{0,9}\w{1,20}\s{0,9}"
    r"(?=<\|(?:end_header_id|end_of_role|recipient|content|im_middle)\|>)"
)

# Marks of citations, of which only the first group is kept.
_CITATIONS = (
    r"\{render_[a-z_]{1,40}(?:\s[^{}\n]{0,300})?\}",  # Grok
    r"\ue200(?:entity|url)\ue202[^\ue200\ue201]{0,1000}\ue201",  # ChatGPT; these two have words in them
    r"\ue200[^\ue200\ue201]{0,1000}\ue201|[\ue200-\ue2ff]",
    r"(?:file)?cite(?:turn\d{1,3}[a-z]{1,20}\d{1,4})+",
    r"【[^【】\n]{0,80}[†‡][^【】\n]{0,200}】",
    r":?contentReference\[oaicite:[^\[\]\n]{1,40}\](?:\{[^{}\n]{0,80}\})?|\[oaicite:[^\[\]\n]{1,40}\]",
    r"\[oai_citation:\d{1,4}[^\[\]\n]{0,200}\](?=\(https?://)",
    r"\[cite(?:_[a-z]{1,10}|(?:_[a-z]{1,10})?\s?:[^\[\]\n]{1,200})\]",  # Gemini
    r"\[citation:[\d,\s]{1,40}\]|\[\^\d{1,3}\^\]|\^\[\d{1,3}\](?:\[\d{1,3}\]){0,9}\^",  # DeepSeek, Kimi, ERNIE
    r"</?(?:antml:)?cite(?:\s[^<>]{0,200})?>|</?co(?::[\d,:\[\]\s]{1,60})?>",  # Claude, Command: their words stay
    r"<\|start_of_cite\|>\{[^{}\n]{0,100}\}",  # Granite
)

# A picture by address, which tells its server who reads the text, and whatever is in the address.
_IMAGE = (
    r"!\[(?P<described>(?:[^\[\]\\]|\\[\s\S])*+(?:\[[^\[\]]*+\](?:[^\[\]\\]|\\[\s\S])*+)*+)\]"
    r"(?:\(\s*+<?(?P<address>[^\s()<>]*+(?:\([^\s()<>]*+\)[^\s()<>]*+)*+)[^()]*+(?:\([^()]*+\)[^()]*+)*+\)|\[[^\[\]]*+\])"
)

# --- the scanner ----------------------------------------------------------------------------------------------------

_NAMESPACE = r"(?:[a-z][\w-]{0,19}:|\s?[|｜]\s?DSML\s?[|｜]\s?)?"
_TAG_END = r"(?:[\s=/][^<>]{0,300})?"
_LONE_CLOSES = "|".join(close for _, close in _REASONING_PAIRS[:_LONE])
_CLOSES_REASONING = (  # makers' marks are mixed up, too
    rf"(?:</{_NAMESPACE}(?:{_REASONING_TAGS})\s{{0,9}}>|{_LONE_CLOSES})(?:\s{{0,9}}<(?:{_ANSWER_TAGS})>)?"
)
_REASONING_CLOSE = re.compile(_CLOSES_REASONING, _FLAGS)
_OPENS_REASONING = "|".join(
    (rf"<{_NAMESPACE}(?:{_REASONING_TAGS}){_TAG_END}>", *(opening for opening, _ in _REASONING_PAIRS[:_LONE]))
)
_REASONING_OPEN = re.compile(_OPENS_REASONING, _FLAGS)
_REASONING_MARK = re.compile(f"{_OPENS_REASONING}|{_CLOSES_REASONING}", _FLAGS)
_PAIRS = (*_REASONING_PAIRS, *_CALL_PAIRS)
_CLOSES = [
    *(re.compile(f"{close}|{_CLOSES_REASONING}", _FLAGS) for _, close in _REASONING_PAIRS),
    *(re.compile(close, _FLAGS) if close else None for _, close in _CALL_PAIRS),
]
_MARK = re.compile(
    "|".join(
        (
            r"(?P<fence>```(?P<language>\w{0,20}))",
            r"(?P<code>(?P<ticks>`{1,2})(?!`)[^`\n]{1,400}(?P=ticks)(?!`))",
            r"(?P<run>`+)",
            rf"(?P<reasoning>(?P<r_close></)?(?(r_close)|<){_NAMESPACE}(?:{_REASONING_TAGS}){_TAG_END}>)",
            rf"(?P<call>(?P<c_close></)?(?(c_close)|<){_NAMESPACE}(?P<c_name>{_CALL_TAGS}){_TAG_END}>)",
            *(f"(?P<p{number}>{opening})" for number, (opening, _) in enumerate(_PAIRS)),
            rf"(?P<lone>{_LONE_CLOSES})",
            *(f"(?P<cite{number}>{pattern})" for number, pattern in enumerate(_CITATIONS)),
            rf"(?P<image>{_IMAGE})",
            rf"(?P<turn>{_OTHERS_TURN})",
            rf"(?P<header>{_HEADERS})",
            *(f"(?P<token{number}>{pattern})" for number, pattern in enumerate(_TOKENS)),
        )
    ),
    _FLAGS,
)
_END_TOKEN = re.compile(rf"(?:{'|'.join(_TOKENS)})\s*+\Z", _FLAGS)
_ALONE = ("header", "token")  # removed by themselves
_REASONING = frozenset({"reasoning"})
_ADDITIONS = frozenset({"cite", "image"})
_EVERYTHING = frozenset({"reasoning", "call", "cite", "image", "turn", "header", "token"})
# Where a mark can begin, and an object, which may be the requested form.
_TRIGGER = re.compile(
    r"!(?=\[)|<(?=[/a-z|｜]|</?SYS|\s[|｜])|\[(?=[/a-z|^]|e~)|[`{◁\ue200-\ue2ff]|【(?=[^【】\n]{0,80}[†‡])|\^(?=\[)"
    r"|\](?=<\]mini|~!?b)|(?:file)?cite(?=turn\d)|:?contentReference\[|functools\[\{|✿(?=FUNC)"
    r"|to=functions|commentary(?= to=functions)"
    r"|^(?:>>>\w|tool_c|print\(default_api|default_api|call:|(?:\*\*)?Action:|[ \t]{1,40}<)"
    r"|\Aanalysis|\AHere",
    _FLAGS,
)
_FORM = re.compile(r"""\{\s*+(?:["'“‘`]\w{1,40}["'”’`]|[a-z_]{1,40})\s*+:""", re.IGNORECASE)
_CODE = re.compile(r"```.*?```|`[^`\n]{1,400}`", re.DOTALL)
# Words around a mark that they talk about: in a sentence, at the beginning of a list item, of a line.
_WORDS_BEFORE = re.compile(
    r"(?:[\w,;:] |[\"'“‘«(/]|\.\.\.|…|^[ \t]*+(?:[-*•+]|\d{1,3}[.)]) ++)[*_]{0,3}\Z", re.MULTILINE
)
_WORDS_AFTER = re.compile(r"[*_]{0,3}(?: (?![A-Z])[^\W\d_]| [-–—=|•+→]| ?\.\.\.| …|[.,;:!?)\"'”’»/…\]])")
_LINE_BEGINS = re.compile(r"^[*_]{0,3}\Z", re.MULTILINE)
_TELLS = re.compile(
    r"[*_]{0,3} (?:is|are|means|marks|stands|opens|starts|begins|ends|closes|and|or|vs|ist|bedeutet|und|oder)\b"
)
_WIDE = r"\u3005-\u30ff\u3400-\u9fff"  # Chinese and Japanese, which have no spaces
_WIDE_BEFORE, _WIDE_AFTER = re.compile(rf"[{_WIDE}「『《（：、，]\Z"), re.compile(rf"[{_WIDE}」』》）、，。：]")
_LINE_STARTS = (
    *("thought:", "action:", "observation:", "final answer:", "analysis", "here is my thought process:"),
    *("here's my thought process:", "tool_code\n", "tool_call\n", "functools[{", "print(default_api", "default_api"),
)


def _begun(word: str) -> str:
    """Return a pattern for any beginning of a word."""
    return "(?:".join(re.escape(char) for char in word) + ")?" * (len(word) - 1)


_BEGUN = re.compile(  # at the end of a growing text, perhaps the beginning of a mark
    r"(?:!\[[^\n]{0,1000}|!|<[/\s]?[|｜](?![\s>)])[^<>\n]{0,330}|<[/\s]?[|｜]?\[?|</?[a-z][\w:,.-]{0,60}(?:[\s=/][^<>]{0,330})?|\[[/|a-z_]{0,20}(?:[:‡†][^\[\]\n]{0,200})?"
    r"|\{[^{}\n]{0,300}|【[^【】\n]{0,300}|◁[^▷]{0,20}|\ue200[^\ue201]{0,1000}|`{1,3}\w{0,20}"
    rf"|{_begun(']<]minimax[>[')}|\](?:~!?b?)?|\[e~|{_begun(':contentReference')}|:?contentReference\[[^\[\]\n]{{0,40}}|✿\w{{0,20}}✿?\s?|<role>\w{{0,12}}<?/?\w{{0,4}}"
    rf"|(?:\A|(?<=[.!?…)\s]))(?:{_begun('citeturn')}|citeturn\w{{0,60}}|{_begun('commentary to=')}|{_begun('to=')})"
    r"|(?:\bcommentary )?\bto=f[\w.]{0,80}[^\n{]{0,40}\s?"
    r"|\[TOOL_CALLS\]\s{0,9}[\w.-]{0,64}\s{0,9}"
    r"|^>{1,3}\w*\s*+|^(?:(?:print\()?default_api[.:]|call:)[\w.:-]{0,80}"
    rf"|^\**+(?:{'|'.join(map(_begun, (*_LINE_STARTS, 'call:')))}))\Z",
    _FLAGS,
)
_REASONING_BEGUN = re.compile(
    r"(?:<[/\[|｜a-z][^<>]{0,330}|<|\[/?[a-z]{0,20}|◁[^▷]{0,20}|\A\s*(?:a|an|ana|anal|analy|analys|analysis))\Z",
    re.IGNORECASE,
)
_MAX_BEGUN = 1100
_TOOL_NAME = re.compile(r"(?:\A|(?<=\n))[\w.:-]{1,64}\s{0,9}\Z")
_ADDRESS = re.compile(r"https?://[^\s<>()\[\]\"'`|]++", re.IGNORECASE)
_decoder = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class KnownSources:
    """The pages that an answer may link to. `sources`: the pages it is based on. `texts`: people's texts with URLs."""

    sources: Sequence[Source] = ()
    texts: Sequence[str] = ()

    def link_to(self, label: str) -> str | None:
        """Return the Markdown link for a citation mark, which names a source's number or host."""
        for source in self.sources:
            if label.casefold() in (source.title.casefold(), _host(source.url)):
                return f"[{label}](<{source.url}>)"
        return None

    def has_host(self, address: str) -> bool:
        """Return whether the URL's site is one of the sources' or was named by people."""
        host = _host(address)
        named = (found[0] for text in self.texts for found in _ADDRESS.finditer(text))
        return bool(host) and any(host == _host(url) for url in (*(source.url for source in self.sources), *named))


NOTHING_KNOWN = KnownSources()


def _host(address: str) -> str:
    """Return a URL's host without "www.", or "" for anything else."""
    try:
        parts = urlsplit(address.replace("\\", "/"))  # as browsers read it
        return (parts.hostname or "").removeprefix("www.") if parts.scheme.lower() in ("http", "https") else ""
    except ValueError:
        return ""


def strip_reasoning(text: str, *, growing: bool = False) -> str:
    """Return an answer without the reasoning around it."""
    if not text.lstrip().startswith(("{", "```")):
        text = _final_answer(_final_channel(text), growing)
    scanner = _Scanner(text, growing=growing, removes=_REASONING, in_forms=False)
    answer = scanner.run()
    return answer.strip() if scanner.changes else text


def split_reasoning(text: str) -> tuple[str, str]:
    """Return an answer without the reasoning around it, and the reasoning without its tags. If reasoning is in
    the middle of the answer, the whole text is returned as reasoning."""
    answer = strip_reasoning(text)
    if answer == text:
        return text, ""
    before, _, after = text.rpartition(answer) if answer else ("", "", text)
    return answer, _REASONING_MARK.sub("", before + after).strip()


def strip_markup(text: str, *, growing: bool = False, known: KnownSources = NOTHING_KNOWN) -> str:
    """Remove all marks from a text. Returns the same text if there are none."""
    for _ in range(MAX_ROUNDS):
        before, text = text, _final_answer(_final_channel(text), growing)
        text = _Scanner(text, growing=growing, removes=_EVERYTHING, known=known).run()
        if text == before:
            return text
        if growing:
            return strip_markup(text, known=known)
    return ""  # no model writes such a text


def strip_additions(text: str, *, known: KnownSources = NOTHING_KNOWN) -> str:
    """Remove additions to an otherwise good answer: citation marks, pictures by URL, and control tokens at the end."""
    text = _Scanner(text, growing=False, removes=_ADDITIONS, known=known).run()
    begins = 0
    while (mark := _MARK.match(text, len(text) - len(text[begins:].lstrip()))) and (
        (mark.lastgroup or "").startswith(_ALONE)
    ):
        begins = mark.end()
    if not _TELLS.match(text, begins):
        text = text[begins:]
    while (end := _END_TOKEN.search(text, max(0, len(text) - 90))) is not None:
        if _is_closing_tag(text, end):
            break
        text = text[: end.start()]
    return text


def _is_closing_tag(text: str, mark: re.Match[str], start: int = 0) -> bool:
    """Return whether a tag belongs to HTML or XML, because its opening tag is in the text."""
    tag = mark[0].strip()
    return tag.startswith("</") and f"<{tag[2:]}" in text[start : mark.start()]


class _Scanner:
    """One pass over a text. `changes`: something was removed."""

    def __init__(
        self,
        text: str,
        *,
        growing: bool,
        removes: frozenset[str],
        in_forms: bool = True,
        known: KnownSources = NOTHING_KNOWN,
    ) -> None:
        self._text, self._growing, self._removes, self._in_forms, self._known = text, growing, removes, in_forms, known
        self._kept: list[str] = []
        self._copied = 0  # the text up to here is kept or removed
        self._closes: dict[re.Pattern[str], int] = {}  # where the next closing mark begins, beyond the end if nowhere
        self._in_form = False  # the rest of the text is an object
        self._in_code = False  # code has begun, and may go on behind the end
        self._last_line = text.rfind("\n")
        self._begins = len(text) - len(text.lstrip())
        self._code: list[tuple[int, int]] | None = None
        self.changes = False

    def run(self) -> str:
        at = 0
        while at < len(self._text) and (found := _TRIGGER.search(self._text, at)) is not None:
            at = self._step(found.start())
        rest = self._text[self._copied :]
        if self._growing and not self._in_form:
            begun = _BEGUN if self._in_forms else _REASONING_BEGUN
            if held := begun.search(rest, max(0, len(rest) - _MAX_BEGUN)):
                self.changes, rest = True, rest[: held.start()]
        return "".join((*self._kept, rest))

    def _step(self, at: int) -> int:
        """Handle the mark that begins here. Return the position to continue at."""
        text = self._text
        if not self._in_forms and text[at] == "{":
            return self._skip_object(at)
        mark = _MARK.match(text, at)
        if mark is None:
            return at + 1
        kind = mark.lastgroup or ""
        if kind == "fence":
            return self._skip_fence(mark)
        if kind in ("code", "run"):
            self._in_code = self._in_code or (kind == "run" and at > self._last_line)
            return mark.end()
        if self._growing and (self._in_code or mark[0].lower() in ("<|channel|>", "<|start|>")):
            return self._cut(at)
        if kind in ("reasoning", "lone"):
            if "reasoning" not in self._removes:
                return mark.end()
            if kind != "lone" and mark["r_close"] is None:
                return self._remove_block(mark, _REASONING_CLOSE, reasoning=True)
            # The chat template has opened the reasoning in the prompt.
            return mark.end() if self._is_mentioned(at, mark.end()) else self._forget(mark.end())
        if kind[0] == "p":
            number = int(kind[1:])
            reasoning = number < len(_REASONING_PAIRS)
            if ("reasoning" if reasoning else "call") not in self._removes:
                return mark.end()
            return self._remove_block(mark, _CLOSES[number], reasoning=reasoning)
        if kind.rstrip("0123456789") not in self._removes:
            return mark.end()
        if kind == "call":
            if mark["c_close"] is not None:
                return self._remove_token(mark)
            return self._remove_block(mark, _closing_tag(mark["c_name"].lower()), reasoning=False)
        if kind == "turn" and at > self._begins:
            return mark.end() if not self._growing and self._is_mentioned(at, mark.end()) else self._cut(at)
        if kind == "image":
            described, address = mark["described"].strip(), mark["address"] or ""
            link = f"[{described or _host(address)}](<{address}>)" if self._known.has_host(address) else described
            return self._cut(at) if self._growing else self._remove(at, mark.end(), link)
        if kind.startswith("cite"):
            if self._growing and (
                text[mark.end() : mark.end() + 40].isalnum() or mark.end() == len(text) or mark[0] == "\ue200"
            ):
                return self._cut(at)
            before = text[max(self._copied, at - 8) : at]
            spaces = 0 if text[mark.end() : mark.end() + 1].isalnum() else len(before) - len(before.rstrip(" \t"))
            return self._remove(at - spaces, mark.end(), self._cited(mark[0]))
        return self._remove_token(mark)

    def _remove(self, start: int, end: int, instead: str = "") -> int:
        self._kept += (self._text[self._copied : start], instead)
        self._copied, self.changes = end, True
        return end

    def _cut(self, at: int) -> int:
        return self._remove(at, len(self._text))

    def _remove_token(self, mark: re.Match[str]) -> int:
        if self._growing and len(self._text) - mark.end() < MAX_HEADER:
            return self._cut(mark.start())
        if self._is_mentioned(mark.start(), mark.end(), opens=True) or _is_closing_tag(self._text, mark, self._copied):
            return mark.end()
        return self._remove(mark.start(), mark.end())

    def _remove_block(self, mark: re.Match[str], close: re.Pattern[str] | None, *, reasoning: bool) -> int:
        """Remove an opening mark and everything up to its closing mark, or to the end."""
        start, end = mark.start(), mark.end()
        mentioned = self._is_mentioned(start, end, opens=True)
        if mark[0].endswith("/>"):
            return end if mentioned else self._remove(start, end)
        if mark[0].lower().startswith("<arg_key"):  # the tool's name is before it
            name = _TOOL_NAME.search(self._text[max(self._copied, start - 80) : start])
            start -= len(name[0]) if name else 0
        glued = reasoning and mark[0][0] == "<" and self._text[max(0, start - 1) : start].isalnum()
        weak = (start > self._begins or mark[0][0] != "<") and _ONLY_IF_CLOSED.match(mark[0]) is not None
        closing = self._next_close(close, end) if close is not None else None
        if closing is not None and (mentioned or glued or weak) and self._is_code(closing.start()):
            return end
        if closing is not None and mentioned:
            another = _REASONING_OPEN if reasoning else re.compile(re.escape(mark[0]))
            if another.search(self._text, end, closing.start()) is not None:
                return end  # the closing mark belongs to that one
        if closing is not None and reasoning and not mentioned:
            closing = self._real_close(closing, end, must_balance=weak)
        if closing is None:
            return end if (mentioned or glued or weak) and not self._growing else self._cut(start)
        if self._is_pair_mentioned(mark, closing, mentioned=mentioned):
            return closing.end()
        if reasoning and self._growing and len(self._text) - closing.end() < 2:
            return self._cut(start)
        return self._remove(start, closing.end())

    def _is_pair_mentioned(self, opening: re.Match[str], closing: re.Match[str], *, mentioned: bool) -> bool:
        """Return whether a sentence is about both marks: "<think> and </think>", "write <think>...</think> tags"."""
        text, start = self._text, opening.start()
        after = text[closing.end() : closing.end() + 12]
        ends_line = after.startswith("\n") or (not after and not self._growing)
        if mentioned and self._is_mentioned(closing.start(), closing.end(), opens=True, ends_line=ends_line):
            return True
        within = text[opening.end() : closing.start()]
        if within.strip() in ("...", "…"):
            return start > self._begins
        before = text[max(0, start - 24) : start]
        quoted = before[-1:] in ('"', "'") and before[-1:] == after[:1] and "\n" not in within and len(before) > 1
        return (quoted or not within) and bool(_WORDS_BEFORE.search(before) and _WORDS_AFTER.match(after))

    def _forget(self, at: int) -> int:
        self._kept.clear()
        self._copied, self.changes = at, True
        return at

    def _next_close(self, close: re.Pattern[str], at: int) -> re.Match[str] | None:
        known = self._closes.get(close, -1)
        if known >= len(self._text):
            return None
        found = close.search(self._text, max(at, known))
        self._closes[close] = found.start() if found is not None else len(self._text)
        return found

    def _real_close(self, closing: re.Match[str], at: int, *, must_balance: bool) -> re.Match[str] | None:
        """Return where reasoning ends: not at a mark that it talks about or has in code, and not at the end of nested
        reasoning. If its marks don't match, it ends at the first closing mark, or nowhere if it must balance."""
        found: re.Match[str] | None
        for found in islice(closing.re.finditer(self._text, closing.start()), MAX_NESTING):
            if not (self._is_mentioned(found.start(), found.end()) or self._is_code(found.start())):
                closing = found
                break
        else:
            talks = self._is_mentioned(closing.start(), closing.end()) or self._text[closing.start() - 1] == "`"
            return None if talks or self._growing else closing
        if _REASONING_OPEN.search(self._text, at, closing.start()) is None:
            return closing
        depth = 1
        for found in islice(_REASONING_MARK.finditer(self._text, at), MAX_NESTING):
            depth += -1 if _REASONING_CLOSE.match(found[0]) else 1
            if depth == 0:
                return found
        return None if self._growing or must_balance else closing

    def _is_code(self, at: int) -> bool:
        if self._code is None:
            self._code = [found.span() for found in _CODE.finditer(self._text)]
        place = bisect_right(self._code, (at, len(self._text)))
        return place > 0 and at < self._code[place - 1][1]

    def _skip_fence(self, mark: re.Match[str]) -> int:
        end = self._text.find("```", mark.end())
        language = mark["language"].lower()
        is_call = language in _CALL_FENCES and "call" in self._removes
        if is_call or (language in _REASONING_FENCES and "reasoning" in self._removes):
            return self._remove(mark.start(), end + 3) if end >= 0 else self._cut(mark.start())
        self._in_code = self._in_code or end < 0
        return end + 3 if end >= 0 else mark.end()

    def _skip_object(self, at: int) -> int:
        """Skip a JSON object. If it isn't valid JSON, skip the rest of the text, unless reasoning ends after it and
        another object follows."""
        if _FORM.match(self._text, at) is None:
            return at + 1
        try:
            return _decoder.raw_decode(self._text, at)[1]
        except (ValueError, RecursionError):
            pass
        last = None
        for closing in _REASONING_CLOSE.finditer(self._text, at):
            if self._text[closing.end() : closing.end() + 200].lstrip().startswith(("{", "```")):
                last = closing
        if last is not None:
            return self._forget(last.end())
        self._in_form = True
        return len(self._text)

    def _is_mentioned(self, start: int, end: int, *, opens: bool = False, ends_line: bool = False) -> bool:
        """Return whether a sentence talks about the mark: there are words before and after it. `opens`: it isn't a lone
        closing mark, before which everything would be reasoning. `ends_line`: the sentence may end with the mark."""
        before, after = self._text[max(0, start - 24) : start], self._text[end : end + 12]
        if _WORDS_BEFORE.search(before):
            return ends_line or _WORDS_AFTER.match(after) is not None
        if (opens or start <= self._begins) and _LINE_BEGINS.search(before) and _TELLS.match(after):
            return True
        return opens and bool(_WIDE_BEFORE.search(before) and (ends_line or _WIDE_AFTER.match(after)))

    def _cited(self, mark: str) -> str:
        """Return a citation mark's replacement: its own words, a link to its source, or nothing."""
        if mark.startswith(("\ue200entity", "\ue200url")):
            parts = mark.strip("\ue200\ue201").split("\ue202")
            named = re.findall(r'"([^"\n]{1,200})"', parts[1])
            return f" {named[1]}" if len(named) > 1 else f" {parts[1]}" if parts[0] == "url" else ""
        if mark.startswith("[oai_citation"):
            return f" [{mark[1:-1].split('‡')[-1]}]"
        links = (self._known.link_to(label) for label in re.findall(r"[\w.-]{1,100}", mark))
        link = next(filter(None, links), None)
        return f" {link}" if link else ""


@lru_cache(maxsize=64)
def _closing_tag(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{_NAMESPACE}{re.escape(name)}\s{{0,9}}>", _FLAGS)


# --- formats in which a header says what follows --------------------------------------------------------------------

_MESSAGE = "<|message|>"
_HARMONY = re.compile(r"(?:\A\s*+(?:\w[^<>\n]{0,100})?|<\|(?:start|channel|constrain)\|>\w[^<>\n]{0,100})<\|message\|>")
_MESSAGE_END = re.compile(r"<\|(?:end|eom|eot|call|return|start|channel)\|>")
_HEADER = re.compile(r"<\|(?:start|channel|end)\|>")
_NOT_FOR_PEOPLE = re.compile(r"analysis|commentary|thought|reason|\bto=(?!user\b|all\b)|<\|start\|>(?:user|system)")
_FINAL_ANSWER = re.compile(r"^[ \t*]{0,9}Final Answer:[ \t*]{0,9}", _FLAGS)
_STEP = re.compile(r"^[ \t*]{0,9}(?:Thought|Action|Observation):", _FLAGS)
_ACTION = re.compile(r"^[ \t*]{0,9}Action:[^\n]{1,200}\n{1,3}[ \t*]{0,9}Action Input:", _FLAGS)


def _final_channel(text: str) -> str:
    """Return a harmony answer's texts for people: `<|channel|>final<|message|>The answer is 4.`"""
    if _MESSAGE not in text or not _HARMONY.search(_CODE.sub("", text)):
        return text
    shown, header = list[str](), text.partition(_MESSAGE)[0]
    begins = _HEADER.search(header)
    if begins is not None and begins[0] != "<|end|>":  # what is before an end was begun by the prompt
        shown.append(re.sub(r"\A\s*assistant\s*\Z", "", header[: begins.start()]))
    for part in text.split(_MESSAGE)[1:]:
        end = _MESSAGE_END.search(part)
        if not _NOT_FOR_PEOPLE.search(header[-300:]):
            shown.append(part[: end.start()] if end else part)
        header = part[end.start() :] if end else part
    return "".join(shown)


def _final_answer(text: str, growing: bool) -> str:
    """Return the final answer of a text with Thought, Action, Action Input, Observation, and Final Answer."""
    step = _STEP.search(text)
    if step is None or text.count("```", 0, step.start()) % 2:
        return text
    if answers := list(_FINAL_ANSWER.finditer(text, step.end())):
        return text[answers[-1].end() :]
    return text[: step.start()] if growing or _ACTION.search(text, step.start()) else text
