"""The console's frame: its files, its first answer, its errors."""

from __future__ import annotations

import re

import pytest
from support.console import console_client

from agentic.console.app import FOLDER, read_files

MOST_BYTES = 100_000  # of all files together, as they are sent: compressed
MOST_A_PAGE = 200_000  # of all files that a page loads, as they are stored


def test_all_files_together_are_small_as_they_are_sent() -> None:
    assert sum(len(file.compressed) for file in read_files().values()) < MOST_BYTES


def test_each_page_loads_little() -> None:
    files = {address: file.content.decode() for address, file in read_files().items()}
    frame = {f"/{name}" for name in re.findall(r'(?:href|src)="([\w/]+\.(?:css|js|svg))"', files["/"])}
    pages = re.findall(r'import\("\./(\w+\.js)"\)', files["/js/main.js"])
    assert "cost.js" in pages
    for page in pages:
        loaded, coming = {"/"}, {*frame, f"/js/{page}"}
        while coming:
            loaded |= coming
            coming = {other for address in coming for other in loaded_by(address, files[address])} - loaded
        assert sum(len(files[address].encode()) for address in loaded) < MOST_A_PAGE, page


def loaded_by(address: str, text: str) -> set[str]:
    """The addresses that a script imports or links to; main.js loads each page only when it is shown."""
    found = {f"/js/{name}" for name in re.findall(r'from "\./(\w+\.js)"', text)}
    if address.startswith("/js/") and address != "/js/main.js":
        found |= {f"/js/{name}" for name in re.findall(r'import\("\./(\w+\.js)"\)', text)}
        found |= {f"/vendor/{name}" for name in re.findall(r'"\.\.?/vendor/([\w.]+)"', text)}
    return found


def test_the_page_has_no_script_and_no_style_of_its_own_and_loads_nothing_from_elsewhere() -> None:
    for path in FOLDER.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", text), path.name
        assert not re.findall(r"""(?:href|src)=["'](?:\w+:)?//""", text), path.name


@pytest.mark.promise(141)
def test_no_script_of_ours_turns_text_into_elements() -> None:
    for path in FOLDER.glob("js/*.js"):
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc", text)
        assert not found, path.name


async def test_every_file_is_served_with_its_type_and_kept_by_the_browser() -> None:
    async with console_client() as client:
        for address, file in read_files().items():
            response = await client.get(address)
            assert (response.status, response.content_type) == (200, file.media_type.partition(";")[0])
            assert await response.read() == file.content
            again = await client.get(address, headers={"If-None-Match": response.headers["ETag"]})
            assert again.status == 304


async def test_the_page_learns_names_colours_and_channels() -> None:
    async with console_client() as client:
        me = await (await client.get("/api/me")).json()
        assert me["names"]["claude"] == "Claude"
        assert me["colours"]["claude"] == "#d97757"
        assert me["channels"][0] == {"id": "11", "name": "11", "theme": "debate"}
        assert me["local"] is False


async def test_an_error_is_one_line_without_a_path() -> None:
    async with console_client() as client:
        response = await client.get("/api/nothing")
        assert response.status == 404
        assert await response.json() == {"error": "This page doesn't exist."}
