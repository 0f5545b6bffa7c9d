"""Parse identity.md: YAML front matter with the agent's name, looks, and settings, and a text for the prompt.

    ---
    display_name: Claude
    talkativeness: 0.6
    color: #D97757
    ---
    You are Claude …

Each field is checked separately: an invalid field is reported with its line, and the others are used. Values are taken
as written (`No` is a name, and `4.10` a version), with quotes if YAML needs them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from agentic.background_tasks import TaskName, read_task_names
from agentic.llm.types import Thinking
from agentic.personas.markdown import Problems, plain

FILE = "identity.md"
MAX_FRONT_MATTER = 8_192  # characters
_FENCE = re.compile(r"---[ \t]*")
_END = re.compile(r"(?:---|\.\.\.)[ \t]*")
_COLOR = re.compile(r"(?:#|0x)?([0-9a-f]{6})", re.IGNORECASE)
_UNQUOTED_COLOR = re.compile(r"\s*colou?r\s*:\s*(#[0-9a-f]{6})\s*(?:#.*)?", re.IGNORECASE)
_HTTPS = re.compile(r"https://[^\s/]+\S*")  # Discord fetches it
_FILE = re.compile(r"[A-Za-z0-9][\w-]*\.(?:png|jpe?g|webp|gif)", re.IGNORECASE)
_KEY = re.compile(r"([A-Za-z_]+)\s*:")
_UNQUOTED = re.compile(r"[^\W_][\w .,/()'+-]*")  # a value that YAML reads as written
_SPELLINGS = {"colour": "color", "unasked": "unprompted"}  # still accepted


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected one line of visible characters")
    return text


def _picture(text: str) -> str:
    if _HTTPS.fullmatch(text) is None and _FILE.fullmatch(text) is None:
        raise ValueError("expected an https address, or the name of a picture in this folder, such as avatar.png")
    return text


def _rgb(text: Any) -> int:
    if isinstance(text, int) and 0 <= text <= 0xFFFFFF:
        return text
    match = _COLOR.fullmatch(str(text))
    if match is None:
        raise ValueError("expected a color such as #D97757")
    return int(match[1], 16)


def _separated(text: Any) -> tuple[str, ...]:
    """Split "ships, the sea" into ("ships", "the sea")."""
    return tuple(dict.fromkeys(filter(None, (part.strip() for part in str(text).split(",")))))


def _word(text: Any) -> str:
    return str(text).strip().lower().replace("-", "_")


def _tasks(text: Any) -> tuple[str, ...]:
    """Parse "follow-up, discover" to ("follow_up", "discover"), and "none" to ()."""
    return read_task_names(_separated(text))


_Line = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]
_Subject = Annotated[str, Field(max_length=60), AfterValidator(_one_line)]


class IdentityCard(BaseModel):
    """The front matter. None means not set, so other layers of options apply. docs/persona-files.md has the fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", regex_engine="python-re")

    display_name: Annotated[_Line, Field(max_length=32)] | None = None
    avatar: Annotated[_Line, AfterValidator(_picture)] | None = None
    provider: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}\Z")] | None = None
    model: _Line | None = None
    image_model: _Line | None = None
    mode: Literal["chat", "prefill"] | None = None
    talkativeness: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    interests: Annotated[tuple[_Subject, ...], Field(max_length=20), BeforeValidator(_separated)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    thinking: Annotated[Thinking, BeforeValidator(_word)] | None = None
    max_output_tokens: Annotated[int, Field(ge=16, le=64_000)] | None = None
    color: Annotated[int, BeforeValidator(_rgb)] | None = None
    disclosure: _Line | None = None
    always_search: bool | None = None
    search_pictures: bool | None = None
    message_log: bool | None = None
    recall: bool | None = None
    idle_tasks: Annotated[tuple[TaskName, ...], BeforeValidator(_tasks)] | None = None
    unprompted: Annotated[Literal["opt_in", "everyone"], BeforeValidator(_word)] | None = None


def parse_identity(text: str | None) -> tuple[IdentityCard, tuple[str, ...]]:
    """Parse the front matter, if there is any. Returns problems with file and line, too."""
    front, _ = _split(plain(text or ""))
    if front is None:
        opened = _FENCE.fullmatch(plain(text or "").partition("\n")[0]) is not None
        return IdentityCard(), (f"{FILE}:1: the front matter has no closing ---",) if opened else ()
    problems = Problems(FILE)
    values, lines = _read(front, problems)
    while True:
        try:
            card = IdentityCard.model_validate(values)
            return card, problems.lines()
        except ValidationError as error:
            for wrong in error.errors():
                key = str(wrong["loc"][0])
                if values.pop(key, None) is not None:
                    what = wrong["msg"].removeprefix("Value error, ").lower().replace("input should be", "expected")
                    problems.add(lines[key], f"{key}: {what}")


def body_of(text: str) -> str:
    return _split(plain(text))[1]


def with_front_matter(text: str, fields: Mapping[str, str], further: str) -> str:
    """Return identity.md with these fields, further lines of front matter, and the body of `text`. Empty fields are
    left out. Raises ValueError if a further line would end the front matter."""
    if any(_END.fullmatch(line) for line in further.split("\n")):
        raise ValueError("expected further settings as lines such as `interests: ships, the sea`")
    lines: list[str] = []
    for name, value in fields.items():
        if words := " ".join(value.split()):  # in quotes if YAML would read them as something else
            lines.append(f"{name}: {words if _UNQUOTED.fullmatch(words) else json.dumps(words, ensure_ascii=False)}")
    lines += [line.rstrip() for line in further.split("\n") if line.strip()]
    return "\n".join(["---", *lines, "---", body_of(text).lstrip("\n")])


def further_lines(text: str, without: Collection[str]) -> str:
    """Return the lines of the front matter unchanged, except for the lines of some fields."""
    lines = (_split(plain(text))[0] or "").split("\n")
    return "\n".join(line for line in lines if not ((key := _KEY.match(line)) and key[1] in without)).strip()


def _split(text: str) -> tuple[str | None, str]:
    lines = text.split("\n")
    if not _FENCE.fullmatch(lines[0]):
        return None, text
    for number, line in enumerate(lines[1:], 1):
        if _END.fullmatch(line):
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    return None, text


def _read(front: str, problems: Problems) -> tuple[dict[str, str], dict[str, int]]:
    """Return the values as written and their lines, by key. Builds no YAML objects, so aliases can't expand."""
    try:
        if len(front) > MAX_FRONT_MATTER:
            raise ValueError(f"it has more than {MAX_FRONT_MATTER} characters")
        root = yaml.compose(front, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        problems.add(line, f"this isn't YAML: {error.problem or 'it is unreadable'}")
        return {}, {}
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        cause = str(error) if type(error) is ValueError else "it isn't YAML"
        problems.add(1, f"the front matter can't be read: {cause}")
        return {}, {}
    if root is None:
        return {}, {}
    if not isinstance(root, yaml.MappingNode):
        problems.add(2, "expected lines such as `talkativeness: 0.6`")
        return {}, {}
    source = front.split("\n")
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    for key_node, node in root.value:
        line = int(key_node.start_mark.line)
        key = _SPELLINGS.get(str(key_node.value), str(key_node.value))
        if key in lines:
            problems.add(line + 2, f"{key} appears twice; the first is used")
            continue
        lines[key] = line + 2
        if key not in IdentityCard.model_fields:
            known = ", ".join(IdentityCard.model_fields)
            problems.add(line + 2, f"{key[:40]!r} is unknown; the keys are {known}")
        elif not isinstance(node, yaml.ScalarNode):
            problems.add(line + 2, f"{key}: expected a single value")
        else:
            value = str(node.value).strip()
            if node.tag == "tag:yaml.org,2002:null":  # YAML reads `color: #D97757` as an empty value and a comment
                match = _UNQUOTED_COLOR.fullmatch(source[line])
                value = match[1] if match else ""
            if value:
                values[key] = value
    return values, lines
