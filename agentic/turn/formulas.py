r"""Show LaTeX formulas as code, since chat services don't render them, and read `*`, `_`, and `\` in them as markup.

    so \(a_1 < b_1\), and        so `a_1 < b_1`, and
    $$x = \frac{a}{b}$$     →    ```latex
                                 x = \frac{a}{b}
                                 ```

Only what looks like a formula is one: "from $5 to $9" has none. Code stays as it is.
"""

from __future__ import annotations

import re

_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]++`)", re.DOTALL)
_BLOCK = re.compile(r"(?:\$\$(?P<dollars>[^$]++)\$\$|\\\[(?P<brackets>(?:[^\\]|\\(?![\[\]]))++)\\\])[ \t]*+\n?")
_INLINE = re.compile(
    r"\\\((?P<brackets>(?:[^\\\n]|\\(?![()]))++)\\\)"
    r"|(?<![\w$\\])\$(?=[^\s$])(?P<dollars>[^$\n]++)(?<=\S)\$(?![\w$])"
)
_SIGNS = re.compile(r"\\[A-Za-z]{2}|[\^_=<>+]|\A\s*+[A-Za-z]\s*+\Z")


def formulas_as_code(text: str) -> str:
    """Return the text with its formulas as code."""
    if "$" not in text and "\\" not in text:
        return text
    parts = _CODE.split(text)
    return "".join(part if at % 2 else _INLINE.sub(_inline, _BLOCK.sub(_block, part)) for at, part in enumerate(parts))


def _block(found: re.Match[str]) -> str:
    formula = (found["dollars"] or found["brackets"]).strip()
    if not _SIGNS.search(formula) or "`" in formula:
        return found[0]
    begins_line = not found.start() or found.string[found.start() - 1] == "\n"
    return f"{'' if begins_line else chr(10)}```latex\n{formula}\n```\n"


def _inline(found: re.Match[str]) -> str:
    formula = (found["dollars"] or found["brackets"]).strip()
    return f"`{formula}`" if _SIGNS.search(formula) and "`" not in formula else found[0]
