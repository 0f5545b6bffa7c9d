"""The folder of the program, found from wherever this module lies in it."""

from __future__ import annotations

from agentic.process.root import ROOT


def test_the_folder_of_the_program_is_where_it_is_started() -> None:
    assert (ROOT / "run_all.py").is_file()
    assert (ROOT / "pyproject.toml").is_file()
