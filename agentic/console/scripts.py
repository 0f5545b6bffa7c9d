"""Joins the scripts of the console's pages, so that a browser asks for two files instead of one for each module.

    js/main.js    the frame: the module main, all that it imports, and what many pages import
    js/NAME.js    a module that is loaded with import(), and all that it imports besides the frame

In a joined file, each module is a function whose result has the module's exports. It runs once, even if several files
contain the module. Comments and indentation are left out. A page can't get files of two versions of the program: it is
loaded again instead.

Modules have one style, and nothing else is accepted:

    import { get, post as send } from "./api.js";
    export const …    export function …    export async function …    export class …
    import("./turns.js")
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

FRAME = "main"
COMMON = 4  # pages that import a module, from which on it belongs to the frame
_IMPORT = re.compile(r'^import \{ ([\w\s,]+?),? \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|function|async function|class) (\w+))", re.MULTILINE)
_LOAD = re.compile(r'\bimport\("\./(\w+)\.js"\)')
_UNREAD = re.compile(r"^\s*//.*\n|^\s+", re.MULTILINE)
_OTHER = re.compile(r"^[ \t]*(?:import|export)\b(?!\().*|\bimport\([^)].*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    body: str  # without imports and exports
    imports: Mapping[str, tuple[str, ...]]  # module → names
    exports: tuple[str, ...]
    loads: frozenset[str]  # modules that it loads with import()

    @classmethod
    def parse(cls, name: str, text: str) -> Module:
        """Raises ValueError if it isn't written in the style that can be joined."""
        imports = {other: tuple(re.findall(r"(\w+)(?: as \w+)?", names)) for names, other in _IMPORT.findall(text)}
        exports, loads = tuple(_EXPORT.findall(text)), frozenset(_LOAD.findall(text))
        body = _IMPORT.sub(lambda each: f"const {{ {each[1].replace(' as ', ': ')} }} = $modules.{each[2]};", text)
        body = _UNREAD.sub("", _EXPORT.sub("", _LOAD.sub(r'$load("\1")', body)))
        if other := _OTHER.search(body):
            raise ValueError(f"js/{name}.js: can't be joined: {other[0].strip()}")
        return cls(name, body, imports, exports, loads)

    def joined(self) -> str:
        head, exports = f"// --- {self.name}.js ---\n$modules.{self.name} ??= (() => {{\n", ", ".join(self.exports)
        return f"{head}{self.body.rstrip()}\nreturn {{ {exports} }};\n}})();\n"


def join_scripts(texts: Mapping[str, str]) -> dict[str, str]:
    """Join modules (name → text). Raises ValueError if one imports what doesn't exist, or itself through others."""
    modules = {name: Module.parse(name, text) for name, text in sorted(texts.items())}
    _check_names(modules)
    try:
        order = tuple(TopologicalSorter({name: module.imports for name, module in modules.items()}).static_order())
    except CycleError as error:
        raise ValueError(f"js: modules import each other in a circle: {' → '.join(error.args[1])}") from None
    version = hashlib.sha256("".join(modules[name].joined() for name in order).encode()).hexdigest()[:16]
    pages = {name: _needed(name, modules) for module in modules.values() for name in module.loads}
    uses = Counter(name for needed in pages.values() for name in needed)
    frame = _needed(FRAME, modules) | {name for name, count in uses.items() if count >= COMMON}
    frame_head = (
        f'export const $version = "{version}", $modules = {{}};\n'
        "export const $load = async (name) => $modules[name] ?? (await import(`./${name}.js`), $modules[name]);\n"
    )
    page_head = (
        f'import {{ $load, $modules, $version }} from "./{FRAME}.js";\n'
        f'if ($version !== "{version}") throw new Error("the program has been updated");\n'
    )
    files = {FRAME: (frame_head, frame), **{name: (page_head, needed - frame) for name, needed in pages.items()}}
    return {
        name: "\n".join((head, *(modules[each].joined() for each in order if each in parts)))
        for name, (head, parts) in files.items()
    }


def _check_names(modules: Mapping[str, Module]) -> None:
    for module in modules.values():
        for other, names in {**module.imports, **dict.fromkeys(module.loads, ())}.items():
            missing = set(names).difference(modules[other].exports) if other in modules else {other}
            if missing:
                raise ValueError(f"js/{module.name}.js: js/{other}.js doesn't have {', '.join(sorted(missing))}")


def _needed(name: str, modules: Mapping[str, Module]) -> set[str]:
    """Return a module and all that it imports, directly or not."""
    found, coming = set[str](), {name}
    while coming:
        found |= coming
        coming = {other for each in coming for other in modules[each].imports} - found
    return found
