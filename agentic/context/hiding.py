"""Which messages hide themselves from bots by their text.

Those that begin with a period after mentions (but not `..` and `...`, which people write), those that begin with 🙃 or
🫥, and every `m ` command. In a private chat there is nobody else to write to, so only a complete command is hidden.
"""

from __future__ import annotations

import re

from agentic.context.commands import is_whole_command, parse_m

HIDE_MARKS = ("🙃", "🫥")

_MENTIONS = re.compile(r"\A(?:\s*<(?:@[!&]?|#)\d{1,20}>[ \t]*[,:]?)*\s*")
_M_COMMAND = re.compile(r"m[ \t]+\w|M[ \t]+(?i:continue|context)\b")


def hidden_by_text(raw: str, *, private: bool = False) -> bool:
    """Whether a message hides itself. `raw`: its content as Discord sends it, mentions as `<@1>`."""
    if private:
        return parse_m(raw) is not None or is_whole_command(raw)
    if raw[:1].isalnum() and raw[0] not in "mM":  # as most messages begin
        return False
    text = _MENTIONS.sub("", raw, count=1)
    if text.startswith(".") and not text.startswith(".."):
        return True
    return text.startswith(HIDE_MARKS) or _M_COMMAND.match(text) is not None
