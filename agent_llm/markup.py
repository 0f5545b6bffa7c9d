"""Marks that models write and people must never see: reasoning, tool calls, control tokens, citation marks.

    strip_reasoning   an answer as it came from the model, before its form is read: only reasoning goes, and nothing
                      inside a JSON object is touched
    strip_markup      words for people: everything in the tables below goes

The tables are collected from the chat templates of open models and from the parsers of vLLM and SGLang. To support
another maker's format, add a line. One scanner reads them, in linear time. It leaves code alone, and marks that the
text talks about in the middle of a sentence ("Use [THINK] tags?").

With `growing` the text is still being written: what is returned ends before any mark that is not complete yet.
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

from agent_llm.types import Source

MAX_NESTING = 16  # marks within reasoning
LONGEST_HEADER = 24  # characters that may belong to a control token before them
MAX_ROUNDS = 10  # a removal may join the halves of another mark

_FLAGS = re.IGNORECASE | re.MULTILINE

# --- the tables -----------------------------------------------------------------------------------------------------

# Names of XML-like tags, with or without a namespace ("seed:think", "antml:invoke", "｜DSML｜invoke") and attributes.
_REASONING_TAGS = (
    r"(?:[a-z]{1,12}_?)?think(?:ing)?|thoughts?|thought_process|reasoning(?:_content)?|reflection|scratchpad|analysis"
    r"|(?:inner|internal)_(?:monologue|thoughts?)|cot_budget_reflect"
)
_CALL_TAGS = (
    r"(?:[a-z]{1,12}_)?tool_?calls?|tool_(?:use|code|requests?|responses?|results?|outputs?)|tool(?=\s+name\b)"
    r"|function_?calls?|function_(?:results?|responses?|outputs?)|function(?==)|parameter(?==)|invoke|use_mcp_tool"
    r"|call_tool|execute_tool|arg_(?:key|value)|oai-mem-citation|grok:render|grok-card"
)
# Formats that are no tags: opening and closing mark. A closing mark of None: everything up to the end.
_REASONING_PAIRS: tuple[tuple[str, str], ...] = (
    (r"\[(?:think|thinking|thought|reasoning)\]", r"\[/(?:think|thinking|thought|reasoning)\]"),  # Mistral, Magistral
    (r"◁think▷", r"◁/think▷"),  # Kimi
    (
        r"<[|｜](?:start|begin)[_▁]?(?:of[_▁]?)?(?:think(?:ing)?|thought|reasoning)[|｜]>",  # Command, OpenThinker
        r"<[|｜]end[_▁]?(?:of[_▁]?)?(?:think(?:ing)?|thought|reasoning)[|｜]>",
    ),
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus
    (r"<\|channel>(?:thought|analysis)?", r"<channel\|>"),  # Gemma 4
    (r"<\|open\|>think<\|sep\|>", r"<\|close\|>think<\|sep\|>"),  # Kimi K3
    (r"\[unused16\]", r"\[unused17\]"),  # Pangu
    # The closing marks of the rest have other uses, so they mean nothing by themselves.
    (r"<\|(?:think(?:ing)?|thought|reasoning)\|>", r"<\|/(?:think(?:ing)?|thought|reasoning)\|>|<\|end\|>"),  # Solar
    (r"<\|content_thinking\|>", r"<\|(?:end_message|content_text)\|>"),  # Inkling
    (r"<\|im_start\|>(?:assistant/)?(?:think|reasoning|analysis)\b", r"<\|im_end\|>"),  # HyperCLOVA
    (r"<\|channel\|>(?:analysis|commentary)", r"<\|channel\|>final(?:<\|message\|>)?"),  # gpt-oss, a part missing
    (
        r"\Aanalysis(?:(?=(?-i:[A-Z\"'“]))|(?=[\s\S]*?assistant\s?final))",
        r"assistant\s?final(?::)?",
    ),  # gpt-oss, without its special tokens
    (r"\AHere(?:'s| is) my thought process:", r"Here(?:'s| is) my response:"),  # Granite
)
_LONE = 7  # of these pairs, the first ones that chat templates may open in the prompt
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
    (r"<\|tool_(?:call|response)\|>", r"<\|/tool_(?:call|response)\|>|<\|end\|>"),  # Phi, Granite
    (r"<\|tool_call>", r"<tool_call\|>"),  # Gemma 4
    (r"<\|tool_response>", r"<tool_response\|>"),
    (r"<start_function_(?:call|response|declaration)>", r"<end_function_(?:call|response|declaration)>"),
    (r"<\|open\|>tools<\|sep\|>", r"<\|close\|>tools<\|sep\|>"),  # Kimi K3
    (r"<\|content_invoke_tool_\w{1,10}\|>", r"<\|end_message\|>"),  # Inkling
    (r"<\|(?:function_call|python_tag)\|>", r"<\|(?:eom_id|eot_id|message_sep)\|>"),  # Llama, GigaChat
    (r"<\|recipient\|>\s{0,9}(?!all\b)[\w.]{1,64}", r"<\|(?:from|stop)\|>"),  # Functionary
    (r"\[TOOL_CALLS\](?=\s{0,9}(?:[\[{]|[\w.-]{1,64}\s{0,9}[\[{]))", r"\[/TOOL_CALLS\]|</s>"),  # Mistral
    (r"\[TOOL_CALL\]", r"\[/TOOL_CALL\]"),
    (r"\[TOOL_(?:REQUEST|RESULT)\]", r"\[END_TOOL_(?:REQUEST|RESULT)\]"),  # LM Studio
    (r"\[(?:TOOL_RESULTS|AVAILABLE_TOOLS|TOOL_CONTENT)\]", r"\[/(?:TOOL_RESULTS|AVAILABLE_TOOLS|TOOL_CONTENT)\]"),
    (r"^functools(?=\[\{)", None),  # Phi
    (r"^>>>[a-z_]\w{0,63}(?=\n\s{0,9}\{)", r"^>>>all\n"),  # Functionary
    (r"^tool_(?:code|call)\n(?=\S)", r"\n\n"),  # Gemini
    (r"^(?:print\()?default_api[.:]\w{1,64}(?=[({])", r"\n"),
    (r"^call:[\w.:-]{1,80}(?=\{)", r"\n"),
    (r"^(?:\*\*)?Action:(?:\*\*)?[^\n]{1,100}\n{1,3}(?:\*\*)?Action Input:", None),  # ReAct
)
_CALL_FENCES = frozenset({"tool_code", "tool_call", "tool_calls", "tool_use", "tool", "function_call", "tool_outputs"})

# Control tokens, removed by themselves, with the role that follows the beginning of a turn.
_ROLE = r"(?:(?:system|user|assistant|model|tool|developer)\b(?:\n|(?=<)))?"
_TOKENS = (
    r"<\|(?:open|close)\|>[a-z]{1,20}(?:\s[^<>\n]{0,100})?<\|sep\|>",  # Kimi K3
    rf"<[|｜][^|｜<>\n]{{1,60}}[|｜]>{_ROLE}",
    rf"<\|turn>{_ROLE}|<turn\|>|<\|\"\|>",  # Gemma 4
    rf"<(?:start_of_turn|start_of_role)>{_ROLE}",
    r"</?(?:end_of_(?:turn|text|utterance|sentence|role)|bos|eos|eop|eom|sop|pad|im_(?:start|end))>|<(?:EOT|EOD)>",
    r"</s>|\A\s{0,9}<s>(?![^<]*+</s>\s*+\S)",  # between words they strike the words out
    r"<(?:unused|reserved_|extra_id_|ctrl)\d{1,4}>|\[unused\d{1,4}\]",
    r"\[/?INST\]|<</?SYS>>|\[/?SYSTEM_PROMPT\]|\[(?:BOS|EOS|EOT|gMASK)\]|\[\|[a-z]{3,20}\|\]",
    r"\]<\]minimax\[>\[",
)
_OTHERS_TURN = re.compile(  # what follows is not the model's own turn any more
    r"<\|im_start\|>(?:user|system|tool)\b|<\|start_header_id\|>(?:user|system|ipython)\b|<start_of_turn>user\b"
    r"|<\|turn>user\b|<\|start_of_role\|>(?:user|system)\b|<[|｜](?:user|human)[|｜]>|\[INST\]|<\|start\|>user\b",
    re.IGNORECASE,
)
_HEADERS = re.compile(  # a role between two tokens
    r"<\|(start_header_id|start_of_role|from|recipient|im_assistant)\|>\s{0,9}\w{1,20}\s{0,9}"
    r"(?=<\|(?:end_header_id|end_of_role|recipient|content|im_middle)\|>)",
    re.IGNORECASE,
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
    r"!\[(?P<described>[^\[\]]*+(?:\[[^\[\]]*+\][^\[\]]*+)*+)\]"
    r"(?:\(\s*+<?(?P<address>[^\s()<>]*+(?:\([^\s()<>]*+\)[^\s()<>]*+)*+)[^()]*+\)|\[[^\[\]]*+\])"
)

# --- the scanner ----------------------------------------------------------------------------------------------------

_NAMESPACE = r"(?:[a-z][\w-]{0,19}:|\s?[|｜]\s?DSML\s?[|｜]\s?)?"
_TAG_END = r"(?:[\s=/][^<>]{0,300})?"
_LONE_CLOSES = "|".join(close for _, close in _REASONING_PAIRS[:_LONE])
_CLOSES_REASONING = rf"</{_NAMESPACE}(?:{_REASONING_TAGS})\s{{0,9}}>|{_LONE_CLOSES}"  # makers' marks are mixed up, too
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
            rf"(?P<turn>{_OTHERS_TURN.pattern})",
            rf"(?P<header>{_HEADERS.pattern})",
            *(f"(?P<token{number}>{pattern})" for number, pattern in enumerate(_TOKENS)),
        )
    ),
    _FLAGS,
)
_END_TOKEN = re.compile(rf"(?:{'|'.join(_TOKENS)})\s*+\Z", _FLAGS)
_REASONING = frozenset({"reasoning"})
_ADDITIONS = frozenset({"cite", "image"})
_EVERYTHING = frozenset({"reasoning", "call", "cite", "image", "turn", "header", "token"})
# Where a mark can begin, and an object, which may be the requested form.
_TRIGGER = re.compile(
    r"!(?=\[)|<(?=[/a-z|｜]|</?SYS|\s[|｜])|\[(?=[/a-z|^])|[`{◁\ue200-\ue2ff]|【(?=[^【】\n]{0,80}[†‡])|\^(?=\[)|\](?=<\]mini)|(?:file)?cite(?=turn\d)|:?contentReference\["
    r"|^(?:functools\[|>>>\w|tool_c|print\(default_api|default_api|call:|(?:\*\*)?Action:|[ \t]{1,40}<)"
    r"|\Aanalysis|\AHere",
    _FLAGS,
)
_FORM = re.compile(r"""\{\s*+(?:["'“‘`]\w{1,40}["'”’`]|[a-z_]{1,40})\s*+:""", re.IGNORECASE)
_CODE = re.compile(r"```.*?```|`[^`\n]{1,400}`", re.DOTALL)
_INSIDE_SENTENCE = re.compile(r"[\w,;][ ]\Z|[\"'“‘«(/]\Z|\.\.\.\Z|…\Z")
_SENTENCE_GOES_ON = re.compile(r" (?-i:(?![A-Z])[^\W\d_])|[.,;:!?)\"'”’»/…]")
_LINE_STARTS = (
    *("thought:", "action:", "observation:", "final answer:", "analysis", "here is my thought process:"),
    *("here's my thought process:", "tool_code\n", "tool_call\n", "functools[{", "print(default_api", "default_api"),
)


def _begun(word: str) -> str:
    """Return a pattern for any beginning of a word."""
    return "(?:".join(re.escape(char) for char in word) + ")?" * (len(word) - 1)


_BEGUN = re.compile(  # at the end of a growing text, perhaps the beginning of a mark
    r"(?:!\[[^\n]{0,1000}|!|<[/\[|｜a-z!\s][^<>]{0,330}|<|\[[/|a-z_]{0,20}(?:[:‡†][^\[\]\n]{0,200})?"
    r"|\{[^{}\n]{0,300}|【[^【】\n]{0,300}|◁[^▷]{0,20}|\ue200[^\ue201]{0,1000}|`{1,3}\w{0,20}"
    rf"|{_begun(']<]minimax[>[')}|{_begun(':contentReference')}|:?contentReference\[[^\[\]\n]{{0,40}}"
    rf"|(?:\A|(?<=[.!?…)\s]))(?:{_begun('citeturn')}|citeturn\w{{0,60}})"
    r"|\[TOOL_CALLS\]\s{0,9}[\w.-]{0,64}\s{0,9}"
    r"|^>{1,3}\w*\s*+|^(?:(?:print\()?default_api[.:]|call:)[\w.:-]{0,80}"
    rf"|^\**+(?:{'|'.join(map(_begun, (*_LINE_STARTS, 'call:')))}))\Z",
    _FLAGS,
)
_REASONING_BEGUN = re.compile(
    r"(?:<[/\[|｜a-z][^<>]{0,330}|<|\[/?[a-z]{0,20}|◁[^▷]{0,20}|\A\s*(?:a|an|ana|anal|analy|analys|analysis))\Z",
    re.IGNORECASE,
)
_LONGEST_BEGUN = 1100
_ADDRESS = re.compile(r"https?://[^\s<>()\[\]\"'`|]++", re.IGNORECASE)
_decoder = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class KnownSources:
    """What an answer may link to. `sources`: the pages that it rests on. `texts`: words in which people named
    addresses."""

    sources: Sequence[Source] = ()
    texts: Sequence[str] = ()

    def link_to(self, label: str) -> str | None:
        """Return the Markdown link for what a citation mark names: a source's number or host."""
        for source in self.sources:
            if label.casefold() in (source.title.casefold(), _host(source.url)):
                return f"[{label}](<{source.url}>)"
        return None

    def has_host(self, address: str) -> bool:
        """Whether the address is on a site that the sources or the people have named."""
        host = _host(address)
        named = (found[0] for text in self.texts for found in _ADDRESS.finditer(text))
        return bool(host) and any(host == _host(url) for url in (*(source.url for source in self.sources), *named))


NOTHING_KNOWN = KnownSources()


def _host(address: str) -> str:
    """Return the host of a web address, without "www."; "" for anything else."""
    try:
        parts = urlsplit(address)
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


def strip_markup(text: str, *, growing: bool = False, known: KnownSources = NOTHING_KNOWN) -> str:
    """Return the words for people in a text, unchanged if there is nothing to remove."""
    for _ in range(MAX_ROUNDS):
        before, text = text, _final_answer(_final_channel(text), growing)
        text = _Scanner(text, growing=growing, removes=_EVERYTHING, known=known).run()
        if text == before:
            return text
        if growing:
            return strip_markup(text, known=known)
    return ""  # no model writes such a text


def strip_additions(text: str, *, known: KnownSources = NOTHING_KNOWN) -> str:
    """Remove what models add to words that are an answer all the same: citation marks, pictures by address, and control
    tokens at the end."""
    text = _Scanner(text, growing=False, removes=_ADDITIONS, known=known).run()
    while (end := _END_TOKEN.search(text, max(0, len(text) - 90))) is not None:
        text = text[: end.start()]
    return text


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
            if held := begun.search(rest, max(0, len(rest) - _LONGEST_BEGUN)):
                self.changes, rest = True, rest[: held.start()]
        return "".join((*self._kept, rest))

    def _step(self, at: int) -> int:
        """Handle what begins here; return where to go on."""
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
            closes = kind == "lone" or mark["r_close"] is not None
            return self._close_reasoning(mark) if closes else self._remove_block(mark, _REASONING_CLOSE, reasoning=True)
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
            return self._cut(at)
        if kind == "image":
            return self._cut(at) if self._growing else self._remove(at, mark.end(), self._linked(mark))
        if kind.startswith("cite"):
            if self._growing and (
                text[mark.end() : mark.end() + 40].isalnum() or mark.end() == len(text) or mark[0] == "\ue200"
            ):
                return self._cut(at)
            spaces = 0 if text[mark.end() : mark.end() + 1].isalnum() else self._spaces_before(at)
            return self._remove(at - spaces, mark.end(), self._cited(mark[0]))
        return self._remove_token(mark)

    def _remove(self, start: int, end: int, instead: str = "") -> int:
        self._kept += (self._text[self._copied : start], instead)
        self._copied, self.changes = end, True
        return end

    def _cut(self, at: int) -> int:
        return self._remove(at, len(self._text))

    def _remove_token(self, mark: re.Match[str]) -> int:
        named = not mark[0].startswith(("<|", "<｜"))
        if self._growing and len(self._text) - mark.end() < LONGEST_HEADER:
            return self._cut(mark.start())
        if named and self._is_mentioned(mark.start(), mark.end()):
            return mark.end()
        if mark[0] == "</s>" and "<s>" in self._text[self._copied : mark.start()]:
            return mark.end()  # HTML's mark for words that were struck out
        return self._remove(mark.start(), mark.end())

    def _remove_block(self, mark: re.Match[str], close: re.Pattern[str] | None, *, reasoning: bool) -> int:
        """Remove an opening mark and everything up to its closing mark, or to the end."""
        start, end = mark.start(), mark.end()
        if mark[0].endswith("/>"):
            return self._remove(start, end)
        if mark[0].lower().startswith("<arg_key"):  # the tool's name is before it
            start -= len(_name_before(self._text[max(self._copied, start - 80) : start]))
        closing = self._next_close(close, end) if close is not None else None
        mentioned = self._is_mentioned(start, end)
        if closing is not None and mentioned and self._is_code(closing.start()):
            return end
        if closing is not None and reasoning:
            closing = self._outer_close(closing, end)
        if closing is None:
            return end if mentioned and not self._growing else self._cut(start)
        if mentioned and self._is_mentioned(closing.start(), closing.end()):
            return closing.end()
        if reasoning and self._growing and len(self._text) - closing.end() < 2:
            return self._cut(start)
        return self._remove(start, closing.end())

    def _close_reasoning(self, mark: re.Match[str]) -> int:
        """Remove everything before a closing mark: the chat template has opened the reasoning in the prompt."""
        if self._is_mentioned(mark.start(), mark.end()):
            return mark.end()
        return self._forget(mark.end())

    def _forget(self, at: int) -> int:
        """Remove everything up to here."""
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

    def _outer_close(self, closing: re.Match[str], at: int) -> re.Match[str] | None:
        """Return where reasoning with reasoning inside ends: at its first closing mark if the marks don't match."""
        if _REASONING_OPEN.search(self._text, at, closing.start()) is None:
            return closing
        depth, found = 1, closing
        for found in islice(_REASONING_MARK.finditer(self._text, at), MAX_NESTING):
            depth += -1 if _REASONING_CLOSE.match(found[0]) else 1
            if depth == 0:
                return found
        return None if self._growing else closing

    def _is_code(self, at: int) -> bool:
        if self._code is None:
            self._code = [found.span() for found in _CODE.finditer(self._text)]
        place = bisect_right(self._code, (at, len(self._text)))
        return place > 0 and at < self._code[place - 1][1]

    def _skip_fence(self, mark: re.Match[str]) -> int:
        end = self._text.find("```", mark.end())
        language = mark["language"].lower()
        if language in _CALL_FENCES and "call" in self._removes:
            return self._remove(mark.start(), end + 3) if end >= 0 else self._cut(mark.start())
        self._in_code = self._in_code or end < 0
        return end + 3 if end >= 0 else mark.end()

    def _skip_object(self, at: int) -> int:
        """Skip a JSON object. If it cannot be read strictly, the rest of the text is taken for it, unless reasoning
        ends behind it and another object follows."""
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

    def _is_mentioned(self, start: int, end: int) -> bool:
        """Whether a sentence talks about the mark: it goes on behind it as it came to it."""
        before, after = self._text[max(0, start - 3) : start], self._text[end : end + 2]
        return _INSIDE_SENTENCE.search(before) is not None and _SENTENCE_GOES_ON.match(after) is not None

    def _spaces_before(self, at: int) -> int:
        before = self._text[max(self._copied, at - 8) : at]
        return len(before) - len(before.rstrip(" \t"))

    def _cited(self, mark: str) -> str:
        """Return what a citation mark becomes: its own words, a link to its source, or nothing."""
        if mark.startswith(("\ue200entity", "\ue200url")):
            parts = mark.strip("\ue200\ue201").split("\ue202")
            named = re.findall(r'"([^"\n]{1,200})"', parts[1])
            return f" {named[1]}" if len(named) > 1 else f" {parts[1]}" if parts[0] == "url" else ""
        if mark.startswith("[oai_citation"):
            return f" [{mark[1:-1].split('‡')[-1]}]"
        links = (self._known.link_to(label) for label in re.findall(r"[\w.-]{1,100}", mark))
        link = next(filter(None, links), None)
        return f" {link}" if link else ""

    def _linked(self, mark: re.Match[str]) -> str:
        """Return what a picture by address becomes: a link if its site is known, otherwise its description."""
        described, address = mark["described"].strip(), mark["address"] or ""
        if not self._known.has_host(address):
            return described
        return f"[{described or _host(address)}](<{address}>)"


@lru_cache(maxsize=64)
def _closing_tag(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{_NAMESPACE}{re.escape(name)}\s{{0,9}}>", _FLAGS)


def _name_before(text: str) -> str:
    found = re.search(r"(?:\A|(?<=\n))[\w.:-]{1,64}\s{0,9}\Z", text)
    return found[0] if found else ""


# --- formats in which a header says what follows --------------------------------------------------------------------

_MESSAGE = "<|message|>"
_MESSAGE_END = re.compile(r"<\|(?:end|eom|eot|call|return|start|channel)\|>")
_HEADER = re.compile(r"<\|(?:start|channel|end)\|>")
_NOT_FOR_PEOPLE = re.compile(r"analysis|commentary|thought|reason|\bto=(?!user\b|all\b)|<\|start\|>(?:user|system)")
_FINAL_ANSWER = re.compile(r"^[ \t*]{0,9}Final Answer:[ \t*]{0,9}", _FLAGS)
_STEP = re.compile(r"^[ \t*]{0,9}(?:Thought|Action|Observation):", _FLAGS)
_ACTION = re.compile(r"^[ \t*]{0,9}Action:[^\n]{1,200}\n{1,3}[ \t*]{0,9}Action Input:", _FLAGS)


def _final_channel(text: str) -> str:
    """Return the bodies of a harmony answer that are for people: `<|channel|>final<|message|>The answer is 4.`"""
    if _MESSAGE not in text or _MESSAGE not in _CODE.sub("", text):
        return text
    shown, header = list[str](), text.partition(_MESSAGE)[0]
    begins = _HEADER.search(header)
    if begins is not None and begins[0] != "<|end|>":  # what is before an end was begun by the prompt
        shown.append(header[: begins.start()])
    for part in text.split(_MESSAGE)[1:]:
        end = _MESSAGE_END.search(part)
        if not _NOT_FOR_PEOPLE.search(header[-300:]):
            shown.append(part[: end.start()] if end else part)
        header = part[end.start() :] if end else part
    return "".join(shown)


def _final_answer(text: str, growing: bool) -> str:
    """Return the answer in the form Thought, Action, Action Input, Observation, Final Answer."""
    step = _STEP.search(text)
    if step is None or text.count("```", 0, step.start()) % 2:
        return text
    if answers := list(_FINAL_ANSWER.finditer(text, step.end())):
        return text[answers[-1].end() :]
    return text[: step.start()] if growing or _ACTION.search(text, step.start()) else text
