"""What belongs to the machinery of a model or of its prompt and is nobody's words.

Models write the calls of tools that they do not have, the marks of their own chat format, a word that stands for
silence where silence has a field of its own, and now and then the line of the prompt that they were to follow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

SHORTEST_ECHO = 25  # characters; a shorter sentence of the prompt may be anybody's
MOST_ROUNDS = 10  # what is taken out may leave another mark behind, made of what stood around it

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
_LAST_CHANNEL = "<|message|>"  # before it stands which channel of the format it is, and what was thought in others
_SILENCE = re.compile(
    r"[\[(<*_`\s]*(?:PASS|SKIP|SILENT|SILENCE|NO[_ ]?(?:REPLY|RESPONSE))[\])>*_`/.!\s]*"
    r"|[*_`]*[\[(<]\s*(?i:pass|skip(?:s|ped)?|silent|silence|stays? silent|no[_ ]?(?:reply|response))\s*/?[\])>][*_`.]*"
)
_FENCED = re.compile(r"\A```\w{0,20}\s*(.*?)\s*(?:```)?\Z", re.DOTALL)
_CALLED = frozenset({"name", "tool", "tool_name", "function", "recipient_name"})
_GIVEN = frozenset({"arguments", "args", "parameters", "input", "tool_input", "query"})
_SENTENCES = re.compile(r"(?<=[.!?])\s+")


# A form that was begun: an object, or its fields without one. In a block of code others than JSON's are words.
_CODE = re.compile(r"```(?!json)\w{0,20}\n(?!\s*[{\[])(?:(?!```).)*```", re.DOTALL | re.IGNORECASE)
_OBJECT = re.compile(r"""\{\s*(?:["'“”‘’`}]|[\w-]*\s*(?::|\Z))|\A\s*\[\s*(?:["'“‘\[{\d]|\Z)|```json""", re.IGNORECASE)
_FIELDS = re.compile(
    r"""\b(?:generate_image|image_prompt|react_emoji|react_to_message_id|end_conversation)\b"""
    r"""|^[\s>*_-]*["'“‘`]?(?:skip|text|topic)["'”’`]?[*_]*\s*:|["'“‘`](?:skip|text)["'”’`]\s*:""",
    re.IGNORECASE | re.MULTILINE,
)
_NOTHING = frozenset({"", "null", "none", "undefined", "true", "false"})


def begins_a_form(text: str) -> bool:
    """Whether a text that is no decision was to be one, or some other object: nothing of it is words for people."""
    words = _CODE.sub("", text)
    return bool(_OBJECT.search(words) or _FIELDS.search(text)) or text.strip().lower() in _NOTHING


def without_machinery(text: str) -> str:
    """Without calls of tools and marks of a chat format; "" where the whole text is a call, or a word for silence."""
    for _ in range(MOST_ROUNDS):
        less = _FORMAT.sub("", _TEXT_CALL.sub("", _CALL.sub("", text.rpartition(_LAST_CHANNEL)[2])))
        if less == text:
            break
        text = less
    return "" if _SILENCE.fullmatch(text.strip()) or _is_call(unfenced(text)) else text


def unfenced(text: str) -> str:
    """What stands in a code block, where the text is one and nothing else."""
    stripped = text.strip()
    fenced = _FENCED.fullmatch(stripped)
    return fenced[1] if fenced and "```" not in fenced[1] else stripped


def lines_of_prompt(text: str) -> frozenset[str]:
    """The lines and sentences at the margin of a prompt: nobody but the program writes there."""
    at_margin = [line.strip() for line in text.splitlines() if line[:1].strip()]
    return frozenset(part for part in _lines_and_sentences(at_margin) if len(part) >= SHORTEST_ECHO)


def without_echoes(text: str, prompt: Collection[str]) -> str:
    """Without the lines that are one of the prompt's; `prompt` is what `lines_of_prompt` found."""
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
