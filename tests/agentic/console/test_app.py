"""The console's frame: its files, its first answer, its errors."""

from __future__ import annotations

import re

import pytest
from support.console import console_client

from agentic.console.static_files import FOLDER, read_files

MOST_BYTES = 120_000  # of all files together, as they are sent: compressed
MOST_A_PAGE = 200_000  # of all files that a page loads, as they are stored


def test_all_files_together_are_small_as_they_are_sent() -> None:
    assert sum(len(file.compressed) for file in read_files().values()) < MOST_BYTES


def test_each_page_loads_little() -> None:
    sizes = {address: len(file.content) for address, file in read_files().items()}
    frame = sum(sizes.pop(address) for address in ("/", "/app.css", "/icon.svg", "/js/main.js"))
    assert "/js/cost.js" in sizes
    assert [address for address, size in sizes.items() if frame + size >= MOST_A_PAGE] == []


@pytest.mark.parametrize("first", ["live", "overview"])
def test_every_page_is_asked_for_before_its_script_is_there(first: str) -> None:
    page, known = read_files(first)["/"].content.decode(), (FOLDER / "js/main.js").read_text(encoding="utf-8")
    assert f'data-first="{first}"' in page
    asked = re.findall(r"^    (\w+): \(\) =>", page, re.MULTILINE)
    assert sorted(asked) == sorted(re.findall(r'import\("\./(\w+)\.js"\)', known))


def test_the_style_sheet_has_the_contents_of_every_part() -> None:
    sheet = read_files()["/app.css"].content.decode()
    assert "@import" not in sheet
    assert [path.name for path in FOLDER.glob("css/*.css") if path.read_text(encoding="utf-8") not in sheet] == []


def test_the_page_has_no_style_and_no_handler_of_its_own_and_loads_nothing_from_elsewhere() -> None:
    for path in FOLDER.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", text), path.name
        assert not re.findall(r"""(?:href|src)=["'](?:\w+:)?//""", text), path.name


@pytest.mark.promise(141)
def test_no_script_of_ours_turns_text_into_elements() -> None:
    for path in FOLDER.rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc", text)
        assert not found, path.name


async def test_every_file_is_served_with_its_type_and_kept_by_the_browser() -> None:
    async with console_client() as client:
        for address, file in read_files("overview").items():
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
