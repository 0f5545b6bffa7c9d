"""Print what CHANGELOG.md says of a release: `python .ci/release_notes.py v0.1.0`.

Fails where the tag is not the version of pyproject.toml, or where CHANGELOG.md has no section for it.
"""

import os
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def notes(tag: str) -> str:
    """The section's text. Raises SystemExit with the reason."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["version"]
    if tag != f"v{version}":
        raise SystemExit(f"The tag is {tag} and the version in pyproject.toml {version}: tag v{version}, or change it")
    section = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |^\[|\Z)",
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    if section is None or not section[1].strip():
        raise SystemExit(f"CHANGELOG.md has no section `## [{version}] - year-month-day` with a text")
    pages = f"{os.environ.get('REPOSITORY_URL', project['urls']['Homepage'])}/blob/{tag}"
    return section[1].strip().replace("](docs/", f"]({pages}/docs/")  # a release's page knows no relative links


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(notes(sys.argv[1]))
