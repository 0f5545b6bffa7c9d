"""Remove from an answer what is not words for people: tool calls, marks of a chat format, lines of the prompt.

Models write calls of tools that they do not have, marks of their own chat format, a word for silence where silence has
its own field, and now and then a line of their prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

from agentic.llm.markup import NOTHING_KNOWN, KnownSources, strip_markup

SHORTEST_ECHO = 25  # characters; a shorter sentence of the prompt may be a person's too

_SILENCE = re.compile(
    r"[\[(<*_`\s]*(?:PASS|SKIP|SILENT|SILENCE|NO[_ ]?(?:REPLY|RESPONSE))[\])>*_`/.!\s]*"
    r"|[*_`]*[\[(<]\s*(?i:pass|skip(?:s|ped)?|silent|silence|stays? silent|no[_ ]?(?:reply|response))\s*/?[\])>][*_`.]*"
)
_FENCE = re.compile(r"```\w{0,20}")
_PYTHONIC_CALL = re.compile(r"\[[a-z_][\w.]{0,63}\((?:[a-z_]\w{0,63}=|\)).*\)\]\Z", re.DOTALL | re.IGNORECASE)
_CALLED = frozenset({"name", "tool", "tool_name", "function", "recipient_name"})
_GIVEN = frozenset({"arguments", "args", "parameters", "input", "tool_input", "query"})
_decoder = json.JSONDecoder()
_SENTENCES = re.compile(r"(?<=[.!?])\s+")


# The beginning of the form: an object, or its fields without one. A block of other code than JSON is words.
_CODE = re.compile(r"```(?!json)\w{0,20}\n(?!\s*+[{\[]).*?```", re.DOTALL | re.IGNORECASE)
_OBJECT = re.compile(
    r"""\{\s*+(?:["'“”‘’`}]|[\w-]*+\s*+(?::|\Z))|\A\s*+\[\s*+(?:["'“‘\[{\d]|\Z)|```json""", re.IGNORECASE
)
_FIELDS = re.compile(
    r"""\b(?:generate_image|image_prompt|react_emoji|react_to_message_id|end_conversation|next_speaker)\b"""
    r"""|^[ \t>*_-]*+["'“‘`]?(?:skip|text|topic)["'”’`]?[*_]*+\s*+:|["'“‘`](?:skip|text)["'”’`]\s*+:""",
    re.IGNORECASE | re.MULTILINE,
)
_NOTHING = frozenset({"", "null", "none", "undefined", "true", "false"})


def begins_a_form(text: str) -> bool:
    """Whether a text that is no decision looks like one, or like another object: it has no words for people."""
    words = _CODE.sub("", text)
    return bool(_OBJECT.search(words) or _FIELDS.search(text)) or text.strip().lower() in _NOTHING


def without_machinery(text: str, known: KnownSources = NOTHING_KNOWN) -> str:
    """Remove every mark of a model (agentic/llm/markup.py); "" if the whole text is a call, or a word for silence."""
    text = strip_markup(text, known=known)
    return "" if _SILENCE.fullmatch(text.strip()) or _is_call(unfenced(text)) else text


def unfenced(text: str) -> str:
    """The content of a code block, where the text is nothing else; otherwise the text."""
    stripped = text.strip()
    fence = _FENCE.match(stripped)
    content = stripped[fence.end() :].removesuffix("```").strip() if fence else stripped
    return stripped if "```" in content else content


def lines_of_prompt(text: str) -> frozenset[str]:
    """The lines and sentences at the margin of a prompt, where only the program writes."""
    at_margin = [line.strip() for line in text.splitlines() if line[:1].strip()]
    return frozenset(part for part in _lines_and_sentences(at_margin) if len(part) >= SHORTEST_ECHO)


def without_echoes(text: str, prompt: Collection[str]) -> str:
    """Remove the lines that are one of the prompt's; `prompt` is what `lines_of_prompt` found."""
    if not prompt:
        return text
    return "\n".join(line for line in text.split("\n") if line.strip(" \t>*_-`#") not in prompt)


def _lines_and_sentences(lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield line
        yield from _SENTENCES.split(line)


def _is_call(text: str) -> bool:
    if text[:1] not in ("{", "["):
        return False
    if _PYTHONIC_CALL.match(text):  # Llama, LFM
        return True
    calls: list[object] = []
    while text:
        try:
            read, end = _decoder.raw_decode(text)
        except (ValueError, RecursionError):
            return False
        calls += read if isinstance(read, list) else [read]
        text = text[end:].lstrip("; \n")
    return bool(calls) and all(map(_names_a_call, calls))


def _names_a_call(read: object) -> bool:
    if not isinstance(read, dict):
        return False
    if read.keys() == {"tool_calls"} or (read.get("type") == "function" and isinstance(read.get("function"), dict)):
        return True
    return bool(read.keys() & _CALLED and read.keys() & _GIVEN)
