"""The version, the requirements and the files that git tracks."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agent_config import AGENTS
from agentic.agent.persona import Persona
from agentic.personas.memory import append
from agentic.personas.workspace import Workspace
from agentic.process.logs import program_version, version_line
from agentic.process.python_check import OLDEST
from agentic.process.root import ROOT
from agentic.runtime import cli

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def requirements(name: str) -> list[str]:
    lines = (re.sub(r"(^|\s+)#.*", "", line) for line in (ROOT / name).read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def test_requirements_txt_has_what_pyproject_toml_has_for_running_and_for_development() -> None:
    assert requirements("requirements.txt") == [*PROJECT["dependencies"], *EXTRAS["dev"]]
    assert requirements("requirements-agent-sdk.txt") == ["-r requirements.txt", *EXTRAS["agent-sdk"]]


def test_the_oldest_python_is_the_same_everywhere() -> None:
    assert PROJECT["requires-python"] == f">={'.'.join(map(str, OLDEST))}"


@pytest.mark.parametrize("entry", ["main", "main_one_bot", "main_coordinator"])
def test_each_command_says_the_version_of_pyproject_toml(entry: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        getattr(cli, entry)(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{version_line()}\n"
    assert version_line().startswith(f"agentic-discord {PROJECT['version']} (Python 3.")


def test_code_without_its_pyproject_toml_starts_all_the_same(tmp_path: Path) -> None:
    assert program_version(tmp_path / "pyproject.toml") == "unknown"


def release_notes(tag: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "release_notes.py"), tag]
    return subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603


def test_only_the_tag_of_this_version_can_be_released_with_what_the_changelog_says_of_it() -> None:
    released = release_notes(f"v{PROJECT['version']}")
    assert released.returncode == 0, released.stderr
    assert released.stdout.strip() in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace(
        "](docs/", f"]({PROJECT['urls']['Homepage']}/blob/v{PROJECT['version']}/docs/"
    )
    refused = release_notes("v99.0.0")
    assert refused.returncode == 1
    assert "v99.0.0" in refused.stderr


def test_the_image_gets_every_module_of_the_program_and_no_tool_of_development() -> None:
    wanted = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    copied = {path.name for pattern in wanted for path in ROOT.glob(pattern)}
    modules = {path.name for path in (*ROOT.glob("*.py"), *(init.parent for init in ROOT.glob("*/__init__.py")))}
    assert copied - {"LICENSE", "README.md", "personas", "pyproject.toml"} == modules - {"tests"}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout  # noqa: S603


@pytest.mark.promise(118)
def test_what_bots_write_into_their_folders_is_nothing_that_git_tracks(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    for name in git(ROOT, "ls-files", "personas", "config", ".gitignore", ".env.example").splitlines():
        if (ROOT / name).exists():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "a clone")
    for name, spec in AGENTS.items():
        persona = Persona(name, tmp_path / "personas" / name)
        persona.boot(spec)
        append(persona.folder, "Ann keeps bees.", None)
        append(persona.folder, "Bob rows.", None)
        Workspace(persona.folder / "workspace").write("notes/bees.md", "Ann")
        assert "Bob rows." in (persona.folder / "memory.md").read_text()
        assert list((persona.folder / ".history").iterdir())
    for own in (".env", ".env.before", "config/mcp.yaml", "data/redis/redis.log"):
        (tmp_path / own).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / own).write_text("mine")
    assert git(tmp_path, "status", "--porcelain") == ""


@pytest.mark.skipif(not shutil.which("make") or not shutil.which("perl"), reason="no make or no perl is installed")
def test_one_command_sets_the_address_of_the_repository(tmp_path: Path) -> None:
    for name in ("Makefile", "README.md", "pyproject.toml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    address = "https://github.com/ann/agentic-discord"
    subprocess.run(["make", "address", f"URL={address}"], cwd=tmp_path, check=True, capture_output=True)  # noqa: S603, S607
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert f"    git clone {address} && cd agentic-discord\n    make local\n" in readme
    assert f"({address}/actions/workflows/ci.yml)" in readme
    assert f'Homepage = "{address}"' in (tmp_path / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["agent_store", "agent_runtime.health", "agentic.record", "agentic.runtime.health"])
def test_commands_of_units_and_cron_jobs_work_by_their_old_and_new_names(name: str) -> None:
    command = [sys.executable, "-m", name, "--help"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout
