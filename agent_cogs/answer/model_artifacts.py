"""Remove from an answer what is not words for people: tool calls, marks of a chat format, lines of the prompt.

Models write calls of tools that they do not have, marks of their own chat format, a word for silence where silence has
its own field, and now and then a line of their prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

SHORTEST_ECHO = 25  # characters; a shorter sentence of the prompt may be a person's too
MOST_ROUNDS = 10  # a removal may leave another mark, made of the text around it

_CALL = re.compile(
    r"<((?:\w{1,12}:)?(?:tool_(?:calls?|use|responses?|results?)|function_(?:calls?|results?)|invoke))\b[^>\n]{0,200}>"
    r".*?(?:</\1>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
# The form of prefill mode, agent_tools/prefill_tools.py.
_TEXT_CALL = re.compile(
    r"^[ \t]*<(call|result|error)\s+name\s*=[^>\n]{0,100}>.*?(?:^[ \t]*</\1>|\Z)",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_FORMAT = re.compile(r"<\|[^|<>\n]{1,60}\|>(?:(?:system|user|assistant)\n)?|\[/?INST\]|<</?SYS>>")
_LAST_CHANNEL = "<|message|>"  # before it are the format's channel names, and reasoning in other channels
_SILENCE = re.compile(
    r"[\[(<*_`\s]*(?:PASS|SKIP|SILENT|SILENCE|NO[_ ]?(?:REPLY|RESPONSE))[\])>*_`/.!\s]*"
    r"|[*_`]*[\[(<]\s*(?i:pass|skip(?:s|ped)?|silent|silence|stays? silent|no[_ ]?(?:reply|response))\s*/?[\])>][*_`.]*"
)
_FENCED = re.compile(r"\A```\w{0,20}\s*(.*?)\s*(?:```)?\Z", re.DOTALL)
_CALLED = frozenset({"name", "tool", "tool_name", "function", "recipient_name"})
_GIVEN = frozenset({"arguments", "args", "parameters", "input", "tool_input", "query"})
_SENTENCES = re.compile(r"(?<=[.!?])\s+")


# The beginning of the form: an object, or its fields without one. A block of other code than JSON is words.
_CODE = re.compile(r"```(?!json)\w{0,20}\n(?!\s*[{\[])(?:(?!```).)*```", re.DOTALL | re.IGNORECASE)
_OBJECT = re.compile(r"""\{\s*(?:["'“”‘’`}]|[\w-]*\s*(?::|\Z))|\A\s*\[\s*(?:["'“‘\[{\d]|\Z)|```json""", re.IGNORECASE)
_FIELDS = re.compile(
    r"""\b(?:generate_image|image_prompt|react_emoji|react_to_message_id|end_conversation|next_speaker)\b"""
    r"""|^[\s>*_-]*["'“‘`]?(?:skip|text|topic)["'”’`]?[*_]*\s*:|["'“‘`](?:skip|text)["'”’`]\s*:""",
    re.IGNORECASE | re.MULTILINE,
)
_NOTHING = frozenset({"", "null", "none", "undefined", "true", "false"})


def begins_a_form(text: str) -> bool:
    """Whether a text that is no decision looks like one, or like another object: it has no words for people."""
    words = _CODE.sub("", text)
    return bool(_OBJECT.search(words) or _FIELDS.search(text)) or text.strip().lower() in _NOTHING


def without_machinery(text: str) -> str:
    """Remove tool calls and marks of a chat format; "" where the whole text is a call, or a word for silence."""
    for _ in range(MOST_ROUNDS):
        less = _FORMAT.sub("", _TEXT_CALL.sub("", _CALL.sub("", text.rpartition(_LAST_CHANNEL)[2])))
        if less == text:
            break
        text = less
    return "" if _SILENCE.fullmatch(text.strip()) or _is_call(unfenced(text)) else text


def unfenced(text: str) -> str:
    """The content of a code block, where the text is nothing else; otherwise the text."""
    stripped = text.strip()
    fenced = _FENCED.fullmatch(stripped)
    return fenced[1] if fenced and "```" not in fenced[1] else stripped


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
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return False
    calls = read if isinstance(read, list) else [read]
    return bool(calls) and all(isinstance(one, dict) and one.keys() & _CALLED and one.keys() & _GIVEN for one in calls)
