"""Find English that has to be read twice, in the docs and in texts that people see.

    python -m tests.prose               fail if a file has more hits than tests/prose.txt allows
    python -m tests.prose FILE ...      show every hit in these files
    python -m tests.prose --update      lower the allowed counts to the current ones

It reads Markdown files, .env.example, and strings of three words or more in the code, except docstrings. It skips a
line with "prose: ok".
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
ALLOWED = Path(__file__).with_name("prose.txt")  # how many hits a file may have, if any
SKIPPED = ("tests/", "personas/")  # characters have their own way of speaking
MAX_CELL = 25  # words in a cell of a table
SQL = re.compile(r"\b(?:SELECT|INSERT|DELETE|UPDATE|WHERE|ORDER BY|CREATE) ")

RULES = {
    "write 'if' or 'when'": r"\bwhere (?:it|there|that|none|no|nothing|nobody|a)\b",
    "name the noun": r"(?<!the )\bones? (?:that|whose|which)\b|\bthose (?:of|that)\b",
    "name the thing, not 'what is …'": r"(?:(?:^|[.;:(] ?)what (?:is|are|people|others|bots|they)|"
    r"(?:^|[.;:,(] ?)what (?:was|came|falls|stays|goes))\b(?![^.]*\?)",
    "write 'takes effect', 'applies', 'is', or 'continues'": r"\bcounts (?:from|as|at|once|until|too)\b|\bcounts[.]|"
    r"\b(?:it|that|which|limits?|stops?|budgets?) holds?\b|\bstands? (?:below|above|there|in|at)\b|"
    r"\bgoes (?:on[.,;]|on (?:with|after|until|by)|after|too|at once)\b|\blet (?:it|them|the bots) go on\b",
    "write 'even if', 'even after', or 'including'": r"(?:, |^)also (?:what|where|in|of|by|if|on|after|with|from)\b",
    "write 'about', 'with', or 'through'": r"\b(?:noted|kept|said|asked) of\b|\bits likes?\b|"
    r"\bby (?:webhook|a reaction|mention|option|form|numbers?|the key)\b",
    "write 'unprompted'": r"\bunasked\b(?![:.,(])|\bnobody asked for\b",
    "write 'budget'": r"\bday's money\b|\bno money\b|\bon the account of\b|\bon the books\b",
    "write 'unavailable' or 'unreachable'": r"\b(?:is|are|was|were|be) away\b",
    'write "isn\'t a"': r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b|one\b)[a-z]+",
    "write American English": r"\b(?:colour|licence|behaviour|summaris(?!e[,`])|recognis|organis|sceptic|favour)\w*|"
    r"\b(?:for ever|under way|inside of|anew|amongst|whilst)\b|\d %(?![\w(.])",
    "say how many, how long, or how far": r"\bso (?:many|long|much) (?:seconds|turns|times|at most|as)\b|\bas far as\b",
    "write 'expensive', 'only', or 'other'": r"\b(?:dear|mere|foreign) (?:models?|goodbyes?|bots?|webhooks?|marks?)\b",
}
COMPILED = {rule: re.compile(text.replace(" ", r"\s"), re.I | re.M) for rule, text in RULES.items()}


def prose(text: str) -> str:
    """Return a page without code, addresses, and indentation. Its lines stay in place."""
    text = re.sub(r"^```.*?^```|^---\n.*?^---$", lambda found: "\n" * found[0].count("\n"), text, flags=re.S | re.M)
    return re.sub(r"^[ \t]+", "", re.sub(r"`[^`\n]*`|\]\([^)\s]*\)", "`", text), flags=re.M)


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings of three words or more, with their lines, except docstrings and SQL."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None  # a docstring
        elif isinstance(node, ast.Constant) and len(str(node.value).split()) >= 3 and not SQL.search(str(node.value)):
            yield node.lineno, str(node.value)


def texts(path: str, source: str) -> Iterable[tuple[int, str]]:
    """Return the texts of a file, each with its first line."""
    if path.endswith(".py"):
        return strings(source)
    if path.endswith(".js"):
        quoted = re.compile(r"//.*|\"([^\"]*)\"|'([^']*)'|`([^`]*)`")
        lines = enumerate(source.splitlines(), 1)
        return ((number, found[0]) for number, line in lines for found in quoted.finditer(line) if found.lastindex)
    return [(1, prose(source))]


def hits(path: str, source: str) -> list[tuple[int, str, str]]:
    """Return line, rule, and words of each hit in a file."""
    lines, found = source.splitlines(), []
    for first, text in texts(path, source):
        for rule, pattern in COMPILED.items():
            for match in pattern.finditer(text):
                number = min(first + text.count("\n", 0, match.start()), len(lines))
                found.append((number, rule, " ".join(match[0].split())))
    for number, line in enumerate(lines, 1):
        cells = line.strip(" |").split(" | ") if path.endswith(".md") and line.startswith("|") else ()
        found += [(number, "shorten the cell", cell) for cell in cells if len(cell.split()) > MAX_CELL]
    return sorted(hit for hit in found if "prose: ok" not in lines[hit[0] - 1])


def counts() -> dict[str, int]:
    """Return the number of hits in each file of the repository that has any."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
    found = {}
    for path in listed.stdout.splitlines():
        is_read = path.endswith((".md", ".py", ".js", ".env.example")) and not path.startswith(SKIPPED)
        if is_read and (ROOT / path).exists():
            found[path] = len(hits(path, (ROOT / path).read_text(encoding="utf-8")))
    return {path: count for path, count in found.items() if count}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    allowed = {path: int(most) for most, path in map(str.split, ALLOWED.read_text(encoding="utf-8").splitlines())}
    now = counts()
    if args.update:
        lower = {path: min(count, allowed[path]) for path, count in now.items() if path in allowed}
        ALLOWED.write_text("".join(f"{most} {path}\n" for path, most in sorted(lower.items())), encoding="utf-8")
    worse = [path for path, count in now.items() if count > allowed.get(path, 0)]
    for path in args.files or worse:
        for number, rule, words in hits(path, (ROOT / path).read_text(encoding="utf-8")):
            print(f"{path}:{number}: {words!r}: {rule}")
    return 1 if worse and not args.files else 0


if __name__ == "__main__":
    sys.exit(main())
