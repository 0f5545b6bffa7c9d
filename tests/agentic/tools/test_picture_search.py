"""The search for a picture beside a search for pages, against pictures on loopback."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from types import SimpleNamespace
from typing import ClassVar

import pytest
from ddgs.engines import ENGINES

from agentic.net.fetch import PublicFetcher
from agentic.tools.web_search import PictureSearch, ddgs_images
from tests.support.tools.search_web import PHOTO, search_web


def found(*addresses):
    return [{"title": "a picture", "image": address} for address in addresses]


async def test_a_picture_is_found_once_for_equal_queries_in_a_thread_of_its_own():
    threads = []
    async with search_web() as there, there.setup["pages"]() as pages:

        def images(query, count, seconds):
            threads.append(threading.get_ident())
            return there._images(query, count, seconds)

        search = PictureSearch(pages, time.time, images=images)
        pictures = [await search.find(query) for query in ("Tall tree", "tall  TREE")]
        search.close()
    assert [(picture.data, picture.media_type) for picture in pictures] == [(PHOTO, "image/png")] * 2
    assert there.asked_pictures == ["Tall tree"]
    assert threading.get_ident() not in threads


@pytest.mark.promise(400)
async def test_private_details_reach_no_engine_and_a_query_of_them_alone_asks_none():
    asked = []
    search = PictureSearch(None, time.time, images=lambda query, *_: asked.append(query) or [])
    assert await search.find("a tree at my house, 12 Main Street, alice@example.com") is None
    assert await search.find("alice@example.com") is None
    search.close()
    assert asked == ["a tree at my house"]


@pytest.mark.parametrize(
    "answer",
    [None, {}, [1, {"image": None}, {"image": 5}, {"thumbnail": "https://a.example"}], found("ftp://a", "data:,")],
)
async def test_an_answer_of_another_shape_is_no_picture(answer):
    search = PictureSearch(None, time.time, images=lambda *_: answer)
    assert await search.find("tree") is None
    search.close()


async def test_a_few_addresses_are_tried_the_safer_ones_first():
    async with search_web() as there, there.setup["pages"]() as pages:
        here = f"http://photos.example:{there.port}"
        addresses = ["http://127.0.0.1:1/a", *(f"{here}/{name}" for name in "abcdefgh"), "https://10.0.0.1/"]
        search = PictureSearch(pages, time.time, images=lambda *_: found(*addresses))
        assert await search.find("tree") is None
        search.close()
    assert there.fetched == ["/a", "/b"], "https and the first of the others were refused unasked"


async def test_an_engine_that_refuses_rests_and_one_that_finds_nothing_does_not():
    now, answers, asked = 0.0, [RuntimeError("202 Ratelimit"), RuntimeError("No results found."), []], []

    def images(query, *_):
        asked.append(query)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    search = PictureSearch(None, lambda: now, images=images)
    assert [await search.find(query) for query in ("one", "two")] == [None, None]
    assert asked == ["one"]
    now = 121.0
    assert [await search.find(query) for query in ("two", "two", "three")] == [None, None, None]
    search.close()
    assert asked == ["one", "two", "three"]


async def test_an_engine_and_a_site_that_hang_are_given_up():
    free = threading.Event()
    engine = PictureSearch(None, time.time, images=lambda *_: free.wait(10) and [], timeout=0.01)
    assert await engine.find("tree") is None
    free.set()
    engine.close()

    class Slow:
        async def fetch_page(self, url):
            await asyncio.Event().wait()

    site = PictureSearch(Slow(), time.time, images=lambda *_: found("https://a.example/"), timeout=0.05)
    assert await site.find("tree") is None
    site.close()


class Package:
    """What a program that asks ddgs for pictures asks it for."""

    asked: ClassVar[list[object]] = []

    def __init__(self, timeout):
        self.asked.append(timeout)

    def images(self, query, **how):
        self.asked.append((query, how))
        return found("https://a.example/")


def test_the_package_is_asked_for_no_explicit_pictures(monkeypatch):
    monkeypatch.setitem(sys.modules, "ddgs", SimpleNamespace(DDGS=Package))
    assert ddgs_images("tree", 8, 6.5) == found("https://a.example/")
    assert Package.asked == [6, ("tree", {"safesearch": "on", "backend": "duckduckgo", "max_results": 8})]


def test_the_engine_that_is_asked_heeds_it_and_the_other_one_does_not():
    """As the package has it: a version in which that changes is looked at again. Nobody is asked."""
    by_engine = {}
    for name, engine in ENGINES["images"].items():
        asked = SimpleNamespace(_get_vqd=lambda query: "1")
        by_engine[name] = [engine.build_payload(asked, "tree", "us-en", how, None) for how in ("on", "off")]
    assert by_engine["duckduckgo"][0]["p"] == "1"
    assert by_engine["duckduckgo"][1]["p"] == "-1"
    assert by_engine["bing"][0] == by_engine["bing"][1]


@pytest.mark.promise(401)
async def test_the_rules_of_the_program_fetch_nothing_inside():
    async with PublicFetcher() as pages:
        inside = ("http://127.0.0.1/", "https://[::1]/a.png", "http://169.254.169.254/latest", "https://10.0.0.1/a.png")
        search = PictureSearch(pages, time.time, images=lambda *_: found(*inside))
        assert await search.find("tree") is None
        search.close()
