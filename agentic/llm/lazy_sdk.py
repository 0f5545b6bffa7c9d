"""Imports the SDKs of OpenAI and Anthropic without the classes that no adapter uses.

Both SDKs import everything at once: Anthropic's 3,200 modules take 50 MB and half a second. Nearly all of them are
types of requests and answers, but the adapters only use the clients (agentic.llm.http). So names that an SDK's package
merely re-exports from its submodules are imported at their first use, as Python can do on its own from 3.15 on (PEP
810). Every name stays importable, and packages of another shape are imported as usual.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

PACKAGES = ("openai.", "anthropic.")
TOP = "anthropic"  # re-exports its helpers too; OpenAI's own re-exports are already lazy
HELPERS = "lib."


def import_sdks_lazily() -> None:
    """Make later imports of the SDKs lazy. A second call changes nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != TOP and not name.startswith(PACKAGES):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.submodule_search_locations and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _LazyPackage(name, spec.loader.path)
        return spec


class _LazyPackage(SourceFileLoader):
    """Runs a package's `__init__` without its re-exports."""

    def exec_module(self, module: ModuleType) -> None:
        try:
            self._run_lazily(module)
        except Exception:  # a package of another shape; a real error is raised again
            super().exec_module(module)

    def _run_lazily(self, module: ModuleType) -> None:
        tree = ast.parse(self.get_data(self.path), self.path)
        passed_on: list[ast.ImportFrom] = []
        rest: list[ast.stmt] = []
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and self._passes_on(node):
                passed_on.append(node)
            else:
                rest.append(node)
        sources = {each.asname or each.name: (node.module, each.name) for node in passed_on for each in node.names}
        if any(name == part for name, (part, _) in sources.items()):
            raise ValueError(f"{self.name} names something like the module that it is in, which would hide it")
        whole = [node.module for node in passed_on if node.names[0].name == "*"]
        public = [name for name in sources if name != "*"]
        for node in rest:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                public = ast.literal_eval(node.value)
                node.value = ast.parse(repr([name for name in public if name not in sources]), mode="eval").body
            elif self.name != TOP and not isinstance(node, ast.Expr | ast.ImportFrom):
                raise ValueError(f"{self.name} does more than pass names on")
        exec(compile(ast.Module(rest, []), self.path, "exec"), module.__dict__)  # noqa: S102 - the package's own code

        def import_name(name: str) -> Any:
            if name in sources:
                part, original = sources[name]
                found = import_module(f".{part or original}", self.name)
                module.__dict__[name] = found if part is None else getattr(found, original)
                return module.__dict__[name]
            for part in whole:
                if not name.startswith("_") and hasattr(found := import_module(f".{part}", self.name), name):
                    return getattr(found, name)
            raise AttributeError(f"module {self.name!r} has no attribute {name!r}")

        vars(module).update({"__all__": public, "__getattr__": import_name})

    def _passes_on(self, node: ast.ImportFrom) -> bool:
        return node.level == 1 and (self.name != TOP or (node.module or "").startswith(HELPERS))
