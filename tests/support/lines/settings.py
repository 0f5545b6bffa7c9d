"""The settings of the chat of lines."""

from __future__ import annotations

from typing import Annotated, ClassVar

from agentic.settings.fields import from_text, setting, split_pairs
from agentic.settings.services import ServiceSettings

ACCOUNTS = "agent:name pairs such as claude:Claude, separated by commas"


class LineSettings(ServiceSettings):
    """`line_accounts`: agent → its name in the rooms."""

    accounts_field: ClassVar[str] = "line_accounts"
    accounts_example: ClassVar[str] = "claude:Claude"

    line_port: int = setting("LINE_PORT", 0, "a port of this machine")
    line_accounts: Annotated[dict[str, str], from_text(lambda text: dict(split_pairs(text, ACCOUNTS)))] = setting(
        "LINE_ACCOUNTS", {}, ACCOUNTS
    )
