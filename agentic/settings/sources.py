"""Reads `.env` and the environment into texts, and texts into checked values; looks at the personas' folder.

No message repeats a value, since any of them may be a secret pasted into the wrong line; but the path of a folder that
exists is none.
"""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dotenv.parser import parse_stream
from pydantic import ValidationError

from agentic.settings.fields import Keys


def read_env_file(path: Path | None, problems: list[str]) -> dict[str, str]:
    """The file's non-empty values; of a name that is set twice the last."""
    return dict(env_file_lines(path, problems))


def env_file_lines(path: Path | None, problems: list[str]) -> list[tuple[str, str]]:
    """The file's names and their non-empty values, in its order. `${NAME}` is not expanded: that would read the process
    environment."""
    try:
        text = path.read_text(encoding="utf-8-sig") if path and path.exists() else ""
    except OSError as error:
        problems.append(f"{path}: cannot be read by the user that runs this program ({error.strerror})")
        return []
    except UnicodeDecodeError:
        problems.append(f"{path}: expected text in UTF-8")
        return []
    bindings = list(parse_stream(io.StringIO(text)))
    problems += [f"{path}, line {line.original.line}: expected KEY=value" for line in bindings if line.error]
    lines = [(line.key, (line.value or "").strip()) for line in bindings if line.key and not line.error]
    return [(key, value) for key, value in lines if value]


def is_text(value: str) -> bool:
    """Whether it has neither bytes that are not UTF-8 (in os.environ a surrogate) nor a NUL."""
    return "\0" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)


PERSONA_SIGNS = ("soul.md", "identity.md", "boot.md", "memory.md")  # names that hardly any other folder has


def not_for_personas(folder: Path, key: str, agents: Collection[str]) -> Iterator[str]:
    """A line if the folder of `key` holds something else than personas, so that a start would put files between it."""
    try:
        found = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
        has_personas = any((folder / name / sign).is_file() for name in found for sign in PERSONA_SIGNS)
    except NotADirectoryError:
        yield f"{key}: expected a folder, {folder} is a file"
        return
    except OSError:
        return  # not there, or not readable: reported where it is made or read
    if has_personas or not set(found) - {*agents, "lost+found"}:
        return
    if direct := next((name for name in PERSONA_SIGNS if name in found), None):
        yield (
            f"{key}: expected a folder with one folder for each bot: move {folder / direct} and the files beside it"
            f" into one, such as {folder / 'claude'}"
        )
        return
    instead = "set PERSONAS_DIR, which counts more (CONFIG_FILES_DIR is for options and endpoints)"
    advice = f"; {instead}" if key == "CONFIG_DIR" else ""
    yield f"{key}: expected a folder of personas, or an empty one: {folder} holds something else{advice}"


_Model = TypeVar("_Model", bound=Keys)


def validated(model: type[_Model], texts: Mapping[str, str], problems: list[str]) -> tuple[_Model, set[str]]:
    """The model, and the keys with wrong values: these keep their defaults, and each adds a line to `problems`."""
    expected = {str(info.validation_alias): info.description for info in model.model_fields.values()}
    values = {key: texts[key] for key in expected if key in texts}
    try:
        return model(**values), set()
    except ValidationError as error:
        # include_input=False: an input may be a secret
        found = {str(one["loc"][0]): one for one in reversed(error.errors(include_url=False, include_input=False))}
    for key in (key for key in values if key in found):
        own_words = str(found[key].get("ctx", {}).get("error", "")) if found[key]["type"] == "value_error" else ""
        problems.append(f"{key}: {own_words or f'expected {expected[key]}'}")
    return model(**{key: value for key, value in values.items() if key not in found}), set(found)


def machine_timezone(environ: Mapping[str, str], localtime: Path = Path("/etc/localtime")) -> ZoneInfo:
    """The zone of TZ, else of /etc/localtime, else UTC."""
    names = [environ.get("TZ", "").removeprefix(":"), os.path.realpath(localtime)]
    for name in names:
        try:
            return ZoneInfo(name.rpartition("zoneinfo/")[2].removeprefix("posix/"))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            continue
    try:
        with localtime.open("rb") as file:
            return ZoneInfo.from_file(file, key="localtime")
    except (OSError, ValueError):
        return ZoneInfo("UTC")
