"""The program's folder, which contains run_all.py, pyproject.toml, docs/, and personas/."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
