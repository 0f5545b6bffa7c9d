"""Standard output in a terminal that lacks characters."""

from __future__ import annotations

import io
import sys

import pytest

from agentic.local.session import allow_any_characters


def test_characters_that_the_encoding_lacks_become_question_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="ascii"))
    allow_any_characters()
    print("· the end… 🛑 ← here")
    sys.stdout.flush()
    assert out.getvalue() == b"? the end? ? ? here\n"
